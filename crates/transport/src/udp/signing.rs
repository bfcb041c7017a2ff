//! A signing key for all sessions of an identity.
//!
//! dimpl parses the private key for each session and keeps the result as long as the session lives, although it signs
//! only once. From here it gets a handle to a shared key.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use aws_lc_rs::digest::{SHA256, digest};
use dimpl::CryptoError;
use dimpl::crypto::aws_lc_rs::default_provider;
use dimpl::crypto::{Buf, CryptoProvider, HashAlgorithm, KeyProvider, SignatureAlgorithm, SigningKey};

static KEYS: Keys = Keys(Mutex::new(Vec::new()));

/// dimpl's provider, with our keys and masks of record numbers.
pub(super) fn provider() -> CryptoProvider {
    CryptoProvider { key_provider: &KEYS, dtls13_cipher_suites: super::record_numbers::suites(), ..default_provider() }
}

/// The keys in use, by the digest of their encoding: one for each identity of the process.
#[derive(Debug)]
struct Keys(Mutex<Vec<([u8; 32], Weak<Key>)>>);

#[derive(Debug)]
struct Key {
    algorithm: SignatureAlgorithm,
    hash: HashAlgorithm,
    hashes: Box<[HashAlgorithm]>,
    signing: Mutex<Box<dyn SigningKey>>,
}

/// A session's handle to a shared key.
#[derive(Debug)]
struct Handle(Arc<Key>);

impl KeyProvider for Keys {
    fn load_private_key(&self, der: &[u8]) -> Result<Box<dyn SigningKey>, CryptoError> {
        let mut name = [0; 32];
        name.copy_from_slice(digest(&SHA256, der).as_ref());
        let mut keys = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(key) = keys.iter().find(|(known, _)| *known == name).and_then(|(_, key)| key.upgrade()) {
            return Ok(Box::new(Handle(key)));
        }
        let key = default_provider().key_provider.load_private_key(der)?;
        let key = Arc::new(Key {
            algorithm: key.algorithm(),
            hash: key.hash_algorithm(),
            hashes: key.supported_hash_algorithms().into(),
            signing: Mutex::new(key),
        });
        keys.retain(|(_, key)| key.strong_count() > 0);
        keys.push((name, Arc::downgrade(&key)));
        Ok(Box::new(Handle(key)))
    }
}

impl SigningKey for Handle {
    fn sign(&mut self, data: &[u8], hash: HashAlgorithm, out: &mut Buf) -> Result<(), CryptoError> {
        self.0.signing.lock().unwrap_or_else(PoisonError::into_inner).sign(data, hash, out)
    }

    fn algorithm(&self) -> SignatureAlgorithm {
        self.0.algorithm
    }

    fn hash_algorithm(&self) -> HashAlgorithm {
        self.0.hash
    }

    fn supported_hash_algorithms(&self) -> &[HashAlgorithm] {
        &self.0.hashes
    }
}

#[cfg(test)]
mod tests {
    use roost_identity::group::Group;
    use roost_wire::Role;

    use super::*;

    #[test]
    fn sessions_share_key_until_last_ends() {
        let dir = tempfile::tempdir().unwrap();
        let group = Group::init(&dir.path().join("group"), "alpha").unwrap();
        let ders = ["a", "b"].map(|name| group.issue_in_memory(name, Role::Node).unwrap().key_pkcs8_der().to_vec());
        let keys = Keys(Mutex::default());
        let mut handles: Vec<_> = (0..6).map(|index| keys.load_private_key(&ders[index % 2]).unwrap()).collect();
        let uses = || keys.0.lock().unwrap().iter().map(|(_, key)| key.strong_count()).collect::<Vec<_>>();
        assert_eq!(uses(), [3, 3]);
        let mut signature = Buf::new();
        handles[0].sign(b"transcript", HashAlgorithm::SHA256, &mut signature).unwrap();
        assert!(!signature.is_empty());
        handles.clear();
        assert_eq!(uses(), [0, 0]);
        assert!(keys.load_private_key(b"no key").is_err());
    }
}
