//! Files sealed for one member, so that a hub can keep them and read nothing.
//!
//! The content is sealed by HPKE (RFC 9180; P-256, HKDF-SHA256, AES-128-GCM) for the key in the receiver's certificate.
//! The envelope is CBOR: the sender's certificate, the end, the encapsulated secret, the ciphertext, and the sender's
//! signature over all of it, both node ids and the id of the delivery. The signature keeps a hub from forging, the
//! sender's id under the seal keeps another member from signing for what it did not write.

use std::time::SystemTime;

use aws_lc_rs::encoding::AsBigEndian;
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_ASN1, ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, ParsedPublicKey};
use minicbor::bytes::ByteSlice;
use minicbor::{Decode, Encode};
use roost_wire::{DeliveryId, NodeId, RemoteIdentity, Role, RoleSet};
use rustls::crypto::aws_lc_rs::hpke::DH_KEM_P256_HKDF_SHA256_AES_128;
use rustls::crypto::hpke::{EncapsulatedSecret, Hpke, HpkePrivateKey, HpkePublicKey};

use crate::bundle::Identity;
use crate::certificate::{Certificate, p256_point};
use crate::policy::Policy;
use crate::refusal::Refusal;

/// The beginning of what is signed, and the purpose of the sealing key.
const PURPOSE: &[u8] = b"roost sealed file 1\0";

/// The ends of a sealed file, and its id: they travel beside it, and its signature covers them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SealedFor {
    pub from: NodeId,
    pub to: NodeId,
    pub id: DeliveryId,
}

/// The content of a sealed file, as its sender wrote it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileContent {
    pub name: String,
    /// The end of the delivery by the sender's wall clock, Unix seconds.
    pub until_s: u64,
    pub bytes: Vec<u8>,
}

#[derive(Debug, thiserror::Error)]
pub enum SealError {
    #[error("the receiver's certificate is not accepted: {0}")]
    Receiver(Refusal),
    #[error("the sender's certificate is not accepted: {0}")]
    Sender(Refusal),
    #[error("it is not what its sender sealed for this node")]
    Forged,
    #[error("the cryptographic library failed")]
    Crypto,
}

#[derive(Encode, Decode)]
#[cbor(array)]
struct SealedEnvelope<'a> {
    #[b(0)]
    certificate: &'a ByteSlice,
    #[n(1)]
    until_s: u64,
    #[b(2)]
    secret: &'a ByteSlice,
    #[b(3)]
    ciphertext: &'a ByteSlice,
    #[b(4)]
    signature: &'a ByteSlice,
}

#[derive(Encode, Decode)]
#[cbor(array)]
struct Plain<'a> {
    #[b(0)]
    name: &'a str,
    #[b(1)]
    bytes: &'a ByteSlice,
}

impl SealedFor {
    fn context(&self, until_s: u64) -> Vec<u8> {
        let mut bytes = PURPOSE.to_vec();
        bytes.extend_from_slice(self.from.as_bytes());
        bytes.extend_from_slice(self.to.as_bytes());
        bytes.extend_from_slice(self.id.as_bytes());
        bytes.extend_from_slice(&until_s.to_be_bytes());
        bytes
    }

    /// The bytes that the sender signs. The lengths of the fields keep one from taking bytes of the next.
    fn statement(&self, until_s: u64, parts: [&[u8]; 3]) -> Vec<u8> {
        let mut bytes = self.context(until_s);
        for part in parts {
            bytes.extend_from_slice(&(part.len() as u64).to_be_bytes());
            bytes.extend_from_slice(part);
        }
        bytes
    }
}

