//! Services: the four that every node knows, and those that people name.

use std::fmt;
use std::str::FromStr;

use minicbor::data::Type;
use minicbor::decode::Error as DecodeError;
use minicbor::encode::{Error as EncodeError, Write};
use minicbor::{Decode, Decoder, Encode, Encoder};

use super::name::{Form, ServiceName, ServiceNameError};
use crate::reflection::OVERHEAD_BYTES;

/// A service that nodes offer and request.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Service {
    /// A constant 700 kbit/s stream.
    Video,
    /// A 40 kbit/s stream of positions of a target.
    Track,
    /// A picture of 100 KB.
    Image,
    /// A sensor reading, a SenML pack; a synthetic one has 10 KB.
    Sensor,
    /// A service of people's own, or an instance of any service.
    Named(ServiceName),
}

/// A service as indexes and summaries know it, without its instance: its number, or a hash of its name. Two names may
/// have one code, hence a hub compares names in the end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServiceCode(u32);

/// The form of a service's data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlowKind {
    /// Datagrams at a constant rate until the time is up.
    Stream {
        /// Payload rate, bits per second.
        bits_per_second: u32,
        /// Payload of one datagram of the synthetic source, bytes.
        packet_bytes: u32,
    },
    /// An object, delivered whole and verified.
    Object {
        /// Size of the synthetic source's object, bytes.
        bytes: u32,
    },
}

/// The rate that a stream of a service of one's own is taken to have until its offer tells, bits per second.
const USUAL_BITS_PER_SECOND: u32 = 1_000_000;

impl Service {
    /// The services that every node knows, in the order in which they are listed everywhere.
    pub const ALL: [Self; 4] = [Self::Video, Self::Track, Self::Image, Self::Sensor];

    /// Rows of a table with a row for each service of [`Self::ALL`], and one for all others together.
    pub const ROWS: usize = Self::ALL.len() + 1;

    /// Rates and sizes from Sproull et al. 2007, section IV: video 700 kbit/s,
    /// track 40 kbit/s, image 100 Kbyte, sensor 10 Kbyte. Video packets carry
    /// six MPEG transport packets (6 × 188 bytes): with seven, as much of the
    /// field sends them, sealed and with headers they exceed the 1200 bytes that
    /// pass every path, and the loss of either fragment loses both. Track
    /// packets carry 250 bytes, twenty a second.
    ///
    /// An offer of another service says its rate or size; until that is known a stream has 1 Mbit/s here.
    pub const fn flow_kind(self) -> FlowKind {
        match self.base() {
            Self::Video => FlowKind::Stream { bits_per_second: 700_000, packet_bytes: 1128 },
            Self::Track => FlowKind::Stream { bits_per_second: 40_000, packet_bytes: 250 },
            Self::Image => FlowKind::Object { bytes: 100_000 },
            Self::Sensor => FlowKind::Object { bytes: 10_000 },
            Self::Named(name) => match name.form() {
                Form::Stream => FlowKind::Stream { bits_per_second: USUAL_BITS_PER_SECOND, packet_bytes: 1128 },
                Form::Object | Form::Call | Form::Any => FlowKind::Object { bytes: 0 },
            },
        }
    }

    /// The usual rate of a stream of the service when it is reflected, sealed and with its headers, bits per
    /// second; 0 of an object.
    pub const fn reflected_bits_per_second(self) -> u64 {
        match self.flow_kind() {
            FlowKind::Stream { bits_per_second, packet_bytes } => {
                let sealed_bytes = packet_bytes as u64 + OVERHEAD_BYTES as u64;
                (bits_per_second as u64 * sealed_bytes).div_ceil(packet_bytes as u64)
            }
            FlowKind::Object { .. } => 0,
        }
    }

    /// True if the service is a stream rather than an object.
    pub const fn is_stream(self) -> bool {
        matches!(self.flow_kind(), FlowKind::Stream { .. })
    }

    pub const fn is_call(self) -> bool {
        matches!(self.form(), Form::Call)
    }

    /// The form of the service's data; [`Form::Any`] of an own service whose form is not known yet.
    pub const fn form(self) -> Form {
        match self.base() {
            Self::Video | Self::Track => Form::Stream,
            Self::Image | Self::Sensor => Form::Object,
            Self::Named(name) => name.form(),
        }
    }

