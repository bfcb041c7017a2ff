//! The figures of a trace: rates, delays, losses and times.

use std::time::Duration;

use super::{OPPORTUNITY_BYTES, TraceContent};

/// Quantiles that a summary shows, in percent.
pub const QUANTILES: [usize; 5] = [0, 5, 50, 95, 100];

/// The figures of a trace; `None` for what it does not give.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TraceSummary {
    pub period: Duration,
    pub entries: usize,
    /// Bits a second over the whole trace.
    pub mean_rate: Option<f64>,
    /// The least and the greatest mean of a window, bits a second.
    pub rate_range: Option<(f64, f64)>,
    /// The part of the time in which nothing passes, or that has no opportunity in a window.
    pub stands: Option<f64>,
    /// Quantiles of the delay over time, for [`QUANTILES`].
    pub delays: Option<[Duration; QUANTILES.len()]>,
    pub mean_delay: Option<Duration>,
    pub loss: Option<f64>,
    /// The part of the time for which the link is down.
    pub down: Option<f64>,
}

impl TraceSummary {
    /// Summarizes a trace; rates are means of windows of 100 ms, or longer ones in a long trace.
    pub fn new(content: &TraceContent) -> Self {
        let period = content.period();
        let window = Duration::from_millis(100).max(period / 10_000);
        let mut summary = Self { period, ..Self::default() };
        if content.has_rate() {
            let rates = rates(content, window);
            summary.mean_rate = Some(total_bits(content) / period.as_secs_f64());
            let fold = |pick: fn(f64, f64) -> f64| rates.iter().map(|(_, rate)| *rate).reduce(pick).unwrap_or(0.0);
            summary.rate_range = Some((fold(f64::min), fold(f64::max)));
            let zero = rates.iter().filter(|(_, rate)| *rate <= 0.0).count();
            summary.stands = Some(zero as f64 / rates.len().max(1) as f64);
        }
        match content {
            TraceContent::Opportunities(times) => summary.entries = times.len(),
            TraceContent::Steps(steps) => {
                summary.entries = steps.steps().len();
                let ends = steps.steps().iter().skip(1).map(|step| step.at).chain([steps.period()]);
                let held: Vec<_> = steps.steps().iter().zip(ends).map(|(it, end)| (it.values, end - it.at)).collect();
                let share = |nanos: f64| nanos / steps.period() as f64;
                let mean = |of: &dyn Fn(usize) -> Option<f64>| {
                    let parts: Option<Vec<f64>> = (0..held.len()).map(|at| Some(of(at)? * held[at].1 as f64)).collect();
                    parts.map(|parts| share(parts.iter().sum()))
                };
                summary.mean_delay = mean(&|at| Some(held[at].0.delay?.as_secs_f64())).map(Duration::from_secs_f64);
                summary.loss = mean(&|at| held[at].0.loss);
                summary.down = mean(&|at| held[at].0.is_up.map(|is_up| if is_up { 0.0 } else { 1.0 }));
                let delays: Option<Vec<_>> = held
                    .iter()
                    .map(|(values, length)| Some(HeldDelay { delay: values.delay?, nanos: *length }))
                    .collect();
                summary.delays = delays.map(|delays| quantiles(delays, steps.period()));
            }
        }
        summary
    }
}

/// A delay, and the time for which it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct HeldDelay {
    delay: Duration,
    nanos: u64,
}

/// The delays that hold for at most these parts of the time.
fn quantiles(mut delays: Vec<HeldDelay>, period: u64) -> [Duration; QUANTILES.len()] {
    delays.sort_unstable();
    QUANTILES.map(|percent| {
        let until = u128::from(period) * percent as u128 / 100;
        let mut passed = 0_u128;
        let reaches = |held: &&HeldDelay| {
            passed += u128::from(held.nanos);
            passed >= until
        };
        delays.iter().find(reaches).or(delays.last()).map_or(Duration::ZERO, |held| held.delay)
    })
}

fn total_bits(content: &TraceContent) -> f64 {
    match content {
        TraceContent::Opportunities(times) => times.len() as f64 * OPPORTUNITY_BYTES as f64 * 8.0,
        TraceContent::Steps(steps) => steps.total() as f64 / 1e9,
    }
}

/// The mean rate of each window of a trace: the time at which it begins, and bits a second. A trace without a rate has
/// none.
pub fn rates(content: &TraceContent, window: Duration) -> Vec<(Duration, f64)> {
    let (period, window) = (content.period().as_nanos(), window.as_nanos().max(1_000_000));
    let mut rates = Vec::new();
    let mut begin = 0_u128;
    while begin < period && content.has_rate() {
        let end = (begin + window).min(period);
        let bits = bits_before(content, end as u64) - bits_before(content, begin as u64);
        rates.push((Duration::from_nanos(begin as u64), bits * 1e9 / (end - begin) as f64));
        begin = end;
    }
    rates
}

/// The bits that can be sent before a place, in nanoseconds; at the end those of the whole trace.
fn bits_before(content: &TraceContent, place: u64) -> f64 {
    match content {
        TraceContent::Opportunities(times) => {
            let last = u128::from(place) >= content.period().as_nanos();
            let count = times.partition_point(|ms| last || u64::from(*ms) * 1_000_000 < place);
            count as f64 * OPPORTUNITY_BYTES as f64 * 8.0
        }
        TraceContent::Steps(steps) => steps.sum(place) as f64 / 1e9,
    }
}

#[cfg(test)]
mod tests {
    use super::super::read_trace;
    use super::*;

    #[test]
    fn opportunities_are_counted_by_window() {
        let every: String = (1..=1000).map(|ms| format!("{ms}\n")).collect();
        let summary = TraceSummary::new(&read_trace(&every).unwrap());
        assert_eq!((summary.entries, summary.mean_rate), (1000, Some(12_032_000.0)));
        assert_eq!((summary.delays, summary.loss, summary.stands), (None, None, Some(0.0)));
    }

    #[test]
    fn steps_are_weighed_by_time() {
        let text = "time_s,rate_mbps,delay_ms,loss,up\n0,1,10,0,1\n9,11,40,0.5,0\n10,,,,\n";
        let summary = TraceSummary::new(&read_trace(text).unwrap());
        assert_eq!((summary.mean_rate, summary.rate_range), (Some(2_000_000.0), Some((1e6, 11e6))));
        assert_eq!((summary.loss, summary.down), (Some(0.05), Some(0.1)));
        let ms = summary.delays.unwrap().map(|delay| delay.as_millis());
        assert_eq!(ms, [10, 10, 10, 40, 40]);
    }
}
