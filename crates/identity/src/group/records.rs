//! A group's folder without its key: enough to list, to verify and to invite.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use data_encoding::BASE64;
use roost_geo::Datum;
use roost_wire::{HubName, RoleSet};

use super::index::{Entries, Index};
use super::invitation_file::InvitationFile;
use super::{GroupError, Issued, Verdict, write};
use crate::answer::{Answer, Document, POLICY, REVOCATIONS, SealedKey};
use crate::bundle::{Identity, read_authority};
use crate::certificate::{Authority, Certificate, Serial, p256_point};
use crate::error::LoadError;
use crate::files::{
    self, AUTHORITY_ADDRESS, GROUP_CERTIFICATE, GROUP_KEY, HUBS, MULTICAST_KEY, REVOCATION_LIST, TRUST, create_private,
    read_lines, replace_public,
};
use crate::fingerprint::Fingerprint;
use crate::group_key::GroupKey;
use crate::invitation_address::check_authority;
use crate::policy::Policy;
use crate::revocation::RevocationList;
use crate::trust::{SharedTrust, Trust};

/// Most hubs to turn to that a group stores.
const MAX_HUBS: usize = 16;

/// A group's folder, opened without its key.
pub struct GroupRecords {
    pub(super) dir: PathBuf,
    pub(super) trust: Arc<SharedTrust>,
    pub(super) invitations: InvitationFile,
}

impl GroupRecords {
    /// Opens the group in `dir`.
    ///
    /// # Errors
    /// There is none.
    pub fn open(dir: &Path) -> Result<Self, GroupError> {
        let authority = read_authority(&dir.join(GROUP_CERTIFICATE)).map_err(|error| match error {
            LoadError::Read { source, .. } if source.kind() == io::ErrorKind::NotFound => {
                GroupError::NoGroup { path: dir.to_owned() }
            }
            other => other.into(),
        })?;
        let trust = SharedTrust::new(Trust::read(authority, &dir.join(TRUST))?);
        Ok(Self::new(dir, trust))
    }

    pub(super) fn new(dir: &Path, trust: Arc<SharedTrust>) -> Self {
        Self { dir: dir.to_owned(), trust, invitations: InvitationFile::new(dir) }
    }

    /// Makes this process the only one that serves the group, until the returned handle is dropped. The operator's
    /// commands work beside it.
    ///
    /// # Errors
    /// Another process serves the group, or the folder cannot be read.
    pub fn claim_service(&self) -> Result<File, GroupError> {
        let unreadable = |source| LoadError::Read { path: self.dir.clone(), source };
        let folder = File::open(&self.dir).map_err(unreadable)?;
        match folder.try_lock() {
            Ok(()) => Ok(folder),
            Err(TryLockError::WouldBlock) => Err(GroupError::Served { path: self.dir.clone() }),
            Err(TryLockError::Error(source)) => Err(unreadable(source).into()),
        }
    }

    pub fn name(&self) -> &str {
        self.trust.group()
    }

    pub fn datum(&self) -> Option<Datum> {
        self.authority().datum().copied()
    }

    pub(super) fn authority(&self) -> Arc<Authority> {
        Arc::clone(self.trust.get().in_force())
    }

    /// The trust of the group, which changes with [`Self::refresh`].
    pub(crate) const fn trust(&self) -> &Arc<SharedTrust> {
        &self.trust
    }

    /// The last second of the CA's validity, which no certificate outlives.
    pub fn not_after(&self) -> SystemTime {
        self.authority().not_after()
    }

    /// The fingerprint of the certificate of the CA in force, which invitations carry.
    pub fn fingerprint(&self) -> Fingerprint {
        self.authority().fingerprint()
    }

    /// The policy of the group with its newest list. [`Policy::reload`] reads the list again from the group's folder.
    ///
    /// # Errors
    /// The list cannot be read.
    pub fn policy(&self) -> Result<Arc<Policy>, GroupError> {
        let (_, list) = self.state(&mut self.index()?)?;
        Ok(Arc::new(Policy::from_parts(&self.trust, &list, &self.dir.join(REVOCATION_LIST))))
    }

    /// The times at which the documents were written, by which a service notices a new one.
    pub fn documents_written(&self) -> [Option<SystemTime>; 3] {
        let written = |name| fs::metadata(self.dir.join(name)).and_then(|found| found.modified()).ok();
        [TRUST, files::POLICY, REVOCATION_LIST].map(written)
    }

