//! Documents of the group, and who holds them.

use roost_wire::NodeId;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The answer to `GET /v1/documents`: everything that the daemon holds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Documents {
    pub schema: u32,
    pub documents: Vec<DocumentRow>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DocumentRow {
    /// `revocations` is the list of revoked certificates; later versions have more kinds.
    pub kind: String,
    pub number: u64,
    pub bytes: u64,
    /// Certificates in the list of revocations; absent from an older daemon.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revoked: Option<u64>,
    /// The revoked nodes that the daemon has met since its start; a list of revocations has no names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes_revoked: Vec<DocumentHolder>,
    /// Nodes that have their home here; hubs only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nodes: Option<u64>,
    /// Nodes of these that hold an older document, or are silent; hubs only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub behind: Option<u64>,
    /// Some of the nodes that are behind, at most 1,000; hubs only.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes_behind: Vec<DocumentHolder>,
    /// Connected hubs that hold an older document.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hubs_behind: Vec<DocumentHolder>,
    /// As other hubs have told; hubs only.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hubs: Vec<HubHoldings>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DocumentHolder {
    pub node: NodeId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// The holdings of another hub and its nodes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HubHoldings {
    pub hub: NodeId,
    pub name: String,
    pub number: u64,
    pub nodes: u64,
    pub behind: u64,
    /// Time of this by the hub's clock.
    pub told_unix_s: u64,
}

/// The answer to `PUT /v1/documents`: the document is verified, in force, and spreads.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DocumentTaken {
    pub schema: u32,
    pub kind: String,
    pub number: u64,
    /// False if the daemon held the document already.
    pub is_new: bool,
}
