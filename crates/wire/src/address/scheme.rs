//! The transports that endpoints and addresses name.

use std::fmt;
use std::str::FromStr;

use minicbor::{Decode, Encode};

use crate::open::open;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Encode)]
#[cbor(index_only)]
#[repr(u8)]
pub enum Scheme {
    /// DTLS 1.3 over UDP.
    #[n(0)]
    Udp = 0,
    /// TLS 1.3 over TCP.
    #[n(1)]
    Tcp = 1,
    /// QUIC.
    #[n(2)]
    Quic = 2,
}

open!(Scheme, [Udp, Tcp, Quic]);

impl Scheme {
    pub const ALL: [Self; 3] = [Self::Udp, Self::Tcp, Self::Quic];

    /// The scheme's name in endpoints, flags and metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Udp => "udp",
            Self::Tcp => "tcp",
            Self::Quic => "quic",
        }
    }
}

impl fmt::Display for Scheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Scheme {
    type Err = ParseSchemeError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL.into_iter().find(|scheme| scheme.name() == text).ok_or_else(|| ParseSchemeError(text.to_owned()))
    }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown transport {0:?}: expected udp, tcp or quic")]
pub struct ParseSchemeError(String);

/// The transports that may serve a request.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Encode)]
#[cbor(transparent)]
pub struct SchemeSet(#[n(0)] u8);

impl SchemeSet {
    pub const EMPTY: Self = Self(0);
    pub const ALL: Self = Self(0b111);

    /// The set with one transport in it.
    pub const fn only(scheme: Scheme) -> Self {
        Self(1 << scheme as u8)
    }

    #[must_use]
    pub const fn with(self, scheme: Scheme) -> Self {
        Self(self.0 | 1 << scheme as u8)
    }

    pub const fn contains(self, scheme: Scheme) -> bool {
        self.0 & 1 << scheme as u8 != 0
    }

    /// True if no transport is in the set.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }
}

impl FromIterator<Scheme> for SchemeSet {
    fn from_iter<I: IntoIterator<Item = Scheme>>(schemes: I) -> Self {
        schemes.into_iter().fold(Self::EMPTY, Self::with)
    }
}

impl<'b, C> Decode<'b, C> for SchemeSet {
    /// Leaves out transports of later versions.
    fn decode(d: &mut minicbor::Decoder<'b>, _: &mut C) -> Result<Self, minicbor::decode::Error> {
        Ok(Self(d.u64()? as u8 & Self::ALL.0))
    }
}

impl Default for SchemeSet {
    fn default() -> Self {
        Self::ALL
    }
}

impl fmt::Debug for SchemeSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let members = Scheme::ALL.into_iter().filter(|scheme| self.contains(*scheme));
        f.debug_set().entries(members.map(Scheme::name)).finish()
    }
}
