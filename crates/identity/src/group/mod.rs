//! The operator's side of a group: a directory with its private CA.
//!
//! | file | |
//! |---|---|
//! | `group.pem` | the CA's certificate; every bundle has a copy |
//! | `group.key` | the CA's private key, mode 0600, sealed with a passphrase if the operator wants that |
//! | `revoked.pem` | the signed revocation list (an X.509 CRL); every bundle has a copy |
//! | `policy.cbor` | the group's policy, signed, if it ever had one; every bundle has a copy |
//! | `multicast.key` | the secret that the nodes share, mode 0600; every node's bundle has a copy |
//! | `issued.tsv` | every certificate issued; its lock is held by whoever changes the group |
//! | `invitations.json` | invitations, without their tokens, and the requests that wait for approval |
//! | `trust.cbor` | the signed document of the authorities that are trusted, once the first one has changed |
//! | `next.pem`, `next.key` | the new CA, while members change over to it; then it takes the old one's place |
//! | `audit.log` | audit records, with older ones in `audit.log.1` and so on |
//! | `hubs` | the hubs that new members turn to, a line each |
//! | `authority` | `HOST:PORT` at which devices reach the authority |
//!
//! A bundle, which goes to one host, holds `identity.pem`, `identity.key` (0600), `group.pem`, `revoked.pem`, the policy
//! and, for a node, `multicast.key`; also `trust.cbor` if the group has one.

mod admission;
mod ca;
mod error;
mod index;
mod invitation_file;
mod invitations;
mod labels;
mod policy_document;
mod records;
mod renewal;
mod revocation;
mod rollover;
mod sealing;
mod stored;

use std::fs;
use std::io;
use std::ops::Deref;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use roost_geo::Datum;
use roost_wire::{Labels, NodeId, Role};

use self::ca::{CA_VALIDITY, Made};
use crate::bundle::Identity;
use crate::certificate::{Authority, Certificate, Leaf};
use crate::document::SignedDocument;
use crate::files::{
    GROUP_CERTIFICATE, GROUP_INDEX, GROUP_KEY, LEAF_CERTIFICATE, LEAF_KEY, MULTICAST_KEY, POLICY, REVOCATION_LIST,
    TRUST, create_private, create_public, make_private_dir, replace_public,
};
use crate::group_key::GroupKey;
use crate::refusal::Refusal;
use crate::revocation::RevocationList;
use crate::subject::{Subject, check_name};
use crate::trust::{SharedTrust, Trust};

pub(crate) use self::ca::Signer;

pub use self::admission::{Joined, Ticket};
pub use self::error::{GroupError, JoinRefusal};
pub use self::invitations::{InvitationSpec, Origin, ShownInvitation, WaitingRequest};
pub use self::records::GroupRecords;
pub use self::revocation::Revocation;
pub use self::rollover::{Forced, Rollover};
pub use self::sealing::MIN_PASSPHRASE;

/// A new certificate is valid from this long before its issue, for hosts whose clocks are behind.
pub const BACKDATED: Duration = Duration::from_secs(5 * 60);

const DAY: Duration = Duration::from_secs(24 * 3600);

/// The period in which a certificate is valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Validity {
    /// For this many days from now, and since [`BACKDATED`] ago. It ends with the CA's own validity at the latest.
    Days(u32),
    /// From one moment to another, both included, in whole seconds.
    Between { not_before: SystemTime, not_after: SystemTime },
}

impl Default for Validity {
    fn default() -> Self {
        Self::Days(30)
    }
}

/// A certificate that the group has issued.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Issued {
    /// The holder's name. After a renewal several certificates have the same name.
    pub name: String,
    pub role: Role,
    pub node: NodeId,
    /// Hexadecimal, in the form that [`Group::revoke`] accepts.
    pub serial: String,
    pub not_before: SystemTime,
    /// The last second of the validity, which belongs to it.
    pub not_after: SystemTime,
    /// The time of its revocation, if it was revoked.
    pub revoked: Option<SystemTime>,
    pub labels: Labels,
    /// The labels in the holder's next certificate.
    pub next_labels: Labels,
}

