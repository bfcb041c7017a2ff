//! The request for a service: one type from the command line to the provider's source.

use std::fmt;
use std::time::Duration;

use minicbor::{Decode, Encode};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{codec, json};
use crate::address::{Scheme, SchemeSet};
use crate::delivery::{DeliveryClass, DeliveryPreferences, Profile};
use crate::grid::Area;
use crate::node_selector::NodeSelector;
use crate::open::{self, open};
use crate::scope::Scope;
use crate::service::{Form, Metadata, Service, full_text};

/// The longest time that a request may name, for its stream, its answer or its patience.
pub const MAX_REQUEST_TIME: Duration = Duration::from_secs(24 * 3600);

/// The shortest time, as the wire has whole milliseconds.
const SHORTEST_TIME: Duration = Duration::from_millis(1);

/// The longest [`ServiceRequest::params`], bytes: what is longer goes into the body of a call.
pub const MAX_PARAMS_BYTES: usize = 1024;

/// The longest body of a call, bytes.
pub const MAX_BODY_BYTES: usize = 64 * 1024;

/// The longest encoded [`ServiceRequest`], bytes: hubs keep what they received.
pub const MAX_SPEC_BYTES: usize = USUAL_SPEC_BYTES + MAX_PARAMS_BYTES + 64;

/// The longest one without parameters and a body. Hubs keep fewer of those that are longer.
pub const USUAL_SPEC_BYTES: usize = 512;

/// A flow without progress ends after this time, unless its request says otherwise.
pub const STALL_TIMEOUT: Duration = Duration::from_secs(30);

/// A request waits so long for a provider, unless it names a time.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(10);

/// A request for a service, on its way from the command line to the source of the provider.
///
/// The command line builds it, the local API takes it as JSON (unknown fields are refused), nodes
/// and hubs pass it on as CBOR (unknown fields are ignored, and passed on), and the provider's
/// source is opened with it. An absent field means the default that it documents.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode, Serialize, Deserialize, JsonSchema)]
#[cbor(map)]
#[serde(deny_unknown_fields)]
pub struct ServiceRequest {
    /// The service that the provider has to offer.
    #[n(0)]
    #[serde(with = "full_text")]
    #[schemars(with = "Service")]
    pub service: Service,
    /// The area of the provider. It means nothing where [`Self::provider`] is dialed directly.
    #[n(1)]
    pub area: Area,
    /// The greatest distance of the provider; anywhere by default.
    #[cbor(n(2), with = "codec::or_default", has_nil)]
    #[serde(default, skip_serializing_if = "json::is_default")]
    pub scope: Scope,
    /// The way of the data; directly by default.
    #[cbor(n(3), with = "codec::or_default", has_nil)]
    #[serde(default, skip_serializing_if = "json::is_default")]
    pub mode: RequestMode,
    /// The most providers that a hub considers, or lists; 0, the default, leaves it to the hub.
    #[cbor(n(4), with = "codec::or_default", has_nil)]
    #[serde(default, skip_serializing_if = "json::is_default")]
    pub count: u8,
    /// The length of a stream, in milliseconds on the wire; the provider's (10 s) by default. A
    /// subscription has no end by default.
    #[cbor(n(5), with = "codec::millis", has_nil)]
    #[serde(rename = "duration_ms", with = "json::millis", default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<u64>", range(min = 1, max = 86_400_000))]
    pub duration: Option<Duration>,
    /// The transports that the data may take; all by default.
    #[cbor(n(6), with = "codec::or_default", has_nil)]
    #[serde(with = "json::schemes", default, skip_serializing_if = "json::is_default")]
    #[schemars(with = "Vec<Scheme>", length(min = 1))]
    pub transports: SchemeSet,
    /// The delivery profile. A profile of a later version is ignored.
    #[cbor(n(7), with = "open::optional", has_nil)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<Profile>,
    /// The delivery class; that of the profile, else the provider's, by default. A class of a
    /// later version is ignored.
    #[cbor(n(8), with = "open::optional", has_nil)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<DeliveryClass>,
    /// The reflection of a stream; an object is never reflected.
    #[cbor(n(9), with = "codec::or_default", has_nil)]
    #[serde(default, skip_serializing_if = "json::is_default")]
    pub reflect: ReflectionPolicy,
    /// The part of an object that the requester has; the acceptance says whether the provider
    /// continues from there.
    #[n(10)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resume: Option<ResumePoint>,
    /// True if the provider offered the object of [`Self::resume`] by a
    /// [`Push`](super::RequestMessage::Push).
    #[cbor(n(11), with = "codec::or_default", has_nil)]
    #[serde(skip)]
    pub pushed: bool,
    /// True if every hub on the way and the provider report to the requester.
    #[cbor(n(12), with = "codec::or_default", has_nil)]
    #[serde(default, skip_serializing_if = "json::is_default")]
    pub trace: bool,
    /// The only node that is meant. The requester's node turns it into an address before it sends
    /// a request; a lookup carries it, and its answer then has names.
    #[n(13)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<NodeSelector>,
    /// The least payload rate of a stream, kbit/s; a provider whose source is slower declines.
    #[n(14)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_kbps: Option<u32>,
    /// Keys and values that the provider's offer has to carry.
    #[n(15)]
    #[serde(rename = "where", default, skip_serializing_if = "Metadata::is_empty")]
    pub filter: Metadata,
    /// Words for the provider's program, which alone reads them; at most [`MAX_PARAMS_BYTES`]. A stream that is
    /// requested with some is for its requester alone.
    #[cbor(n(16), with = "codec::or_default", has_nil)]
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub params: String,
    /// The body of a call, which its provider asks the requester for. The requester's node sets it.
    #[n(17)]
    #[serde(skip)]
    pub body: Option<CallBody>,
    /// The requester waits so long for a provider; by default [`DEFAULT_TIMEOUT`], and longer over a long path.
    /// The field stays at the requester's node.
    #[cbor(skip)]
    #[serde(rename = "timeout_ms", with = "json::millis", default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<u64>", range(min = 1, max = 86_400_000))]
    pub timeout: Option<Duration>,
    /// A transfer without progress ends after this time; [`STALL_TIMEOUT`] by default. The field stays at the
    /// requester's node.
    #[cbor(skip)]
    #[serde(rename = "patience_ms", with = "json::millis", default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<u64>", range(min = 1, max = 86_400_000))]
    pub patience: Option<Duration>,
}

