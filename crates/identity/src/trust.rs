//! The authorities that a group trusts, and the document by which they change.
//!
//! A document of trust has a step for each change since the group was made: CBOR `[* [STATEMENT, [* SIGNATURE]]]`. The
//! statement is that of other documents, its number is the step's, from 1, and its content is CBOR
//! `[PREVIOUS, [* CERTIFICATE]]`: the SHA-256 digest of the statement before, and certificates in DER, the authority in
//! force last. All authorities that were trusted before a step and all that are trusted after it have signed the step:
//! one stolen key changes nothing, and who knows any of the authorities can follow the steps from there.

use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};

use minicbor::bytes::ByteSlice;
use minicbor::{Decode, Encode};
use sha2::{Digest, Sha256};

use crate::certificate::Authority;
use crate::document::{Statement, encoded, signed_bytes, whole};
use crate::error::{ListFault, LoadError};
use crate::files::{read_optional, replace_public};
use crate::fingerprint::Fingerprint;
use crate::group::Signer;

/// The kind of document, as on the wire.
const KIND: u16 = 2;

/// The numbers of lists and other documents that belong to each authority, the group's first one first: each authority
/// signs greater numbers than the one before it ever can. A stolen key of a former authority signs no document that
/// stays the newest for ever.
const NUMBERS_OF_AUTHORITY: u64 = 1 << 32;

/// Most authorities trusted at once: the one in force, and the former one while members renew.
const MAX_TRUSTED: usize = 2;

/// Most steps: 32 changes of the authority.
pub(crate) const MAX_STEPS: usize = 64;

/// The largest document, bytes: a step has at most 2 KB.
const MAX_TRUST_BYTES: u64 = 128 * 1024;

#[derive(Encode, Decode)]
#[cbor(array)]
struct Step<'a> {
    #[b(0)]
    statement: &'a ByteSlice,
    #[b(1)]
    signatures: Vec<&'a ByteSlice>,
}

#[derive(Encode, Decode)]
#[cbor(array)]
struct Content<'a> {
    #[b(0)]
    previous: &'a ByteSlice,
    #[b(1)]
    certificates: Vec<&'a ByteSlice>,
}

/// The authorities that a member trusts, as far as it has heard.
pub(crate) struct Trust {
    /// The number of the newest step; 0 of a member that has heard of none.
    number: u64,
    in_force: Arc<Authority>,
    /// The authority before, while its certificates still count.
    former: Option<Arc<Authority>>,
    /// All authorities up to now, the group's first one first: files that a host wrote earlier may be of any of them.
    ever: Vec<Arc<Authority>>,
    document: Arc<[u8]>,
}

impl Trust {
    pub(crate) fn anchored(authority: Authority) -> Self {
        let in_force = Arc::new(authority);
        Self { number: 0, former: None, ever: vec![Arc::clone(&in_force)], in_force, document: Arc::default() }
    }

    /// The trust in the authority of a bundle or group, followed to the end of the document at `path`, if there is one.
    pub(crate) fn read(authority: Authority, path: &Path) -> Result<Self, LoadError> {
        let anchored = Self::anchored(authority);
        match read_optional(path, MAX_TRUST_BYTES)? {
            None => Ok(anchored),
            Some(document) => {
                let advanced = anchored.advance(&document);
                advanced.map_err(|fault| LoadError::Trust { path: path.to_owned(), fault })
            }
        }
    }

    pub(crate) const fn number(&self) -> u64 {
        self.number
    }

    pub(crate) fn in_force(&self) -> &Arc<Authority> {
        &self.in_force
    }

    pub(crate) fn former(&self) -> Option<&Arc<Authority>> {
        self.former.as_ref()
    }

    /// The group's first authority, by which a host names its files.
    pub(crate) fn first(&self) -> &Authority {
        self.ever.first().unwrap_or(&self.in_force)
    }

    pub(crate) fn ever(&self) -> &[Arc<Authority>] {
        &self.ever
    }

    /// The number of the next document, of a kind of which the newest one has the number `held`.
    pub(crate) fn next_number(&self, held: u64) -> u64 {
        held.saturating_add(1).max(self.first_number(&self.in_force))
    }

    /// Checks that a document that this authority has signed may have this number.
    pub(crate) fn check_number(&self, signer: &Authority, number: u64) -> Result<(), ListFault> {
        // Documents of former versions have lower numbers than the first of their authority.
        let is_own = number < self.first_number(signer) + NUMBERS_OF_AUTHORITY;
        if is_own { Ok(()) } else { Err(ListFault::LaterAuthority(number)) }
    }

    /// The authorities up to now are at most two for each of [`MAX_STEPS`].
    fn first_number(&self, authority: &Authority) -> u64 {
        let before = self.ever.iter().take_while(|one| ***one != *authority).count() as u64;
        before * NUMBERS_OF_AUTHORITY
    }

