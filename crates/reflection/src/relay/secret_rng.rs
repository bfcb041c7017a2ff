//! Numbers that nobody can guess, from a seed.

use std::time::Duration;

use aws_lc_rs::digest::{SHA256, digest};

use crate::control::PathToken;
use crate::packet::array;

/// The seed and how many have been drawn, hashed: words must not tell of each other.
pub(super) struct SecretRng {
    seed: [u8; 32],
    drawn: u64,
}

impl SecretRng {
    pub(super) const fn new(seed: [u8; 32]) -> Self {
        Self { seed, drawn: 0 }
    }

    pub(super) fn draw_token(&mut self) -> PathToken {
        self.drawn += 1;
        let whole = [&self.seed[..], &self.drawn.to_be_bytes()].concat();
        PathToken(u64::from_be_bytes(array(digest(&SHA256, &whole).as_ref())))
    }

    pub(super) fn below(&mut self, limit: Duration) -> Duration {
        let part = self.draw_token().0 >> 32;
        limit * u32::try_from(part).unwrap_or(0) / u32::MAX
    }
}
