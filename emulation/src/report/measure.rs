//! What is compared between runs: each figure under one name.

use serde::Serialize;

use super::figure::part_name;
use super::metrics::Metrics;
use super::words::{bytes, count, milliseconds, percent, three};

/// What a measure is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Unit {
    /// Things.
    Count,
    /// A part of one.
    Part,
    /// Milliseconds.
    Ms,
    /// Bytes.
    Bytes,
}

/// Which way a measure is wanted to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Better {
    /// Up.
    Higher,
    /// Down.
    Lower,
    /// Neither: more services make more traffic.
    Neither,
}

/// What a measure is about, which tells how an interval can be found for it in a single run.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Kind {
    /// Services completed, all.
    Completed,
    /// Services completed of those that could be.
    Success,
    /// Services of one kind completed.
    CompletedOf(String),
    /// A quantile, in thousandths, of the latency of a service.
    Latency(String, u32),
    /// The mean latency of a service.
    MeanLatency(String),
    /// Bytes offered by hosts.
    Offered,
    /// Bytes over all ports.
    Ports,
    /// Bytes offered for each completed service.
    OfferedEach,
    /// Bytes over all ports for each completed service.
    PortsEach,
    /// Overhead for each completed service.
    Overhead,
    /// One part of it.
    Part(String),
    /// Processor time of the hubs, as a part of one processor, the busiest's.
    HubCpu,
}

/// A measure of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Measure {
    /// What it is about; in JSON its name tells.
    #[serde(skip)]
    pub kind: Kind,
    /// Its name for people.
    pub name: String,
    /// What it is in.
    pub unit: Unit,
    /// Which way it is wanted to go.
    pub better: Better,
    /// Whether so few requests lie beyond the quantile that it is a guess, and has no interval.
    pub few: bool,
}

impl Measure {
    fn new(kind: Kind, name: impl Into<String>, unit: Unit, better: Better) -> Self {
        Self { kind, name: name.into(), unit, better, few: false }
    }

    /// A value of it as people read it: in brackets when it is a guess.
    pub(super) fn show(&self, value: f64) -> String {
        let text = self.plain(value);
        if self.few { format!("({text})") } else { text }
    }

    fn plain(&self, value: f64) -> String {
        match self.unit {
            Unit::Count if value.fract() == 0.0 && value >= 0.0 => count(value as u64),
            Unit::Count => three(value),
            Unit::Part => percent(value),
            Unit::Ms => milliseconds(value),
            Unit::Bytes => bytes(value),
        }
    }

    /// The unit's name in files.
    pub(super) const fn unit_name(&self) -> &'static str {
        match self.unit {
            Unit::Count => "",
            Unit::Part => "part",
            Unit::Ms => "ms",
            Unit::Bytes => "bytes",
        }
    }
}

/// The quantiles of latency that are compared, in thousandths.
pub(super) const QUANTILES: [u32; 3] = [500, 950, 990];

