//! What is said of who is in a room.

use minicbor::{Decode, Encode};

use super::request::Reason;
use super::tree::Way;
use crate::ids::NodeId;
use crate::room::{Member, Room};

/// See [`Message::Join`](super::Message::Join).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(array)]
pub struct Join {
    /// The room.
    #[n(0)]
    pub room: Room,
    /// Who is in.
    #[n(1)]
    pub member: Member,
    /// From hub to hub: where it may go on to; `None` is up.
    #[n(2)]
    pub way: Option<Way>,
}

/// See [`Message::Quit`](super::Message::Quit).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(array)]
pub struct Quit {
    /// The room.
    #[n(0)]
    pub room: Room,
    /// Who has left.
    #[n(1)]
    pub node: NodeId,
    /// As in [`Join`].
    #[n(2)]
    pub way: Option<Way>,
}

/// See [`Message::Roster`](super::Message::Roster).
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(array)]
pub struct Roster {
    /// The room.
    #[n(0)]
    pub room: Room,
    /// The hub that says it. Each list replaces the one before of the same hub.
    #[n(1)]
    pub owner: NodeId,
    /// Everybody who is in; at most [`MAX_MEMBERS`](crate::room::MAX_MEMBERS).
    #[n(2)]
    pub members: Vec<Member>,
    /// For whom it is; `None`: for everybody in the room.
    #[n(3)]
    pub to: Option<NodeId>,
    /// To one who is not let in: why. Then there are no members.
    #[n(4)]
    pub refused: Option<Reason>,
}
