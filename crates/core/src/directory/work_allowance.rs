//! Work that is rationed: so many units a second for all who cause it.

use roost_wire::Time;

/// Predicted positions in a second, 5 µs each.
const UNITS_PER_SECOND: f64 = 20_000.0;

#[derive(Debug)]
pub(crate) struct WorkAllowance {
    most: f64,
    left: f64,
    refilled: Time,
}

impl WorkAllowance {
    /// At most so many units at once.
    pub(crate) fn new(most: u32) -> Self {
        Self { most: f64::from(most), left: f64::from(most), refilled: Time::ZERO }
    }

    /// The whole units that are left now.
    pub(crate) fn refill(&mut self, now: Time) -> u32 {
        let earned = now.since(self.refilled).as_secs_f64() * UNITS_PER_SECOND;
        self.left = (self.left + earned).min(self.most);
        self.refilled = now;
        self.left as u32
    }

    pub(crate) fn spend(&mut self, units: u32) {
        self.left = (self.left - f64::from(units)).max(0.0);
    }
}
