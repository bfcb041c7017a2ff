//! Masks of record numbers (RFC 9147, section 4.2.3), without a context of the crypto library for each.
//!
//! dimpl passes the key of record numbers with each record, and its suites allocate, set up, wipe and free an AES
//! context for one block. Here the key is expanded on the stack, which takes less time than one allocation.

use std::sync::LazyLock;

use aes::cipher::{BlockCipherEncrypt, KeyInit};
use aes::{Aes128, Aes256};
use dimpl::CryptoError;
use dimpl::crypto::aws_lc_rs::default_provider;
use dimpl::crypto::{Cipher, Dtls13CipherSuite, HashAlgorithm, SupportedDtls13CipherSuite};

type DynSuite = &'static dyn SupportedDtls13CipherSuite;

/// dimpl's suites in their order. Those with AES use the mask below.
pub(super) fn suites() -> &'static [DynSuite] {
    static SUITES: LazyLock<Vec<DynSuite>> =
        LazyLock::new(|| default_provider().dtls13_cipher_suites.iter().map(|suite| with_mask(*suite)).collect());
    &SUITES
}

fn with_mask(inner: DynSuite) -> DynSuite {
    // Leaked once in each process, since dimpl needs suites with a static lifetime.
    match inner.suite() {
        Dtls13CipherSuite::AES_128_GCM_SHA256 => Box::leak(Box::new(Suite { inner, mask: mask::<Aes128> })),
        Dtls13CipherSuite::AES_256_GCM_SHA384 => Box::leak(Box::new(Suite { inner, mask: mask::<Aes256> })),
        _ => inner,
    }
}

/// `None` if the key's length is not that of the cipher.
fn mask<C: KeyInit + BlockCipherEncrypt>(key: &[u8], sample: &[u8; 16]) -> Option<[u8; 16]> {
    let mut block = aes::cipher::Block::<C>::try_from(&sample[..]).ok()?;
    C::new_from_slice(key).ok()?.encrypt_block(&mut block);
    <[u8; 16]>::try_from(&block[..]).ok()
}

/// A suite of dimpl's, with record numbers masked here.
#[derive(Debug)]
struct Suite {
    inner: DynSuite,
    mask: fn(&[u8], &[u8; 16]) -> Option<[u8; 16]>,
}

impl SupportedDtls13CipherSuite for Suite {
    fn suite(&self) -> Dtls13CipherSuite {
        self.inner.suite()
    }

    fn hash_algorithm(&self) -> HashAlgorithm {
        self.inner.hash_algorithm()
    }

    fn key_len(&self) -> usize {
        self.inner.key_len()
    }

    fn iv_len(&self) -> usize {
        self.inner.iv_len()
    }

    fn tag_len(&self) -> usize {
        self.inner.tag_len()
    }

    fn min_protected_fragment_len(&self) -> usize {
        self.inner.min_protected_fragment_len()
    }

    fn create_cipher(&self, key: &[u8]) -> Result<Box<dyn Cipher>, CryptoError> {
        self.inner.create_cipher(key)
    }

    fn encrypt_sn(&self, key: &[u8], sample: &[u8; 16]) -> [u8; 16] {
        (self.mask)(key, sample).unwrap_or_else(|| self.inner.encrypt_sn(key, sample))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_equal_those_of_dimpl() {
        for (ours, theirs) in suites().iter().zip(default_provider().dtls13_cipher_suites) {
            assert_eq!(
                (ours.suite(), ours.key_len(), ours.tag_len()),
                (theirs.suite(), theirs.key_len(), theirs.tag_len())
            );
            for seed in 0..64 {
                let key: Vec<u8> = (0..ours.key_len()).map(|index| (index * 7 + seed * 13) as u8).collect();
                let sample = [(seed * 31) as u8; 16];
                assert_eq!(ours.encrypt_sn(&key, &sample), theirs.encrypt_sn(&key, &sample), "{:?}", ours.suite());
            }
        }
    }
}
