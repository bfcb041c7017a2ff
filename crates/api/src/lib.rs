//! The local API of the Roost daemons: HTTP/1.1 with JSON over a Unix socket.
//!
//! Each daemon has one socket. `docs/src/reference/api.md` describes the endpoints for people with `curl`; the types
//! here are the same thing for programs. Every JSON object carries `"schema": 2`; within one schema fields are only
//! ever added. Domain words appear as they do on the command line: a cell is `"27,92"`, a node is its 32 hexadecimal
//! digits, a service is its name.
//!
//! | endpoint | answers | on |
//! |---|---|---|
//! | `GET /v1/status` | [`Status`] | all |
//! | `GET /v1/connections` | [`Connections`] | all |
//! | `GET /v1/services` | [`Services`] | all |
//! | `GET /v1/streams` | [`Streams`] | nodes and super nodes |
//! | `GET /v1/rooms` | [`Rooms`] | nodes and super nodes |
//! | `GET /v1/audit?limit=N` | [`AuditRows`] | all |
//! | `GET /v1/index` | [`Index`] | hubs |
//! | `POST /v1/lookup?service=…&AREA` | [`Lookup`] | all |
//! | `POST /v1/request`, a [`ServiceRequest`](roost_wire::messages::ServiceRequest) | the bytes, or frames of [`RequestEvent`] and data | nodes |
//! | `POST /v1/call?request=…`, the body; `request` as for `/v1/request` | the same | nodes |
//! | `GET /v1/requests` | lines of [`RequestLine`] | nodes |
//! | `GET /v1/watch?AREA` | lines of [`WatchEvent`] | nodes |
//! | `GET /v1/room?name=…` | lines of [`Roster`] | nodes |
//! | `POST /v1/ping` | [`Ping`] | all |
//! | `POST /v1/move?at=X,Y` | [`Moved`] | nodes |
//! | `POST /v1/send?node=…` | [`SendEvent`] per line | nodes |
//! | `POST /v1/chunk?session=N&offset=N` | nothing | nodes |
//! | `POST /v1/offer`, an [`Offer`](roost_wire::Offer) | [`OfferEvent`] per line | nodes |
//! | `GET /v1/offer/body?request=N` | the body of a call | nodes |
//! | `POST /v1/offer/data?request=N`, the data | [`Given`] | nodes |
//! | `POST /v1/offer/decline?request=N` | nothing | nodes |
//! | `GET /v1/outbox` | [`Outbox`] | nodes |
//! | `POST /v1/outbox/cancel?id=…` | nothing | nodes |
//! | `POST /v1/log?level=…` | [`LogLevel`] | all |
//! | `GET /v1/openapi.json` | [`openapi::document`] | all |
//!
//! `AREA` is one of `at=PLACE`, `near=PLACE`, `near=PLACE&within=R`, `within=R`, `area=CORNER..CORNER`,
//! `rect=X1,Y1,X2,Y2`, `any=true`; of a lookup or a watch also a body with GeoJSON.

#![allow(missing_docs, reason = "a comment stands where it says more than the name")]

pub mod client;
pub mod error;
pub mod frame;
mod offered_rate;
pub mod openapi;
pub mod query;
pub mod server;
mod serving;
pub mod types;

pub use client::{
    Client, ClientError, OfferData, OfferStream, RequestFeed, RequestStream, RoomStream, SendStream, TraceOutcome,
    WatchStream,
};
pub use error::{Code, Error};
pub use frame::{Frame, FrameError, Frames};
pub use offered_rate::OfferedRate;
pub use query::{
    AreaQuery, LookupQuery, OutboxTerms, PlaceQuery, PlacedRequest, QueryError, RoomQuery, SendQuery, WatchQuery,
};
pub use roost_wire::text;
pub use types::{
    Accepted, AuditRow, AuditRows, Candidate, ConnectionRow, Connections, DatumStatus, DocumentHolder, DocumentRow,
    DocumentTaken, Documents, DownstreamRow, EarthPlace, Following, Given, HubConnection, HubHoldings, Index,
    IndexTotals, LogLevel, Lookup, Member, Moved, OfferEvent, OfferRequest, Outbox, OutboxRow, OutboxState,
    OutboxTotals, PathRow, Ping, PolicyStatus, Position, Priority, Progress, Relation, RequestBegan, RequestEnded,
    RequestEvent, RequestLine, RequestResult, RoomRow, Rooms, Roster, SendEvent, ServiceRow, Services, State, Status,
    StreamRow, Streams, Trace, TraceHop, Transfer, TransferSummary, TransportBytes, TransportTotals, UpstreamRow,
    WatchEvent,
};

pub const SCHEMA: u32 = 2;

/// The media type of a framed answer to `POST /v1/request`.
pub const FRAMES: &str = "application/vnd.roost.frames";

/// The media type of an answer that is one JSON object per line.
pub const JSON_LINES: &str = "application/jsonl";
