//! The authority's answer to a signing request. It travels over HTTPS, or as a file where there is no network.

use data_encoding::BASE64;
use rustls::crypto::aws_lc_rs::hpke::DH_KEM_P256_HKDF_SHA256_AES_128 as HPKE;
use rustls::crypto::hpke::{EncapsulatedSecret, Hpke, HpkePrivateKey, HpkePublicKey};
use serde::{Deserialize, Serialize};

use crate::group_key::GroupKey;

/// Separates this use of a member's key from its signatures (RFC 9180, section 5.1).
const PURPOSE: &[u8] = b"roost multicast key";

/// The kind of the document that every member holds.
pub const REVOCATIONS: &str = "revocations";

/// The kind of the document that names the authorities; its text is base64. Members hold it once the authority has
/// changed.
pub const TRUST: &str = "trust";

/// The kind of the group's policy; its text is the signed document in base64.
pub const POLICY: &str = "policy";

/// A certificate with all that its holder needs beside its key. Nothing in it is secret: the multicast key is sealed
/// for the holder. Certificates are in PEM form. Unknown fields are ignored, so that a later authority may say more.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    pub certificate: String,
    pub authority: String,
    pub documents: Vec<Document>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub multicast_key: Option<SealedKey>,
    /// The hubs to turn to, each as its endpoints.
    #[serde(default)]
    pub hubs: Vec<String>,
}

/// A numbered text that the authority signed and every member holds. Of two, that with the greater number counts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Document {
    /// [`REVOCATIONS`], [`POLICY`], [`TRUST`], or a kind that a later version knows.
    pub kind: String,
    pub number: u64,
    pub text: String,
}

/// The nodes' shared key, which only the holder of one private key can open (HPKE, RFC 9180: P-256, AES-128-GCM).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SealedKey {
    encapsulated: String,
    sealed: String,
}

impl Answer {
    /// The text of the document of this kind.
    pub fn document(&self, kind: &str) -> Option<&str> {
        self.documents.iter().find(|document| document.kind == kind).map(|document| document.text.as_str())
    }
}

impl SealedKey {
    /// Seals `key` for the holder of the key with this uncompressed P-256 point.
    pub(crate) fn seal(key: &GroupKey, point: &[u8], group: &str) -> Result<Self, rustls::Error> {
        let holder = HpkePublicKey(point.to_vec());
        let (encapsulated, sealed) = HPKE.seal(PURPOSE, group.as_bytes(), key.bytes(), &holder)?;
        Ok(Self { encapsulated: BASE64.encode(&encapsulated.0), sealed: BASE64.encode(&sealed) })
    }

    /// Opens the key with the holder's private key. `None` if it is for another key or group.
    pub(crate) fn open(&self, private: &[u8], group: &str) -> Option<GroupKey> {
        let encapsulated = EncapsulatedSecret(BASE64.decode(self.encapsulated.as_bytes()).ok()?);
        let sealed = BASE64.decode(self.sealed.as_bytes()).ok()?;
        let private = HpkePrivateKey::from(private.to_vec());
        let key = HPKE.open(&encapsulated, PURPOSE, group.as_bytes(), &sealed, &private).ok()?;
        key.try_into().ok().map(GroupKey::from_bytes)
    }
}
