//! The rate of a leg, and how sure it is.

use crate::source::Certainty;

/// A leg that has delivered this much more than small objects tell is not what slowed them.
pub(crate) const EXCEEDED: f64 = 1.15;
/// The streams that tell a rate: a single one may have lost packets elsewhere.
pub(crate) const STREAMS: usize = 2;
/// The ways that tell a leg from those at their other ends.
const WAYS: usize = 2;
/// The measurements that make a rate sure.
const SURE: usize = 3;

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct LegRate {
    /// Bits per second; `None` where nothing limits that was seen.
    pub(crate) bps: Option<f64>,
    pub(crate) reached_bps: f64,
    /// Small objects over it, and streams that lost packets while it was full.
    pub(crate) objects: usize,
    pub(crate) streams: usize,
    /// Other hosts from or to which small objects went.
    pub(crate) ways: usize,
    pub(crate) is_mirrored: bool,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct HostRates {
    pub(crate) up: LegRate,
    pub(crate) down: LegRate,
}

impl LegRate {
    pub(crate) fn certainty(&self) -> Certainty {
        let streams = if self.streams >= STREAMS { self.streams } else { 0 };
        match (self.bps, streams.max(self.objects)) {
            (Some(_), _) if self.is_mirrored => Certainty::Assumed,
            // The leg at the other end may be the slower one.
            (Some(_), 1..) if streams == 0 && self.ways < WAYS => Certainty::Estimated,
            (None, _) | (_, 0) => Certainty::Assumed,
            (_, SURE..) => Certainty::Measured,
            _ => Certainty::Estimated,
        }
    }

    pub(crate) fn source(&self) -> String {
        let reached = format!("{:.2} Mbit/s were reached", self.reached_bps / 1e6);
        match (self.bps, self.streams, self.objects) {
            (Some(_), _, _) if self.is_mirrored => format!("that of the other direction; {reached}"),
            (Some(_), count @ STREAMS.., _) => format!("{count} streams lost packets when {reached}"),
            (Some(_), _, count) => format!("time of small objects, {count} of them; {reached}"),
            (None, _, 0) => format!("no small object went there; {reached}"),
            (None, _, count) => format!("small objects, {count} of them, were not slowed there; {reached}"),
        }
    }

    pub(crate) const fn add_way(&mut self, objects: usize) {
        self.objects += objects;
        self.ways += 1;
    }

    pub(crate) const fn reached(&mut self, bps: f64) {
        self.reached_bps = self.reached_bps.max(bps);
    }

    /// The rate that is known so far: no limit if none is.
    pub(crate) fn known(&self) -> f64 {
        self.bps.unwrap_or(f64::INFINITY)
    }
}

impl HostRates {
    /// A direction that nothing measured has the rate of the other one.
    pub(crate) fn complete(&mut self) {
        let Self { up, down } = self;
        let measured = [up.bps, down.bps];
        for (own, other) in [(up, measured[1]), (down, measured[0])] {
            if own.bps.is_none() && own.objects == 0 && other.is_some_and(|bps| bps >= own.reached_bps / EXCEEDED) {
                own.bps = other;
                own.is_mirrored = true;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_way_tells_no_leg() {
        let leg = |ways, streams| LegRate { bps: Some(1e6), objects: 9, ways, streams, ..LegRate::default() };
        assert_eq!(leg(1, 0).certainty(), Certainty::Estimated);
        assert_eq!([leg(2, 0).certainty(), leg(1, 3).certainty()], [Certainty::Measured; 2]);
    }
}
