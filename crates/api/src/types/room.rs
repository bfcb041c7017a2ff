//! Who is in a room.

use roost_wire::{Cell, NodeId, Service};
use serde::{Deserialize, Serialize};

use crate::text;

/// One line of `GET /v1/room`: who is in at this time. Each replaces the one before.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Roster {
    /// The version of this object, [`crate::SCHEMA`].
    pub schema: u32,
    /// Everybody who is in except this node, in the order of their ids.
    pub members: Vec<Member>,
}

/// One who is in a room.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    /// Who.
    #[serde(with = "text")]
    pub node: NodeId,
    /// Where.
    #[serde(with = "text")]
    pub cell: Cell,
    /// What it offers.
    #[serde(with = "text::list")]
    pub services: Vec<Service>,
    /// The name in its certificate, once it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}
