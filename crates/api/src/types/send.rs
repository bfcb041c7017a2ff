//! What happens to a file that is sent to a node.

use roost_wire::NodeId;
use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::text;

/// What happens to a file that is sent, line by line: any number of `read`,
/// then `finished` or `failed`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
#[non_exhaustive]
pub enum SendEvent {
    /// A piece of the file is wanted: the daemon does not read it itself. To be
    /// given by `POST /v1/chunk`. The first one's offset is what the receiver has.
    Read {
        /// Which transfer.
        session: u64,
        /// From where on.
        offset: u64,
        /// How many bytes, at most 262 144.
        bytes: u64,
        /// The receiver.
        #[serde(default, with = "text::option", skip_serializing_if = "Option::is_none")]
        node: Option<NodeId>,
        /// The name in its certificate, if it is known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        node_name: Option<String>,
    },
    /// The receiver has it, verified and under its name; the last event.
    Finished {
        /// The node that has received the file.
        #[serde(default, with = "text::option", skip_serializing_if = "Option::is_none")]
        node: Option<NodeId>,
        /// The name in its certificate, if it is known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        node_name: Option<String>,
    },
    /// It has not; the last event.
    Failed {
        /// Why.
        error: Error,
    },
}
