//! What a link test found.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Why the rate of a path is not measured that has none: there is nothing to
/// be as described, so that nothing is missed.
pub(super) const NO_LIMIT: &str = "it has no limit";

/// Why something was not measured, where a report does not say it.
const UNKNOWN: &str = "nobody says why";

/// How many links or LANs one sentence names.
const MOST_NAMED: usize = 3;

/// What is measured of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LinktestKind {
    /// One-way delay, milliseconds.
    Delay,
    /// Rate, bits a second of frames.
    Rate,
    /// Loss, 0 to 1.
    Loss,
}

impl LinktestKind {
    /// All of them, in the order in which they are made.
    pub const ALL: [Self; 3] = [Self::Delay, Self::Loss, Self::Rate];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Delay => "delay",
            Self::Rate => "rate",
            Self::Loss => "loss",
        }
    }

    /// A value as people write it.
    pub fn show(self, value: f64) -> String {
        match self {
            Self::Delay => format!("{value:.3} ms"),
            Self::Loss => format!("{:.2} %", value * 100.0),
            Self::Rate if value >= 999_500.0 => format!("{:.3} Mbit/s", value / 1e6),
            Self::Rate => format!("{:.3} kbit/s", value / 1e3),
        }
    }

    /// An error as people write it.
    pub fn show_error(self, error: f64) -> String {
        match self {
            Self::Delay => format!("{error:+.3} ms"),
            Self::Rate => format!("{:+.2} %", error * 100.0),
            Self::Loss => format!("{error:+.2} %"),
        }
    }
}

/// How a measurement ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LinktestOutcome {
    /// The path is as it is described.
    Passed,
    /// It is not.
    Failed,
    /// It cannot be measured; `why` says why.
    Skipped,
}

/// One path, measured in one direction.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LinktestMeasurement {
    /// What.
    pub test: LinktestKind,
    /// The link or LAN.
    pub net: String,
    /// The host that sent.
    pub from: String,
    /// The host that received.
    pub to: String,
    /// What the description says, in the unit of the test.
    pub expected: f64,
    /// What was seen; none if nothing could be.
    pub measured: Option<f64>,
    /// By how much that is off: milliseconds of a delay, parts of a rate, packets lost of a hundred sent.
    pub error: Option<f64>,
    /// Student's t of a delay, z of a loss.
    pub statistic: Option<f64>,
    /// Probes that were sent.
    pub sent: u32,
    /// Probes that arrived.
    pub received: u32,
    /// How often it was measured; more than once if it failed before.
    pub attempts: u32,
    /// How it ended.
    pub outcome: LinktestOutcome,
    /// Why it was not measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// Whether every host reaches every other.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reachability {
    /// Pairs of hosts between which there is a way.
    pub pairs: u64,
    /// Those that were tried; fewer where the time did not allow for all.
    pub tried: u64,
    /// Those of them between which no probe arrived.
    pub failed: u64,
    /// The first hundred of the failed.
    pub unreached: Vec<(String, String)>,
}

/// What a link test found.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LinktestReport {
    /// Whether it was the short one.
    pub quick: bool,
    /// How long it took, seconds.
    pub seconds: f64,
    /// Whether it was stopped before its end.
    pub interrupted: bool,
    /// Packets that the core was too slow to take while it went on.
    pub overruns: u64,
    /// What 99 % of the packets were not delivered later than by the core, milliseconds:
    /// its part of the errors.
    #[serde(default)]
    pub lateness_p99_ms: f64,
    /// Whether hosts reach one another; none where nothing is routed, or it was not asked for.
    pub reach: Option<Reachability>,
    /// Every path measured.
    pub measurements: Vec<LinktestMeasurement>,
}

/// All measurements of one kind on one link or LAN.
#[derive(Clone, Debug, PartialEq)]
pub struct LinktestSummary<'a> {
    /// The link or LAN.
    pub net: &'a str,
    /// What was measured.
    pub test: LinktestKind,
    /// Paths that were measured.
    pub measured: usize,
    /// Paths that were not.
    pub skipped: usize,
    /// Why the first of those was not.
    pub why: Option<&'a str>,
    /// Paths that failed.
    pub failed: usize,
    /// The one that is off most, or else the first.
    pub worst: &'a LinktestMeasurement,
}

impl LinktestReport {
    /// Whether nothing failed.
    pub fn passed(&self) -> bool {
        self.failures().next().is_none() && self.reach.as_ref().is_none_or(|reach| reach.failed == 0)
    }