    /// The file of the authority's audit records. The operator's commands and a serving authority append to it.
    pub fn audit_path(&self) -> PathBuf {
        self.dir.join(files::AUDIT_LOG)
    }

    /// Puts the document of trust in force that another process may have written.
    ///
    /// # Errors
    /// The document cannot be read, or is older than the one in force.
    pub fn refresh(&self) -> Result<(), GroupError> {
        Ok(self.trust.refresh(&self.dir.join(TRUST))?)
    }

    /// Lists every certificate issued, in the order of issue.
    ///
    /// # Errors
    /// The index or the revocation list cannot be read.
    pub fn show(&self) -> Result<Vec<Issued>, GroupError> {
        self.issued(&mut self.index()?)
    }

    pub(super) fn issued(&self, index: &mut Index) -> Result<Vec<Issued>, GroupError> {
        let (entries, list) = self.state(index)?;
        let mut issued = entries.issued;
        for certificate in &mut issued {
            certificate.next_labels = entries.labels.get(&certificate.node).cloned().unwrap_or_default();
            certificate.revoked = Serial::from_hex(&certificate.serial).and_then(|serial| list.revoked_at(&serial));
        }
        Ok(issued)
    }

    /// Says if the group's members accept the bundle in `bundle` at `now`, by the group's CA and newest list rather
    /// than the bundle's own.
    ///
    /// # Errors
    /// A file of the bundle is missing or damaged, or the key is exposed or belongs to another certificate. A
    /// certificate that members would refuse is not an error.
    pub fn verify(&self, bundle: &Path, now: SystemTime) -> Result<Verdict, GroupError> {
        let identity = Identity::load(bundle)?;
        let (_, newest) = self.state(&mut self.index()?)?;
        // The bundle's own authority may be that of another group.
        let policy = Policy::from_parts(&self.trust, &newest, &self.dir.join(REVOCATION_LIST));
        let leaf = identity.leaf();
        let revoked = newest.revoked_at(&leaf.status.serial);
        let certificate = Issued { revoked, ..Issued::new(&leaf) };
        let refusal = policy.verify(&identity.certificate_der(), RoleSet::ALL, now).err();
        let list_outdated = identity.list().number() < newest.number();
        Ok(Verdict { certificate, refusal, list_outdated })
    }

    /// True if a passphrase opens the group's key.
    ///
    /// # Errors
    /// The key cannot be read.
    pub fn is_sealed(&self) -> Result<bool, GroupError> {
        let path = self.dir.join(GROUP_KEY);
        let text = fs::read_to_string(&path).map_err(|source| LoadError::Read { path, source })?;
        Ok(super::sealing::is_sealed(&text))
    }

