//! Radios: hosts whose links follow from their distances.

use std::time::Duration;

use super::{HostIndex, NetIndex, Queue};
use crate::units::Rate;

/// The most hosts of one radio: each pair of them has its own link.
pub const MAX_RADIO_MEMBERS: usize = 256;

/// A LAN whose members hear each other by radio. The members of the net are those of the radio.
#[derive(Clone, Debug, PartialEq)]
pub struct Radio {
    pub net: NetIndex,
    pub links: RadioLinks,
    pub path_loss: PathLoss,
    pub power_dbm: f64,
    /// The gain of one antenna; a link has two.
    pub gain_dbi: f64,
    /// The height of antennas above their hosts' positions.
    pub height_m: f64,
    pub frequency_hz: f64,
    pub bandwidth_hz: f64,
    pub noise_figure_db: f64,
    pub sensitivity_dbm: Option<f64>,
    pub range_m: Option<f64>,
    /// The factor of the Earth's radius for the horizon; `None` looks through the Earth.
    pub horizon: Option<f64>,
    pub rate: RadioRate,
    pub loss: RadioLoss,
    /// The part of the delay that does not depend on the distance.
    pub delay: Duration,
    pub queue: Queue,
    pub stations: Vec<Station>,
}

/// The power and gain of one host, where they differ from the radio's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Station {
    pub host: HostIndex,
    pub power_dbm: Option<f64>,
    pub gain_dbi: Option<f64>,
    pub height_m: Option<f64>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum RadioLinks {
    /// Each pair has a channel of its own.
    Pairs,
    Shared(Contention),
    /// Hosts attach to the best of some among them.
    Access(Access),
}

#[derive(Clone, Debug, PartialEq)]
pub struct Access {
    pub points: Vec<HostIndex>,
    /// Another access point must be stronger by this.
    pub hysteresis_db: f64,
    /// The time without a link while a host changes its access point.
    pub interruption: Duration,
}

/// The distributed coordination function of IEEE 802.11.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Contention {
    pub slot: Duration,
    pub sifs: Duration,
    pub difs: Duration,
    /// The first and the last contention window, in slots.
    pub window: u32,
    pub window_most: u32,
    /// Transmissions of one packet beyond the first.
    pub retries: u32,
    /// The time before the first bit of a frame: preamble and physical header.
    pub preamble: Duration,
    /// Bytes that a frame has beyond its Ethernet frame.
    pub header_bytes: u32,
    pub ack_bytes: u32,
    /// The rate of acknowledgements and of multicast.
    pub basic_rate: Rate,
    /// The weakest signal that others defer to; `None` is the weakest that is received.
    pub sense_dbm: Option<f64>,
}

impl Contention {
    /// OFDM in 20 MHz: IEEE 802.11-2020, table 17-21. The header is that of a data frame with LLC/SNAP and check
    /// sum, 36 bytes, in place of Ethernet's 14.
    pub const OFDM: Self = Self {
        slot: Duration::from_micros(9),
        sifs: Duration::from_micros(16),
        difs: Duration::from_micros(34),
        window: 16,
        window_most: 1024,
        retries: 7,
        preamble: Duration::from_micros(20),
        header_bytes: 22,
        ack_bytes: 14,
        basic_rate: Rate::from_bps(6_000_000),
        sense_dbm: None,
    };
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum PathLoss {
    FreeSpace,
    LogDistance {
        exponent: f64,
        reference_m: f64,
        /// The standard deviation of a pair's own part.
        shadowing_db: f64,
    },
    TwoRay,
}

#[derive(Clone, Debug, PartialEq)]
pub enum RadioRate {
    Fixed(Rate),
    /// The rate of the last row that the SNR reaches; below the first there is no link.
    Snr(Vec<(f64, Rate)>),
    /// The rate of the first row that is far enough; beyond the last there is no link.
    Distance(Vec<(f64, Rate)>),
    /// A part of Shannon's bound, and the greatest rate.
    Shannon {
        efficiency: f64,
        most: Rate,
    },
}

/// The loss of packets, straight between the rows of a table.
#[derive(Clone, Debug, PartialEq)]
pub enum RadioLoss {
    Fixed(f64),
    Snr(Vec<(f64, f64)>),
    Distance(Vec<(f64, f64)>),
}

/// The reason why a radio takes no changes and no traces, for people.
pub fn no_change_of_radio(name: &str) -> String {
    format!(
        "`{name}` is a radio, and its links follow from places: give its [[radio]] other keys, in a plan as \
         topology.radio.{name}.range, or kill or stop a host"
    )
}
