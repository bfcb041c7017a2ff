//! A host's side of the group: one loaded bundle.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};
use std::time::SystemTime;

use aws_lc_rs::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, KeyPair};
use roost_geo::Datum;
use roost_wire::{Labels, NodeId, RemoteIdentity, Role};
use rustls_pki_types::{CertificateDer, PrivatePkcs8KeyDer};

use crate::certificate::{Authority, Certificate, Leaf, date};
use crate::document::SignedDocument;
use crate::error::{ListFault, LoadError};
use crate::files::{
    GROUP_CERTIFICATE, LEAF_CERTIFICATE, LEAF_KEY, MAX_PEM_BYTES, MAX_POLICY_FILE_BYTES, MULTICAST_KEY, POLICY,
    REVOCATION_LIST, TRUST, read_key, read_optional, read_pem,
};
use crate::fingerprint::Fingerprint;
use crate::group_key::GroupKey;
use crate::policy::member;
use crate::refusal::Refusal;
use crate::revocation::RevocationList;
use crate::trust::{SharedTrust, Trust};

/// A loaded bundle: a member's certificate and key, its group's CA and revocation list.
pub struct Identity {
    /// A renewal replaces it while TLS configurations share this identity.
    held: RwLock<Held>,
    key: Vec<u8>,
    /// The holder of the certificate. No renewal changes it, but for the labels.
    holder: RemoteIdentity,
    trust: Arc<SharedTrust>,
    list: Arc<RevocationList>,
    list_path: PathBuf,
    certificate_path: PathBuf,
    group_key: Option<GroupKey>,
}

struct Held {
    certificate: Arc<[u8]>,
    leaf: Leaf,
}

impl Held {
    fn new(certificate: &[u8], leaf: Leaf) -> Self {
        Self { certificate: certificate.into(), leaf }
    }
}

impl Identity {
    /// Loads the bundle in `dir`: `identity.pem`, `identity.key`, `group.pem`, `revoked.pem` and, if they exist,
    /// `multicast.key` and `trust.cbor`.
    ///
    /// Checks that only the owner can read the key, that the key belongs to the certificate, and that the group issued
    /// the certificate and signed the list. [`Identity::check_validity`] checks the time.
    ///
    /// # Errors
    /// One sentence that names the file and says what to do.
    pub fn load(dir: &Path) -> Result<Self, LoadError> {
        Self::load_with_list(dir, &dir.join(REVOCATION_LIST))
    }

    /// Like [`Identity::load`], with the revocation list at `list` instead of in the bundle. [`crate::Policy::reload`]
    /// reads it again from there.
    ///
    /// # Errors
    /// As for [`Identity::load`].
    pub fn load_with_list(dir: &Path, list: &Path) -> Result<Self, LoadError> {
        let certificate_path = dir.join(LEAF_CERTIFICATE);
        let key_path = dir.join(LEAF_KEY);
        let authority_path = dir.join(GROUP_CERTIFICATE);
        let certificate: CertificateDer<'_> = read_pem(&certificate_path, MAX_PEM_BYTES, "certificate")?;
        let key: PrivatePkcs8KeyDer<'_> = read_key(&key_path)?;
        let trust = Trust::read(read_authority(&authority_path)?, &dir.join(TRUST))?;
        let leaf = member(&certificate, &trust).map_err(|refusal| LoadError::Certificate {
            path: certificate_path.clone(),
            authority: authority_path,
            refusal,
        })?;
        if !is_key_of(key.secret_pkcs8_der(), &certificate) {
            return Err(LoadError::KeyMismatch { key: key_path, certificate: certificate_path });
        }
        Ok(Self {
            key: key.secret_pkcs8_der().to_vec(),
            holder: leaf.identity(),
            held: RwLock::new(Held::new(&certificate, leaf)),
            list: RevocationList::read(list, &trust)?,
            trust: SharedTrust::new(trust),
            list_path: list.to_owned(),
            certificate_path,
            group_key: GroupKey::read(&dir.join(MULTICAST_KEY))?,
        })
    }

    /// Makes the identity of a certificate that was just issued. `None` if a group would not issue such a certificate.
    pub(crate) fn from_issued(
        certificate: Vec<u8>,
        key: Vec<u8>,
        trust: Arc<SharedTrust>,
        list: Arc<RevocationList>,
        list_path: PathBuf,
    ) -> Option<Self> {
        let leaf = Certificate::parse(&certificate)?.leaf()?;
        let certificate_path = PathBuf::from("(in memory)");
        let (holder, held) = (leaf.identity(), RwLock::new(Held::new(&certificate, leaf)));
        Some(Self { held, key, holder, trust, list, list_path, certificate_path, group_key: None })
    }