    /// The paths that are not as they are described.
    pub fn failures(&self) -> impl Iterator<Item = &LinktestMeasurement> {
        self.measurements.iter().filter(|measurement| measurement.outcome == LinktestOutcome::Failed)
    }

    /// What it could not tell, one sentence for each test and reason.
    pub fn not_measured(&self) -> Vec<String> {
        let is_missed = |one: &&LinktestMeasurement| {
            one.outcome == LinktestOutcome::Skipped && one.why.as_deref() != Some(NO_LIMIT)
        };
        let mut missed: BTreeMap<(LinktestKind, &str), Vec<&str>> = BTreeMap::new();
        for one in self.measurements.iter().filter(is_missed) {
            let nets = missed.entry((one.test, one.why.as_deref().unwrap_or(UNKNOWN))).or_default();
            if nets.last() != Some(&one.net.as_str()) {
                nets.push(&one.net);
            }
        }
        let sentence = |((test, why), nets): ((LinktestKind, &str), Vec<&str>)| {
            format!("whether the {} of {} is as described: {why}", test.name(), some_of(&nets))
        };
        missed.into_iter().map(sentence).collect()
    }

    /// By link or LAN and by test, in the order of the description.
    pub fn summaries(&self) -> Vec<LinktestSummary<'_>> {
        let mut summaries: Vec<LinktestSummary<'_>> = Vec::new();
        for one in &self.measurements {
            let place = summaries.iter().rposition(|summary| summary.net == one.net && summary.test == one.test);
            let place = place.unwrap_or_else(|| {
                summaries.push(LinktestSummary {
                    net: &one.net,
                    test: one.test,
                    measured: 0,
                    skipped: 0,
                    why: None,
                    failed: 0,
                    worst: one,
                });
                summaries.len() - 1
            });
            let summary = &mut summaries[place];
            match one.outcome {
                LinktestOutcome::Skipped => {
                    summary.skipped += 1;
                    summary.why = summary.why.or(one.why.as_deref());
                }
                LinktestOutcome::Passed => summary.measured += 1,
                LinktestOutcome::Failed => {
                    (summary.measured, summary.failed) = (summary.measured + 1, summary.failed + 1)
                }
            }
            if badness(one) > badness(summary.worst) {
                summary.worst = one;
            }
        }
        summaries
    }

    /// One line for every link or LAN, and one for the routes: what a record keeps.
    pub fn lines(&self) -> Vec<String> {
        let mut lines: Vec<(&str, String, bool)> = Vec::new();
        for summary in self.summaries() {
            let text = summary.sentence();
            let failed = summary.failed > 0;
            match lines.iter_mut().find(|(net, ..)| *net == summary.net) {
                Some((_, line, bad)) => {
                    line.push_str("; ");
                    line.push_str(&text);
                    *bad |= failed;
                }
                None => lines.push((summary.net, text, failed)),
            }
        }
        let word = |failed| if failed { "FAILED" } else { "passed" };
        let mut lines: Vec<String> =
            lines.into_iter().map(|(net, text, failed)| format!("{net} {}: {text}", word(failed))).collect();
        if let Some(Reachability { pairs, tried, failed, .. }) = self.reach {
            lines.push(format!("routes {}: {failed} of {tried} pairs out of reach, of {pairs}", word(failed > 0)));
        }
        lines
    }
}

impl LinktestSummary<'_> {
    /// What is to be said of it in a few words.
    pub fn sentence(&self) -> String {
        let (test, worst) = (self.test, self.worst);
        let said = match (worst.measured, worst.error) {
            (Some(measured), Some(error)) => format!(
                "{} of {} {}, off most {} ({} for {}, {} to {})",
                test.name(),
                self.measured,
                if self.measured == 1 { "path" } else { "paths" },
                test.show_error(error),
                test.show(measured),
                test.show(worst.expected),
                worst.from,
                worst.to
            ),
            _ if self.measured == 0 => {
                return format!("{} not measured: {}", test.name(), self.why.unwrap_or(UNKNOWN));
            }
            _ => format!("{}: nothing arrived from {} at {}", test.name(), worst.from, worst.to),
        };
        match self.why {
            Some(why) => format!("{said}, {} not measured: {why}", self.skipped),
            None => said,
        }
    }
}

/// Names, but not too many.
fn some_of(names: &[&str]) -> String {
    let named = names[..names.len().min(MOST_NAMED)].join(", ");
    match names.len().saturating_sub(MOST_NAMED) {
        0 => named,
        more => format!("{named} and {more} more"),
    }
}