    /// A service of one's own with this form; the others have theirs.
    #[must_use]
    pub const fn with_form(self, form: Form) -> Self {
        match (self, self.base()) {
            (Self::Named(name), Self::Named(_)) => Self::Named(name.with_form(form)),
            _ => self,
        }
    }

    /// The service's name on the command line, in files and in messages for people.
    pub fn name(&self) -> &str {
        match self {
            Self::Video => "video",
            Self::Track => "track",
            Self::Image => "image",
            Self::Sensor => "sensor",
            Self::Named(name) => name.as_str(),
        }
    }

    /// The name without an instance: rules of a policy are about it.
    pub fn base_name(&self) -> &str {
        let name = self.name();
        name.split_once('#').map_or(name, |(base, _)| base)
    }

    /// The name, and the form of an own service where it is known: the text that is read back as this service.
    pub fn full_text(&self) -> String {
        match self {
            Self::Named(name) => name.full_text(),
            known => known.name().to_owned(),
        }
    }

    /// The service's name in metrics: those of people's own share one, as their number has no limit.
    pub const fn metric_name(self) -> &'static str {
        match self.base() {
            Self::Video => "video",
            Self::Track => "track",
            Self::Image => "image",
            Self::Sensor => "sensor",
            Self::Named(_) => "own",
        }
    }

    /// The row of the service in a table of [`Self::ROWS`].
    pub const fn row(self) -> usize {
        match self.base() {
            Self::Video => 0,
            Self::Track => 1,
            Self::Image => 2,
            Self::Sensor => 3,
            Self::Named(_) => 4,
        }
    }

    #[must_use]
    pub const fn base(self) -> Self {
        let Self::Named(name) = self else { return self };
        if !name.has_instance() {
            return self;
        }
        match name.base_bytes() {
            b"video" => Self::Video,
            b"track" => Self::Track,
            b"image" => Self::Image,
            b"sensor" => Self::Sensor,
            _ => Self::Named(name.base()),
        }
    }

    pub fn code(self) -> ServiceCode {
        match self.base() {
            Self::Named(name) => ServiceCode::of_name(name.base_bytes()),
            known => ServiceCode(known.row() as u32),
        }
    }

    /// True if an offer of this service is meant by a request for `requested`: a request without an instance means
    /// any, and one of a form that is not known means each.
    #[inline]
    pub fn satisfies(&self, requested: &Self) -> bool {
        match (self, requested) {
            (Self::Named(own), Self::Named(requested)) => own.satisfies(requested),
            (Self::Named(own), known) => own.base_bytes() == known.name().as_bytes(),
            (own, requested) => own == requested,
        }
    }
}

impl ServiceCode {
    pub const BITS: u32 = 28;

    /// The FNV-1a hash of the name, above the numbers of [`Service::ALL`].
    fn of_name(name: &[u8]) -> Self {
        let step = |hash: u32, byte: &u8| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193);
        let hash = name.iter().fold(0x811c_9dc5, step);
        let known = Service::ALL.len() as u32;
        Self(known + hash % ((1 << Self::BITS) - known))
    }

    /// The code of this number, if there is one.
    pub const fn from_number(number: u32) -> Option<Self> {
        if number >> Self::BITS == 0 { Some(Self(number)) } else { None }
    }

    pub const fn number(self) -> u32 {
        self.0
    }

    /// The number of one of [`Service::ALL`]; `None` of a name.
    pub const fn known(self) -> Option<u8> {
        if (self.0 as usize) < Service::ALL.len() { Some(self.0 as u8) } else { None }
    }
}

/// A known service is its number; another one an array of form and name.
impl<C> Encode<C> for Service {
    fn encode<W: Write>(&self, e: &mut Encoder<W>, ctx: &mut C) -> Result<(), EncodeError<W::Error>> {
        match self {
            Self::Named(name) => name.encode(e, ctx),
            known => e.u8(known.row() as u8)?.ok(),
        }
    }
}

impl<'b, C> Decode<'b, C> for Service {
    fn decode(d: &mut Decoder<'b>, ctx: &mut C) -> Result<Self, DecodeError> {
        if matches!(d.datatype()?, Type::Array) {
            return Ok(Self::Named(ServiceName::decode(d, ctx)?));
        }
        let number = d.u64()?;
        let known = usize::try_from(number).ok().and_then(|number| Self::ALL.get(number));
        known.copied().ok_or_else(crate::open::unknown)
    }
}

