//! The link budget of a radio: the strength of a signal between two places.

use roost_topology::model::{HostIndex, PathLoss, Radio};
use roost_wire::random::SplitMix64;

use super::frame::{EARTH_M, Spot, distance_m};
use super::path_loss;

/// The power, gain and antenna height of one member.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Transceiver {
    pub power_dbm: f64,
    pub gain_dbi: f64,
    pub height_m: f64,
}

impl Transceiver {
    pub fn from_radio(radio: &Radio, host: HostIndex) -> Self {
        let mut own = Self { power_dbm: radio.power_dbm, gain_dbi: radio.gain_dbi, height_m: radio.height_m };
        for station in radio.stations.iter().filter(|station| station.host == host) {
            own.power_dbm = station.power_dbm.unwrap_or(own.power_dbm);
            own.gain_dbi = station.gain_dbi.unwrap_or(own.gain_dbi);
            own.height_m = station.height_m.unwrap_or(own.height_m);
        }
        own
    }
}

/// The parts of a radio's budget that all its links share.
#[derive(Clone, Debug)]
pub struct Budget {
    path_loss: PathLoss,
    frequency_hz: f64,
    noise_dbm: f64,
    horizon: Option<f64>,
    ground_m: f64,
}

/// A place, and what sends and receives there.
#[derive(Clone, Copy, Debug)]
pub struct LinkEnd<'a> {
    pub spot: &'a Spot,
    pub transceiver: &'a Transceiver,
}

/// Two places as a radio sees them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinkGeometry {
    pub distance_m: f64,
    pub path_loss_db: f64,
    pub is_visible: bool,
}

impl Budget {
    pub fn new(radio: &Radio, ground_m: f64) -> Self {
        Self {
            path_loss: radio.path_loss,
            frequency_hz: radio.frequency_hz,
            noise_dbm: path_loss::noise_dbm(radio.bandwidth_hz, radio.noise_figure_db),
            horizon: radio.horizon,
            ground_m,
        }
    }

    /// The geometry between two members; the same both ways. `shadow_db` is the pair's own part of the loss.
    pub fn geometry(&self, ends: [LinkEnd<'_>; 2], shadow_db: f64) -> LinkGeometry {
        let [LinkEnd { spot: here, transceiver: own }, LinkEnd { spot: there, transceiver: other }] = ends;
        let distance_m = distance_m(here, there);
        let height = |spot: &Spot, end: &Transceiver| (spot.altitude_m - self.ground_m + end.height_m).max(0.0);
        let heights_m = [height(here, own), height(there, other)];
        let path_loss_db = match self.path_loss {
            PathLoss::FreeSpace => path_loss::free_space_db(distance_m, self.frequency_hz),
            PathLoss::TwoRay => path_loss::two_ray_db(distance_m, self.frequency_hz, heights_m),
            PathLoss::LogDistance { exponent, reference_m, .. } => {
                path_loss::log_distance_db(distance_m, self.frequency_hz, exponent, reference_m) + shadow_db
            }
        };
        let is_visible = self.horizon.is_none_or(|factor| visible(here.ground_distance_m(there), heights_m, factor));
        LinkGeometry { distance_m, path_loss_db, is_visible }
    }

    pub fn received_dbm(geometry: &LinkGeometry, sender: &Transceiver, receiver: &Transceiver) -> f64 {
        sender.power_dbm + sender.gain_dbi + receiver.gain_dbi - geometry.path_loss_db
    }

    pub fn snr_db(&self, received_dbm: f64) -> f64 {
        received_dbm - self.noise_dbm
    }
}

/// True if neither end is below the other's horizon, over an Earth whose radius is multiplied by `factor`.
pub fn visible(ground_distance_m: f64, heights_m: [f64; 2], factor: f64) -> bool {
    let radius_m = EARTH_M * factor;
    let reach: f64 = heights_m.iter().map(|height| path_loss::horizon_m(*height, radius_m)).sum();
    ground_distance_m <= reach
}

/// A pair's part of the loss: normal, from the run's seed and the two hosts, the same both ways.
pub(crate) fn shadow_db(radio: &Radio, seed: u64, pair: [HostIndex; 2]) -> f64 {
    let PathLoss::LogDistance { shadowing_db, .. } = radio.path_loss else { return 0.0 };
    if shadowing_db <= 0.0 {
        return 0.0;
    }
    let [a, b] = [pair[0].min(pair[1]) as u64, pair[0].max(pair[1]) as u64];
    let mixed = [radio.net as u64, a, b]
        .into_iter()
        .fold(seed, |state, part| SplitMix64::new(state ^ part.wrapping_mul(0x9e37_79b9_7f4a_7c15)).next_u64());
    let mut random = SplitMix64::new(mixed);
    let mut unit = || (random.next_u64() >> 11) as f64 / (1_u64 << 53) as f64;
    // Box and Muller 1958; one minus a draw below one is never zero.
    let (first, second) = (1.0 - unit(), unit());
    shadowing_db * (-2.0 * first.ln()).sqrt() * (std::f64::consts::TAU * second).cos()
}
