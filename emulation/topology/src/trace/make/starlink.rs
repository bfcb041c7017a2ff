//! A path over satellites in low orbit, by published measurements of Starlink.
//!
//! From texts:
//! - The network is arranged anew every 15 seconds, everywhere at once, and rates and delays change with it (Mohan et
//!   al., "A Multifaceted Look at Starlink Performance", WWW 2024, abstract). It happens at the seconds 12, 27, 42 and 57
//!   of each minute (Pan, Zhao and Cai, "Measuring the Satellite Links of a LEO Network", ICC 2024, and their tools).
//! - The round trip is 30 ms in the median, and 42 ms at the 95th percentile (SpaceX to the FCC, 2020).
//! - Successive round trips differ by 6.7 ms in the mean; a change of satellites adds 30 to 50 ms; 1 to 2 % of packets are
//!   lost without congestion; rates go from 10 to 370 Mbit/s (Huston, "A Transport Protocol's View of Starlink", APNIC
//!   2024).
//!
//! Our choices, for which we know of no figure: a trace begins at second 0 of a minute; half of a round trip is one way;
//! the rate of a slot is drawn evenly on a logarithmic scale; a change takes 300 ms and loses a quarter of the packets in
//! that time, and 1 % are lost otherwise, which makes 1.5 % in all.

use std::fmt::Write as _;
use std::time::Duration;

use super::TraceRandom;

/// The first change of each minute, and the time between two.
const FIRST_MS: u64 = 12_000;
const SLOT_MS: u64 = 15_000;
const STEP_MS: u64 = 100;
const CHANGE_MS: u64 = 300;
/// The least round trip of a slot; the noise comes on top of it and has a mean of 6.7 ms.
const ROUND_TRIP_MS: (f64, f64) = (20.0, 30.0);
const NOISE_MS: f64 = 6.7;
/// The most that noise adds, so that one draw makes no outage.
const MOST_NOISE_MS: f64 = 50.0;
const CHANGE_ADDS_MS: (f64, f64) = (30.0, 50.0);
const LOSS: f64 = 0.01;
const LOSS_AT_CHANGE: f64 = 0.25;
const RATE_MBPS: (f64, f64) = (10.0, 370.0);

struct Slot {
    rate: f64,
    round_trip: f64,
    change_adds: f64,
}

impl Slot {
    fn draw(random: &mut TraceRandom) -> Self {
        Self {
            rate: random.between(RATE_MBPS.0.ln(), RATE_MBPS.1.ln()).exp(),
            round_trip: random.between(ROUND_TRIP_MS.0, ROUND_TRIP_MS.1),
            change_adds: random.between(CHANGE_ADDS_MS.0, CHANGE_ADDS_MS.1),
        }
    }
}

pub(super) fn make(random: &mut TraceRandom, seed: u64, length: Duration) -> String {
    let mut text = format!(
        "# Starlink, seed {seed}: changes at the seconds 12, 27, 42 and 57; by Mohan et al. (WWW 2024), Pan et al.\n\
         # (ICC 2024) and Huston (APNIC 2024). Made by emulate trace make.\n\
         time_s,rate_mbps,delay_ms,loss\n"
    );
    let end = length.as_millis() as u64;
    let mut slot = Slot::draw(random);
    for ms in (0..end).step_by(STEP_MS as usize) {
        // Counted from the change that would have been before the beginning.
        let into = (ms + SLOT_MS - FIRST_MS % SLOT_MS) % SLOT_MS;
        if into == 0 && ms > 0 {
            slot = Slot::draw(random);
        }
        let changes = into < CHANGE_MS;
        let noise = random.exponential(NOISE_MS).min(MOST_NOISE_MS);
        let delay = (slot.round_trip + noise + if changes { slot.change_adds } else { 0.0 }) / 2.0;
        let loss = if changes { LOSS_AT_CHANGE } else { LOSS };
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{},{:.3},{delay:.3},{loss}", ms as f64 / 1e3, slot.rate);
    }
    let _ = writeln!(text, "{},,,", end as f64 / 1e3);
    text
}
