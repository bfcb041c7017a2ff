//! A device's side of joining a group: it makes its key, asks, and puts the answer in place in one step.
//!
//! Everything happens in `DIR.joining` beside the identity's folder. The folder with the key is there before anything
//! is asked, so an interrupted device asks again with the same key and gets the same certificate. Only a folder that
//! loads as an identity takes the place of `DIR`.

mod folder;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use aws_lc_rs::encoding::AsBigEndian;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair};
use data_encoding::BASE64;
use rcgen::{KeyPair, PKCS_ECDSA_P256_SHA256, PublicKeyData};
use roost_wire::Role;
use roost_wire::messages::DocumentKind;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivatePkcs8KeyDer};

use self::folder::{exchange, give, is_vacant, open_own, owner_of, read_if_there, remove, staging, write};
use crate::answer::{self, Answer, REVOCATIONS};
use crate::bundle::Identity;
use crate::certificate::{Authority, pem};
use crate::document::SignedDocument;
use crate::error::LoadError;
use crate::files::{
    GROUP_CERTIFICATE, LEAF_CERTIFICATE, LEAF_KEY, MAX_PEM_BYTES, MULTICAST_KEY, POLICY, REVOCATION_LIST, TRUST,
    create_private, make_private_dir, read_key, read_pem, replace_private, replace_public, sync_parent,
};
use crate::fingerprint::Fingerprint;
use crate::request;
use crate::subject::{NameError, check_name};
use crate::trust::find_authority;

pub use self::folder::Owner;

/// The files of an identity beside its key.
const DOCUMENTS: [&str; 6] = [LEAF_CERTIFICATE, GROUP_CERTIFICATE, REVOCATION_LIST, POLICY, MULTICAST_KEY, TRUST];