/// The way of a request's data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Encode, Serialize, Deserialize, JsonSchema)]
#[cbor(index_only)]
#[serde(rename_all = "kebab-case")]
pub enum RequestMode {
    /// The provider sends it to the requester directly.
    #[n(0)]
    #[default]
    Forward,
    /// The provider sends it to a hub, which relays it.
    #[n(1)]
    Relay,
    /// There is none: a hub only lists the providers.
    #[n(2)]
    #[serde(skip)]
    Lookup,
}

open!(RequestMode, [Forward, Relay, Lookup]);

/// The condition on which super nodes reflect a stream, of which the provider then sends one copy
/// for all subscribers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Encode, Serialize, Deserialize, JsonSchema)]
#[cbor(index_only)]
#[serde(rename_all = "kebab-case")]
pub enum ReflectionPolicy {
    /// The provider is busy otherwise, or wants to serve more requesters.
    #[n(0)]
    #[default]
    IfBusy,
    /// None: the requester subscribes, without a duration until it cancels.
    #[n(1)]
    Always,
    /// The requester takes only a stream of its own.
    #[n(2)]
    Never,
}

open!(ReflectionPolicy, [IfBusy, Always, Never], else Never);

/// The beginning of an object that a requester has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode, Serialize, Deserialize, JsonSchema)]
#[cbor(array)]
#[serde(deny_unknown_fields)]
pub struct ResumePoint {
    /// The SHA-256 of the whole object.
    #[cbor(n(0), with = "minicbor::bytes")]
    #[serde(rename = "sha256", with = "json::digest")]
    #[schemars(with = "String", regex(pattern = "^[0-9a-f]{64}$"))]
    pub digest: [u8; 32],
    /// The length of the part that the requester has, bytes.
    #[n(1)]
    pub offset: u64,
}