impl Issued {
    fn new(leaf: &Leaf) -> Self {
        Self {
            name: leaf.subject.name.clone(),
            role: leaf.subject.role,
            node: leaf.node,
            serial: leaf.status.serial.to_string(),
            not_before: leaf.status.not_before,
            not_after: leaf.status.not_after,
            revoked: None,
            labels: leaf.subject.labels.clone(),
            next_labels: leaf.subject.labels.clone(),
        }
    }
}

/// The answer of [`Group::verify`] about one bundle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    pub certificate: Issued,
    /// The reason for which the group's members refuse it. `None` if they accept it.
    pub refusal: Option<Refusal>,
    /// True if the bundle's own revocation list is older than the group's, so that its holder would accept a
    /// certificate revoked since.
    pub list_outdated: bool,
}

/// A group, open for issuing and revoking.
pub struct Group {
    records: GroupRecords,
    /// The authority may change while the group is open, and its new key is sealed with the same passphrase.
    passphrase: Option<String>,
    signers: Mutex<Vec<Arc<Signer>>>,
}

impl Deref for Group {
    type Target = GroupRecords;

    fn deref(&self) -> &GroupRecords {
        &self.records
    }
}

impl Group {
    /// Makes a new group called `name` in `dir`, which must be empty or not exist: CA, empty revocation list number 1,
    /// empty index.
    ///
    /// # Errors
    /// The name or the directory cannot be used.
    pub fn init(dir: &Path, name: &str) -> Result<Self, GroupError> {
        Self::init_at(dir, name, None)
    }

    /// Like [`Self::init`], for a group whose grid lies on the Earth. The datum stays for the life of the group.
    ///
    /// # Errors
    /// As there.
    pub fn init_at(dir: &Path, name: &str, datum: Option<&Datum>) -> Result<Self, GroupError> {
        check_name(name)?;
        let now = SystemTime::now();
        let made = Signer::generate(name, datum, now - BACKDATED, now + CA_VALIDITY)?;
        let authority = Authority::parse(made.certificate.der()).map_err(|_| rcgen::Error::CouldNotParseCertificate)?;
        let trust = SharedTrust::new(Trust::anchored(authority));
        let signer = Signer::new(Arc::clone(trust.get().in_force()), made.key.serialized_der())?;
        let signer = signer.ok_or_else(|| GroupError::WrongKey { path: dir.join(GROUP_KEY) })?;
        let list = signer.sign_list(1, now, std::iter::empty())?;

        make_filled(dir, || {
            write(&dir.join(GROUP_KEY), |path| create_private(path, &made.key.serialize_pem()))?;
            write(&dir.join(GROUP_CERTIFICATE), |path| create_public(path, &made.certificate.pem()))?;
            write(&dir.join(REVOCATION_LIST), |path| create_public(path, &list))?;
            write(&dir.join(GROUP_INDEX), |path| create_public(path, "list\t1\n"))
        })?;
        let records = GroupRecords::new(dir, trust);
        Ok(Self { records, passphrase: None, signers: Mutex::new(vec![Arc::new(signer)]) })
    }

    /// Opens the group in `dir`.
    ///
    /// # Errors
    /// There is none, or its key is sealed, missing, exposed or belongs to another group.
    pub fn open(dir: &Path) -> Result<Self, GroupError> {
        Self::open_with(dir, None)
    }

    /// Opens the group in `dir`, whose key may be sealed with this passphrase.
    ///
    /// # Errors
    /// As for [`Self::open`], and if the passphrase is wrong.
    pub fn open_sealed(dir: &Path, passphrase: &str) -> Result<Self, GroupError> {
        Self::open_with(dir, Some(passphrase))
    }

    fn open_with(dir: &Path, passphrase: Option<&str>) -> Result<Self, GroupError> {
        let records = GroupRecords::open(dir)?;
        let group = Self { records, passphrase: passphrase.map(str::to_owned), signers: Mutex::default() };
        group.signer()?;
        let _lock = group.index()?;
        group.tidy_keys()?;
        Ok(group)
    }