/// What makes one measurement worse than another: to have failed, then to be off.
fn badness(one: &LinktestMeasurement) -> (u8, f64) {
    let class = match one.outcome {
        LinktestOutcome::Skipped => 0,
        LinktestOutcome::Passed => 1,
        LinktestOutcome::Failed => 2,
    };
    (class, one.error.map_or(f64::INFINITY, f64::abs))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(net: &str, test: LinktestKind, error: f64, outcome: LinktestOutcome) -> LinktestMeasurement {
        LinktestMeasurement {
            test,
            net: net.to_owned(),
            from: "a".to_owned(),
            to: "b".to_owned(),
            expected: 10.0,
            measured: Some(10.0 + error),
            error: Some(error),
            statistic: None,
            sent: 10,
            received: 10,
            attempts: 1,
            outcome,
            why: None,
        }
    }

    #[test]
    fn report_line_shows_largest_error() {
        let report = LinktestReport {
            measurements: vec![
                one("lan0", LinktestKind::Delay, 0.1, LinktestOutcome::Passed),
                one("lan0", LinktestKind::Delay, -0.2, LinktestOutcome::Passed),
                one("l1", LinktestKind::Delay, 0.01, LinktestOutcome::Passed),
                skipped("lan0", NO_LIMIT),
                one("l1", LinktestKind::Loss, 0.5, LinktestOutcome::Failed),
            ],
            reach: Some(Reachability { pairs: 90, tried: 45, failed: 0, unreached: Vec::new() }),
            ..LinktestReport::default()
        };
        assert_eq!(
            report.lines(),
            [
                "lan0 passed: delay of 2 paths, off most -0.200 ms (9.800 ms for 10.000 ms, a to b); rate not measured: it has no limit",
                "l1 FAILED: delay of 1 path, off most +0.010 ms (10.010 ms for 10.000 ms, a to b); loss of 1 path, off most +0.50 % (1050.00 % for 1000.00 %, a to b)",
                "routes passed: 0 of 45 pairs out of reach, of 90",
            ]
        );
        assert!(!report.passed());
        assert_eq!(report.failures().count(), 1);
    }

    fn skipped(net: &str, why: &str) -> LinktestMeasurement {
        let (measured, error, why) = (None, None, Some(why.to_owned()));
        LinktestMeasurement { measured, error, why, ..one(net, LinktestKind::Rate, 0.0, LinktestOutcome::Skipped) }
    }

    #[test]
    fn unmeasured_paths_are_reported() {
        let fast = "above 100 Mbit/s";
        let report = LinktestReport {
            measurements: vec![
                one("lan0", LinktestKind::Rate, 0.1, LinktestOutcome::Passed),
                skipped("lan0", fast),
                skipped("lan0", fast),
                skipped("l1", fast),
                skipped("l2", "below 8 kbit/s"),
                skipped("l3", NO_LIMIT),
            ],
            ..LinktestReport::default()
        };
        let lines = report.lines();
        assert!(lines[0].ends_with(", a to b), 2 not measured: above 100 Mbit/s"), "{lines:?}");
        assert_eq!(lines[1], "l1 passed: rate not measured: above 100 Mbit/s");
        assert_eq!(
            report.not_measured(),
            [
                "whether the rate of lan0, l1 is as described: above 100 Mbit/s",
                "whether the rate of l2 is as described: below 8 kbit/s",
            ]
        );
        assert_eq!(some_of(&["a", "b", "c", "d", "e"]), "a, b, c and 2 more");
    }

    #[test]
    fn failure_outranks_larger_passed_error() {
        let report = LinktestReport {
            measurements: vec![
                one("l", LinktestKind::Delay, 9.0, LinktestOutcome::Passed),
                one("l", LinktestKind::Delay, 2.0, LinktestOutcome::Failed),
            ],
            ..LinktestReport::default()
        };
        let summaries = report.summaries();
        assert_eq!((summaries[0].measured, summaries[0].failed, summaries[0].worst.error), (2, 1, Some(2.0)));
    }

    #[test]
    fn unreachable_host_is_failure() {
        let reach = Reachability { pairs: 2, tried: 2, failed: 1, unreached: vec![("a".to_owned(), "b".to_owned())] };
        assert!(!LinktestReport { reach: Some(reach), ..LinktestReport::default() }.passed());
        assert!(LinktestReport::default().passed());
    }
}
