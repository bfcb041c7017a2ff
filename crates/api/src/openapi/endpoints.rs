//! All endpoints, in the order of the reference.

use roost_wire::{DeliveryId, NodeSelector, Offer, Service};
use serde_json::json;

use super::endpoint::{Endpoint, On, Parameter, schema_of};
use crate::query::PlacedRequest;
use crate::types::{
    AuditRows, Connections, DocumentTaken, Documents, Given, Index, LogLevel, Lookup, Moved, OfferEvent, Outbox, Ping,
    Priority, RequestEvent, RequestLine, Rooms, Roster, SendEvent, Services, Status, Streams, WatchEvent,
};

/// At most a day, such as `1m 30s`.
const DURATION: &str = "^([0-9]{1,9} ?(ns|us|ms|s|m|h) ?)+$";

/// Pairs of a key and a value.
const METADATA: &str =
    "^[A-Za-z0-9._-]+=[^,\\u0000-\\u001f\\u007f-\\u009f]*(,[A-Za-z0-9._-]+=[^,\\u0000-\\u001f\\u007f-\\u009f]*)*$";

pub(super) fn all() -> Vec<Endpoint> {
    [observation(), directory(), requests(), files(), offers(), operation()].into_iter().flatten().collect()
}

fn observation() -> Vec<Endpoint> {
    vec![
        Endpoint::get("/v1/status", On::All, "The daemon and its state").answers::<Status>(),
        Endpoint::get("/v1/connections", On::All, "The connections that are up").answers::<Connections>(),
        Endpoint::get("/v1/services", On::All, "A node's offers, or the services that a hub knows")
            .answers::<Services>(),
        Endpoint::get("/v1/streams", On::All, "The reflected streams that begin, end or are sent on here")
            .answers::<Streams>(),
        Endpoint::get("/v1/rooms", On::All, "The rooms that a node is in, or of which a hub has heard")
            .answers::<Rooms>(),
        Endpoint::get("/v1/audit", On::All, "The newest audit records, the newest first").answers::<AuditRows>().with(
            [Parameter::optional("limit", |_| json!({ "type": "integer", "minimum": 0, "maximum": 500 }), "records")],
        ),
        Endpoint::get("/v1/openapi.json", On::All, "This description")
            .answers::<serde_json::Map<String, serde_json::Value>>(),
        Endpoint::get("/metrics", On::All, "Metrics for Prometheus").answers_text(),
        Endpoint::get("/healthz", On::All, "Says that the process is alive").answers_text(),
        Endpoint::get("/readyz", On::All, "The state in a word; 503 unless it is ready").answers_state(),
        Endpoint::get("/status", On::All, "As /v1/status, for HTTP").answers::<Status>(),
    ]
}

fn directory() -> Vec<Endpoint> {
    vec![
        Endpoint::get("/v1/index", On::Hubs, "The hub's directory, in the order of ids").answers::<Index>().with([
            Parameter::optional("limit", |_| json!({ "type": "integer", "minimum": 0, "maximum": 10_000 }), "nodes"),
            Parameter::optional("after", schema_of::<NodeSelector>, "the last node of the page before"),
        ]),
        Endpoint::post("/v1/lookup", On::All, "The providers of a service, best first")
            .answers::<Lookup>()
            .with([
                Parameter::required("service", schema_of::<Service>, "the service"),
                Parameter::optional("k", |_| json!({ "type": "integer", "minimum": 0, "maximum": 255 }), "providers"),
                timeout("the longest wait for an answer"),
                names(),
                Parameter::optional(
                    "where",
                    |_| json!({ "type": "string", "pattern": METADATA, "maxLength": 256, "examples": ["range=120,sensor=ir"] }),
                    "metadata that an offer has to carry, as KEY=VALUE,KEY=VALUE",
                ),
            ])
            .with(area())
            .takes_geojson(),
        watch(Endpoint::get("/v1/watch", On::Nodes, "Changes in an area, the present state first")),
        watch(Endpoint::post("/v1/watch", On::Nodes, "Changes in polygons")).takes_geojson(),
        Endpoint::get("/v1/room", On::Nodes, "Enters a room; its members at each change")
            .answers_lines::<Roster>()
            .with([
                Parameter::required(
                    "name",
                    |_| json!({ "type": "string", "minLength": 1, "maxLength": 200 }),
                    "the room's name",
                ),
                names(),
            ]),
    ]
}

fn watch(endpoint: Endpoint) -> Endpoint {
    let services = Parameter::optional("service", |_| json!({ "type": "string" }), "services, separated by commas");
    endpoint.answers_lines::<WatchEvent>().with([services, names()]).with(area())
}

fn requests() -> Vec<Endpoint> {
    vec![
        Endpoint::post("/v1/request", On::Nodes, "Requests a service and answers with its data")
            .takes::<PlacedRequest>()
            .answers_payload::<RequestEvent>(),
        Endpoint::post("/v1/call", On::Nodes, "Calls a service with a body, and answers with its data")
            .takes_bytes("The body of the call, at most 64 KiB.")
            .answers_payload::<RequestEvent>()
            .with([Parameter::required("request", |_| json!({ "type": "string" }), "the request, as JSON")]),
        Endpoint::get("/v1/requests", On::Nodes, "The requests of this node as they begin and end")
            .answers_lines::<RequestLine>(),
        Endpoint::post("/v1/end", On::Nodes, "Ends a reflected stream early, in order")
            .with([number("request", "that of the acceptance")]),
    ]
}

