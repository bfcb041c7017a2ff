//! Results of a link test.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The reason for not measuring an unlimited rate. There is nothing to compare, so nothing is missing.
pub(super) const NO_LIMIT: &str = "it has no limit";

/// Stands in for a missing reason.
const UNKNOWN: &str = "nobody says why";

/// Links or LANs that one sentence names at most.
const MOST_NAMED: usize = 3;

/// The property of a path that is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LinktestKind {
    /// Delay of one direction, milliseconds.
    Delay,
    /// Rate, bits per second of frames.
    Rate,
    /// Loss, 0 to 1.
    Loss,
}

impl LinktestKind {
    pub const ALL: [Self; 3] = [Self::Delay, Self::Loss, Self::Rate];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Delay => "delay",
            Self::Rate => "rate",
            Self::Loss => "loss",
        }
    }

    pub fn show(self, value: f64) -> String {
        match self {
            Self::Delay => format!("{value:.3} ms"),
            Self::Loss => format!("{:.2} %", value * 100.0),
            Self::Rate if value >= 999_500.0 => format!("{:.3} Mbit/s", value / 1e6),
            Self::Rate => format!("{:.3} kbit/s", value / 1e3),
        }
    }

    pub fn show_error(self, error: f64) -> String {
        match self {
            Self::Delay => format!("{error:+.3} ms"),
            Self::Rate => format!("{:+.2} %", error * 100.0),
            Self::Loss => format!("{error:+.2} %"),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LinktestOutcome {
    Passed,
    /// The path does not match its description.
    Failed,
    /// Not measurable; `why` gives the reason.
    Skipped,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LinktestMeasurement {
    pub test: LinktestKind,
    pub net: String,
    pub from: String,
    pub to: String,
    /// The value of the description, in the unit of the test.
    pub expected: f64,
    /// The measured value, if there is one.
    pub measured: Option<f64>,
    /// The error: milliseconds of a delay, a fraction of a rate, or lost packets in a hundred.
    pub error: Option<f64>,
    /// Student's t of a delay, z of a loss.
    pub statistic: Option<f64>,
    pub sent: u32,
    pub received: u32,
    /// The number of measurements; more than one if earlier ones failed.
    pub attempts: u32,
    pub outcome: LinktestOutcome,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reachability {
    /// Pairs of hosts that a path connects.
    pub pairs: u64,
    /// Pairs that were tested; fewer than all if the time was too short.
    pub tried: u64,
    /// Tested pairs without an arrival.
    pub failed: u64,
    pub unreached: Vec<(String, String)>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LinktestReport {
    pub quick: bool,
    pub seconds: f64,
    /// True if it was stopped before its end.
    pub interrupted: bool,
    /// Packets that the core was too slow to take during the test.
    pub overruns: u64,
    /// The 99th percentile of the core's lateness, milliseconds: its part of the errors.
    #[serde(default)]
    pub lateness_p99_ms: f64,
    /// Reachability; `None` without routing, or if it was not requested.
    pub reach: Option<Reachability>,
    pub measurements: Vec<LinktestMeasurement>,
}

/// All measurements of one kind on one link or LAN.
#[derive(Clone, Debug, PartialEq)]
pub struct LinktestSummary<'a> {
    pub net: &'a str,
    pub test: LinktestKind,
    pub measured: usize,
    pub skipped: usize,
    /// The reason for the first path that was not measured.
    pub why: Option<&'a str>,
    pub failed: usize,
    /// The measurement with the largest error, or else the first.
    pub worst: &'a LinktestMeasurement,
}

impl LinktestReport {
    pub fn passed(&self) -> bool {
        self.failures().next().is_none() && self.reach.as_ref().is_none_or(|reach| reach.failed == 0)
    }

    /// The paths that do not match their description.
    pub fn failures(&self) -> impl Iterator<Item = &LinktestMeasurement> {
        self.measurements.iter().filter(|measurement| measurement.outcome == LinktestOutcome::Failed)
    }

    /// Lists the gaps of the test, one sentence for each reason and the links that share their gaps.
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
        let mut merged: BTreeMap<(&str, Vec<&str>), Vec<&str>> = BTreeMap::new();
        for ((test, why), nets) in missed {
            merged.entry((why, nets)).or_default().push(test.name());
        }
        let sentence = |((why, nets), tests): ((&str, Vec<&str>), Vec<&str>)| {
            let verb = if tests.len() == 1 { "is" } else { "are" };
            format!("whether the {} of {} {verb} as described: {why}", all_of(&tests), some_of(&nets))
        };
        merged.into_iter().map(sentence).collect()
    }

    /// Summaries by link or LAN and by test, in the order of the description.
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

    /// A line for every link or LAN, and one for the routes, for a record.
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

/// `delay, rate and loss`.
fn all_of(names: &[&str]) -> String {
    match names {
        [] => String::new(),
        [only] => (*only).to_owned(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

fn some_of(names: &[&str]) -> String {
    let named = names[..names.len().min(MOST_NAMED)].join(", ");
    match names.len().saturating_sub(MOST_NAMED) {
        0 => named,
        more => format!("{named} and {more} more"),
    }
}

/// The order of measurements: failures first, then by error.
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
                LinktestMeasurement { test: LinktestKind::Delay, ..skipped("l4", "a trace") },
                LinktestMeasurement { test: LinktestKind::Rate, ..skipped("l4", "a trace") },
                LinktestMeasurement { test: LinktestKind::Loss, ..skipped("l4", "a trace") },
            ],
            ..LinktestReport::default()
        };
        let lines = report.lines();
        assert!(lines[0].ends_with(", a to b), 2 not measured: above 100 Mbit/s"), "{lines:?}");
        assert_eq!(lines[1], "l1 passed: rate not measured: above 100 Mbit/s");
        assert_eq!(
            report.not_measured(),
            [
                "whether the delay, rate and loss of l4 are as described: a trace",
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