    /// The hubs that a new member turns to, each as its endpoints, separated by commas.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn hubs(&self) -> Result<Vec<String>, GroupError> {
        Ok(read_lines(&self.dir.join(HUBS))?)
    }

    /// Replaces the hubs that a new member turns to.
    ///
    /// # Errors
    /// One of them is not a list of endpoints, or the file cannot be written.
    pub fn set_hubs(&self, hubs: &[String]) -> Result<(), GroupError> {
        if let Some(wrong) = hubs.iter().find(|hub| hub.parse::<HubName>().is_err()) {
            return Err(GroupError::NotHub(wrong.clone()));
        }
        if hubs.len() > MAX_HUBS {
            return Err(GroupError::TooMany("hubs", MAX_HUBS));
        }
        let _lock = self.index()?;
        let lines: String = hubs.iter().map(|hub| format!("{hub}\n")).collect();
        write(&self.dir.join(HUBS), |path| replace_public(path, &lines))
    }

    /// `HOST:PORT` at which devices reach the group's authority, if it was stored.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn address(&self) -> Result<Option<String>, GroupError> {
        Ok(read_lines(&self.dir.join(AUTHORITY_ADDRESS))?.into_iter().next())
    }

    /// Stores the address at which devices reach the group's authority.
    ///
    /// # Errors
    /// It is not `HOST:PORT`, or the file cannot be written.
    pub fn set_address(&self, address: &str) -> Result<(), GroupError> {
        check_authority(address)?;
        let _lock = self.index()?;
        write(&self.dir.join(AUTHORITY_ADDRESS), |path| replace_public(path, format!("{address}\n")))
    }

    /// The documents that every member holds.
    ///
    /// # Errors
    /// One of them cannot be read.
    pub fn documents(&self) -> Result<Vec<Document>, GroupError> {
        self.refresh()?;
        let path = self.dir.join(REVOCATION_LIST);
        let trust = self.trust.get();
        let number = RevocationList::read(&path, &trust)?.number();
        let text = fs::read_to_string(&path).map_err(|source| LoadError::Read { path, source })?;
        let list = Document { kind: REVOCATIONS.to_owned(), number, text };
        let text = BASE64.encode(trust.document());
        let trust = Document { kind: crate::answer::TRUST.to_owned(), number: trust.number(), text };
        // A damaged policy must not keep the newest list from the members.
        let policy = self.signed_policy().ok().flatten().map(|(policy, signed)| Document {
            kind: POLICY.to_owned(),
            number: policy.number,
            text: BASE64.encode(&signed),
        });
        // An authority that the first one names may have signed the others.
        let all = [Some(trust), Some(list), policy].into_iter().flatten();
        Ok(all.filter(|document| document.number > 0).collect())
    }

    /// The answer that brings a certificate of the group to its holder.
    pub(super) fn answer(&self, certificate: &str) -> Result<Answer, GroupError> {
        let malformed = || GroupError::Crypto(rcgen::Error::CouldNotParseCertificate);
        let der = pem_to_der(certificate).ok_or_else(malformed)?;
        let parsed = Certificate::parse(&der).ok_or_else(malformed)?;
        let leaf = parsed.leaf().ok_or_else(malformed)?;
        let point = p256_point(parsed.key()).ok_or_else(malformed)?;
        let multicast_key = if leaf.subject.role == roost_wire::Role::Node {
            let key = GroupKey::read(&self.multicast_key()?)?.ok_or_else(malformed)?;
            Some(SealedKey::seal(&key, point, self.name()).map_err(|_| malformed())?)
        } else {
            None
        };
        Ok(Answer {
            certificate: certificate.to_owned(),
            authority: self.authority().pem(),
            documents: self.documents()?,
            multicast_key,
            hubs: self.hubs()?,
        })
    }

    /// The file of the nodes' shared secret. It is made now for a group that was made before groups had one.
    pub(super) fn multicast_key(&self) -> Result<PathBuf, GroupError> {
        let path = self.dir.join(MULTICAST_KEY);
        if GroupKey::read(&path)?.is_none() {
            // Another process may make it at the same moment: the one that comes second reads the first one's.
            let fresh = GroupKey::random().map_err(|source| GroupError::Write { path: path.clone(), source })?;
            match create_private(&path, &fresh.text()) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                    return Err(GroupError::Write { path, source: error });
                }
                _ => {}
            }
        }
        Ok(path)
    }

    pub(super) fn index(&self) -> Result<Index, GroupError> {
        let path = self.dir.join(files::GROUP_INDEX);
        let index = Index::open(&path).map_err(|source| GroupError::Index { path, source })?;
        // From here on nobody else changes the authority.
        self.refresh()?;
        Ok(index)
    }

    /// Reads the group's files and checks that the list is the newest.
    pub(super) fn state(&self, index: &mut Index) -> Result<(Entries, Arc<RevocationList>), GroupError> {
        let entries = index.read().map_err(|source| GroupError::Index { path: index.path().to_owned(), source })?;
        let path = self.dir.join(REVOCATION_LIST);
        let list = RevocationList::read(&path, &self.trust.get())?;
        if list.number() < entries.list_number {
            return Err(GroupError::ListTooOld { path, found: list.number(), expected: entries.list_number });
        }
        Ok((entries, list))
    }

    pub(super) fn newest_list_text(&self, index: &mut Index) -> Result<String, GroupError> {
        self.state(index)?;
        let path = self.dir.join(REVOCATION_LIST);
        fs::read_to_string(&path).map_err(|source| LoadError::Read { path, source }.into())
    }
}

pub(super) fn pem_to_der(pem: &str) -> Option<Vec<u8>> {
    use rustls_pki_types::{CertificateDer, pem::PemObject};
    CertificateDer::from_pem_slice(pem.as_bytes()).ok().map(|der| der.to_vec())
}
