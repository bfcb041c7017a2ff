//! The link that a signal makes: up or down, its rate, loss and delay.

use std::time::Duration;

use roost_topology::model::{MAX_DELAY, Radio, RadioLinks, RadioLoss, RadioRate};
use roost_topology::units::Rate;

use super::LIGHT_MPS;
use super::budget::{Budget, LinkGeometry, Transceiver};
use super::path_loss::shannon_bps;

/// Changes below these do not matter: a share of the rate and delay, and a probability of loss.
const SHARE: f64 = 0.01;
const LEAST_DELAY: Duration = Duration::from_micros(1);
const LEAST_LOSS: f64 = 0.001;
const MAX_BPS: f64 = 1e12;

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinkState {
    pub is_up: bool,
    /// True if a sender defers to this signal, in a shared medium.
    pub is_sensed: bool,
    pub rate: Rate,
    pub loss: f64,
    pub delay: Duration,
    pub distance_m: f64,
    pub snr_db: f64,
}

impl LinkState {
    /// A link to a place that is not known.
    pub const NOWHERE: Self = Self {
        is_up: false,
        is_sensed: false,
        rate: Rate::UNLIMITED,
        loss: 0.0,
        delay: Duration::ZERO,
        distance_m: f64::INFINITY,
        snr_db: f64::NEG_INFINITY,
    };

    pub(crate) fn new(radio: &Radio, budget: &Budget, geometry: &LinkGeometry, ends: [&Transceiver; 2]) -> Self {
        let received_dbm = Budget::received_dbm(geometry, ends[0], ends[1]);
        let (distance_m, snr_db) = (geometry.distance_m, budget.snr_db(received_dbm));
        let in_reach = geometry.is_visible && radio.range_m.is_none_or(|range| distance_m <= range);
        let is_heard = in_reach && radio.sensitivity_dbm.is_none_or(|least| received_dbm >= least);
        let rate = rate(radio, snr_db, distance_m).filter(|_| is_heard);
        let sense_dbm = match &radio.links {
            RadioLinks::Shared(contention) => contention.sense_dbm,
            RadioLinks::Pairs | RadioLinks::Access(_) => None,
        };
        let is_sensed = sense_dbm.map_or(rate.is_some(), |least| geometry.is_visible && received_dbm >= least);
        let flight = Duration::try_from_secs_f64(distance_m / LIGHT_MPS).unwrap_or(MAX_DELAY);
        Self {
            is_up: rate.is_some(),
            is_sensed,
            rate: rate.unwrap_or(Rate::UNLIMITED),
            loss: loss(radio, snr_db, distance_m),
            delay: (radio.delay + flight).min(MAX_DELAY),
            distance_m,
            snr_db,
        }
    }

    pub(crate) fn differs(&self, other: &Self) -> bool {
        if (self.is_up, self.is_sensed) != (other.is_up, other.is_sensed) {
            return true;
        }
        if !self.is_up {
            return false;
        }
        let (rate, before) = (self.rate.bps() as f64, other.rate.bps() as f64);
        let (delay, last) = (self.delay.max(other.delay), self.delay.min(other.delay));
        (rate - before).abs() > SHARE * rate.max(before)
            || delay - last > LEAST_DELAY.max(last.mul_f64(SHARE))
            || (self.loss - other.loss).abs() > LEAST_LOSS
    }
}

fn rate(radio: &Radio, snr_db: f64, distance_m: f64) -> Option<Rate> {
    match &radio.rate {
        RadioRate::Fixed(rate) => Some(*rate),
        RadioRate::Snr(rows) => rows.iter().rev().find(|(least, _)| snr_db >= *least).map(|(_, rate)| *rate),
        RadioRate::Distance(rows) => rows.iter().find(|(most, _)| distance_m <= *most).map(|(_, rate)| *rate),
        RadioRate::Shannon { efficiency, most } => {
            let bps = (efficiency * shannon_bps(radio.bandwidth_hz, snr_db)).min(MAX_BPS);
            // Below a bit a second there is no link; the cast is in range.
            (bps >= 1.0).then(|| Rate::from_bps(bps as u64).slower(*most))
        }
    }
}

/// The loss: straight between two rows of a table, and that of the nearest row outside of it.
fn loss(radio: &Radio, snr_db: f64, distance_m: f64) -> f64 {
    let (rows, at) = match &radio.loss {
        RadioLoss::Fixed(loss) => return *loss,
        RadioLoss::Snr(rows) => (rows, snr_db),
        RadioLoss::Distance(rows) => (rows, distance_m),
    };
    let place = rows.partition_point(|(row, _)| *row <= at);
    match (place.checked_sub(1).and_then(|before| rows.get(before)), rows.get(place)) {
        (Some((low, from)), Some((high, to))) => from + (to - from) * (at - low) / (high - low),
        (Some((_, value)), None) | (None, Some((_, value))) => *value,
        (None, None) => 0.0,
    }
}