/// The name of a call's body. A call without one has an empty body.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(array)]
pub struct CallBody {
    /// The SHA-256 of the body, which the provider verifies.
    #[cbor(n(0), with = "minicbor::bytes")]
    pub digest: [u8; 32],
    /// The length of the body, at most [`MAX_BODY_BYTES`].
    #[n(1)]
    pub length: u32,
}

/// A field of a request is outside its limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidRequest(pub &'static str);

impl ServiceRequest {
    /// A request with every default.
    pub const fn new(service: Service, area: Area) -> Self {
        Self {
            service,
            area,
            scope: Scope::Anywhere,
            mode: RequestMode::Forward,
            count: 0,
            duration: None,
            transports: SchemeSet::ALL,
            profile: None,
            class: None,
            reflect: ReflectionPolicy::IfBusy,
            resume: None,
            pushed: false,
            trace: false,
            provider: None,
            min_kbps: None,
            filter: Metadata::EMPTY,
            params: String::new(),
            body: None,
            timeout: None,
            patience: None,
        }
    }

    /// Checks the limits of all fields.
    ///
    /// # Errors
    /// [`InvalidRequest`] names the field and its limits.
    pub fn check(&self) -> Result<(), InvalidRequest> {
        let times = [self.duration, self.timeout, self.patience];
        if !self.area.is_valid() {
            return Err(InvalidRequest("an area off the grid"));
        }
        if self.min_kbps.is_some() && !self.service.is_stream() {
            return Err(InvalidRequest("a least bit rate is for streams"));
        }
        if self.service.form() == Form::Any && self.mode != RequestMode::Lookup {
            return Err(InvalidRequest("the form of an own service is not said: add :stream, :object or :call"));
        }
        if self.params.len() > MAX_PARAMS_BYTES {
            return Err(InvalidRequest("parameters have at most 1024 bytes"));
        }
        if self.body.is_some_and(|body| body.length as usize > MAX_BODY_BYTES || !self.service.is_call()) {
            return Err(InvalidRequest("a body is for calls, and has at most 64 KiB"));
        }
        if !self.params.is_empty() && self.reflect == ReflectionPolicy::Always {
            return Err(InvalidRequest("a stream with parameters is for one requester: it is never reflected"));
        }
        if self.min_kbps == Some(0) {
            return Err(InvalidRequest("a least bit rate is at least 1 kbit/s"));
        }
        if times.into_iter().flatten().any(|time| time < SHORTEST_TIME || time > MAX_REQUEST_TIME) {
            return Err(InvalidRequest("a time is at least 1 ms and at most 24 hours"));
        }
        Ok(())
    }

    /// The choices about the delivery of the data.
    pub const fn delivery_preferences(&self) -> DeliveryPreferences {
        DeliveryPreferences { profile: self.profile, class: self.class }
    }

    /// True if only some of the offers of the service are meant: an instance, or one with metadata.
    pub fn is_narrow(&self) -> bool {
        self.service != self.service.base() || !self.filter.is_empty()
    }

    /// True if a reflected stream may take the place of the requester's own.
    pub fn is_reflectable(&self) -> bool {
        matches!(self.reflect, ReflectionPolicy::IfBusy) && self.service.is_stream() && self.params.is_empty()
    }

    /// True if a stream of this rate, bits per second, is fast enough.
    pub fn admits_rate(&self, bits_per_second: u32) -> bool {
        self.min_kbps.is_none_or(|kbps| u64::from(bits_per_second) >= u64::from(kbps) * 1_000)
    }

    /// [`Self::patience`], or its default.
    pub fn patience(&self) -> Duration {
        self.patience.unwrap_or(STALL_TIMEOUT)
    }

    /// [`Self::timeout`], or its default.
    pub fn timeout(&self) -> Duration {
        self.timeout.unwrap_or(DEFAULT_TIMEOUT)
    }
}

impl fmt::Display for ServiceRequest {
    /// The subject of a sentence: `video at (27,92)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.service, self.area)?;
        self.min_kbps.map_or(Ok(()), |kbps| write!(f, " with at least {kbps} kbit/s"))
    }
}

#[cfg(test)]
pub(in crate::messages) mod tests {
    use super::*;
    use crate::grid::Cell;

