//! A cellular link by the model of Sprout.
//!
//! Winstein, Sivaraman and Balakrishnan, "Stochastic Forecasts Achieve High Throughput and Low Delay over Cellular
//! Networks", NSDI 2013: packets leave as a Poisson process whose rate is itself in Brownian motion between 0 and 1000
//! packets a second, with a deviation of 200 packets a second after one second, in ticks of 20 ms. A rate of 0 is an
//! outage, which ends at a rate of once a second. These are the constants of Sprout's published receiver.

use std::time::Duration;

use super::TraceRandom;

/// Packets a second.
const MAX_RATE: f64 = 1000.0;
/// Packets a second, after one second.
const DEVIATION: f64 = 200.0;
/// Ends of outages a second.
const ESCAPE: f64 = 1.0;
const TICK_MS: u64 = 20;
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
        let step = random.normal(DEVIATION * tick.sqrt());
        // An outage that ends goes up; beyond the greatest rate nothing is possible.
        let next = if rate <= 0.0 { step.abs() } else { rate + step };
        if next <= MAX_RATE {
            return next.max(0.0);
        }
    }
}
