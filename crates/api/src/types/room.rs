use roost_wire::{Cell, NodeId, Service};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::text;

/// A line of `GET /v1/room`: the members at this time. Each line replaces the one before.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Roster {
    pub schema: u32,
    /// All members except this node, in the order of their ids.
    pub members: Vec<Member>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Member {
    pub node: NodeId,
    pub cell: Cell,
    #[serde(with = "text::list")]
    #[schemars(with = "Vec<Service>")]
    pub services: Vec<Service>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// `GET /v1/rooms`: the rooms that a node is in, or of which a hub has heard.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Rooms {
    pub schema: u32,
    /// In the order of their ids, at most 256.
    pub rooms: Vec<RoomRow>,
    pub more: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RoomRow {
    /// 16 hexadecimal digits, which follow from the name.
    pub room: String,
    /// The name, at a node that has entered by it; hubs do not know names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The members that are known, without the node that answers.
    pub members: Vec<Member>,
}
