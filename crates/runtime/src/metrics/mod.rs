//! Metrics in the form that Prometheus reads.
//!
//! Names begin with `roost_`, units are base units, counters end in `_total`. Labels are bounded: transport, service,
//! mode, outcome, traffic class, reason; never a node or an address. Each subsystem registers its own metrics here
//! once.

mod process;
mod transport;

use prometheus::core::Collector;
use prometheus::{Encoder, IntCounter, IntGauge, IntGaugeVec, Opts, Registry, TextEncoder};

pub use process::ProcessMetrics;
pub use transport::{TransportMetrics, refused};

pub const TEXT_FORMAT: &str = "text/plain; version=0.0.4; charset=utf-8";

#[derive(Clone, Debug, Default)]
pub struct Metrics {
    registry: Registry,
}

impl Metrics {
    /// Starts the metrics with the daemon's version and role in `roost_build_info`.
    ///
    /// # Errors
    /// Never in practice: the names are sound and used once.
    pub fn new(role: &str) -> Result<Self, prometheus::Error> {
        let metrics = Self::default();
        let opts = Opts::new("roost_build_info", "Always 1; the labels say which program this is.");
        let info = metrics.register(IntGaugeVec::new(opts, &["version", "role"])?)?;
        info.with_label_values(&[env!("CARGO_PKG_VERSION"), role]).set(1);
        Ok(metrics)
    }

    /// Adds a gauge without labels.
    ///
    /// # Errors
    /// Fails if the name is taken.
    pub fn gauge(&self, name: &str, help: &str) -> Result<IntGauge, prometheus::Error> {
        self.register(IntGauge::new(name, help)?)
    }

    /// # Errors
    /// Fails if the name is taken.
    pub fn register<C: Collector + Clone + 'static>(&self, collector: C) -> Result<C, prometheus::Error> {
        self.registry.register(Box::new(collector.clone()))?;
        Ok(collector)
    }

    /// # Errors
    /// Never in practice: every metric has a name and a value.
    pub fn text(&self) -> Result<Vec<u8>, prometheus::Error> {
        let mut text = Vec::with_capacity(8 * 1024);
        TextEncoder::new().encode(&self.registry.gather(), &mut text)?;
        Ok(text)
    }
}

/// Reads a total in another part's counts.
pub type Total<T> = fn(&T) -> u64;

/// The name, the help and the total of a counter.
pub struct CounterRow<T: 'static>(pub &'static str, pub &'static str, pub Total<T>);

/// Counters that follow totals which are counted elsewhere.
#[derive(Clone)]
pub struct CounterSet<T> {
    counters: Vec<(IntCounter, Total<T>)>,
}

impl<T> CounterSet<T> {
    /// Registers a counter for each row.
    ///
    /// # Errors
    /// Fails if a name is taken.
    pub fn register(metrics: &Metrics, rows: &[CounterRow<T>]) -> Result<Self, prometheus::Error> {
        let counter = |name: &str, help: &str| metrics.register(IntCounter::new(name, help)?);
        let rows = rows.iter().map(|CounterRow(name, help, total)| Ok((counter(name, help)?, *total)));
        Ok(Self { counters: rows.collect::<Result<_, prometheus::Error>>()? })
    }

    pub fn update(&self, totals: &T) {
        for (counter, total) in &self.counters {
            follow(counter, total(totals));
        }
    }
}

/// Raises a counter to a total that is counted elsewhere.
pub fn follow(counter: &IntCounter, total: u64) {
    counter.inc_by(total.saturating_sub(counter.get()));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counter_never_decreases() {
        let counter = IntCounter::new("c_total", "help").unwrap();
        for (total, value) in [(3, 3), (3, 3), (10, 10), (4, 10)] {
            follow(&counter, total);
            assert_eq!(counter.get(), value);
        }
    }

    #[test]
    fn the_text_names_the_program() {
        let text = String::from_utf8(Metrics::new("node").unwrap().text().unwrap()).unwrap();
        assert!(text.contains("roost_build_info{role=\"node\",version="), "{text}");
    }
}
