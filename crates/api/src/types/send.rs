use roost_wire::NodeId;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::Error;

/// The events of a file that is sent, one a line: any number of `read`, then `finished` or
/// `failed`; of a file for the outbox any number of `read`, then `queued` or `failed`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "event", rename_all = "kebab-case")]
#[non_exhaustive]
pub enum SendEvent {
    /// Asks for a piece of the file, which the daemon does not read itself: `POST /v1/chunk` brings it. The first
    /// offset is the number of bytes that the receiver has.
    Read {
        session: u64,
        offset: u64,
        /// At most 262 144.
        bytes: u64,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        node: Option<NodeId>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        node_name: Option<String>,
    },
    /// The receiver has verified the file and given it its name. The last event.
    Finished {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        node: Option<NodeId>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        node_name: Option<String>,
    },
    /// The daemon has the file in its outbox, on disk. The last event, unless the end is waited for.
    Queued { id: String, until_unix_s: u64 },
    /// The last event.
    Failed { error: Error },
}
