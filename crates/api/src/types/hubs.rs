//! How super nodes stand to one another.

use roost_wire::NodeId;
use serde::{Deserialize, Serialize};

use crate::text;

/// Another super node, as one super node sees it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HubConnection {
    /// How it stands to this one.
    pub relation: Relation,
    /// The tier of a child, by its own word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tier: Option<u8>,
    /// Its id, while it is up.
    #[serde(default, with = "text::option", skip_serializing_if = "Option::is_none")]
    pub node: Option<NodeId>,
    /// The name in its certificate, while it is up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Where it is: as the configuration says, else as it is seen.
    pub endpoints: Vec<String>,
    /// Round trip, milliseconds, while it is up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rtt_ms: Option<f64>,
    /// How long it has been up, seconds; absent while it is down.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub up_s: Option<f64>,
    /// How long it has been down, seconds, if it was tried in vain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub down_s: Option<f64>,
    /// Why it is down.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The version of the protocol that it speaks, while it is up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol: Option<String>,
    /// Seconds by which its wall clock is ahead of this host's, below zero behind; absent if it does
    /// not tell its clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock_ahead_s: Option<i64>,
}

/// How another super node stands to this one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Relation {
    /// Above.
    Parent,
    /// Below.
    Child,
    /// Beside: another top, or another home of the same area.
    Sibling,
    /// None of these: one stands by for nodes of the other.
    StandbyOnly,
    /// A relation of a later version.
    #[serde(other)]
    Unknown,
}

impl Relation {
    /// The word for it, as in JSON.
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
