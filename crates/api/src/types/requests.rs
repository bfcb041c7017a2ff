//! The requests of a node as they begin and end.

use roost_wire::messages::ReflectionPolicy;
use roost_wire::service::full_text;
use roost_wire::{Area, NodeSelector, Scheme, Service};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::TransferSummary;
use crate::error::Code;

/// A line of `GET /v1/requests`. The first lines are the requests that are under way.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "event", rename_all = "kebab-case")]
#[non_exhaustive]
pub enum RequestLine {
    Began(RequestBegan),
    Ended(RequestEnded),
    /// Lines that are left out, because the reader was too slow for them.
    Missed {
        count: u64,
    },
    /// An event that this version does not know.
    #[serde(other)]
    Unknown,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RequestBegan {
    pub schema: u32,
    /// The number of the request, as in the event `accepted`.
    pub request: u64,
    /// The wall clock of this host at the beginning.
    pub began_unix_ms: u64,
    #[serde(with = "full_text")]
    #[schemars(with = "Service")]
    pub service: Service,
    pub area: Area,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<NodeSelector>,
    pub transports: Vec<Scheme>,
    pub reflect: ReflectionPolicy,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RequestEnded {
    pub schema: u32,
    pub request: u64,
    pub outcome: RequestResult,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Code>,
    /// From the beginning to the end, milliseconds.
    pub elapsed_ms: f64,
    /// The data that came, if the transfer had begun.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<TransferSummary>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum RequestResult {
    Completed,
    Failed,
    /// The caller of the local API broke it off.
    Cancelled,
    #[serde(other)]
    Unknown,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_events_are_read() {
        let line: RequestLine = serde_json::from_str(r#"{"event":"of-tomorrow","request":[1]}"#).unwrap();
        assert_eq!(line, RequestLine::Unknown);
    }
}
