use roost_wire::NodeId;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// `GET /v1/audit`: the newest audit records, the newest first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AuditRows {
    pub schema: u32,
    /// False if the daemon keeps no audit records: its setting `audit` names no file.
    pub is_kept: bool,
    pub records: Vec<AuditRow>,
}

/// A record as it stands in the file, without the digest of the line before.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AuditRow {
    /// RFC 3339, UTC, to the millisecond.
    pub time: String,
    pub sequence: u64,
    pub kind: String,
    /// The member that the record is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<NodeId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub details: Map<String, Value>,
}
