//! What is said of who is in a room.

use minicbor::{Decode, Encode};

use super::hierarchy::RouteDirection;
use super::request::Reason;
use crate::ids::NodeId;
use crate::room::{RoomId, RoomMember};

/// See [`Message::Join`](super::Message::JoinRoom).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(array)]
pub struct JoinRoom {
    /// The room.
    #[n(0)]
    pub room: RoomId,
    /// Who is in.
    #[n(1)]
    pub member: RoomMember,
    /// From hub to hub: where it may go on to; `None` is up.
    #[n(2)]
    pub direction: Option<RouteDirection>,
}

/// See [`Message::LeaveRoom`](super::Message::LeaveRoom).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(array)]
pub struct LeaveRoom {
    /// The room.
    #[n(0)]
    pub room: RoomId,
    /// Who has left.
    #[n(1)]
    pub node: NodeId,
    /// As in [`JoinRoom`].
    #[n(2)]
    pub direction: Option<RouteDirection>,
}

/// See [`Message::Roster`](super::Message::Roster).
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(array)]
pub struct Roster {
    /// The room.
    #[n(0)]
    pub room: RoomId,
    /// The hub that says it. Each list replaces the one before of the same hub.
    #[n(1)]
    pub owner: NodeId,
    /// Everybody who is in; at most [`MAX_MEMBERS`](crate::room::MAX_MEMBERS).
    #[n(2)]
    pub members: Vec<RoomMember>,
    /// For whom it is; `None`: for everybody in the room.
    #[n(3)]
    pub to: Option<NodeId>,
    /// To one who is not let in: why. Then there are no members.
    #[n(4)]
    pub refused: Option<Reason>,
}
