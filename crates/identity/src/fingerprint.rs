//! Digests of keys and of the authority's certificate, in the forms that people and addresses carry.

use std::fmt;
use std::str::FromStr;

use bip39::Language;
use data_encoding::{BASE64URL_NOPAD, HEXLOWER};
use sha2::{Digest, Sha256};

/// Words of a fingerprint that people compare. They carry 66 bits, too many to find a second key for them.
const WORDS: usize = 6;
/// Bits of a word: the list has 2048.
const WORD_BITS: usize = 11;

/// The SHA-256 digest of a key or certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Fingerprint([u8; 32]);

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it is not a fingerprint")]
pub struct FingerprintError;

impl Fingerprint {
    pub fn digest(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// The first half as a label of a DNS name, in which letters have no case.
    pub(crate) fn label(&self) -> String {
        HEXLOWER.encode(&self.0[..16])
    }

    /// Six words of the English list of BIP-39, to be read aloud and compared.
    pub fn words(&self) -> String {
        let list = Language::English.word_list();
        let bit = |at: usize| usize::from(self.0[at / 8] >> (7 - at % 8) & 1);
        let word = |first: usize| (first..first + WORD_BITS).fold(0, |index, at| index << 1 | bit(at));
        let words: Vec<&str> = (0..WORDS).map(|index| list[word(index * WORD_BITS)]).collect();
        words.join(" ")
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&BASE64URL_NOPAD.encode(&self.0))
    }
}

impl FromStr for Fingerprint {
    type Err = FingerprintError;

    fn from_str(text: &str) -> Result<Self, FingerprintError> {
        let bytes = BASE64URL_NOPAD.decode(text.as_bytes()).map_err(|_| FingerprintError)?;
        bytes.try_into().map(Self).map_err(|_| FingerprintError)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fingerprint_has_words_and_text() {
        let empty = Fingerprint::digest(b"");
        assert_eq!(empty.words(), "together mail awful cradle scrub apart");
        assert_eq!(empty.to_string().parse(), Ok(empty));
        let other = Fingerprint::digest(b"x");
        assert_ne!(other.words(), empty.words());
        for wrong in ["", "AAAA", "not base64!"] {
            assert_eq!(wrong.parse::<Fingerprint>(), Err(FingerprintError));
        }
    }
}