    /// Replaces the certificate with that of `by`, if `by` is a renewal of this identity, and trusts its authorities if
    /// their document is newer. Every handshake from now on presents the new certificate. Returns false if it is the same certificate.
    ///
    /// # Errors
    /// `by` has another key, name, role or group, or is not valid at `now`. Nothing has changed then.
    pub fn renew(&self, by: &Self, now: SystemTime) -> Result<bool, LoadError> {
        let is_other = (by.node(), by.role(), by.name()) != (self.node(), self.role(), self.name());
        if is_other || by.trust.get().first() != self.trust.get().first() {
            let path = by.certificate_path.clone();
            return Err(LoadError::NotRenewed { path, held: self.name().to_owned(), offered: by.name().to_owned() });
        }
        by.check_validity(now)?;
        let trust = by.trust.get();
        if trust.number() > self.trust.get().number() {
            let path = by.certificate_path.with_file_name(TRUST);
            self.trust.put_in_force(trust.document()).map_err(|fault| LoadError::Trust { path, fault })?;
        }
        let fresh = {
            let by = by.held();
            Held { certificate: Arc::clone(&by.certificate), leaf: by.leaf.clone() }
        };
        let mut held = self.held.write().unwrap_or_else(PoisonError::into_inner);
        let is_new = held.certificate != fresh.certificate;
        *held = fresh;
        Ok(is_new)
    }

    fn held(&self) -> RwLockReadGuard<'_, Held> {
        self.held.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Checks that our own certificate is valid at `now`. A daemon checks this when it starts, so that its operator
    /// learns of it before every remote refuses the certificate.
    ///
    /// # Errors
    /// [`LoadError::Expired`] or [`LoadError::NotYetValid`].
    pub fn check_validity(&self, now: SystemTime) -> Result<(), LoadError> {
        let path = self.certificate_path.clone();
        let standing = &self.held().leaf.status;
        match standing.check_time(now) {
            Ok(()) => Ok(()),
            Err(Refusal::Expired) => Err(LoadError::Expired { path, not_after: date(standing.not_after) }),
            Err(_) => Err(LoadError::NotYetValid { path, not_before: date(standing.not_before) }),
        }
    }

    pub fn node(&self) -> NodeId {
        self.holder.node
    }

    pub fn role(&self) -> Role {
        self.holder.role
    }

    /// The name that the operator gave this member when the certificate was issued.
    pub fn name(&self) -> &str {
        &self.holder.name
    }

    /// The labels in the certificate, which a renewal may change.
    pub fn labels(&self) -> Labels {
        self.held().leaf.subject.labels.clone()
    }

    pub fn group(&self) -> &str {
        self.trust.group()
    }

    /// The place of the group's grid on the Earth, as its authority has signed it; `None` of a plain grid.
    pub fn datum(&self) -> Option<Datum> {
        self.trust.get().in_force().datum().copied()
    }

    /// The policy, signed, that the authority gave with the certificate; `None` if it gave none, or it cannot be read.
    pub fn given_policy(&self) -> Option<Vec<u8>> {
        read_optional(&self.certificate_path.with_file_name(POLICY), MAX_POLICY_FILE_BYTES).ok().flatten()
    }

    pub(crate) fn open_document(&self, document: &[u8]) -> Result<SignedDocument, ListFault> {
        SignedDocument::parse(document, &self.trust.get())
    }

    /// The fingerprint of the certificate of the group's authority in force, as far as this host has heard.
    pub fn authority_fingerprint(&self) -> Fingerprint {
        self.trust.get().in_force().fingerprint()
    }

    /// False if the certificate is of an authority that is being replaced.
    pub fn is_of_authority_in_force(&self) -> bool {
        let issuer = self.held().leaf.status.issuer;
        issuer.is_none_or(|issuer| issuer == self.authority_fingerprint())
    }

    pub fn not_before(&self) -> SystemTime {
        self.held().leaf.status.not_before
    }

    /// The last second at which our certificate is valid.
    pub fn not_after(&self) -> SystemTime {
        self.held().leaf.status.not_after
    }

    pub fn certificate_der(&self) -> Arc<[u8]> {
        Arc::clone(&self.held().certificate)
    }

    pub fn key_pkcs8_der(&self) -> &[u8] {
        &self.key
    }

    /// The secret that the group's nodes share for multicast. `None` in the bundle of a hub, and in one that was issued
    /// before groups had this secret.
    pub const fn group_key(&self) -> Option<&GroupKey> {
        self.group_key.as_ref()
    }

    /// The file that [`crate::Policy::reload`] reads again to renew the list.
    pub(crate) fn list_path(&self) -> &Path {
        &self.list_path
    }

    pub(crate) fn leaf(&self) -> Leaf {
        self.held().leaf.clone()
    }

    pub(crate) fn trust(&self) -> &Arc<SharedTrust> {
        &self.trust
    }

    pub(crate) fn list(&self) -> &Arc<RevocationList> {
        &self.list
    }
}

impl fmt::Debug for Identity {
    /// Leaves out the key, so that it never reaches a log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identity").field("holder", &self.holder).finish()
    }
}

pub(crate) fn read_authority(path: &Path) -> Result<Authority, LoadError> {
    let der: CertificateDer<'_> = read_pem(path, MAX_PEM_BYTES, "certificate")?;
    Authority::parse(&der).map_err(|reason| LoadError::Authority { path: path.to_owned(), reason })
}

/// True if the private key belongs to the certificate.
fn is_key_of(pkcs8: &[u8], certificate: &[u8]) -> bool {
    let Ok(pair) = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, pkcs8) else { return false };
    let point = pair.public_key().as_ref();
    Certificate::parse(certificate).is_some_and(|certificate| certificate.has_key(point))
}
