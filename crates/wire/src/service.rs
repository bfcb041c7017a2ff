//! The four services, and the roles that certificates give.

use std::fmt;
use std::str::FromStr;

use minicbor::{Decode, Encode};

use crate::open::open;
use crate::reflection::OVERHEAD_BYTES;

/// A service that nodes offer and request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Encode)]
#[cbor(index_only)]
#[repr(u8)]
pub enum Service {
    /// A constant 700 kbit/s stream.
    #[n(0)]
    Video = 0,
    /// A 40 kbit/s stream of positions of a target.
    #[n(1)]
    Track = 1,
    /// A picture of 100 KB.
    #[n(2)]
    Image = 2,
    /// A sensor reading, a SenML pack; a synthetic one has 10 KB.
    #[n(3)]
    Sensor = 3,
}

open!(Service, [Video, Track, Image, Sensor]);

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

impl Service {
    /// All of them, in the order in which they are listed everywhere.
    pub const ALL: [Self; 4] = [Self::Video, Self::Track, Self::Image, Self::Sensor];

    /// Rates and sizes from Sproull et al. 2007, section IV: video 700 kbit/s,
    /// track 40 kbit/s, image 100 Kbyte, sensor 10 Kbyte. Video packets carry
    /// six MPEG transport packets (6 × 188 bytes): with seven, as much of the
    /// field sends them, sealed and with headers they exceed the 1200 bytes that
    /// pass every path, and the loss of either fragment loses both. Track
    /// packets carry 250 bytes, twenty a second.
    pub const fn flow_kind(self) -> FlowKind {
        match self {
            Self::Video => FlowKind::Stream { bits_per_second: 700_000, packet_bytes: 1128 },
            Self::Track => FlowKind::Stream { bits_per_second: 40_000, packet_bytes: 250 },
            Self::Image => FlowKind::Object { bytes: 100_000 },
            Self::Sensor => FlowKind::Object { bytes: 10_000 },
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

    /// The service's name on the command line, in files and in metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Video => "video",
            Self::Track => "track",
            Self::Image => "image",
            Self::Sensor => "sensor",
        }
    }
}

impl fmt::Display for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown service {0:?}: expected video, track, image or sensor")]
pub struct ParseServiceError(String);

impl FromStr for Service {
    type Err = ParseServiceError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL.into_iter().find(|service| service.name() == text).ok_or_else(|| ParseServiceError(text.to_owned()))
    }
}

#[derive(Clone, Copy, Default, PartialEq, Eq, Hash, Encode)]
#[cbor(transparent)]
pub struct ServiceSet(#[n(0)] u8);

impl ServiceSet {
    pub const EMPTY: Self = Self(0);
    pub const ALL: Self = Self(0b1111);

    #[must_use]
    pub const fn with(self, service: Service) -> Self {
        Self(self.0 | 1 << service as u8)
    }

    pub const fn contains(self, service: Service) -> bool {
        self.0 & 1 << service as u8 != 0
    }

    pub const fn is_empty(self) -> bool {
        self.0 & Self::ALL.0 == 0
    }

    /// The services in the set, in their usual order.
    pub fn iter(self) -> impl Iterator<Item = Service> {
        Service::ALL.into_iter().filter(move |service| self.contains(*service))
    }
}

impl<'b, C> Decode<'b, C> for ServiceSet {
    /// Leaves out services of later versions.
    fn decode(d: &mut minicbor::Decoder<'b>, _: &mut C) -> Result<Self, minicbor::decode::Error> {
        Ok(Self(d.u64()? as u8 & Self::ALL.0))
    }
}

impl FromIterator<Service> for ServiceSet {
    fn from_iter<I: IntoIterator<Item = Service>>(services: I) -> Self {
        services.into_iter().fold(Self::EMPTY, Self::with)
    }
}

impl fmt::Debug for ServiceSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter().map(Service::name)).finish()
    }
}

/// The part that a certificate lets its holder play.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Role {
    /// Offers and requests services.
    Node = 0,
    /// Indexes services and routes requests.
    SuperNode = 1,
    /// The client/server baseline's server.
    Server = 2,
}

impl Role {
    pub const ALL: [Self; 3] = [Self::Node, Self::SuperNode, Self::Server];

    /// The role's name in certificates, on the command line and in metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Node => "node",
            Self::SuperNode => "supernode",
            Self::Server => "server",
        }
    }

    pub const fn title(self) -> &'static str {
        match self {
            Self::SuperNode => "super node",
            Self::Node | Self::Server => self.name(),
        }
    }

    pub const fn is_hub(self) -> bool {
        matches!(self, Self::SuperNode | Self::Server)
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown role {0:?}: expected node, supernode or server")]
pub struct ParseRoleError(String);

impl FromStr for Role {
    type Err = ParseRoleError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL.into_iter().find(|role| role.name() == text).ok_or_else(|| ParseRoleError(text.to_owned()))
    }
}

/// A set of roles: whom a listener admits, or whom a dialler expects.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct RoleSet(u8);

impl RoleSet {
    pub const EMPTY: Self = Self(0);
    pub const ALL: Self = Self(0b111);

    /// The set with one role in it.
    pub const fn only(role: Role) -> Self {
        Self::EMPTY.with(role)
    }

    #[must_use]
    pub const fn with(self, role: Role) -> Self {
        Self(self.0 | 1 << role as u8)
    }

    pub const fn contains(self, role: Role) -> bool {
        self.0 & 1 << role as u8 != 0
    }

    pub fn iter(self) -> impl Iterator<Item = Role> {
        Role::ALL.into_iter().filter(move |role| self.contains(*role))
    }
}

impl fmt::Debug for RoleSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter().map(Role::name)).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reflected_rate_includes_overhead() {
        let rates = Service::ALL.map(Service::reflected_bits_per_second);
        assert_eq!(rates, [724_823, 46_400, 0, 0]);
    }
}
