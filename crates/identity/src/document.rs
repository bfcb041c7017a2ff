//! Documents that the authority signs, other than the revocation list, which is a CRL.
//!
//! A document is CBOR: `[STATEMENT, SIGNATURE]`, where the statement is the CBOR of `[KIND, GROUP, NUMBER, CONTENT]` and the
//! signature is ECDSA on P-256 with SHA-256 over [`PURPOSE`] and the statement. The purpose keeps it apart from the
//! signatures of certificates and lists.

use std::sync::Arc;

use minicbor::bytes::ByteSlice;
use minicbor::{Decode, Encode};

use crate::certificate::Authority;
use crate::error::ListFault;
use crate::group::Signer;
use crate::trust::Trust;

/// The beginning of what is signed. A certificate and a list begin with 0x30, a DER sequence.
const PURPOSE: &[u8] = b"roost document 1\0";

/// A numbered text of the group, of one kind, such as its policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignedDocument {
    /// The kind of document, as on the wire.
    pub kind: u16,
    /// Each new document of a kind has a greater one.
    pub number: u64,
    pub content: Vec<u8>,
}

#[derive(Encode, Decode)]
#[cbor(array)]
pub(crate) struct Statement<'a> {
    #[n(0)]
    pub(crate) kind: u16,
    #[b(1)]
    pub(crate) group: &'a str,
    #[n(2)]
    pub(crate) number: u64,
    #[b(3)]
    pub(crate) content: &'a ByteSlice,
}

#[derive(Encode, Decode)]
#[cbor(array)]
struct Envelope<'a> {
    #[b(0)]
    statement: &'a ByteSlice,
    #[b(1)]
    signature: &'a ByteSlice,
}

impl SignedDocument {
    /// Reads a document and verifies that an authority signed it for its group.
    ///
    /// # Errors
    /// The bytes are no document of this group, or the signature is wrong.
    pub(crate) fn parse(bytes: &[u8], trust: &Trust) -> Result<Self, ListFault> {
        Self::parse_by(bytes, trust, trust.trusted())
    }

    /// As [`Self::parse`], where the authority may be one that is trusted no more.
    pub(crate) fn parse_former(bytes: &[u8], trust: &Trust) -> Result<Self, ListFault> {
        Self::parse_by(bytes, trust, trust.ever().iter().chain(trust.trusted()))
    }

    fn parse_by<'a>(
        bytes: &[u8],
        trust: &Trust,
        mut authorities: impl Iterator<Item = &'a Arc<Authority>>,
    ) -> Result<Self, ListFault> {
        let envelope: Envelope<'_> = whole(bytes)?;
        let message = signed_bytes(envelope.statement);
        let signer = authorities.find(|authority| authority.has_signed(&message, envelope.signature));
        let signer = signer.ok_or(ListFault::BadSignature)?;
        let Statement { kind, group, number, content } = whole(envelope.statement)?;
        if group != trust.in_force().group() {
            return Err(ListFault::Malformed);
        }
        trust.check_number(signer, number)?;
        Ok(Self { kind, number, content: content.to_vec() })
    }

    /// The document, signed.
    pub(crate) fn sign(&self, signer: &Signer) -> Result<Vec<u8>, rcgen::Error> {
        let content = self.content.as_slice().into();
        let group = signer.authority().group();
        let statement = encoded(&Statement { kind: self.kind, group, number: self.number, content });
        let signature = signer.sign(&signed_bytes(&statement))?;
        Ok(encoded(&Envelope { statement: statement.as_slice().into(), signature: signature.as_slice().into() }))
    }
}

pub(crate) fn signed_bytes(statement: &[u8]) -> Vec<u8> {
    [PURPOSE, statement].concat()
}

pub(crate) fn encoded(value: &impl Encode<()>) -> Vec<u8> {
    // A vector takes all bytes, and no value here refuses to be encoded.
    minicbor::to_vec(value).unwrap_or_default()
}

/// Reads a value that takes all of the bytes.
pub(crate) fn whole<'b, T: Decode<'b, ()>>(bytes: &'b [u8]) -> Result<T, ListFault> {
    let mut decoder = minicbor::Decoder::new(bytes);
    let value = decoder.decode().map_err(|_| ListFault::Malformed)?;
    if decoder.position() == bytes.len() { Ok(value) } else { Err(ListFault::Malformed) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Policy;
    use crate::group::Group;
    use std::sync::Arc;

    fn document() -> SignedDocument {
        SignedDocument { kind: 1, number: 7, content: b"[[rule]]".to_vec() }
    }

    /// A signed document, and the policy of its group.
    fn signed() -> (Vec<u8>, Arc<Policy>) {
        let dir = tempfile::tempdir().unwrap();
        let group = Group::init(&dir.path().join("group"), "alpha").unwrap();
        (group.sign_document(&document()).unwrap(), group.policy().unwrap())
    }

    #[test]
    fn a_document_reads_back() {
        let (bytes, policy) = signed();
        let document = policy.open_document(&bytes).unwrap();
        assert_eq!(document, self::document());
    }

    #[test]
    fn the_newest_document_is_kept() {
        let dir = tempfile::tempdir().unwrap();
        let group = Group::init(&dir.path().join("group"), "alpha").unwrap();
        let policy = group.policy().unwrap();
        policy.remember_in(dir.path()).unwrap();
        assert_eq!(policy.kept_document(1), None);
        let keep = |number| {
            let document = SignedDocument { number, ..document() };
            let bytes = group.sign_document(&document).unwrap();
            policy.keep_document(&document, &bytes).unwrap();
            policy.open_document(&policy.kept_document(1).unwrap()).unwrap().number
        };
        assert_eq!([7, 6, 8].map(keep), [7, 7, 8]);
        assert_eq!(policy.kept_document(2), None);
    }

    #[test]
    fn altered_or_truncated_document_is_rejected() {
        let (bytes, policy) = signed();
        for bit in 0..bytes.len() * 8 {
            let mut bad = bytes.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(policy.open_document(&bad).is_err(), "bit {bit}");
        }
        for length in 0..bytes.len() {
            assert!(policy.open_document(&bytes[..length]).is_err(), "{length} bytes");
        }
        assert!(policy.open_document(&[bytes.as_slice(), &[0]].concat()).is_err());
    }

    #[test]
    fn another_groups_document_is_not_ours() {
        let ((bytes, _), (_, policy)) = (signed(), signed());
        assert_eq!(policy.open_document(&bytes), Err(ListFault::BadSignature));
    }
}