/// All measures of a run, in the order of reports; those that it has no value
/// for are left out.
pub fn measures(metrics: &Metrics) -> Vec<(Measure, f64)> {
    let mut all: Vec<(Measure, Option<f64>)> = Vec::new();
    let mut add = |kind, name: &str, unit, better, value| all.push((Measure::new(kind, name, unit, better), value));
    let requests = &metrics.requests;
    add(Kind::Completed, "completed services", Unit::Count, Better::Higher, Some(requests.completed as f64));
    add(Kind::Success, "success", Unit::Part, Better::Higher, requests.success_ratio());
    for one in &metrics.services {
        let (kind, name) = (Kind::CompletedOf(one.service.clone()), format!("completed {}", one.service));
        add(kind, &name, Unit::Count, Better::Higher, Some(one.requests.completed as f64));
    }
    for one in &metrics.services {
        for (thousandths, value) in QUANTILES.into_iter().zip([one.latency.p50, one.latency.p95, one.latency.p99]) {
            let kind = Kind::Latency(one.service.clone(), thousandths);
            let which = if thousandths == 500 { "median".to_owned() } else { format!("p{}", thousandths / 10) };
            let name = format!("{} latency, {which}", one.service);
            let few = !one.latency.tells(thousandths);
            all.push((Measure { few, ..Measure::new(kind, name, Unit::Ms, Better::Lower) }, value));
        }
        let kind = Kind::MeanLatency(one.service.clone());
        let name = format!("{} latency, mean", one.service);
        all.push((Measure::new(kind, name, Unit::Ms, Better::Lower), one.latency.mean));
    }
    let mut add = |kind, name: &str, unit, better, value| all.push((Measure::new(kind, name, unit, better), value));
    let traffic = &metrics.traffic;
    let whole = |bytes: Option<u64>| bytes.map(|bytes| bytes as f64);
    add(Kind::Offered, "traffic offered by hosts", Unit::Bytes, Better::Neither, whole(traffic.offered_bytes));
    add(Kind::Ports, "traffic over all ports", Unit::Bytes, Better::Neither, whole(traffic.port_bytes));
    add(Kind::OfferedEach, "traffic per service", Unit::Bytes, Better::Lower, traffic.offered_per_service);
    add(Kind::PortsEach, "traffic per service, over all ports", Unit::Bytes, Better::Lower, traffic.port_per_service);
    add(Kind::Overhead, "overhead per service", Unit::Bytes, Better::Lower, traffic.overhead_per_service);
    for part in traffic.parts.iter().filter(|part| part.part != "payload") {
        let name = format!("overhead per service: {}", part_name(&part.part));
        add(Kind::Part(part.part.clone()), &name, Unit::Bytes, Better::Lower, part.per_service);
    }
    let hubs = metrics.nodes.iter().filter(|node| node.is_hub());
    let busiest = hubs.filter_map(|hub| hub.cpu_share).reduce(f64::max);
    add(Kind::HubCpu, "processor of the busiest hub", Unit::Part, Better::Lower, busiest);
    all.into_iter().filter_map(|(measure, value)| Some((measure, value.filter(|value| value.is_finite())?))).collect()
}

#[cfg(test)]
mod tests {
    use super::super::synthetic;
    use super::*;

    #[test]
    fn measure_kinds_and_names_are_unique() {
        let results = synthetic::Shape::default().make().results;
        let all = measures(&Metrics::of(&results));
        let mut kinds: Vec<&Kind> = all.iter().map(|(measure, _)| &measure.kind).collect();
        let mut names: Vec<&str> = all.iter().map(|(measure, _)| measure.name.as_str()).collect();
        let count = kinds.len();
        kinds.sort();
        kinds.dedup();
        names.sort_unstable();
        names.dedup();
        assert_eq!((kinds.len(), names.len()), (count, count));
    }

    #[test]
    fn quantile_of_few_requests_marked() {
        let results = synthetic::Shape { requests: 2500, ..synthetic::Shape::default() }.make().results;
        let all = measures(&Metrics::of(&results));
        let few = |service: &str, thousandths| {
            let kind = Kind::Latency(service.into(), thousandths);
            all.iter().find(|(measure, _)| measure.kind == kind).unwrap().0.few
        };
        // Some 1000 tracks and 330 videos: ten of the former lie beyond p99, three of the latter.
        assert!(!few("video", 500) && !few("video", 950) && few("video", 990));
        let measure = Measure { few: true, ..all[0].0.clone() };
        assert_eq!(measure.show(7.0), "(7)");
    }

    #[test]
    fn measures_are_those_of_the_run() {
        let results = synthetic::by_hand();
        let all = measures(&Metrics::of(&results));
        let value = |kind: &Kind| all.iter().find(|(measure, _)| measure.kind == *kind).map(|(_, value)| *value);
        assert_eq!(value(&Kind::Completed), Some(3.0));
        assert_eq!(value(&Kind::Latency("video".into(), 500)), Some(200.0));
        assert_eq!(value(&Kind::Latency("sensor".into(), 500)), None);
        assert_eq!(value(&Kind::PortsEach), Some(5900.0));
        assert_eq!(value(&Kind::HubCpu), Some(0.25));
    }
}