    /// The signer of the authority in force.
    fn signer(&self) -> Result<Arc<Signer>, GroupError> {
        self.signer_of(&self.authority())
    }

    fn signer_of(&self, authority: &Arc<Authority>) -> Result<Arc<Signer>, GroupError> {
        let trust = self.trust.get();
        let mut signers = self.signers.lock().unwrap_or_else(PoisonError::into_inner);
        signers.retain(|signer| trust.trusts(signer.authority().fingerprint()));
        if let Some(signer) = signers.iter().find(|signer| signer.authority() == authority) {
            return Ok(Arc::clone(signer));
        }
        for path in sealing::key_files(&self.dir) {
            let key = sealing::open(&path, self.passphrase.as_deref())?;
            if let Ok(Some(signer)) = Signer::new(Arc::clone(authority), key.as_bytes()) {
                let signer = Arc::new(signer);
                signers.push(Arc::clone(&signer));
                return Ok(signer);
            }
        }
        Err(GroupError::WrongKey { path: self.dir.join(GROUP_KEY) })
    }

    /// Signs a document other than the revocation list, in the form that [`crate::Policy::open`] reads.
    ///
    /// # Errors
    /// The group's key signs nothing.
    pub fn sign_document(&self, document: &SignedDocument) -> Result<Vec<u8>, GroupError> {
        Ok(document.sign(&*self.signer()?)?)
    }

    /// Issues a certificate with a fresh key and writes the bundle to `out`, a directory that must be empty or not
    /// exist. The same name may be issued again, with another key and thus another node id.
    ///
    /// # Errors
    /// The name, the validity or the directory cannot be used.
    pub fn issue(&self, name: &str, role: Role, validity: Validity, out: &Path) -> Result<Issued, GroupError> {
        self.issue_labelled(name, role, &Labels::default(), validity, out)
    }

    /// Like [`Self::issue`], with labels in the certificate.
    ///
    /// # Errors
    /// As there.
    pub fn issue_labelled(
        &self,
        name: &str,
        role: Role,
        labels: &Labels,
        validity: Validity,
        out: &Path,
    ) -> Result<Issued, GroupError> {
        let mut index = self.index()?;
        let (made, leaf) = self.make(&self.subject(name, role, labels)?, validity)?;
        let issued = Issued::new(&leaf);
        let list = self.newest_list_text(&mut index)?;
        make_filled(out, || {
            let listed = index.add_issued(&issued);
            listed.map_err(|source| GroupError::Index { path: index.path().to_owned(), source })?;
            self.write_bundle(out, &made, role, &list)
        })?;
        Ok(issued)
    }

    /// Issues an identity that is written nowhere, not even to the index: a throw-away member for load generators and
    /// tests, valid for a year. It cannot be revoked.
    ///
    /// # Errors
    /// The name cannot be used or the group's list cannot be read.
    pub fn issue_in_memory(&self, name: &str, role: Role) -> Result<Identity, GroupError> {
        self.issue_in_memory_with(name, role, Validity::default())
    }

    /// Like [`Group::issue_in_memory`], with another validity.
    ///
    /// # Errors
    /// As there, and if the validity is not possible.
    pub fn issue_in_memory_with(&self, name: &str, role: Role, validity: Validity) -> Result<Identity, GroupError> {
        let (made, _) = self.make(&self.subject(name, role, &Labels::default())?, validity)?;
        let trust = Arc::clone(&self.trust);
        let path = self.dir.join(REVOCATION_LIST);
        let list = RevocationList::read(&path, &trust.get())?;
        Identity::from_issued(made.certificate.der().to_vec(), made.key.serialize_der(), trust, list, path)
            .ok_or(GroupError::Crypto(rcgen::Error::CouldNotParseCertificate))
    }

    /// Makes a key and certificate for the service of an authority, the one in force or the former one. Returns the
    /// chain and the key, DER.
    pub(crate) fn service_certificate(
        &self,
        authority: &Arc<Authority>,
        name: &str,
        now: SystemTime,
        valid: Duration,
    ) -> Result<([Vec<u8>; 2], Vec<u8>), GroupError> {
        // A device's clock may be as far behind as ahead.
        let not_after = (now + valid).min(authority.not_after());
        let (not_before, not_after) = self.period(Validity::Between { not_before: now - valid / 2, not_after })?;
        let made = self.signer_of(authority)?.certify_service(name, not_before, not_after)?;
        Ok(([made.certificate.der().to_vec(), authority.der().to_vec()], made.key.serialize_der()))
    }

