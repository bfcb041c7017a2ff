//! A cellular link by the model of Sprout.
//!
//! Winstein, Sivaraman and Balakrishnan, "Stochastic Forecasts Achieve High Throughput and Low Delay over Cellular
//! Networks", NSDI 2013: packets leave as a Poisson process whose rate is itself in Brownian motion between 0 and 1000
//! packets a second, with a deviation of 200 packets a second after one second, in ticks of 20 ms. The range has 256 bins,
//! and a step that would leave it does not happen. The lowest bin is an outage, which ends at a rate of once a second. These
//! are the constants and the steps of Sprout's published receiver.

use std::time::Duration;

use super::TraceRandom;

const MAX_RATE: f64 = 1000.0;
const DEVIATION: f64 = 200.0;
const ESCAPE: f64 = 1.0;
const TICK_MS: u64 = 20;
const LOWEST: f64 = MAX_RATE / 256.0;
/// Our choice: the model has no beginning.
const FIRST_RATE: f64 = 500.0;

pub(super) fn make(random: &mut TraceRandom, length: Duration) -> String {
    // A day of milliseconds fits.
    let end = length.as_millis() as u64;
    let (mut text, mut rate) = (String::new(), FIRST_RATE);
    for ms in 1..=end {
        if ms % TICK_MS == 0 {
            rate = next_rate(rate, random);
        }
        let packets = random.poisson(rate / 1e3);
        // The last line ends the trace, hence there is one in any case.
        let packets = if ms == end { packets.max(1) } else { packets };
        text.push_str(&format!("{ms}\n").repeat(packets as usize));
    }
    text
}

fn next_rate(rate: f64, random: &mut TraceRandom) -> f64 {
    let tick = TICK_MS as f64 / 1e3;
    if rate <= 0.0 && random.uniform() > 1.0 - (-ESCAPE * tick).exp() {
        return 0.0;
    }
    loop {
        let next = rate + random.normal(DEVIATION * tick.sqrt());
        match next {
            // An outage that ends goes up.
            _ if rate <= 0.0 && next < LOWEST => {}
            _ if (0.0..LOWEST).contains(&next) => return 0.0,
            _ if (0.0..=MAX_RATE).contains(&next) => return next,
            _ => {}
        }
    }
}
