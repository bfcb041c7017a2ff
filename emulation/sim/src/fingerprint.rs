//! A fingerprint of a run.

use roost_wire::Time;

/// The fingerprint of every packet that came out of a link, and of every message for a machine, with their
/// times. Two runs that differ in any of them differ in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RunFingerprint(u64);

impl Default for RunFingerprint {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl RunFingerprint {
    /// The fingerprint of a run in parts; of a single part its own.
    pub(super) fn joined(parts: impl IntoIterator<Item = Self>) -> Self {
        let join = |mut joined: Self, Self(part)| {
            joined.mix(part);
            joined
        };
        parts.into_iter().reduce(join).unwrap_or_default()
    }

    pub(super) const fn record_event(&mut self, at: Time, place: u64, size: u64) {
        self.mix(at.as_nanos());
        self.mix(place << 32 ^ size);
    }

    pub(super) fn message(&mut self, at: Time, machine: usize, message: &[u8]) {
        self.record_event(at, machine as u64, message.len() as u64);
        let mut words = message.chunks_exact(8);
        for word in &mut words {
            // Each chunk is eight bytes long.
            self.mix(word.try_into().map_or(0, u64::from_le_bytes));
        }
        let rest = words.remainder().iter().fold(1, |rest, byte| rest << 8 | u64::from(*byte));
        self.mix(rest);
    }

    const fn mix(&mut self, word: u64) {
        let mixed = (self.0 ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = mixed ^ (mixed >> 32);
    }

    pub(super) const fn value(self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_difference_changes_fingerprint() {
        let of = |at, machine, message: &[u8]| {
            let mut trace = RunFingerprint::default();
            trace.message(Time::from_nanos(at), machine, message);
            trace
        };
        let one = of(1, 2, b"twelve bytes");
        assert_eq!(one, of(1, 2, b"twelve bytes"));
        for other in [of(2, 2, b"twelve bytes"), of(1, 3, b"twelve bytes"), of(1, 2, b"twelve bytez"), of(1, 2, b"")] {
            assert_ne!(one, other);
        }
    }
}
