//! The beginning of a stream for a request that joins one which others here have already.

use bytes::Bytes;

use crate::packet::Flags;

/// The most that is kept, bytes: the queue of a slow reader has room for it. Of a stream with more since its
/// last key frame a request gets the packets that come next.
const MAX_BYTES: usize = 768 << 10;
/// Bytes that a packet takes of that beside its payload.
const EACH: usize = 64;
/// The most packets of parameters before a key frame.
const MAX_PARAMETERS: usize = 16;

/// A stream from its last key frame on, with the parameters before that.
#[derive(Default)]
pub(crate) struct GopCache {
    payloads: Vec<Bytes>,
    bytes: usize,
    /// True once the key frame is there.
    is_open: bool,
    /// The latest parameters, which may be those of the next key frame.
    parameters: Vec<Bytes>,
    was_parameters: bool,
}

impl GopCache {
    /// Takes note of a packet, in order.
    pub(super) fn record_packet(&mut self, flags: Flags, payload: &Bytes) {
        let (is_key, is_parameters) = (flags.has(Flags::KEY_FRAME), flags.has(Flags::PARAMETERS));
        if is_key {
            // A key frame may have its own; earlier ones come with parts of frames that nobody can decode.
            let before = std::mem::take(&mut self.parameters);
            self.payloads = if is_parameters { Vec::new() } else { before };
            self.bytes = self.payloads.iter().map(|payload| payload.len() + EACH).sum();
            self.is_open = true;
        } else if is_parameters {
            if !self.was_parameters {
                self.parameters.clear();
            }
            if self.parameters.len() < MAX_PARAMETERS {
                self.parameters.push(payload.clone());
            }
        }
        self.was_parameters = is_parameters && !is_key;
        self.bytes += payload.len() + EACH;
        if self.bytes > MAX_BYTES {
            (self.payloads, self.is_open) = (Vec::new(), false);
        }
        if self.is_open {
            self.payloads.push(payload.clone());
        }
    }

    /// The packets from a key frame on, or none.
    pub(super) fn payloads(&self) -> &[Bytes] {
        &self.payloads
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The packets kept after those of these flags, numbered from 0.
    fn after(flags: &[Flags]) -> Vec<u8> {
        let mut beginning = GopCache::default();
        for (number, flags) in flags.iter().enumerate() {
            beginning.record_packet(*flags, &Bytes::from(vec![number as u8]));
        }
        beginning.payloads().iter().map(|payload| payload[0]).collect()
    }

    #[test]
    fn starts_at_last_key_frame() {
        let (none, key, parameters) =
            (Flags::default(), Flags::default().with(Flags::KEY_FRAME), Flags::default().with(Flags::PARAMETERS));
        assert!(after(&[none, parameters, none]).is_empty());
        assert_eq!(after(&[parameters, none, parameters, parameters, key, none]), [2, 3, 4, 5]);
        assert_eq!(after(&[key, none, key.with(Flags::PARAMETERS), none]), [2, 3]);
        assert_eq!(after(&[parameters, none, key.with(Flags::PARAMETERS), none]), [2, 3], "it has its own");
        assert_eq!(after(&[parameters, key, none, parameters, none]), [0, 1, 2, 3, 4]);
        assert_eq!(after(&[parameters, key, none, parameters, none, key]), [3, 5]);
    }

    #[test]
    fn oversized_gop_is_dropped() {
        let mut beginning = GopCache::default();
        let key = Flags::default().with(Flags::KEY_FRAME);
        for (count, payload) in [(2000, &[0; 1000][..]), (20_000, &[])] {
            beginning.record_packet(key, &Bytes::new());
            for _ in 0..count {
                beginning.record_packet(Flags::default(), &Bytes::from_static(payload));
            }
            assert!(beginning.payloads().is_empty());
        }
        beginning.record_packet(key, &Bytes::new());
        assert_eq!(beginning.payloads().len(), 1);
    }
}