    /// The newest document; empty before the first.
    pub(crate) fn document(&self) -> &Arc<[u8]> {
        &self.document
    }

    pub(crate) fn trusted(&self) -> impl Iterator<Item = &Arc<Authority>> {
        std::iter::once(&self.in_force).chain(&self.former)
    }

    pub(crate) fn trusts(&self, authority: Fingerprint) -> bool {
        self.trusted().any(|trusted| trusted.fingerprint() == authority)
    }

    /// The trust after a document, whose steps that are new here must all be signed as they have to be.
    pub(crate) fn advance(&self, document: &[u8]) -> Result<Self, ListFault> {
        let steps = parse(document, self.in_force.group())?;
        let offered = steps.len() as u64;
        if offered < self.number {
            return Err(ListFault::Older { held: self.number, offered });
        }
        let is_known = |step: &&ParsedStep<'_>| self.number > 0 && step.number == self.number;
        if let Some(step) = steps.iter().find(is_known)
            && !step.trusted.iter().map(|one| one.fingerprint()).eq(self.ranked().map(|one| one.fingerprint()))
        {
            return Err(ListFault::Forked(self.number));
        }
        let skipped = match self.number {
            0 => steps.iter().position(|step| step.trusts(&self.in_force)).ok_or(ListFault::BadSignature)?,
            number => usize::try_from(number).unwrap_or(usize::MAX),
        };
        let mut before: Vec<Arc<Authority>> = self.trusted().cloned().collect();
        for step in steps.iter().skip(skipped) {
            step.check(&before)?;
            before.clone_from(&step.trusted);
        }
        let mut ever: Vec<Arc<Authority>> = Vec::new();
        for authority in steps.iter().flat_map(|step| &step.trusted) {
            if !ever.contains(authority) {
                ever.push(Arc::clone(authority));
            }
        }
        let in_force = before.pop().ok_or(ListFault::Malformed)?;
        if ever.iter().any(|authority| authority.datum() != in_force.datum())
            || in_force.datum() != self.in_force.datum()
        {
            return Err(ListFault::OtherDatum);
        }
        Ok(Self { number: offered, in_force, former: before.pop(), ever, document: document.into() })
    }

    /// The trusted authorities in the order of a step.
    fn ranked(&self) -> impl Iterator<Item = &Arc<Authority>> {
        self.former.iter().chain([&self.in_force])
    }

    /// The document with one more step, after which these authorities are trusted, the one in force last. All that
    /// have to sign are in `signers`.
    pub(crate) fn extended(&self, trusted: &[&Authority], signers: &[Arc<Signer>]) -> Result<Vec<u8>, rcgen::Error> {
        let mut steps: Vec<Step<'_>> = if self.number == 0 {
            Vec::new()
        } else {
            whole(&self.document).map_err(|_| rcgen::Error::CouldNotParseCertificate)?
        };
        let certificates = trusted.iter().map(|authority| authority.der().into()).collect();
        let previous = steps.last().map_or(Vec::new(), |step| Sha256::digest(step.statement.as_ref()).to_vec());
        let content = encoded(&Content { previous: previous.as_slice().into(), certificates });
        let (group, number) = (self.in_force.group(), self.number + 1);
        let statement = encoded(&Statement { kind: KIND, group, number, content: content.as_slice().into() });
        let message = signed_bytes(&statement);
        let signatures = signers.iter().map(|signer| signer.sign(&message)).collect::<Result<Vec<_>, _>>()?;
        let signatures = signatures.iter().map(|signature| signature.as_slice().into()).collect();
        steps.push(Step { statement: statement.as_slice().into(), signatures });
        Ok(encoded(&steps))
    }
}

/// The certificate, DER, of the authority with this fingerprint in a document of trust. Nothing is verified.
pub(crate) fn find_authority(document: &[u8], fingerprint: Fingerprint) -> Option<Vec<u8>> {
    let steps: Vec<Step<'_>> = whole(document).ok()?;
    steps.iter().find_map(|step| {
        let statement: Statement<'_> = whole(step.statement).ok()?;
        let content: Content<'_> = whole(statement.content).ok()?;
        let mut certificates = content.certificates.into_iter().map(|der| der.to_vec());
        certificates.find(|der| Fingerprint::digest(der) == fingerprint)
    })
}

struct ParsedStep<'a> {
    number: u64,
    trusted: Vec<Arc<Authority>>,
    message: Vec<u8>,
    signatures: Vec<&'a ByteSlice>,
}

