//! Rooms, in which everyone sends and everyone receives.

use std::fmt;

use minicbor::{Decode, Encode};
use sha2::{Digest, Sha256};

use crate::grid::Cell;
use crate::ids::NodeId;
use crate::service::ServiceSet;

/// The most members of a room: each has every other's stream.
pub const MAX_MEMBERS: usize = 64;

/// A room: a number that its name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode)]
#[cbor(transparent)]
pub struct RoomId(#[n(0)] pub u64);

impl RoomId {
    /// The room of this name: the first 64 bits of the SHA-256 of `room ` and the name.
    pub fn named(name: &str) -> Self {
        let mut hash = Sha256::new();
        hash.update("room ");
        hash.update(name);
        let digest: [u8; 32] = hash.finalize().into();
        Self(digest[..8].iter().fold(0, |value, byte| value << 8 | u64::from(*byte)))
    }
}

impl fmt::Display for RoomId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(array)]
pub struct RoomMember {
    #[n(0)]
    pub node: NodeId,
    #[n(1)]
    pub cell: Cell,
    #[n(2)]
    pub services: ServiceSet,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_has_its_room() {
        assert_eq!(RoomId::named("ops"), RoomId::named("ops"));
        assert_ne!(RoomId::named("ops"), RoomId::named("Ops"));
        assert_eq!(RoomId::named("ops").to_string().len(), 16);
    }
}
