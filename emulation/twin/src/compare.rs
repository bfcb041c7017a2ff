//! A run of a twin's plan beside what was recorded.

use std::collections::BTreeMap;

use roost_results::record::{RequestOutcome, RequestRecord};
use roost_statistics::quantile;

use crate::requests::RequestRow;

/// Completions may differ by this part, and medians by that one.
const COMPLETIONS: f64 = 0.05;
const MEDIANS: f64 = 0.10;
/// The least completed requests that make a median, or an agreement of completions.
const MEDIAN_OF: usize = 20;

#[derive(Clone, Debug, Default, PartialEq)]
pub struct ComparisonRow {
    pub service: String,
    /// Requests of which both tell the end.
    pub requests: usize,
    pub recorded: usize,
    pub replayed: usize,
    pub recorded_ms: Option<f64>,
    pub replayed_ms: Option<f64>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Comparison {
    pub rows: Vec<ComparisonRow>,
    /// Rows of the replay that the run does not have.
    pub missing: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Agreement {
    Agrees,
    Differs,
    /// No service has the requests that make a median.
    TooFew,
}

/// The judgment of a row: of a service by its median, of all services together by their completions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowVerdict {
    Completions(Agreement),
    Median(Agreement),
}

impl ComparisonRow {
    /// The median of the run over that of the recording.
    pub fn ratio(&self) -> Option<f64> {
        Some(self.replayed_ms? / self.recorded_ms?)
    }

    /// True if there are enough requests for a median.
    pub const fn has_median(&self) -> bool {
        self.recorded >= MEDIAN_OF && self.replayed >= MEDIAN_OF
    }

    /// True for a service whose median counts; completions count for all services together.
    pub fn is_judged(&self) -> bool {
        self.service != ALL && self.has_median()
    }

    pub fn verdict(&self) -> RowVerdict {
        let agreement = |agrees| if agrees { Agreement::Agrees } else { Agreement::Differs };
        if self.service == ALL {
            let agreement = agreement(self.completions_agree());
            let is_few = agreement == Agreement::Agrees && self.recorded < MEDIAN_OF;
            return RowVerdict::Completions(if is_few { Agreement::TooFew } else { agreement });
        }
        RowVerdict::Median(if self.has_median() { agreement(self.medians_agree()) } else { Agreement::TooFew })
    }

    fn completions_agree(&self) -> bool {
        let (recorded, replayed) = (self.recorded as f64, self.replayed as f64);
        (recorded - replayed).abs() <= COMPLETIONS * recorded
    }

    fn medians_agree(&self) -> bool {
        self.ratio().is_none_or(|ratio| (ratio - 1.0).abs() <= MEDIANS)
    }
}

impl Comparison {
    /// Completions of all services together, and the medians of those services that have enough requests.
    pub fn agreement(&self) -> Agreement {
        let completions_agree = self.rows.last().is_none_or(ComparisonRow::completions_agree);
        let mut judged = self.rows.iter().filter(|row| row.is_judged()).peekable();
        let has_judged = judged.peek().is_some();
        if self.missing > 0 || !completions_agree || !judged.all(ComparisonRow::medians_agree) {
            return Agreement::Differs;
        }
        if has_judged { Agreement::Agrees } else { Agreement::TooFew }
    }
}

/// Compares the requests of a run with the rows of the replay that it ran. Of each node, target and service the first
/// row is held against the first request, and so on.
pub fn compare(rows: &[RequestRow], run: &[RequestRecord]) -> Comparison {
    let mut requests: BTreeMap<(&str, &str, &str), Vec<&RequestRecord>> = BTreeMap::new();
    for request in run {
        requests.entry((&request.node, &request.target, &request.service)).or_default().push(request);
    }
    requests.values_mut().for_each(|all| all.sort_by(|a, b| b.t.total_cmp(&a.t)));
    let mut measured: Vec<&RequestRow> = rows.iter().filter(|row| row.time_s >= 0.0).collect();
    measured.sort_by(|a, b| a.time_s.total_cmp(&b.time_s));
    let (mut samples, mut missing) = (BTreeMap::<&str, Samples>::new(), 0);
    for row in measured {
        let key = (row.node.as_str(), row.target.as_str(), row.service.as_str());
        let request = requests.get_mut(&key).and_then(Vec::pop);
        missing += usize::from(request.is_none());
        let Some((request, recorded)) = request.zip(row.recorded.as_deref()) else { continue };
        for service in [row.service.as_str(), ALL] {
            samples.entry(service).or_default().add(row, recorded, request);
        }
    }
    let all = samples.remove(ALL);
    let rows = samples.into_iter().chain(all.map(|all| (ALL, all)));
    Comparison { rows: rows.map(|(service, samples)| samples.row(service)).collect(), missing }
}

const ALL: &str = "all";

#[derive(Default)]
struct Samples {
    requests: usize,
    recorded: Vec<f64>,
    replayed: Vec<f64>,
}

impl Samples {
    fn add(&mut self, row: &RequestRow, recorded: &str, request: &RequestRecord) {
        self.requests += 1;
        if recorded == "completed" {
            self.recorded.push(row.latency_ms.unwrap_or(f64::NAN));
        }
        if request.outcome == RequestOutcome::Completed {
            self.replayed.push(request.latency_ms().unwrap_or(f64::NAN));
        }
    }

    fn row(self, service: &str) -> ComparisonRow {
        let median = |values: &[f64]| {
            let mut known: Vec<f64> = values.iter().copied().filter(|value| value.is_finite()).collect();
            known.sort_by(f64::total_cmp);
            quantile(&known, 0.5)
        };
        ComparisonRow {
            service: service.to_owned(),
            requests: self.requests,
            recorded: self.recorded.len(),
            replayed: self.replayed.len(),
            recorded_ms: median(&self.recorded),
            replayed_ms: median(&self.replayed),
        }
    }
}