/// Reads the steps of a group's document. No signature is checked but that of each authority for itself.
fn parse<'a>(document: &'a [u8], group: &str) -> Result<Vec<ParsedStep<'a>>, ListFault> {
    let steps: Vec<Step<'a>> = whole(document)?;
    if steps.is_empty() || steps.len() > MAX_STEPS {
        return Err(ListFault::Malformed);
    }
    let mut previous = Vec::new();
    let parse = |(number, step): (u64, Step<'a>)| {
        let parsed = ParsedStep::parse(&step, number, group, &previous)?;
        previous = Sha256::digest(step.statement.as_ref()).to_vec();
        Ok(parsed)
    };
    (1..).zip(steps).map(parse).collect()
}

impl<'a> ParsedStep<'a> {
    fn parse(step: &Step<'a>, number: u64, group: &str, previous: &[u8]) -> Result<Self, ListFault> {
        let statement: Statement<'_> = whole(step.statement)?;
        let content: Content<'_> = whole(statement.content)?;
        let certificates = content.certificates;
        let is_ours = (statement.kind, statement.group, statement.number) == (KIND, group, number)
            && content.previous.as_ref() == previous;
        if !is_ours
            || certificates.is_empty()
            || certificates.len() > MAX_TRUSTED
            || step.signatures.len() > MAX_TRUSTED
        {
            return Err(ListFault::Malformed);
        }
        let authority = |der: &ByteSlice| Authority::parse(der).ok().filter(|authority| authority.group() == group);
        let trusted = certificates.into_iter().map(|der| authority(der).map(Arc::new)).collect::<Option<Vec<_>>>();
        let trusted = trusted.ok_or(ListFault::Malformed)?;
        Ok(Self { number, trusted, message: signed_bytes(step.statement), signatures: step.signatures.clone() })
    }

    fn trusts(&self, authority: &Authority) -> bool {
        self.trusted.iter().any(|trusted| **trusted == *authority)
    }

    /// Checks the signatures of all authorities before and after the step, which are two at most.
    fn check(&self, before: &[Arc<Authority>]) -> Result<(), ListFault> {
        let fresh = self.trusted.iter().filter(|authority| !before.contains(authority));
        let concerned: Vec<_> = before.iter().chain(fresh).collect();
        let has_signed = |authority: &Arc<Authority>| {
            self.signatures.iter().any(|signature| authority.has_signed(&self.message, signature))
        };
        if concerned.len() > MAX_TRUSTED {
            Err(ListFault::Malformed)
        } else if concerned.into_iter().all(has_signed) {
            Ok(())
        } else {
            Err(ListFault::BadSignature)
        }
    }
}

/// The trust in use, which an identity shares with all that verify for it.
pub(crate) struct SharedTrust {
    group: String,
    held: RwLock<Arc<Trust>>,
}

impl SharedTrust {
    pub(crate) fn new(trust: Trust) -> Arc<Self> {
        Arc::new(Self { group: trust.in_force().group().to_owned(), held: RwLock::new(Arc::new(trust)) })
    }

    pub(crate) fn group(&self) -> &str {
        &self.group
    }

    pub(crate) fn get(&self) -> Arc<Trust> {
        Arc::clone(&self.held.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Puts a document in force. True if it is newer than the one in use.
    pub(crate) fn put_in_force(&self, document: &[u8]) -> Result<bool, ListFault> {
        let mut held = self.held.write().unwrap_or_else(PoisonError::into_inner);
        let advanced = held.advance(document)?;
        let is_new = advanced.number() > held.number();
        if is_new {
            *held = Arc::new(advanced);
        }
        Ok(is_new)
    }

    /// Takes the document in a group's file, if it is another one than that in use.
    pub(crate) fn refresh(&self, path: &Path) -> Result<(), LoadError> {
        match read_optional(path, MAX_TRUST_BYTES)? {
            Some(document) if *document != **self.get().document() => {
                let taken = self.put_in_force(&document);
                taken.map(drop).map_err(|fault| LoadError::Trust { path: path.to_owned(), fault })
            }
            _ => Ok(()),
        }
    }

    /// Takes the document in a file that a host has kept, if it is newer. A damaged file counts as none.
    pub(crate) fn take_kept(&self, path: &Path) {
        if let Ok(Some(document)) = read_optional(path, MAX_TRUST_BYTES) {
            let _ = self.put_in_force(&document);
        }
    }

    /// Keeps the document in use in a file, unless it is there already.
    pub(crate) fn keep(&self, path: &Path) -> Result<(), LoadError> {
        let trust = self.get();
        let is_kept = |kept: Option<Vec<u8>>| kept.as_deref() == Some(&**trust.document());
        if trust.number() == 0 || read_optional(path, MAX_TRUST_BYTES).is_ok_and(is_kept) {
            return Ok(());
        }
        let written = replace_public(path, trust.document());
        written.map_err(|source| LoadError::ListUnwritable { path: path.to_owned(), source })
    }
}

#[cfg(test)]
mod tests;
