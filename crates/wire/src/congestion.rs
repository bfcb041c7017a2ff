//! Congestion control: a transport's estimate of the capacity of a path.

use std::fmt;
use std::str::FromStr;

/// Congestion control of `quic://`, as `?cc=` of an endpoint names it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Congestion {
    /// TCP's: a loss is a full queue. Starves where connections lose packets by themselves.
    Cubic,
    /// By the rate and the shortest round trip that were seen: fills connections that
    /// lose packets by chance, and long ones, and keeps their queues short.
    #[default]
    Rate,
    /// UDT's: a rate that grows steadily and falls by a ninth with a loss,
    /// whatever the round trip.
    Udt,
    /// BBR as quinn has it, for comparison: it keeps queues full.
    Bbr,
}

impl Congestion {
    pub const ALL: [Self; 4] = [Self::Cubic, Self::Rate, Self::Udt, Self::Bbr];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Cubic => "cubic",
            Self::Rate => "rate",
            Self::Udt => "udt",
            Self::Bbr => "bbr",
        }
    }
}

impl fmt::Display for Congestion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Congestion {
    type Err = ParseCongestionError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL.into_iter().find(|one| one.name() == text).ok_or_else(|| ParseCongestionError(text.to_owned()))
    }
}

/// Why a text names no congestion control.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown congestion control {0:?}: expected cubic, rate, udt or bbr")]
pub struct ParseCongestionError(String);