fn files() -> Vec<Endpoint> {
    vec![
        Endpoint::post("/v1/send", On::Nodes, "Offers a file to a node").answers_lines::<SendEvent>().with([
            Parameter::required("node", schema_of::<NodeSelector>, "the receiver"),
            Parameter::required("name", |_| json!({ "type": "string" }), "the file's name at the receiver"),
            number("bytes", "the file's size"),
            Parameter::required("sha256", |_| json!({ "type": "string", "pattern": "^[0-9a-f]{64}$" }), "its digest"),
            Parameter::optional("address", |_| json!({ "type": "string" }), "the receiver's endpoints"),
            timeout("the longest wait for the receiver"),
            Parameter::optional("until", whole, "the file goes into the outbox until then, Unix seconds"),
            Parameter::optional("priority", schema_of::<Priority>, "the place in the outbox"),
            Parameter::optional("wait", |_| json!({ "type": "boolean" }), "a last line tells the delivery's end"),
        ]),
        Endpoint::post("/v1/chunk", On::Nodes, "Takes a chunk of such a file")
            .takes_bytes("The chunk that a line asked for.")
            .with([number("session", "that of the line"), number("offset", "that of the line")]),
        Endpoint::get("/v1/outbox", On::Nodes, "The files that wait for their receivers").answers::<Outbox>(),
        Endpoint::post("/v1/outbox/cancel", On::Nodes, "Takes a file out of the outbox").with([Parameter::required(
            "id",
            schema_of::<DeliveryId>,
            "the file",
        )]),
    ]
}

fn offers() -> Vec<Endpoint> {
    vec![
        Endpoint::post("/v1/offer", On::Nodes, "Offers a service as long as the answer is read")
            .takes::<Offer>()
            .answers_lines::<OfferEvent>(),
        Endpoint::get("/v1/offer/body", On::Nodes, "The body of a call")
            .answers_bytes()
            .with([number("request", "that of the line")]),
        Endpoint::post("/v1/offer/data", On::Nodes, "Takes the data of a request for an offer")
            .answers::<Given>()
            .takes_bytes("An object's bytes, or a frame of kind 1 for each datagram.")
            .with([
                number("request", "that of the line"),
                Parameter::optional(
                    "format",
                    |_| json!({ "type": "string", "maxLength": 64 }),
                    "the data's media type",
                ),
            ]),
        Endpoint::post("/v1/offer/decline", On::Nodes, "Declines a request for an offer").with([
            number("request", "that of the line"),
            Parameter::optional(
                "reason",
                |_| json!({ "type": "string", "maxLength": 200 }),
                "a sentence for the requester",
            ),
        ]),
    ]
}

fn operation() -> Vec<Endpoint> {
    vec![
        Endpoint::post("/v1/ping", On::All, "Measures the round trip to a node, or a node's to its hub")
            .answers::<Ping>()
            .with([Parameter::optional("node", schema_of::<NodeSelector>, "the node; a hub needs one")]),
        Endpoint::post("/v1/move", On::Nodes, "Moves the node").answers::<Moved>().with([Parameter::required(
            "at",
            place,
            "the place",
        )]),
        Endpoint::get("/v1/documents", On::All, "The group's documents in force").answers::<Documents>(),
        Endpoint::put("/v1/documents", On::All, "Takes a signed document, and spreads it")
            .takes_bytes("The document, in PEM or DER form, or a group's trust.cbor.")
            .answers::<DocumentTaken>()
            .with([Parameter::required(
                "kind",
                |_| json!({ "enum": ["revocations", "policy", "trust"] }),
                "the kind of document",
            )]),
        Endpoint::post("/v1/log", On::All, "Changes the log's level").answers::<LogLevel>().with([
            Parameter::required(
                "level",
                |_| json!({ "enum": ["error", "warn", "info", "debug", "trace"] }),
                "the level",
            ),
        ]),
    ]
}

fn whole(_: &mut schemars::SchemaGenerator) -> serde_json::Value {
    json!({ "type": "integer", "minimum": 0, "maximum": u64::MAX })
}

const fn number(name: &'static str, description: &'static str) -> Parameter {
    Parameter::required(name, whole, description)
}

const fn timeout(description: &'static str) -> Parameter {
    Parameter::optional(
        "timeout",
        |_| json!({ "type": "string", "pattern": DURATION, "examples": ["500ms", "1m 30s", "24h"] }),
        description,
    )
}

const fn names() -> Parameter {
    Parameter::optional("names", |_| json!({ "type": "boolean" }), "hubs tell the names of nodes, too")
}

/// A cell, or in a group with a datum a place in another notation.
fn place(_: &mut schemars::SchemaGenerator) -> serde_json::Value {
    json!({ "type": "string", "examples": ["27,92", "47.3769,8.5417"] })
}

/// An area, by one of these parameters or by `near` and `within`.
const fn area() -> [Parameter; 6] {
    [
        Parameter::optional("at", place, "in the cell of this place"),
        Parameter::optional("near", place, "nearest to this place"),
        Parameter::optional(
            "within",
            |_| json!({ "type": "string", "examples": ["5", "5km"] }),
            "at most so many cells, or so far, from `near` or else from the node",
        ),
        Parameter::optional(
            "area",
            |_| json!({ "type": "string", "examples": ["47.3,8.4..47.5,8.7"] }),
            "between two corners of any notation",
        ),
        Parameter::optional(
            "rect",
            |_| json!({ "type": "string", "pattern": "^-?[0-9]{1,7}(,-?[0-9]{1,7}){3}$", "examples": ["-20,0,90,120"] }),
            "between two corners",
        ),
        Parameter::optional("any", |_| json!({ "const": "true" }), "anywhere"),
    ]
}
