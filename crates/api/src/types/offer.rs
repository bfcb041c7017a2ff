use roost_wire::service::full_text;
use roost_wire::{Metadata, NodeId, Service};
use serde::{Deserialize, Serialize};

use crate::text;

/// The events of an offer of a program, one a line: `offered` first, then the requests for it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
#[non_exhaustive]
pub enum OfferEvent {
    /// The node offers the service as long as the program reads these lines.
    Offered {
        #[serde(with = "full_text")]
        service: Service,
    },
    /// Somebody wants the service: `POST /v1/offer/data` answers, or `POST /v1/offer/decline`.
    Request(OfferRequest),
    /// The request needs no data any more.
    Gone { request: u64 },
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OfferRequest {
    pub request: u64,
    #[serde(with = "full_text")]
    pub service: Service,
    /// The first requester of a reflected stream, which has others later.
    #[serde(with = "text")]
    pub requester: NodeId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requester_name: Option<String>,
    /// The length of a stream; absent for an object, and for a stream without an end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
    /// The metadata that the requester asked for.
    #[serde(rename = "where", default, skip_serializing_if = "Metadata::is_empty")]
    pub filter: Metadata,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub params: String,
    /// The length of a call's body, which `GET /v1/offer/body` gives.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body_bytes: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Given {
    pub schema: u32,
    /// True if the requester had enough before the end of the data.
    pub enough: bool,
}
