use roost_wire::NodeId;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Another super node, as one super node sees it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HubConnection {
    pub relation: Relation,
    /// The tier of a child, as the child tells it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tier: Option<u8>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<NodeId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The endpoints of the configuration, or else the address at which the hub is seen.
    pub endpoints: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rtt_ms: Option<f64>,
    /// Seconds since the connection came up; absent while it is down.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub up_s: Option<f64>,
    /// Seconds for which the hub has been down; absent while it is up, and before a dial has failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub down_s: Option<f64>,
    /// The reason that the hub is down.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol: Option<String>,
    /// Seconds by which the hub's wall clock is ahead of this host's, below zero behind; absent if the hub does not
    /// tell its clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock_ahead_s: Option<i64>,
}

/// The place of another super node relative to this one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Relation {
    Parent,
    Child,
    /// Another root, or another home of the same area.
    Sibling,
    /// None of these: one is the standby of nodes of the other.
    StandbyOnly,
    #[serde(other)]
    Unknown,
}

impl Relation {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Parent => "parent",
            Self::Child => "child",
            Self::Sibling => "sibling",
            Self::StandbyOnly => "standby-only",
            Self::Unknown => "unknown",
        }
    }
}
