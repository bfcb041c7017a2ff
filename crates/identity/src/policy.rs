//! The one policy that decides which remotes are accepted, the same for all transports.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};
use std::time::SystemTime;

use roost_wire::{NodeId, RemoteIdentity, Role, RoleSet};
use rustls_pki_types::CertificateRevocationListDer;
use rustls_pki_types::pem::PemObject;

use crate::bundle::Identity;
use crate::certificate::{Certificate, CertificateStatus, Leaf};
use crate::document::SignedDocument;
use crate::error::{ListFault, LoadError};
use crate::refusal::Refusal;
use crate::revocation::{RevocationList, SeenLists};
use crate::trust::{SharedTrust, Trust};

/// The most nodes whose certificates are remembered, of about 1 KiB each.
const MAX_CERTIFICATES: usize = 1_024;

/// Decides if a certificate is accepted. A process has one, which all transports and listeners share, so that a
/// reloaded list is in force everywhere at once.
pub struct Policy {
    trust: Arc<SharedTrust>,
    list_path: PathBuf,
    list: RwLock<Arc<RevocationList>>,
    /// Files of the newest list; unset if nothing is kept.
    seen: OnceLock<SeenLists>,
    /// Locked while those files change, before `list` if both are: handshakes wait for `list`.
    disk: Mutex<()>,
    /// The name in the certificate that was refused last. Nothing proves it.
    refused: Mutex<Option<String>>,
    /// The last certificate of each node that was accepted, to seal files for it.
    certificates: Mutex<BTreeMap<NodeId, Arc<[u8]>>>,
}

impl Policy {
    /// The policy of `identity`'s group, with the revocation list that the identity was loaded with.
    ///
    /// # Errors
    /// None at present; a policy may come to need more files.
    pub fn new(identity: &Identity) -> Result<Arc<Self>, LoadError> {
        Ok(Arc::new(Self::from_parts(identity.trust(), identity.list(), identity.list_path())))
    }

    pub(crate) fn from_parts(trust: &Arc<SharedTrust>, list: &Arc<RevocationList>, list_path: &Path) -> Self {
        let list = RwLock::new(Arc::clone(list));
        Self {
            trust: Arc::clone(trust),
            list_path: list_path.to_owned(),
            list,
            seen: OnceLock::new(),
            disk: Mutex::default(),
            refused: Mutex::default(),
            certificates: Mutex::default(),
        }
    }

    /// Reads a document of the group, other than the revocation list.
    ///
    /// # Errors
    /// It is none, or no authority of the group has signed it.
    pub fn open_document(&self, document: &[u8]) -> Result<SignedDocument, ListFault> {
        SignedDocument::parse(document, &self.trust.get())
    }

    /// As [`Self::open_document`], for a document that was kept: its authority may be one that is trusted no more.
    ///
    /// # Errors
    /// As there.
    pub fn open_former_document(&self, document: &[u8]) -> Result<SignedDocument, ListFault> {
        SignedDocument::parse_former(document, &self.trust.get())
    }

    /// The genuine document of a kind, other than the revocation list, that was kept last.
    pub fn kept_document(&self, kind: u16) -> Option<Vec<u8>> {
        let kept = self.seen.get()?.kept_document(kind)?;
        self.open_former_document(&kept).is_ok_and(|document| document.kind == kind).then_some(kept)
    }

