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