    pub(in crate::messages) fn full() -> ServiceRequest {
        ServiceRequest {
            scope: Scope::Area,
            mode: RequestMode::Relay,
            count: 3,
            duration: Some(Duration::from_millis(1_500)),
            transports: SchemeSet::only(Scheme::Quic),
            profile: Some(Profile::Piloting),
            class: Some(DeliveryClass::Backup),
            reflect: ReflectionPolicy::Always,
            resume: Some(ResumePoint { digest: [0xab; 32], offset: 7 }),
            trace: true,
            provider: Some("uav7".parse().unwrap()),
            min_kbps: Some(500),
            filter: "sensor=ir".parse().unwrap(),
            params: "gain=3".to_owned(),
            timeout: Some(Duration::from_secs(2)),
            patience: Some(Duration::from_secs(40)),
            ..ServiceRequest::new(Service::Video, Area::Exact(Cell::new(27, 92)))
        }
    }

    #[test]
    fn json_round_trips() {
        for request in [full(), ServiceRequest::new(Service::Image, Area::Anywhere)] {
            let text = serde_json::to_string(&request).unwrap();
            assert_eq!(serde_json::from_str::<ServiceRequest>(&text).unwrap(), request, "{text}");
        }
    }

    #[test]
    fn json_leaves_out_defaults() {
        let request = ServiceRequest::new(Service::Video, Area::Exact(Cell::new(27, 92)));
        assert_eq!(serde_json::to_string(&request).unwrap(), r#"{"service":"video","area":{"at":"27,92"}}"#);
    }

    #[test]
    fn json_mistakes_are_named() {
        for (text, part) in [
            (r#"{"area":"anywhere"}"#, "missing field `service`"),
            (r#"{"service":"radar","area":"anywhere"}"#, "expected video, track, image or sensor"),
            (r#"{"service":"video","area":{"at":"27"}}"#, "not a location"),
            (r#"{"service":"video","area":"anywhere","speed":1}"#, "unknown field `speed`"),
            (r#"{"service":"video","area":"anywhere","mode":"lookup"}"#, "unknown variant `lookup`"),
            (r#"{"service":"video","area":"anywhere","pushed":true}"#, "unknown field `pushed`"),
            (r#"{"service":"video","area":"anywhere","duration_ms":-1}"#, "invalid value"),
            (r#"{"service":"video","area":"anywhere","resume":{"sha256":"ab","offset":1}}"#, "64 hexadecimal digits"),
            (r#"{"service":"video","area":"anywhere","transports":["sctp"]}"#, "unknown transport"),
        ] {
            let error = serde_json::from_str::<ServiceRequest>(text).unwrap_err().to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
    }

    #[test]
    fn limits_are_checked() {
        let request = ServiceRequest::new(Service::Video, Area::Anywhere);
        assert_eq!(request.check(), Ok(()));
        for duration in [Duration::ZERO, Duration::from_micros(400), MAX_REQUEST_TIME + Duration::from_millis(1)] {
            assert!(ServiceRequest { duration: Some(duration), ..request.clone() }.check().is_err());
        }
        assert!(ServiceRequest { area: Area::Exact(Cell::new(2_000_000, 0)), ..request.clone() }.check().is_err());
        for (length, fits) in [(MAX_PARAMS_BYTES, true), (MAX_PARAMS_BYTES + 1, false)] {
            assert_eq!(ServiceRequest { params: "p".repeat(length), ..request.clone() }.check().is_ok(), fits);
        }
        let reflected = ServiceRequest { reflect: ReflectionPolicy::Always, ..request };
        assert_eq!(reflected.check(), Ok(()));
        assert!(ServiceRequest { params: "p".to_owned(), ..reflected }.check().is_err());
    }

    #[test]
    fn bodies_are_for_calls() {
        let body = |length| Some(CallBody { digest: [7; 32], length });
        let asked = |service: &str| ServiceRequest::new(service.parse().unwrap(), Area::Anywhere);
        let most = MAX_BODY_BYTES as u32;
        for (service, length, fits) in
            [("acme/tiles:call", most, true), ("acme/tiles:call", most + 1, false), ("acme/tiles:object", 1, false)]
        {
            assert_eq!(ServiceRequest { body: body(length), ..asked(service) }.check().is_ok(), fits, "{service}");
        }
    }
}