    /// Keeps a document for the next start, where the newest revocation list is kept, unless a newer one is there.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn keep_document(&self, document: &SignedDocument, bytes: &[u8]) -> Result<(), LoadError> {
        let Some(seen) = self.seen.get() else { return Ok(()) };
        let kept_number = |kept: Vec<u8>| self.open_document(&kept).ok().map(|kept| kept.number);
        seen.keep_document(document.kind, bytes, |kept| kept.and_then(kept_number) < Some(document.number))
    }

    /// Accepts the holder of `leaf_der` as a remote with one of the expected roles, at the time `now`. Checks, in this
    /// order: form, the CA's signature, group, validity, revocation, role.
    ///
    /// Only the handshake proves that the remote holds the key.
    ///
    /// # Errors
    /// The first check that fails.
    pub fn verify(&self, leaf_der: &[u8], expect: RoleSet, now: SystemTime) -> Result<RemoteIdentity, Refusal> {
        self.admit(leaf_der, expect, now).map(|(remote, _)| remote)
    }

    /// Like [`Self::verify`], and returns also the status that [`Self::recheck`] needs later.
    ///
    /// # Errors
    /// The first check that fails.
    pub fn admit(
        &self,
        leaf_der: &[u8],
        expect: RoleSet,
        now: SystemTime,
    ) -> Result<(RemoteIdentity, CertificateStatus), Refusal> {
        let verdict = self.judge_leaf(leaf_der, expect, now);
        if let Ok((remote, _)) = &verdict {
            self.remember(remote, leaf_der);
        } else {
            let claimed = Certificate::parse(leaf_der).and_then(|certificate| certificate.subject());
            *self.refused.lock().unwrap_or_else(PoisonError::into_inner) = claimed.map(|subject| subject.name);
        }
        verdict
    }

    fn remember(&self, remote: &RemoteIdentity, certificate: &[u8]) {
        let mut certificates = self.certificates.lock().unwrap_or_else(PoisonError::into_inner);
        let is_known = certificates.get(&remote.node).is_some_and(|known| **known == *certificate);
        if remote.role != Role::Node || is_known {
            return;
        }
        if certificates.len() >= MAX_CERTIFICATES {
            certificates.pop_first();
        }
        certificates.insert(remote.node, certificate.into());
    }

    /// The last certificate with which a node was accepted since the start. Verify it again before use.
    pub fn certificate_of(&self, node: NodeId) -> Option<Arc<[u8]>> {
        self.certificates.lock().unwrap_or_else(PoisonError::into_inner).get(&node).cloned()
    }

    /// As [`Self::admit`], but notes nothing: the certificate is not that of a connection.
    pub(crate) fn judge_leaf(
        &self,
        der: &[u8],
        expect: RoleSet,
        now: SystemTime,
    ) -> Result<(RemoteIdentity, CertificateStatus), Refusal> {
        let leaf = member(der, &self.trust.get())?;
        self.recheck(&leaf.status, now)?;
        if !expect.contains(leaf.subject.role) {
            return Err(Refusal::WrongRole);
        }
        Ok((leaf.identity(), leaf.status))
    }

    /// The name in the certificate that was refused last. It is unverified, so use it only in a log.
    pub fn last_refused(&self) -> Option<String> {
        self.refused.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Checks again a member that was admitted before: only validity, revocation and the authorities may have changed.
    ///
    /// # Errors
    /// The first check that fails.
    pub fn recheck(&self, standing: &CertificateStatus, now: SystemTime) -> Result<(), Refusal> {
        standing.check_time(now)?;
        if !standing.issuer.is_some_and(|issuer| self.trust.get().trusts(issuer)) {
            return Err(Refusal::UnknownAuthority);
        }
        if self.held().contains(&standing.serial) { Err(Refusal::Revoked) } else { Ok(()) }
    }

    /// Keeps the newest list and document of trust in `folder` from now on, so that no older one is accepted after a
    /// restart either. What was kept there and is newer than the one in use comes into force. The group's other daemons on this host may
    /// use the same folder.
    ///
    /// # Errors
    /// The list in use is older than one that was seen before, or that one's number cannot be read, or the new number
    /// cannot be written.
    pub fn remember_in(&self, folder: &Path) -> Result<(), LoadError> {
        let seen = self.seen.get_or_init(|| SeenLists::new(folder, &self.trust.get()));
        let _disk = self.disk.lock().unwrap_or_else(PoisonError::into_inner);
        self.trust.take_kept(&seen.trust);
        let mut held = self.list.write().unwrap_or_else(PoisonError::into_inner);
        // A damaged file counts as none: the number tells if its list is missed.
        let kept = seen.kept(&self.trust.get()).ok().flatten().filter(|kept| kept.check_replaces(&held).is_ok());
        if let Some(kept) = kept {
            *held = kept;
        }
        self.judge(seen, &held)
    }

    fn judge(&self, seen: &SeenLists, list: &RevocationList) -> Result<(), LoadError> {
        if let Some(held) = seen.number()?.filter(|held| *held > list.number()) {
            let fault = ListFault::Older { held, offered: list.number() };
            return Err(LoadError::List { path: self.list_path.clone(), fault });
        }
        seen.raise_to(list.number())
    }

    /// Reads the revocation list again and returns the number of certificates that it revokes. Connections that are up
    /// stay up: call [`Self::recheck`] for each. A list that has come over the network since stays in force if it is
    /// newer.
    ///
    /// # Errors
    /// The list is missing, malformed, not signed by the group or older than the one in use, which then stays in use.
    pub fn reload(&self) -> Result<usize, LoadError> {
        let trust = self.trust.get();
        let offered = RevocationList::read(&self.list_path, &trust)?;
        let _disk = self.disk.lock().unwrap_or_else(PoisonError::into_inner);
        // A renewed identity may have brought a document of trust, which lies in its folder, too.
        let _ = self.seen.get().map(|seen| self.trust.keep(&seen.trust));
        let held = self.held();
        let kept = self.seen.get().and_then(|seen| seen.kept(&trust).ok().flatten());
        if offered.number() < held.number() && kept.is_some_and(|kept| kept.number() >= held.number()) {
            return Ok(held.len());
        }
        let refused = |fault| LoadError::List { path: self.list_path.clone(), fault };
        offered.check_replaces(&held).map_err(refused)?;
        let judged = self.seen.get().map_or(Ok(()), |seen| self.judge(seen, &offered));
        match judged {
            // The new list is in force even if its number cannot be kept for a restart: it is newer than the one in use.
            Ok(()) | Err(LoadError::ListNumberUnreadable { .. } | LoadError::ListNumberUnwritable { .. }) => {}
            Err(older) => return Err(older),
        }
        self.replace(&offered).map_err(refused)?;
        Ok(offered.len())
    }

    /// Takes a list that has come over the network or from an operator, in DER or PEM form. If it is newer than the one
    /// in use, it is in force from now on, and kept on disk. Call [`Self::recheck`] for each connection then.
    ///
    /// # Errors
    /// The list is malformed, not signed by the group, or older than the one in use.
    pub fn take_list(&self, bytes: &[u8]) -> Result<TakenDocument, ListFault> {
        let from_pem = CertificateRevocationListDer::from_pem_slice(bytes);
        let der = from_pem.as_ref().map_or(bytes, |der| der.as_ref());
        let offered = Arc::new(RevocationList::parse(der, &self.trust.get())?);
        let is_new = self.replace(&offered)?;
        let document = NumberedDocument { number: offered.number(), bytes: Arc::clone(offered.der()) };
        let kept = self.seen.get().filter(|_| is_new).map_or(Ok(()), |seen| {
            let _disk = self.disk.lock().unwrap_or_else(PoisonError::into_inner);
            // Another thread may have a newer one by now.
            seen.keep(&self.held())
        });
        Ok(TakenDocument { document, is_new, unkept: kept.err() })
    }

    /// Takes a document of trust that has come over the network or from an operator. If it is newer than the one in use,
    /// the authorities that it names are trusted from now on, and no others. Call [`Self::recheck`] for each connection
    /// then.
    ///
    /// # Errors
    /// The document is malformed, not signed by all authorities concerned, or older than the one in use.
    pub fn take_trust(&self, document: &[u8]) -> Result<TakenDocument, ListFault> {
        let is_new = self.trust.put_in_force(document)?;
        let kept = self.seen.get().filter(|_| is_new).map_or(Ok(()), |seen| {
            let _disk = self.disk.lock().unwrap_or_else(PoisonError::into_inner);
            self.trust.keep(&seen.trust)
        });
        Ok(TakenDocument { document: self.signed_trust(), is_new, unkept: kept.err() })
    }

    /// The newest document of trust; its number is 0 if the group's authority has never changed.
    pub fn signed_trust(&self) -> NumberedDocument {
        let trust = self.trust.get();
        NumberedDocument { number: trust.number(), bytes: Arc::clone(trust.document()) }
    }

    /// Puts a list in force. True if it is newer than the one in use.
    fn replace(&self, offered: &Arc<RevocationList>) -> Result<bool, ListFault> {
        let mut held = self.list.write().unwrap_or_else(PoisonError::into_inner);
        offered.check_replaces(&held)?;
        let before = std::mem::replace(&mut *held, Arc::clone(offered));
        Ok(offered.number() > before.number())
    }

    /// The revocation list in use, as the authority has signed it.
    pub fn signed_list(&self) -> NumberedDocument {
        let held = self.held();
        NumberedDocument { number: held.number(), bytes: Arc::clone(held.der()) }
    }

    /// The number of the revocation list in use, and the number of certificates that it revokes.
    pub fn revocations(&self) -> (u64, usize) {
        let held = self.held();
        (held.number(), held.len())
    }

    /// The nodes whose last certificate was accepted since the start, and is revoked by now.
    pub fn revoked_nodes(&self) -> Vec<RemoteIdentity> {
        let held = self.held();
        if held.len() == 0 {
            return Vec::new();
        }
        let known: Vec<Arc<[u8]>> =
            self.certificates.lock().unwrap_or_else(PoisonError::into_inner).values().cloned().collect();
        let leaf = |der: &Arc<[u8]>| Certificate::parse(der).and_then(|certificate| certificate.leaf());
        let revoked = known.iter().filter_map(leaf).filter(|leaf| held.contains(&leaf.status.serial));
        revoked.map(|leaf| leaf.identity()).collect()
    }

    fn held(&self) -> Arc<RevocationList> {
        Arc::clone(&self.list.read().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A document of the group as it is passed on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NumberedDocument {
    pub number: u64,
    pub bytes: Arc<[u8]>,
}

#[derive(Debug)]
pub struct TakenDocument {
    pub document: NumberedDocument,
    /// False of the document that was in use already.
    pub is_new: bool,
    /// Why it is not on disk, although it is in force.
    pub unkept: Option<LoadError>,
}

impl fmt::Debug for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Policy").field("group", &self.trust.group()).field("revocations", &self.revocations()).finish()
    }
}

/// The checks that do not change with time: form, signature, group.
pub(crate) fn member(der: &[u8], trust: &Trust) -> Result<Leaf, Refusal> {
    let certificate = Certificate::parse(der).ok_or(Refusal::Malformed)?;
    let group = trust.in_force().group();
    let Some(issuer) = trust.trusted().find(|authority| certificate.is_signed_by(authority)) else {
        // Nothing proves this name, but all that depends on it is the reason for a refusal.
        let elsewhere = certificate.subject().is_some_and(|subject| subject.group != group);
        return Err(if elsewhere { Refusal::WrongGroup } else { Refusal::UnknownAuthority });
    };
    let mut leaf = certificate.leaf().ok_or(Refusal::Malformed)?;
    if leaf.subject.group != group {
        return Err(Refusal::WrongGroup);
    }
    leaf.status.issuer = Some(issuer.fingerprint());
    Ok(leaf)
}
