//! Messages about the members of rooms.

use minicbor::{Decode, Encode};

use super::reason::Reason;
use super::route::RouteDirection;
use crate::ids::NodeId;
use crate::refusal::{Refusal, check_bound};
use crate::room::{MAX_MEMBERS, RoomId, RoomMember};

/// Membership of rooms, and their rosters.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(flat)]
pub enum RoomMessage {
    /// A node is in a room, for the next minute: to its home, and from hub to
    /// hub to the owners of the room. Answered by `Roster`.
    #[n(53)]
    JoinRoom(#[n(0)] JoinRoom),
    /// A node has left a room; goes the same way.
    #[n(54)]
    LeaveRoom(#[n(0)] LeaveRoom),
    /// The members of a room, from its owner.
    #[n(55)]
    Roster(#[n(0)] Roster),
}

impl RoomMessage {
    pub(super) fn check_limits(&self) -> Result<(), Refusal> {
        match self {
            Self::Roster(roster) => check_bound(roster.members.len() <= MAX_MEMBERS, "too many members"),
            Self::JoinRoom(join) => check_bound(join.member.services.is_brief(), "too many offers"),
            Self::LeaveRoom(_) => Ok(()),
        }
    }
}

/// The content of [`RoomMessage::JoinRoom`].
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(array)]
pub struct JoinRoom {
    /// The room that the node is in.
    #[n(0)]
    pub room: RoomId,
    /// The node that is in, and its offers.
    #[n(1)]
    pub member: RoomMember,
    /// From hub to hub: where it may go on to; `None` is up.
    #[n(2)]
    pub direction: Option<RouteDirection>,
}

/// The content of [`RoomMessage::LeaveRoom`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(array)]
pub struct LeaveRoom {
    /// The room that the node was in.
    #[n(0)]
    pub room: RoomId,
    /// The id of the node that has left.
    #[n(1)]
    pub node: NodeId,
    /// From hub to hub: the direction in which it may go on; `None` is up.
    #[n(2)]
    pub direction: Option<RouteDirection>,
}

/// The content of [`RoomMessage::Roster`].
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(array)]
pub struct Roster {
    /// The room that the members are in.
    #[n(0)]
    pub room: RoomId,
    /// The hub that says it. Each list replaces the one before of the same hub.
    #[n(1)]
    pub owner: NodeId,
    /// Everybody who is in; at most [`MAX_MEMBERS`].
    #[n(2)]
    pub members: Vec<RoomMember>,
    /// For whom it is; `None`: for everybody in the room.
    #[n(3)]
    pub to: Option<NodeId>,
    /// To one who is not let in: why. Then there are no members.
    #[n(4)]
    pub refused: Option<Reason>,
}
