//! The seal: AES-128-GCM (RFC 5116) with a key and a salt that HKDF-SHA-256 (RFC
//! 5869) makes of an epoch's secret, the stream and the epoch's number.
//!
//! The nonce is the salt XOR the packet's counter, as in TLS 1.3 (RFC 8446,
//! section 5.3). Everything in clear but the hop's byte is authenticated.

use std::fmt;

use aws_lc_rs::aead::{AES_128_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use aws_lc_rs::hkdf::{HKDF_SHA256, KeyType, Salt};
use roost_wire::EpochSecret;

use crate::packet::{Epoch, HEADER_BYTES, StreamId, TAG_BYTES};

/// The key of a stream's epoch.
pub(crate) struct EpochKey {
    key: LessSafeKey,
    salt: [u8; NONCE_LEN],
}

impl fmt::Debug for EpochKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(…)")
    }
}

struct SaltLength;

impl KeyType for SaltLength {
    fn len(&self) -> usize {
        NONCE_LEN
    }
}

impl EpochKey {
    /// `None` never in practice: the lengths asked of HKDF are far below its limit.
    pub(crate) fn derive(secret: &EpochSecret, stream: StreamId, epoch: Epoch) -> Option<Self> {
        let (stream, epoch) = (stream.0.to_be_bytes(), epoch.0.to_be_bytes());
        let extracted = Salt::new(HKDF_SHA256, b"roost reflection 1").extract(secret.as_bytes());
        let words: [&[u8]; 3] = [b"key", &stream, &epoch];
        let key = LessSafeKey::new(UnboundKey::from(extracted.expand(&words, &AES_128_GCM).ok()?));
        let mut salt = [0; NONCE_LEN];
        extracted.expand(&[b"salt", &stream, &epoch], SaltLength).ok()?.fill(&mut salt).ok()?;
        Some(Self { key, salt })
    }

    fn nonce(&self, counter: u64) -> Nonce {
        let mut nonce = self.salt;
        nonce[NONCE_LEN - 8..].iter_mut().zip(counter.to_be_bytes()).for_each(|(byte, count)| *byte ^= count);
        Nonce::assume_unique_for_key(nonce)
    }

    /// Seals the payload in a packet whose tag is still to be written.
    pub(crate) fn seal(&self, counter: u64, packet: &mut [u8]) -> Option<()> {
        let (header, rest) = packet.split_at_mut_checked(HEADER_BYTES)?;
        let (payload, tag) = rest.split_at_mut_checked(rest.len().checked_sub(TAG_BYTES)?)?;
        let made = self.key.seal_in_place_separate_tag(self.nonce(counter), Aad::from(&header[1..]), payload).ok()?;
        tag.copy_from_slice(made.as_ref());
        Some(())
    }

    /// Opens a packet in its place; `None` if it was not sealed with this key, or was changed.
    pub(crate) fn open<'a>(&self, counter: u64, packet: &'a mut [u8]) -> Option<&'a [u8]> {
        let (header, sealed) = packet.split_at_mut_checked(HEADER_BYTES)?;
        let payload = self.key.open_in_place(self.nonce(counter), Aad::from(&header[1..]), sealed).ok()?;
        Some(payload)
    }
}