/// Joining failed. The identity's folder is as it was before.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EnrolmentError {
    #[error("there is an identity in {} already: choose another folder with --to DIR, or remove it", path.display())]
    Exists { path: PathBuf },
    #[error("there is no key in {}: run roost identity request with the same folder first", path.display())]
    NoKey { path: PathBuf },
    #[error("there is another key in {} than that in use: restart the daemon to use it", path.display())]
    Replaced { path: PathBuf },
    #[error("{} belongs to another user, who could read the new key: remove it", path.display())]
    Foreign { path: PathBuf },
    #[error("cannot write {}: {source}", path.display())]
    Write { path: PathBuf, source: io::Error },
    #[error(transparent)]
    Name(#[from] NameError),
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The authority is not the one that the invitation names.
    #[error("the answer is of another group than the invitation: ask its operator for a new one")]
    OtherAuthority,
    #[error("the authority's answer cannot be used: {0}")]
    Answer(&'static str),
    #[error("making the key failed: {0}")]
    Crypto(#[from] rcgen::Error),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RenewalKey {
    /// The member keeps its key and its id.
    Same,
    /// The member gets a new key, and with it another id.
    New,
}

/// A device that is about to join, or a member that renews its certificate.
pub struct Enrolment {
    dir: PathBuf,
    staging: PathBuf,
    key: KeyPair,
    /// The identity that the new one replaces; `None` while a device joins.
    held: Option<Arc<Identity>>,
}

impl Enrolment {
    /// Makes a key for an identity in `dir`, which must be empty or not exist, or finds the key of an earlier try.
    ///
    /// # Errors
    /// There is an identity, or the folder cannot be written.
    pub fn begin(dir: &Path) -> Result<Self, EnrolmentError> {
        if !is_vacant(dir).map_err(|source| EnrolmentError::Write { path: dir.to_owned(), source })? {
            return Err(EnrolmentError::Exists { path: dir.to_owned() });
        }
        Self::with_new_key(dir)
    }

    /// Finds the key that [`Self::begin`] made.
    ///
    /// # Errors
    /// There is none, or there is an identity.
    pub fn resume(dir: &Path) -> Result<Self, EnrolmentError> {
        let staging = staging(dir)?;
        if is_vacant(dir).is_ok_and(|vacant| vacant) && !staging.join(LEAF_KEY).exists() {
            return Err(EnrolmentError::NoKey { path: staging });
        }
        Self::begin(dir)
    }

    /// Prepares the renewal of `held`, which was loaded from `dir`.
    ///
    /// # Errors
    /// The folder holds another key by now, or the folder beside it cannot be written.
    pub fn renew(dir: &Path, held: &Arc<Identity>, key: RenewalKey) -> Result<Self, EnrolmentError> {
        let present: PrivatePkcs8KeyDer<'_> = read_key(&dir.join(LEAF_KEY))?;
        if present.secret_pkcs8_der() != held.key_pkcs8_der() {
            return Err(EnrolmentError::Replaced { path: dir.to_owned() });
        }
        let enrolment = match key {
            RenewalKey::New => {
                let staging = staging(dir)?;
                // An exchange that was interrupted has left the former identity there.
                if Identity::load(&staging).is_ok_and(|staged| staged.not_before() <= held.not_before()) {
                    write(&staging, remove)?;
                }
                Self::with_new_key(dir)?
            }
            RenewalKey::Same => {
                let staging = staging(dir)?;
                write(&staging, |path| remove(path).and_then(|()| make_private_dir(path)))?;
                write(&staging.join(LEAF_KEY), |path| create_private(path, &fs::read_to_string(dir.join(LEAF_KEY))?))?;
                Self::with_new_key(dir)?
            }
        };
        Ok(Self { held: Some(Arc::clone(held)), ..enrolment })
    }

    fn with_new_key(dir: &Path) -> Result<Self, EnrolmentError> {
        let staging = staging(dir)?;
        let path = staging.join(LEAF_KEY);
        if staging.symlink_metadata().is_ok() {
            open_own(&staging)?;
        }
        if !path.exists() {
            let write = |source| EnrolmentError::Write { path: path.clone(), source };
            remove(&staging).and_then(|()| make_private_dir(&staging)).map_err(write)?;
            let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?;
            create_private(&path, &key.serialize_pem()).map_err(write).inspect_err(|_| drop(remove(&staging)))?;
        }
        let key: PrivatePkcs8KeyDer<'_> = read_key(&path)?;
        let key = KeyPair::from_pkcs8_der_and_sign_algo(&key, &PKCS_ECDSA_P256_SHA256)?;
        Ok(Self { dir: dir.to_owned(), staging, key, held: None })
    }

    /// The signing request for this key, DER. Name and role are wishes.
    ///
    /// # Errors
    /// The name cannot be used.
    pub fn request(&self, name: Option<&str>, role: Option<Role>) -> Result<Vec<u8>, EnrolmentError> {
        name.map_or(Ok(()), check_name)?;
        Ok(request::make(&self.key, name, role)?.der().to_vec())
    }

    /// Like [`Self::request`], in PEM form.
    ///
    /// # Errors
    /// The name cannot be used.
    pub fn request_pem(&self, name: Option<&str>, role: Option<Role>) -> Result<String, EnrolmentError> {
        name.map_or(Ok(()), check_name)?;
        Ok(request::make(&self.key, name, role)?.pem()?)
    }

    /// The fingerprint of the key, which the operator sees, too.
    pub fn fingerprint(&self) -> Fingerprint {
        Fingerprint::digest(&self.key.subject_public_key_info())
    }

    /// Checks the answer and puts the identity in its place, for `owner` if there is one. `authority` is the
    /// fingerprint of the authority's certificate, if it is known.
    ///
    /// # Errors
    /// The answer is of another authority, for another key, expired, or a file cannot be written. The key stays, so that
    /// a further try gets the same certificate.
    pub fn finish(
        self,
        answer: &Answer,
        authority: Option<Fingerprint>,
        owner: Option<Owner>,
        now: SystemTime,
    ) -> Result<Identity, EnrolmentError> {
        let fresh = self.fill(answer, authority, owner, now).inspect_err(|_| {
            for file in DOCUMENTS {
                drop(fs::remove_file(self.staging.join(file)));
            }
        })?;
        self.put_in_place(&fresh).map_err(|source| EnrolmentError::Write { path: self.dir.clone(), source })?;
        Ok(Identity::load(&self.dir)?)
    }

    fn fill(
        &self,
        answer: &Answer,
        authority: Option<Fingerprint>,
        owner: Option<Owner>,
        now: SystemTime,
    ) -> Result<Identity, EnrolmentError> {
        let der = authority_der(answer)?;
        let trust = trust_document(answer)?;
        let known = self.known_authority(&der, trust.as_deref(), authority)?;
        let multicast_key = open_multicast_key(answer, &der, self.key.serialized_der())?;
        let staged = |name: &str| self.staging.join(name);
        let list = answer.document(REVOCATIONS).ok_or(EnrolmentError::Answer("it has no revocation list"))?;
        write(&staged(GROUP_CERTIFICATE), |path| replace_public(path, pem(&known)))?;
        if let Some(document) = trust {
            write(&staged(TRUST), |path| replace_public(path, document))?;
        }
        write(&staged(REVOCATION_LIST), |path| replace_public(path, list))?;
        if let Some(text) = &multicast_key {
            write(&staged(MULTICAST_KEY), |path| replace_private(path, text))?;
        }
        write(&staged(LEAF_CERTIFICATE), |path| replace_public(path, &answer.certificate))?;
        let policy = policy_document(answer)?;
        if let Some(document) = &policy {
            write(&staged(POLICY), |path| replace_public(path, document))?;
        }
        // Loading checks all signatures, and that key and certificate belong together.
        let identity = Identity::load(&self.staging)?;
        policy.map_or(Ok(()), |document| check_policy(&document, &identity))?;
        if let Some(held) = &self.held {
            check_renewal(held, &identity)?;
        }
        match identity.check_validity(now) {
            // A device whose clock is not set yet may join by a file: its daemon waits until the certificate is valid.
            Ok(()) | Err(LoadError::NotYetValid { .. }) => {}
            Err(expired) => return Err(expired.into()),
        }
        owner.or_else(|| owner_of(&self.dir)).map_or(Ok(()), |owner| give(&self.staging, owner))?;
        Ok(identity)
    }

    /// The authority, DER, that this host has reason to trust; the document of trust leads from there to the one in force.
    fn known_authority(
        &self,
        in_force: &[u8],
        trust: Option<&[u8]>,
        expected: Option<Fingerprint>,
    ) -> Result<Vec<u8>, EnrolmentError> {
        if self.held.is_some() {
            let own: CertificateDer<'_> = read_pem(&self.dir.join(GROUP_CERTIFICATE), MAX_PEM_BYTES, "certificate")?;
            return Ok(own.to_vec());
        }
        match expected.filter(|expected| *expected != Fingerprint::digest(in_force)) {
            None => Ok(in_force.to_vec()),
            Some(expected) => {
                let invited = trust.and_then(|document| find_authority(document, expected));
                invited.ok_or(EnrolmentError::OtherAuthority)
            }
        }
    }

    /// Puts `fresh` in the identity's place. With the same key each file is replaced by itself, the certificate last:
    /// any mixture of old and new files is an identity. With another key the folders are exchanged in one step, and all
    /// other files of the old one are kept.
    fn put_in_place(&self, fresh: &Identity) -> io::Result<()> {
        if self.held.as_ref().is_some_and(|held| held.node() == fresh.node()) {
            self.replace_files()?;
            return remove(&self.staging);
        }
        if is_vacant(&self.dir)? {
            fs::rename(&self.staging, &self.dir)?;
            return sync_parent(&self.dir);
        }
        exchange(&self.dir, &self.staging)?;
        remove(&self.staging)
    }

    fn replace_files(&self) -> io::Result<()> {
        let shared = self.staging.join(MULTICAST_KEY);
        if shared.exists() {
            replace_private(&self.dir.join(MULTICAST_KEY), fs::read(shared)?)?;
        }
        // The certificate may be of an authority that the document of trust names, so it comes last.
        for file in [TRUST, REVOCATION_LIST, POLICY, LEAF_CERTIFICATE] {
            if let Some(content) = read_if_there(&self.staging.join(file))? {
                replace_public(&self.dir.join(file), content)?;
            }
        }
        Ok(())
    }
}

/// Checks that `fresh` is a renewal of `held`, with the same key or another one.
fn check_renewal(held: &Identity, fresh: &Identity) -> Result<(), EnrolmentError> {
    let (new, old) = (fresh.trust().get(), held.trust().get());
    if new.first() != old.first() {
        return Err(EnrolmentError::OtherAuthority);
    } else if new.number() < old.number() {
        return Err(EnrolmentError::Answer("its document of trust is older than the one here"));
    }
    if (fresh.name(), fresh.role()) != (held.name(), held.role()) {
        return Err(EnrolmentError::Answer("its certificate is of another member"));
    }
    if fresh.list().check_replaces(held.list()).is_err() {
        return Err(EnrolmentError::Answer("its revocation list is older than the one here"));
    }
    Ok(())
}

fn authority_der(answer: &Answer) -> Result<CertificateDer<'static>, EnrolmentError> {
    let der = CertificateDer::from_pem_slice(answer.authority.as_bytes());
    der.map_err(|_| EnrolmentError::Answer("it has no certificate of an authority"))
}

fn trust_document(answer: &Answer) -> Result<Option<Vec<u8>>, EnrolmentError> {
    let decoded = answer.document(answer::TRUST).map(|text| BASE64.decode(text.as_bytes()));
    decoded.transpose().map_err(|_| EnrolmentError::Answer("its document of trust is not in base64"))
}

fn policy_document(answer: &Answer) -> Result<Option<Vec<u8>>, EnrolmentError> {
    let decoded = answer.document(answer::POLICY).map(|text| BASE64.decode(text.as_bytes()));
    decoded.transpose().map_err(|_| EnrolmentError::Answer("its policy is not in base64"))
}

fn check_policy(document: &[u8], identity: &Identity) -> Result<(), EnrolmentError> {
    let is_policy = |document: SignedDocument| document.kind == DocumentKind::POLICY.0;
    let is_good = identity.open_document(document).is_ok_and(is_policy);
    if is_good { Ok(()) } else { Err(EnrolmentError::Answer("its policy is not signed by the group's authority")) }
}

/// The text of the file with the multicast key, if the answer has one.
fn open_multicast_key(answer: &Answer, authority: &[u8], key: &[u8]) -> Result<Option<String>, EnrolmentError> {
    let Some(sealed) = &answer.multicast_key else { return Ok(None) };
    let authority = Authority::parse(authority).map_err(EnrolmentError::Answer)?;
    let unopened = || EnrolmentError::Answer("its multicast key is sealed for another key");
    let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, key).map_err(|_| unopened())?;
    let private = pair.private_key().as_be_bytes().map_err(|_| unopened())?;
    Ok(Some(sealed.open(private.as_ref(), authority.group()).ok_or_else(unopened)?.text()))
}