    /// The member that the operator, or an invitation, wants a certificate for.
    fn subject(&self, name: &str, role: Role, labels: &Labels) -> Result<Subject, GroupError> {
        check_name(name)?;
        Ok(Subject { group: self.name().to_owned(), role, name: name.to_owned(), labels: labels.clone() })
    }

    fn make(&self, subject: &Subject, validity: Validity) -> Result<(Made, Leaf), GroupError> {
        let (not_before, not_after) = self.period(validity)?;
        let made = self.signer()?.issue(subject, not_before, not_after)?;
        let leaf = Certificate::parse(made.certificate.der()).and_then(|certificate| certificate.leaf());
        Ok((made, leaf.ok_or(GroupError::Crypto(rcgen::Error::CouldNotParseCertificate))?))
    }

    fn period(&self, validity: Validity) -> Result<(SystemTime, SystemTime), GroupError> {
        let (not_before, not_after) = match validity {
            Validity::Days(0) => return Err(GroupError::Validity("it lasts no day")),
            Validity::Days(days) => {
                let now = SystemTime::now();
                let end = now.checked_add(DAY * days).unwrap_or_else(|| self.not_after());
                (now - BACKDATED, end.min(self.not_after()))
            }
            Validity::Between { not_before, not_after } => (not_before, not_after),
        };
        if not_after <= not_before {
            Err(GroupError::Validity("it ends before it begins"))
        } else if not_before < UNIX_EPOCH {
            Err(GroupError::Validity("it begins before 1970"))
        } else if not_after > self.not_after() {
            Err(GroupError::Validity("it ends after that of the group's authority"))
        } else {
            Ok((not_before, not_after))
        }
    }

    fn write_bundle(&self, out: &Path, made: &Made, role: Role, list: &str) -> Result<(), GroupError> {
        write(&out.join(LEAF_KEY), |path| create_private(path, &made.key.serialize_pem()))?;
        write(&out.join(LEAF_CERTIFICATE), |path| create_public(path, &made.certificate.pem()))?;
        write(&out.join(GROUP_CERTIFICATE), |path| create_public(path, &self.authority().pem()))?;
        self.write_trust(out)?;
        write(&out.join(REVOCATION_LIST), |path| create_public(path, list))?;
        if let Some((_, policy)) = self.signed_policy()? {
            write(&out.join(POLICY), |path| replace_public(path, policy))?;
        }
        if role != Role::Node {
            return Ok(());
        }
        let shared = self.multicast_key()?;
        write(&out.join(MULTICAST_KEY), |path| GroupKey::copy(&shared, path))
    }
}

impl GroupRecords {
    /// Writes the document of trust, if there is one, into a bundle.
    fn write_trust(&self, bundle: &Path) -> Result<(), GroupError> {
        match self.trust.get().document() {
            none if none.is_empty() => Ok(()),
            document => write(&bundle.join(TRUST), |path| replace_public(path, document)),
        }
    }
}

/// Makes the directory `dir` and fills it. If that fails, the directory is removed.
fn make_filled(dir: &Path, fill: impl FnOnce() -> Result<(), GroupError>) -> Result<(), GroupError> {
    write(dir, make_private_dir)?;
    fill().inspect_err(|_| {
        // The directory was empty before, so all its content is ours.
        drop(fs::remove_dir_all(dir));
    })
}

/// Runs `action` on `path` and names the path if it fails.
fn write(path: &Path, action: impl FnOnce(&Path) -> io::Result<()>) -> Result<(), GroupError> {
    action(path).map_err(|source| match source.kind() {
        io::ErrorKind::AlreadyExists => GroupError::Exists { path: path.to_owned() },
        _ => GroupError::Write { path: path.to_owned(), source },
    })
}

#[cfg(test)]
mod tests;
