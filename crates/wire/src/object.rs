//! Objects: the digest that proves one whole, and the size up to which one lies in memory.

use bytes::Bytes;
use sha2::{Digest, Sha256};

/// The largest object that is held in memory while it is sent, bytes. A larger
/// one is read from where it lies, piece by piece.
pub const MAX_HELD_BYTES: usize = 64 * 1024 * 1024;

pub fn digest(bytes: &Bytes) -> [u8; 32] {
    Sha256::digest(bytes).into()
}

/// A digest as people and programs write it: 64 hexadecimal digits.
pub fn digest_text(digest: &[u8; 32]) -> String {
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The digest that a text names, if it names one.
pub fn parse_digest(text: &str) -> Option<[u8; 32]> {
    let digits: Option<Vec<u8>> = text.chars().map(|digit| Some(digit.to_digit(16)? as u8)).collect();
    let bytes: Vec<u8> = digits?.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect();
    bytes.try_into().ok().filter(|_| text.len() == 64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digest_round_trips_as_text() {
        let of = digest(&Bytes::from_static(b"abc"));
        assert!(digest_text(&of).starts_with("ba7816bf"));
        assert_eq!(parse_digest(&digest_text(&of)), Some(of));
        for wrong in ["", "ba", &"g".repeat(64), &"a".repeat(65), &"é".repeat(32)] {
            assert_eq!(parse_digest(wrong), None, "{wrong}");
        }
    }
}
