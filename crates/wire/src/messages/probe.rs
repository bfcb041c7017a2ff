//! The first message of both ends of a connection: the version that they speak, and their
//! capabilities beyond it.

use std::fmt;

use minicbor::decode::Error as DecodeError;
use minicbor::{Decode, Decoder, Encode};

use super::document::Holdings;
use crate::position::LatLon;

/// The greeting of a connection, and signs of life.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(flat)]
pub enum ProbeMessage {
    /// Is anybody there? Answered by `Pong` with the same token.
    #[n(19)]
    Ping(#[n(0)] u32),
    /// The answer to a `Ping`, with its token.
    #[n(20)]
    Pong(#[n(0)] u32),
    /// The version and capabilities of its sender: the first message of each end of a connection.
    #[n(57)]
    Hello(#[n(0)] Hello),
}

/// The version of the messages that an end of a connection speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Encode, Decode)]
#[cbor(array)]
pub struct ProtocolVersion {
    /// Another one means that nothing can be said to one another.
    #[n(0)]
    pub major: u16,
    /// Grows with whatever is added. One and the next work together.
    #[n(1)]
    pub minor: u16,
}

impl ProtocolVersion {
    /// The version of this build.
    pub const CURRENT: Self = Self { major: 2, minor: 0 };

    /// The lowest one that this build can speak with.
    pub const LOWEST: Self = Self { major: 2, minor: 0 };
}

impl fmt::Display for ProtocolVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// Abilities that another end of the same version may lack. Bits that are not known here are left out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Encode)]
#[cbor(transparent)]
pub struct Capabilities(#[n(0)] u64);

impl Capabilities {
    /// No capability beyond the version.
    pub const NONE: Self = Self(0);
    /// Values and messages of later versions are skipped, where an end without
    /// this refuses the whole message.
    pub const SKIPS_UNKNOWN: Self = Self(1);
    /// Documents of the group are held, taken and given.
    pub const DOCUMENTS: Self = Self(2);
    /// Sealed files are kept for nodes, or taken from hubs.
    pub const MAILBOX: Self = Self(4);
    /// All capabilities of this build of the program.
    pub const OWN: Self = Self(Self::SKIPS_UNKNOWN.0 | Self::DOCUMENTS.0 | Self::MAILBOX.0);

    /// All of these but `left_out`.
    #[must_use]
    pub const fn without(self, left_out: Self) -> Self {
        Self(self.0 & !left_out.0)
    }

    /// True if all of `wanted` are there.
    pub const fn contains_all(self, wanted: Self) -> bool {
        self.0 & wanted.0 == wanted.0
    }
}

impl<'b, C> Decode<'b, C> for Capabilities {
    fn decode(d: &mut Decoder<'b>, _: &mut C) -> Result<Self, DecodeError> {
        Ok(Self(d.u64()? & Self::OWN.0))
    }
}

/// The content of [`ProbeMessage::Hello`].
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(array)]
pub struct Hello {
    /// The version that the sender speaks.
    #[n(0)]
    pub protocol: ProtocolVersion,
    /// The sender's capabilities beyond that version.
    #[n(1)]
    pub capabilities: Capabilities,
    /// The sender's wall clock, seconds of the Unix epoch. It is for people alone: an end that is
    /// told a wrong one believes nothing else for it.
    #[n(2)]
    pub clock_s: Option<u64>,
    /// The documents that the sender holds; left out if it holds none.
    #[n(3)]
    pub holdings: Option<Holdings>,
    /// The place of the sender's grid on the Earth; left out by one with a plain grid, and by older builds. All of it
    /// takes as many bytes as a digest would, and lets a refusal name both.
    #[n(4)]
    pub datum: Option<StatedDatum>,
}

/// A group's datum as the ends of a connection tell it to one another. It is compared and never used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(array)]
pub struct StatedDatum {
    /// The corner of cell (0, 0), by latitude and longitude.
    #[n(0)]
    pub origin: LatLon,
    /// The side of a cell, in whole meters.
    #[n(1)]
    pub cell_m: u32,
}

impl fmt::Display for StatedDatum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the datum {} with cells of {} m", self.origin, self.cell_m)
    }
}

impl Hello {
    /// The greeting of this build, without a clock, documents and a datum.
    pub const OWN: Self = Self {
        protocol: ProtocolVersion::CURRENT,
        capabilities: Capabilities::OWN,
        clock_s: None,
        holdings: None,
        datum: None,
    };

    /// Assumed of an end that sends none: the lowest version, without capabilities.
    pub const ASSUMED: Self = Self { protocol: ProtocolVersion::LOWEST, capabilities: Capabilities::NONE, ..Self::OWN };

    /// Why nothing can be said to the end that says this, by one with this datum; `None` if all is well.
    pub fn refusal(&self, datum: Option<StatedDatum>) -> Option<String> {
        self.version_refusal().or_else(|| {
            let named = |datum: Option<StatedDatum>| datum.map_or("a plain grid".to_owned(), |datum| datum.to_string());
            (self.datum != datum).then(|| {
                format!(
                    "one end has {} and the other has {}, so a cell would be two places: the member that has not what roost group show tells must be upgraded and join again",
                    named(datum),
                    named(self.datum)
                )
            })
        })
    }

    fn version_refusal(&self) -> Option<String> {
        let (own, other) = (ProtocolVersion::CURRENT, self.protocol);
        (own.major != other.major).then(|| {
            let older = own.min(other);
            format!(
                "one end speaks version {own} of the protocol and the other one {other}, which cannot work together: upgrade the one with {older}"
            )
        })
    }
}
