//! Words of reflected streams, which control messages and the data plane share.

mod grant;

use std::fmt;

use minicbor::{Decode, Encode};

use crate::ids::NodeId;
pub use grant::{DownstreamKind, ReflectionGrant, StartCondition};

/// The length of what an epoch's key is made from.
pub const SECRET_BYTES: usize = 32;

/// The bytes of a packet of a reflected stream beyond its payload: a header, and the seal's tag.
pub const OVERHEAD_BYTES: usize = 40;

/// A stream: the upper half is the beginning of its publisher's id, the lower one drawn at random.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode)]
#[cbor(transparent)]
pub struct StreamId(#[n(0)] pub u64);

impl StreamId {
    pub fn from_publisher(node: NodeId, number: u32) -> Self {
        Self(Self::upper_half(node) | u64::from(number))
    }

    /// True if it may be one that `node` publishes. A node's id is in its certificate: who watches a stream
    /// cannot offer it as its own.
    pub fn is_of(self, node: NodeId) -> bool {
        self.0 >> 32 << 32 == Self::upper_half(node)
    }

    fn upper_half(node: NodeId) -> u64 {
        let [a, b, c, d, ..] = *node.as_bytes();
        u64::from(u32::from_be_bytes([a, b, c, d])) << 32
    }
}

impl fmt::Display for StreamId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// The time of use of one key. A later epoch of a stream has a greater number, also after a restart of its
/// publisher.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode)]
#[cbor(transparent)]
pub struct Epoch(#[n(0)] pub u32);

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// By which one that a stream is sent to recognises what it asked for: it has
/// drawn the number at random and told it to its hub only, so that nobody else
/// can offer it a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode)]
#[cbor(transparent)]
pub struct StreamTag(#[n(0)] pub u64);

impl fmt::Display for StreamTag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// The secret from which an epoch's key is derived, drawn at random: it opens the packets of that epoch. Only
/// admitted subscribers get it.
#[derive(Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(transparent)]
pub struct EpochSecret(#[cbor(n(0), with = "minicbor::bytes")] [u8; SECRET_BYTES]);

impl EpochSecret {
    pub const fn from_bytes(bytes: [u8; SECRET_BYTES]) -> Self {
        Self(bytes)
    }

    pub const fn as_bytes(&self) -> &[u8; SECRET_BYTES] {
        &self.0
    }
}

impl fmt::Debug for EpochSecret {
    /// The secret stays out of logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn words_survive(stream in any::<u64>(), epoch in any::<u32>(), tag in any::<u64>()) {
            let words = (StreamId(stream), Epoch(epoch), StreamTag(tag));
            let bytes = minicbor::to_vec(words).unwrap();
            prop_assert_eq!(minicbor::decode::<(StreamId, Epoch, StreamTag)>(&bytes).unwrap(), words);
            // As bare numbers.
            prop_assert_eq!(bytes, minicbor::to_vec((stream, epoch, tag)).unwrap());
        }
    }

    #[test]
    fn words_print_in_full() {
        assert_eq!(StreamId(10).to_string(), "000000000000000a");
        assert_eq!(StreamTag(11).to_string(), "000000000000000b");
        assert_eq!(Epoch(12).to_string(), "12");
    }

    #[test]
    fn a_secret_stays_out_of_logs() {
        assert_eq!(format!("{:?}", EpochSecret::from_bytes([7; SECRET_BYTES])), "Secret(..)");
    }
}
