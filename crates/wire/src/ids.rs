//! Names for nodes, requests, connections and dials.

use std::fmt;
use std::str::FromStr;

use minicbor::{Decode, Encode};

/// A node's name: the first 128 bits of the SHA-256 digest of its public key
/// (the DER SubjectPublicKeyInfo), so it can be neither chosen nor claimed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode)]
#[cbor(transparent)]
pub struct NodeId(#[cbor(n(0), with = "minicbor::bytes")] [u8; 16]);

impl NodeId {
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    pub fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_bytes().iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for NodeId {
    /// The first eight digits: enough to follow a node through a log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_bytes()[..4].iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// A node id is 32 hexadecimal digits.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a node id: expected 32 hexadecimal digits")]
pub struct ParseNodeIdError(String);

impl FromStr for NodeId {
    type Err = ParseNodeIdError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = || ParseNodeIdError(text.to_owned());
        if text.len() != 32 || !text.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return Err(wrong());
        }
        u128::from_str_radix(text, 16).map(|value| Self::from_bytes(value.to_be_bytes())).map_err(|_| wrong())
    }
}

/// Names a request, and the flow of data that answers it, between two
/// remotes. Unique per requester, who counts below
/// [`FIRST_OF_HUB`](Self::FIRST_OF_HUB); a hub that relays chooses its own
/// from there on, so the two never meet on one connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode)]
#[cbor(transparent)]
pub struct RequestId(#[n(0)] pub u32);

impl RequestId {
    /// The first id that a hub gives to a relayed flow; requesters stay below.
    pub const FIRST_OF_HUB: u32 = 1 << 31;

    pub const fn is_of_hub(self) -> bool {
        self.0 >= Self::FIRST_OF_HUB
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A random number that travels with a request over authenticated
/// connections only: who presents it is the one whom the hubs meant.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Encode, Decode)]
#[cbor(transparent)]
pub struct Nonce(#[cbor(n(0), with = "minicbor::bytes")] [u8; 8]);

impl Nonce {
    pub const fn from_u64(value: u64) -> Self {
        Self(value.to_be_bytes())
    }
}

impl fmt::Debug for Nonce {
    /// A nonce is a secret of the request and stays out of logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Nonce(..)")
    }
}

/// An object in an outbox. Drawn at random, so that it is unique among a sender's.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode)]
#[cbor(transparent)]
pub struct DeliveryId(#[cbor(n(0), with = "minicbor::bytes")] [u8; 8]);

impl DeliveryId {
    pub const fn from_bytes(bytes: [u8; 8]) -> Self {
        Self(bytes)
    }

    pub const fn as_bytes(&self) -> &[u8; 8] {
        &self.0
    }
}

/// 16 hexadecimal digits.
impl fmt::Display for DeliveryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for DeliveryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not an id of the outbox: expected 16 hexadecimal digits, as `roost outbox` prints them")]
pub struct ParseDeliveryIdError(String);

impl FromStr for DeliveryId {
    type Err = ParseDeliveryIdError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = || ParseDeliveryIdError(text.to_owned());
        if text.len() != 16 || !text.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return Err(wrong());
        }
        u64::from_str_radix(text, 16).map(|value| Self(value.to_be_bytes())).map_err(|_| wrong())
    }
}

/// An authenticated connection with a remote. The driver numbers connections and never uses a number twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(pub u64);

/// An attempt to reach a remote. The machine that dials numbers them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DialId(pub u64);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn node_id_round_trips_as_text() {
        let id = NodeId::from_bytes([0xab; 16]);
        assert_eq!(id.to_string().parse(), Ok(id));
    }

    #[test]
    fn malformed_node_id_is_rejected() {
        for text in ["", "ab", "+b000000000000000000000000000000", &"g".repeat(32)] {
            assert!(text.parse::<NodeId>().is_err(), "{text}");
        }
    }
}