impl Identity {
    /// Seals a file for the holder of a certificate, which the policy has to accept now.
    ///
    /// # Errors
    /// The certificate is not that of a node of the group, or not the one of `to`.
    pub fn seal_file(
        &self,
        policy: &Policy,
        receiver: &[u8],
        id: DeliveryId,
        file: &FileContent,
    ) -> Result<(SealedFor, Vec<u8>), SealError> {
        let judged = policy.judge_leaf(receiver, RoleSet::only(Role::Node), SystemTime::now());
        let (remote, _) = judged.map_err(SealError::Receiver)?;
        let ends = SealedFor { from: self.node(), to: remote.node, id };
        let parsed = Certificate::parse(receiver).ok_or(SealError::Forged)?;
        let point = p256_point(parsed.key()).ok_or(SealError::Forged)?;
        let plain = Plain { name: &file.name, bytes: file.bytes.as_slice().into() };
        let plain = minicbor::to_vec(plain).map_err(|_| SealError::Crypto)?;
        let context = ends.context(file.until_s);
        let (secret, ciphertext) = DH_KEM_P256_HKDF_SHA256_AES_128
            .seal(PURPOSE, &context, &plain, &HpkePublicKey(point.to_vec()))
            .map_err(|_| SealError::Crypto)?;
        let certificate = self.certificate_der();
        let statement = ends.statement(file.until_s, [&certificate, &secret.0, &ciphertext]);
        let signature = self.key_pair()?.sign(&SystemRandom::new(), &statement).map_err(|_| SealError::Crypto)?;
        let envelope = SealedEnvelope {
            certificate: (*certificate).into(),
            until_s: file.until_s,
            secret: secret.0.as_slice().into(),
            ciphertext: ciphertext.as_slice().into(),
            signature: signature.as_ref().into(),
        };
        Ok((ends, minicbor::to_vec(envelope).map_err(|_| SealError::Crypto)?))
    }

    /// Opens a file that was sealed for this member, and returns its sender, whom the policy accepts now.
    ///
    /// # Errors
    /// Its sender is not accepted, or anything of it was changed.
    pub fn open_file(
        &self,
        policy: &Policy,
        ends: &SealedFor,
        sealed: &[u8],
    ) -> Result<(RemoteIdentity, FileContent), SealError> {
        let forged = SealError::Forged;
        let Ok(SealedEnvelope { certificate, until_s, secret, ciphertext, signature }) = minicbor::decode(sealed)
        else {
            return Err(forged);
        };
        let judged = policy.judge_leaf(certificate, RoleSet::only(Role::Node), SystemTime::now());
        let (sender, _) = judged.map_err(SealError::Sender)?;
        if sender.node != ends.from || self.node() != ends.to {
            return Err(forged);
        }
        let statement = ends.statement(until_s, [certificate, secret, ciphertext]);
        let parsed = Certificate::parse(certificate).ok_or(SealError::Forged)?;
        let point = p256_point(parsed.key()).ok_or(SealError::Forged)?;
        let key = ParsedPublicKey::new(&ECDSA_P256_SHA256_ASN1, point).map_err(|_| SealError::Forged)?;
        key.verify_sig(&statement, signature).map_err(|_| SealError::Forged)?;
        let pair = self.key_pair()?;
        let scalar = pair.private_key().as_be_bytes().map_err(|_| SealError::Crypto)?;
        let own = HpkePrivateKey::from(scalar.as_ref().to_vec());
        let plain = DH_KEM_P256_HKDF_SHA256_AES_128
            .open(&EncapsulatedSecret(secret.to_vec()), PURPOSE, &ends.context(until_s), ciphertext, &own)
            .map_err(|_| SealError::Forged)?;
        let Plain { name, bytes } = minicbor::decode(&plain).map_err(|_| SealError::Forged)?;
        Ok((sender, FileContent { name: name.to_owned(), until_s, bytes: bytes.to_vec() }))
    }

    fn key_pair(&self) -> Result<EcdsaKeyPair, SealError> {
        let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, self.key_pkcs8_der());
        pair.map_err(|_| SealError::Crypto)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use super::*;
    use crate::group::{Group, Validity};

    struct Member {
        identity: Identity,
        policy: Arc<Policy>,
    }

    fn member(group: &Group, dir: &Path, name: &str) -> Member {
        let at = dir.join(name);
        group.issue(name, Role::Node, Validity::default(), &at).unwrap();
        let identity = Identity::load(&at).unwrap();
        let policy = Policy::new(&identity).unwrap();
        Member { identity, policy }
    }

    fn file() -> FileContent {
        FileContent { name: "orders.txt".to_owned(), until_s: 9, bytes: b"go home".to_vec() }
    }