impl fmt::Display for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl fmt::Debug for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A text is the name of no service.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseServiceError {
    #[error(
        "unknown service {0:?}: expected video, track, image or sensor, or one of your own as OWNER/NAME (acme/lidar)"
    )]
    Unknown(String),
    #[error(transparent)]
    Name(#[from] ServiceNameError),
}

/// Reads `video`, `video#bow`, `acme/lidar` or `acme/lidar#mast`. The form of an own service may follow:
/// `acme/lidar:stream`, `acme/map:object`, `acme/tiles:call`; without one it is [`Form::Any`].
impl FromStr for Service {
    type Err = ParseServiceError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if let Some(known) = Self::ALL.into_iter().find(|service| service.name() == text) {
            return Ok(known);
        }
        if !text.contains(['/', '#']) {
            return Err(ParseServiceError::Unknown(text.to_owned()));
        }
        Ok(Self::Named(text.parse()?))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::service::MAX_SERVICE_NAME_BYTES;

    #[test]
    fn reflected_rate_includes_overhead() {
        let rates = Service::ALL.map(Service::reflected_bits_per_second);
        assert_eq!(rates, [724_823, 46_400, 0, 0]);
    }

    #[test]
    fn names_outside_the_grammar_are_refused() {
        let long = format!("acme/{}", "a".repeat(MAX_SERVICE_NAME_BYTES - 4));
        for text in
            ["acme", "acme/", "/lidar", "Acme/lidar", "acme/li dar", "acme/lidar/2", "acme/-x", "acme/x#", &long]
        {
            assert!(text.parse::<ServiceName>().is_err(), "{text}");
        }
        for text in ["acme/lidar#Bow", "video#", "video#a#b", "video#0123456789abcdef", "acme/x:file", "video#bow:call"]
        {
            assert!(text.parse::<Service>().is_err(), "{text}");
        }
        let message = "radar".parse::<Service>().unwrap_err().to_string();
        assert!(message.contains("OWNER/NAME"), "{message}");
    }

    #[test]
    fn instances_keep_their_service() {
        let bow: Service = "video#bow".parse().unwrap();
        assert_eq!((bow.base(), bow.form(), bow.is_stream()), (Service::Video, Form::Stream, true));
        assert_eq!(bow.flow_kind(), Service::Video.flow_kind());
        assert_eq!(bow.code(), Service::Video.code());
        let mast: Service = "acme/lidar#mast:stream".parse().unwrap();
        assert_eq!(mast.base().name(), "acme/lidar");
        assert_eq!(mast.code(), mast.base().code());
        assert_ne!(mast.code(), bow.code());
    }

    #[test]
    fn requests_mean_instances_and_forms() {
        let service = |text: &str| text.parse::<Service>().unwrap();
        for (offer, wanted, is_meant) in [
            ("video", "video", true),
            ("video#bow", "video", true),
            ("video", "video#bow", false),
            ("video#bow", "video#bow", true),
            ("video#bow", "video#mast", false),
            ("video#bow", "track", false),
            ("acme/lidar:stream", "acme/lidar", true),
            ("acme/lidar:stream", "acme/lidar:object", false),
            ("acme/lidar#mast:stream", "acme/lidar:stream", true),
            ("acme/lidar:stream", "acme/lidar#mast:stream", false),
            ("acme/lidar:stream", "acme/lidar2:stream", false),
            ("acme/lidar:stream", "video", false),
        ] {
            assert_eq!(service(offer).satisfies(&service(wanted)), is_meant, "{offer} for {wanted}");
        }
    }

    proptest! {
        #[test]
        fn names_read_back(text in "[a-z0-9][a-z0-9._-]{0,20}/[a-z0-9][a-z0-9._-]{0,20}(#[a-z0-9][a-z0-9_.-]{0,14})?(:(stream|object|call))?") {
            let name: ServiceName = text.parse().unwrap();
            prop_assert_eq!(name.full_text(), text);
            let bytes = minicbor::to_vec(Service::Named(name)).unwrap();
            prop_assert_eq!(minicbor::decode::<Service>(&bytes).unwrap(), Service::Named(name));
        }
    }
}
