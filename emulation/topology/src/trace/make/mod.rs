//! Traces by models: the same seed makes the same trace.

mod cellular;
mod satellite;
mod starlink;

use std::time::Duration;

use roost_wire::random::SplitMix64;

pub const MAX_LENGTH: Duration = Duration::from_secs(24 * 3600);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TraceModel {
    /// The rate of a cellular link, in Mahimahi's form.
    Cellular,
    /// Rate, delay and loss of a path over satellites in low orbit, as CSV.
    Starlink,
    /// Delay, and loss in bursts, of a vehicle's path over a geostationary satellite, as CSV.
    Satellite,
}

impl TraceModel {
    /// The text of a trace of this length.
    pub fn make(self, seed: u64, length: Duration) -> String {
        // Seeds side by side must not give streams side by side.
        let mut random = TraceRandom(SplitMix64::new(SplitMix64::new(seed).next_u64()));
        let length = length.clamp(Duration::from_millis(100), MAX_LENGTH);
        match self {
            Self::Cellular => cellular::make(&mut random, length),
            Self::Starlink => starlink::make(&mut random, seed, length),
            Self::Satellite => satellite::make(&mut random, seed, length),
        }
    }
}

struct TraceRandom(SplitMix64);

impl TraceRandom {
    fn uniform(&mut self) -> f64 {
        (self.0.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
    }

    fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.uniform()
    }

    fn exponential(&mut self, mean: f64) -> f64 {
        -mean * (1.0 - self.uniform()).ln()
    }

    /// Of mean 0 (Box and Muller 1958).
    fn normal(&mut self, deviation: f64) -> f64 {
        let radius = (-2.0 * (1.0 - self.uniform()).ln()).sqrt();
        deviation * radius * (std::f64::consts::TAU * self.uniform()).cos()
    }

    /// By the times between arrivals; for small means.
    fn poisson(&mut self, mean: f64) -> u32 {
        let (mut count, mut passed) = (0, self.exponential(1.0));
        while passed < mean {
            count += 1;
            passed += self.exponential(1.0);
        }
        count
    }
}

#[cfg(test)]
mod tests {
    use super::super::{TraceContent, TraceSummary, read_trace};
    use super::*;

    const MODELS: [TraceModel; 3] = [TraceModel::Cellular, TraceModel::Starlink, TraceModel::Satellite];

    fn summary(model: TraceModel, seconds: u64) -> TraceSummary {
        TraceSummary::new(&read_trace(&model.make(7, Duration::from_secs(seconds))).unwrap())
    }

    #[test]
    fn seed_repeats_trace_of_length() {
        for model in MODELS {
            let length = Duration::from_secs(61);
            let text = model.make(3, length);
            assert_eq!(text, model.make(3, length));
            assert_ne!(text, model.make(4, length));
            assert_eq!(read_trace(&text).unwrap().period(), length, "{model:?}");
        }
    }

    #[test]
    fn cellular_rate_stays_in_range() {
        let summary = summary(TraceModel::Cellular, 600);
        let mean = summary.mean_rate.unwrap();
        // At most a thousand packets a second, and neither full nor empty for long.
        assert!((1e6..11e6).contains(&mean), "{mean}");
        assert!(summary.stands.unwrap() > 0.0 && summary.stands.unwrap() < 0.5, "{summary:?}");
    }

    #[test]
    fn starlink_changes_at_known_seconds() {
        let Ok(TraceContent::Steps(steps)) = read_trace(&TraceModel::Starlink.make(1, Duration::from_secs(120))) else {
            panic!("no steps")
        };
        let rate = |second: u64| steps.values(second * 1_000_000_000 + 500_000_000).rate;
        for second in 0..119 {
            let changes = matches!((second + 1) % 60, 12 | 27 | 42 | 57);
            assert_eq!(rate(second) != rate(second + 1), changes, "second {second}");
        }
        let loss = TraceSummary::new(&TraceContent::Steps(steps)).loss.unwrap();
        assert!((0.01..0.02).contains(&loss), "{loss}");
    }

    #[test]
    fn satellite_is_bad_for_its_share() {
        let loss = summary(TraceModel::Satellite, 36_000).loss.unwrap();
        assert!((loss - satellite::BAD_SHARE).abs() < 0.03, "{loss}");
    }
}