    fn seal(from: &Member, to: &Member) -> (SealedFor, Vec<u8>) {
        let id = DeliveryId::from_bytes([3; 8]);
        from.identity.seal_file(&from.policy, &to.identity.certificate_der(), id, &file()).unwrap()
    }

    fn open(by: &Member, ends: &SealedFor, sealed: &[u8]) -> Result<(RemoteIdentity, FileContent), SealError> {
        by.identity.open_file(&by.policy, ends, sealed)
    }

    #[test]
    fn only_receiver_opens() {
        let dir = tempfile::tempdir().unwrap();
        let group = Group::init(&dir.path().join("group"), "alpha").unwrap();
        let [a, b, c] = ["a", "b", "c"].map(|name| member(&group, dir.path(), name));
        let (ends, sealed) = seal(&a, &b);
        let (sender, content) = open(&b, &ends, &sealed).unwrap();
        assert_eq!((sender.name.as_str(), content), ("a", file()));
        let readable = |part: &[u8]| sealed.windows(part.len()).any(|window| window == part);
        assert!(!readable(b"go home") && !readable(b"orders.txt"));
        assert!(open(&c, &ends, &sealed).is_err());
        let swapped = SealedFor { to: c.identity.node(), ..ends };
        assert!(matches!(open(&c, &swapped, &sealed), Err(SealError::Forged)));
    }

    #[test]
    fn no_changed_byte_is_taken() {
        let dir = tempfile::tempdir().unwrap();
        let group = Group::init(&dir.path().join("group"), "alpha").unwrap();
        let [a, b] = ["a", "b"].map(|name| member(&group, dir.path(), name));
        let (ends, sealed) = seal(&a, &b);
        for at in 0..sealed.len() {
            let mut changed = sealed.clone();
            changed[at] ^= 1;
            assert!(open(&b, &ends, &changed).is_err(), "byte {at}");
        }
        let other = SealedFor { id: DeliveryId::from_bytes([4; 8]), ..ends };
        assert!(open(&b, &other, &sealed).is_err(), "another delivery");
        let other = SealedFor { from: b.identity.node(), ..ends };
        assert!(open(&b, &other, &sealed).is_err(), "another sender");
    }

    #[test]
    fn revoked_sender_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let group = Group::init(&dir.path().join("group"), "alpha").unwrap();
        let [a, b] = ["a", "b"].map(|name| member(&group, dir.path(), name));
        let (ends, sealed) = seal(&a, &b);
        group.revoke("a").unwrap();
        b.policy.take_list(&std::fs::read(dir.path().join("group/revoked.pem")).unwrap()).unwrap();
        assert!(matches!(open(&b, &ends, &sealed), Err(SealError::Sender(Refusal::Revoked))));
    }

    #[test]
    fn member_of_another_group_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let [ours, theirs] = ["alpha", "beta"].map(|name| Group::init(&dir.path().join(name), name).unwrap());
        let (a, b) = (member(&theirs, dir.path(), "a"), member(&ours, dir.path(), "b"));
        let id = DeliveryId::from_bytes([3; 8]);
        let certificate = b.identity.certificate_der();
        let sealed = a.identity.seal_file(&a.policy, &certificate, id, &file());
        assert!(matches!(sealed, Err(SealError::Receiver(_))));
        let (ends, sealed) = a.identity.seal_file(&b.policy, &certificate, id, &file()).unwrap();
        assert!(matches!(open(&b, &ends, &sealed), Err(SealError::Sender(_))));
    }

    #[test]
    fn certificate_of_admitted_node_is_known() {
        let dir = tempfile::tempdir().unwrap();
        let group = Group::init(&dir.path().join("group"), "alpha").unwrap();
        let [a, b] = ["a", "b"].map(|name| member(&group, dir.path(), name));
        assert!(a.policy.certificate_of(b.identity.node()).is_none());
        let certificate = b.identity.certificate_der();
        a.policy.verify(&certificate, RoleSet::only(Role::Node), SystemTime::now()).unwrap();
        assert_eq!(a.policy.certificate_of(b.identity.node()), Some(certificate));
    }
}
