//! Chance from a seed: the same seed gives the same run.

use std::time::Duration;

use sha2::{Digest, Sha256};

/// SplitMix64 (Steele, Lea and Flood 2014): eight bytes of state, good enough
/// for jitter and for choosing among equals, not for secrets.
#[derive(Clone, Debug)]
pub struct SplitMix64 {
    state: u64,
}

impl SplitMix64 {
    pub const fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    pub const fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.state ^ (self.state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number from 0 to `limit` − 1; 0 if `limit` is 0.
    pub const fn below(&mut self, limit: u64) -> u64 {
        // The high half of a product is uniform enough: the bias is limit / 2⁶⁴.
        ((self.next_u64() as u128 * limit as u128) >> 64) as u64
    }

    /// A duration between three quarters and five quarters of `base`, so that
    /// many who wait for the same thing do not come back together.
    pub fn jitter(&mut self, base: Duration) -> Duration {
        let nanos = u64::try_from(base.as_nanos()).unwrap_or(u64::MAX);
        Duration::from_nanos((nanos - nanos / 4).saturating_add(self.below(nanos / 2 + 1)))
    }
}

/// 256 bits that nobody else knows. Nonces and tags come from them, and nothing
/// that is shown to others.
#[derive(Clone, Copy)]
pub struct RootSecret([u8; 32]);

impl RootSecret {
    /// The secret of these bytes. A daemon takes them from the system's random source.
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The secret of a run that a seed repeats: for simulation and tests alone,
    /// as 64 bits can be tried through.
    pub fn of_seed(seed: u64) -> Self {
        let mut hash = Sha256::new();
        hash.update("secret of a seeded run");
        hash.update(seed.to_be_bytes());
        Self(hash.finalize().into())
    }
}

impl std::fmt::Debug for RootSecret {
    /// The bytes stay out of logs.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("RootSecret")
    }
}

/// Numbers of which those who have seen some cannot tell the next, as long as
/// nobody knows the secret that they come from.
#[derive(Clone)]
pub struct SecretRng {
    secret: RootSecret,
    purpose: &'static str,
    drawn: u64,
}

impl SecretRng {
    /// The numbers for `purpose`: those for another one have nothing to do with them.
    pub const fn new(secret: RootSecret, purpose: &'static str) -> Self {
        Self { secret, purpose, drawn: 0 }
    }

    pub fn next_u64(&mut self) -> u64 {
        self.drawn += 1;
        let mut hash = Sha256::new();
        hash.update(self.secret.0);
        hash.update(self.drawn.to_be_bytes());
        hash.update(self.purpose);
        let digest: [u8; 32] = hash.finalize().into();
        digest[..8].iter().fold(0, |value, byte| value << 8 | u64::from(*byte))
    }
}

impl std::fmt::Debug for SecretRng {
    /// The secret stays out of logs.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Unguessable")
            .field("purpose", &self.purpose)
            .field("drawn", &self.drawn)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_published_sequence() {
        // The first outputs of the reference implementation for seed 1234567.
        let mut random = SplitMix64::new(1_234_567);
        assert_eq!(random.next_u64(), 6_457_827_717_110_365_317);
        assert_eq!(random.next_u64(), 3_203_168_211_198_807_973);
    }

    #[test]
    fn draws_stay_below_their_limit() {
        let mut random = SplitMix64::new(1);
        assert!((0..1_000).all(|_| random.below(7) < 7));
        assert_eq!(random.below(0), 0);
    }

    #[test]
    fn jitter_stays_within_a_quarter() {
        let mut random = SplitMix64::new(2);
        let base = Duration::from_millis(1_000);
        for _ in 0..1_000 {
            let drawn = random.jitter(base);
            assert!(drawn >= base * 3 / 4 && drawn <= base * 5 / 4, "{drawn:?}");
        }
    }
}
