//! Signing requests (PKCS#10, RFC 2986): a device makes its own key and asks for a certificate for it.
//!
//! A request proves that its sender holds the key. Its subject is only a wish: common name for the member's name,
//! organisational unit for its role. The group decides both. A request for extensions is refused, so that nobody
//! believes that the group granted them.

use rcgen::{CertificateParams, CertificateSigningRequest, DistinguishedName, DnType, KeyPair};
use roost_wire::{NodeId, Role};
use rustls_pki_types::CertificateSigningRequestDer;
use rustls_pki_types::pem::PemObject;
use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::prelude::{AttributeTypeAndValue, FromDer, X509Version};

use crate::certificate::{is_self_signed, node_id, p256_point};
use crate::fingerprint::Fingerprint;
use crate::subject::{NameError, check_name};

/// The longest request that is parsed, in bytes. A device's has about 250.
pub const MAX_REQUEST_BYTES: usize = 4096;

/// A request of a device, whose signature is right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SigningRequest {
    key: Vec<u8>,
    pub name: Option<String>,
    pub role: Option<Role>,
}

/// The reason for which a signing request is not accepted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RequestError {
    #[error("the signing request is malformed: make it with roost join or roost identity request")]
    Malformed,
    #[error("the key of the signing request is not of type ECDSA P-256")]
    KeyType,
    #[error("the signature of the signing request is wrong: its sender does not hold the key")]
    BadSignature,
    #[error("the signing request asks for extensions, and a group grants none: make it without them")]
    Extensions,
    #[error(transparent)]
    Name(#[from] NameError),
    #[error("the signing request asks for the role {0:?}: roles are node, supernode and server")]
    Role(String),
}

impl SigningRequest {
    /// Parses a request and checks its signature.
    ///
    /// # Errors
    /// The first check that fails.
    pub fn parse(der: &[u8]) -> Result<Self, RequestError> {
        if der.len() > MAX_REQUEST_BYTES {
            return Err(RequestError::Malformed);
        }
        let (rest, request) = X509CertificationRequest::from_der(der).map_err(|_| RequestError::Malformed)?;
        let info = &request.certification_request_info;
        if !rest.is_empty() || info.version != X509Version::V1 {
            return Err(RequestError::Malformed);
        }
        let key = info.subject_pki.raw;
        let point = p256_point(key).ok_or(RequestError::KeyType)?;
        if !is_self_signed(der, info.raw, &request.signature_value.data, point) {
            return Err(RequestError::BadSignature);
        }
        if !info.attributes().is_empty() {
            return Err(RequestError::Extensions);
        }
        let name = only(info.subject.iter_common_name())?;
        name.as_deref().map_or(Ok(()), check_name)?;
        let role = only(info.subject.iter_organizational_unit())?;
        let role = role.map(|role| role.parse().map_err(|_| RequestError::Role(role)));
        Ok(Self { key: key.to_vec(), name, role: role.transpose()? })
    }

    /// Parses a request in PEM form.
    ///
    /// # Errors
    /// As for [`SigningRequest::parse`].
    pub fn from_pem(text: &[u8]) -> Result<Self, RequestError> {
        let der = CertificateSigningRequestDer::from_pem_slice(text).map_err(|_| RequestError::Malformed)?;
        Self::parse(&der)
    }

    /// The id that the requester gets as a member.
    pub fn node(&self) -> NodeId {
        node_id(&self.key)
    }

    pub fn fingerprint(&self) -> Fingerprint {
        Fingerprint::digest(&self.key)
    }

    pub(crate) fn key(&self) -> &[u8] {
        &self.key
    }
}

/// The only value of an attribute of the subject.
fn only<'a>(mut values: impl Iterator<Item = &'a AttributeTypeAndValue<'a>>) -> Result<Option<String>, RequestError> {
    match (values.next(), values.next()) {
        (None, _) => Ok(None),
        (Some(value), None) => {
            let text = value.as_str().map_err(|_| RequestError::Malformed)?;
            Ok(Some(text.to_owned()))
        }
        _ => Err(RequestError::Malformed),
    }
}

/// Makes the request of `key`'s holder.
pub(crate) fn make(
    key: &KeyPair,
    name: Option<&str>,
    role: Option<Role>,
) -> Result<CertificateSigningRequest, rcgen::Error> {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    if let Some(name) = name {
        params.distinguished_name.push(DnType::CommonName, name);
    }
    if let Some(role) = role {
        params.distinguished_name.push(DnType::OrganizationalUnitName, role.name());
    }
    params.serialize_request(key)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{PKCS_ECDSA_P256_SHA256, PKCS_ECDSA_P384_SHA384, PKCS_ED25519, PublicKeyData, SanType};

    fn key() -> KeyPair {
        KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).unwrap()
    }

    #[test]
    fn request_round_trips() {
        let key = key();
        for (name, role) in [(Some("uav7"), Some(Role::Node)), (None, None), (Some("a"), None)] {
            let request = SigningRequest::parse(make(&key, name, role).unwrap().der()).unwrap();
            assert_eq!((request.name.as_deref(), request.role), (name, role));
            assert_eq!(request.key(), key.subject_public_key_info());
        }
    }

    #[test]
    fn altered_or_truncated_request_is_rejected() {
        let der = make(&key(), Some("uav7"), Some(Role::Node)).unwrap().der().to_vec();
        for bit in 0..der.len() * 8 {
            let mut bad = der.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(SigningRequest::parse(&bad).is_err(), "bit {bit}");
        }
        for len in 0..der.len() {
            assert!(SigningRequest::parse(&der[..len]).is_err());
        }
        assert_eq!(SigningRequest::parse(&[&der[..], &[0]].concat()), Err(RequestError::Malformed));
    }

    #[test]
    fn other_key_types_are_rejected() {
        for kind in [&PKCS_ECDSA_P384_SHA384, &PKCS_ED25519] {
            let key = KeyPair::generate_for(kind).unwrap();
            assert_eq!(SigningRequest::parse(make(&key, None, None).unwrap().der()), Err(RequestError::KeyType));
        }
    }

    #[test]
    fn extensions_are_refused() {
        let mut params = CertificateParams::default();
        params.subject_alt_names = vec![SanType::URI("roost:alpha:supernode:sn1".try_into().unwrap())];
        let der = params.serialize_request(&key()).unwrap().der().to_vec();
        assert_eq!(SigningRequest::parse(&der), Err(RequestError::Extensions));
    }

    #[test]
    fn bad_names_and_roles_are_refused() {
        let name = SigningRequest::parse(make(&key(), Some("../uav7"), None).unwrap().der());
        assert!(matches!(name, Err(RequestError::Name(_))));
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::OrganizationalUnitName, "king");
        let der = params.serialize_request(&key()).unwrap().der().to_vec();
        assert_eq!(SigningRequest::parse(&der), Err(RequestError::Role("king".to_owned())));
    }
}
