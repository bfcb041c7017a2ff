//! A vehicle's path over a geostationary satellite, by the two states of Lutz et al.
//!
//! Lutz, Cygan, Dippold, Dolainsky and Papke, "The Land Mobile Satellite Communication Channel: Recording, Statistics,
//! and Channel Model", IEEE Transactions on Vehicular Technology 40(2), 1991: the channel is good while the satellite is in
//! sight, and bad while something shadows it; a Markov process switches between the two, so both last for exponentially
//! distributed times.
//!
//! Our choices, since their figures depend on the place: a good state of 6 s and a bad one of 2 s in the mean, hence a
//! quarter of the time in the shadow, where every packet is lost. The delay is that of light to a geostationary satellite
//! at an elevation of 24 degrees and back: 78 300 km.

use std::fmt::Write as _;
use std::time::Duration;

use super::TraceRandom;

const GOOD_S: f64 = 6.0;
const BAD_S: f64 = 2.0;
#[cfg(test)]
pub(super) const BAD_SHARE: f64 = BAD_S / (GOOD_S + BAD_S);
const DELAY_MS: u64 = 261;

pub(super) fn make(random: &mut TraceRandom, seed: u64, length: Duration) -> String {
    let mut text = format!(
        "# A geostationary satellite seen from a vehicle, seed {seed}: two states by Lutz et al. (1991), good for {GOOD_S} s\n\
         # and bad for {BAD_S} s in the mean. Made by emulate trace make.\n\
         time_s,delay_ms,loss\n"
    );
    let end = length.as_millis() as u64;
    let (mut at, mut is_bad) = (0, random.uniform() < BAD_S / (GOOD_S + BAD_S));
    while at < end {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{},{DELAY_MS},{}", at as f64 / 1e3, u8::from(is_bad));
        let mean = if is_bad { BAD_S } else { GOOD_S };
        at += ((random.exponential(mean) * 1e3).round() as u64).max(1);
        is_bad = !is_bad;
    }
    let _ = writeln!(text, "{},,", end as f64 / 1e3);
    text
}
