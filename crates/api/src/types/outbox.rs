use roost_wire::NodeId;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// `GET /v1/outbox`: the files that wait for their receivers, then the last that have ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Outbox {
    pub schema: u32,
    pub files: Vec<OutboxRow>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OutboxRow {
    /// 16 hexadecimal digits.
    pub id: String,
    pub to: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<NodeId>,
    pub name: String,
    pub bytes: u64,
    pub priority: Priority,
    pub state: OutboxState,
    pub since_unix_s: u64,
    pub until_unix_s: u64,
    pub tries: u32,
    /// A sentence: the last reason for which it was not delivered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub obstacle: Option<String>,
    /// The name of the hub that keeps it, too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left_at: Option<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Priority {
    Low,
    #[default]
    Normal,
    High,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum OutboxState {
    Waiting,
    Sending,
    /// The end has come, and the receiver is asked whether it has the file.
    Settling,
    Delivered,
    Expired,
    /// The end has come, and the receiver did not say whether it has the file.
    ExpiredUnconfirmed,
    Refused,
    Cancelled,
    #[serde(other)]
    Unknown,
}

impl OutboxState {
    pub const fn has_ended(self) -> bool {
        !matches!(self, Self::Waiting | Self::Sending | Self::Settling)
    }

    pub const fn name(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Sending => "sending",
            Self::Settling => "settling",
            Self::Delivered => "delivered",
            Self::Expired => "expired",
            Self::ExpiredUnconfirmed => "expired-unconfirmed",
            Self::Refused => "refused",
            Self::Cancelled => "cancelled",
            Self::Unknown => "unknown",
        }
    }
}

/// The files of the outbox that have not ended, and those that have since the daemon started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OutboxTotals {
    pub files: u64,
    pub bytes: u64,
    /// The age of the oldest file, seconds.
    pub oldest_s: u64,
    pub delivered: u64,
    pub expired: u64,
}
