//! Measures that are compared between runs, each under one name.

use roost_results::metrics::{Distribution, Metrics, RoomUse};
use serde::Serialize;

use super::figure::part_name;
use super::measurements;
use super::text_format::{bytes, count, milliseconds, percent, three};

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum MeasureUnit {
    Count,
    Part,
    Ms,
    Bytes,
    #[serde(untagged)]
    Own(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum MeasureDirection {
    Higher,
    Lower,
    /// Neither is better: more services make more traffic.
    Neither,
}

/// The subject of a measure, which decides how an interval can be found for it in a single run.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum MeasureKind {
    Completed,
    /// Completed services as a part of those that could be completed.
    Success,
    CompletedOf(String),
    /// A quantile, in thousandths, of the latency of a service.
    Latency(String, u32),
    MeanLatency(String),
    Offered,
    Ports,
    OfferedEach,
    PortsEach,
    Overhead,
    Part(String),
    /// Processor time of the busiest hub, as a part of one processor.
    HubCpu,
    Room(RoomFigure),
    /// A figure of the measurements of one name, which programs printed.
    Measured(String, MeasuredFigure),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum MeasuredFigure {
    /// In thousandths, as that of a latency.
    Quantile(u32),
    Mean,
    Share,
    Sum,
}

/// A figure over all streams of all rooms.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RoomFigure {
    /// The part of the streams that came.
    Came,
    MedianFirstPacket,
    LatestFirstPacket,
    Missing,
    LongestGap,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Measure {
    /// The subject; in JSON the name tells it.
    #[serde(skip)]
    pub kind: MeasureKind,
    pub name: String,
    pub unit: MeasureUnit,
    pub better: MeasureDirection,
    /// True if so few requests lie beyond the quantile that it is a guess without an interval.
    pub few: bool,
}

impl Measure {
    fn new(kind: MeasureKind, name: impl Into<String>, unit: MeasureUnit, better: MeasureDirection) -> Self {
        Self { kind, name: name.into(), unit, better, few: false }
    }

    /// Formats a value for people: in brackets when it is a guess.
    pub fn show(&self, value: f64) -> String {
        let text = self.plain(value);
        if self.few { format!("({text})") } else { text }
    }

    fn plain(&self, value: f64) -> String {
        match &self.unit {
            MeasureUnit::Count if value.fract() == 0.0 && value >= 0.0 => count(value as u64),
            MeasureUnit::Count => three(value),
            MeasureUnit::Part => percent(value),
            MeasureUnit::Ms => milliseconds(value),
            MeasureUnit::Bytes => bytes(value),
            MeasureUnit::Own(unit) => format!("{} {unit}", three(value)),
        }
    }

    pub(super) fn unit_name(&self) -> &str {
        match &self.unit {
            MeasureUnit::Count => "",
            MeasureUnit::Part => "part",
            MeasureUnit::Ms => "ms",
            MeasureUnit::Bytes => "bytes",
            MeasureUnit::Own(unit) => unit,
        }
    }
}

/// The quantiles of latency that are compared, in thousandths.
pub(super) const QUANTILES: [u32; 3] = [500, 950, 990];

/// All measures of a run, in the order of reports; those without a value are left out.
pub fn measures(metrics: &Metrics) -> Vec<(Measure, f64)> {
    let mut all: Vec<(Measure, Option<f64>)> = Vec::new();
    let mut add = |kind, name: &str, unit, better, value| all.push((Measure::new(kind, name, unit, better), value));
    let requests = &metrics.requests;
    // Without requests, but with programs that measure, nothing could be completed.
    let has_workload = requests.asked > 0 || metrics.measurements.is_empty();
    add(
        MeasureKind::Completed,
        "completed services",
        MeasureUnit::Count,
        MeasureDirection::Higher,
        has_workload.then_some(requests.completed as f64),
    );
    add(MeasureKind::Success, "success", MeasureUnit::Part, MeasureDirection::Higher, requests.success_ratio());
    for one in &metrics.services {
        let (kind, name) = (MeasureKind::CompletedOf(one.service.clone()), format!("completed {}", one.service));
        add(kind, &name, MeasureUnit::Count, MeasureDirection::Higher, Some(one.requests.completed as f64));
    }
    for one in &metrics.services {
        for (thousandths, value) in QUANTILES.into_iter().zip([one.latency.p50, one.latency.p95, one.latency.p99]) {
            let kind = MeasureKind::Latency(one.service.clone(), thousandths);
            let which = if thousandths == 500 { "median".to_owned() } else { format!("p{}", thousandths / 10) };
            let name = format!("{} latency, {which}", one.service);
            let few = !one.latency.is_quantile_reliable(thousandths);
            all.push((Measure { few, ..Measure::new(kind, name, MeasureUnit::Ms, MeasureDirection::Lower) }, value));
        }
        let kind = MeasureKind::MeanLatency(one.service.clone());
        let name = format!("{} latency, mean", one.service);
        all.push((Measure::new(kind, name, MeasureUnit::Ms, MeasureDirection::Lower), one.latency.mean));
    }
    let mut add = |kind, name: &str, unit, better, value| all.push((Measure::new(kind, name, unit, better), value));
    let traffic = &metrics.traffic;
    let whole = |bytes: Option<u64>| bytes.map(|bytes| bytes as f64);
    add(
        MeasureKind::Offered,
        "traffic offered by hosts",
        MeasureUnit::Bytes,
        MeasureDirection::Neither,
        whole(traffic.offered_bytes),
    );
    add(
        MeasureKind::Ports,
        "traffic over all ports",
        MeasureUnit::Bytes,
        MeasureDirection::Neither,
        whole(traffic.port_bytes),
    );
    add(
        MeasureKind::OfferedEach,
        "traffic per service",
        MeasureUnit::Bytes,
        MeasureDirection::Lower,
        traffic.offered_per_service,
    );
    add(
        MeasureKind::PortsEach,
        "traffic per service, over all ports",
        MeasureUnit::Bytes,
        MeasureDirection::Lower,
        traffic.port_per_service,
    );
    add(
        MeasureKind::Overhead,
        "overhead per service",
        MeasureUnit::Bytes,
        MeasureDirection::Lower,
        traffic.overhead_per_service,
    );
    for part in traffic.parts.iter().filter(|part| part.part != "payload") {
        let name = format!("overhead per service: {}", part_name(&part.part));
        add(MeasureKind::Part(part.part.clone()), &name, MeasureUnit::Bytes, MeasureDirection::Lower, part.per_service);
    }
    let hubs = metrics.nodes.iter().filter(|node| node.is_hub());
    let busiest = hubs.filter_map(|hub| hub.cpu_share).reduce(f64::max);
    add(MeasureKind::HubCpu, "processor of the busiest hub", MeasureUnit::Part, MeasureDirection::Lower, busiest);
    all.extend(of_rooms(&metrics.rooms));
    all.extend(measurements::measures(&metrics.measurements));
    all.into_iter().filter_map(|(measure, value)| Some((measure, value.filter(|value| value.is_finite())?))).collect()
}

/// Measures of a run with rooms.
fn of_rooms(stays: &[RoomUse]) -> Vec<(Measure, Option<f64>)> {
    if stays.is_empty() {
        return Vec::new();
    }
    let sum = |figure: fn(&RoomUse) -> u64| stays.iter().map(figure).sum::<u64>() as f64;
    let came = sum(|stay| stay.came) / sum(|stay| stay.streams);
    let first = stays.iter().flat_map(|stay| &stay.first_packet.sorted).copied();
    let first = Distribution::from_values(first.collect());
    let gap = stays.iter().filter_map(|stay| stay.longest_gap_ms).reduce(f64::max);
    let (higher, lower) = (MeasureDirection::Higher, MeasureDirection::Lower);
    let measure = |figure, name: &str, unit, better| Measure::new(MeasureKind::Room(figure), name, unit, better);
    let median = measure(RoomFigure::MedianFirstPacket, "first packet in rooms, median", MeasureUnit::Ms, lower);
    let few = !first.is_quantile_reliable(500);
    vec![
        (measure(RoomFigure::Came, "streams of rooms that came", MeasureUnit::Part, higher), Some(came)),
        (Measure { few, ..median }, first.p50),
        (measure(RoomFigure::LatestFirstPacket, "first packet in rooms, latest", MeasureUnit::Ms, lower), first.max),
        (
            measure(RoomFigure::Missing, "packets missing in rooms", MeasureUnit::Count, lower),
            Some(sum(|stay| stay.missing)),
        ),
        (measure(RoomFigure::LongestGap, "longest gap in rooms", MeasureUnit::Ms, lower), gap),
    ]
}

#[cfg(test)]
mod tests {
    use roost_results::record::RoomStreamRecord;
    use roost_results::testing;

    use super::*;

    #[test]
    fn measure_kinds_and_names_are_unique() {
        let results = testing::SyntheticShape::default().make().results;
        let all = measures(&Metrics::from_results(&results));
        let mut kinds: Vec<&MeasureKind> = all.iter().map(|(measure, _)| &measure.kind).collect();
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
        let results = testing::SyntheticShape { requests: 2500, ..testing::SyntheticShape::default() }.make().results;
        let all = measures(&Metrics::from_results(&results));
        let few = |service: &str, thousandths| {
            let kind = MeasureKind::Latency(service.into(), thousandths);
            all.iter().find(|(measure, _)| measure.kind == kind).unwrap().0.few
        };
        // Some 1000 tracks and 330 videos: ten tracks lie beyond p99, and three videos.
        assert!(!few("video", 500) && !few("video", 950) && few("video", 990));
        let measure = Measure { few: true, ..all[0].0.clone() };
        assert_eq!(measure.show(7.0), "(7)");
    }

    #[test]
    fn measures_are_those_of_the_run() {
        let results = testing::by_hand();
        let all = measures(&Metrics::from_results(&results));
        let value = |kind: &MeasureKind| all.iter().find(|(measure, _)| measure.kind == *kind).map(|(_, value)| *value);
        assert_eq!(value(&MeasureKind::Completed), Some(3.0));
        assert_eq!(value(&MeasureKind::Latency("video".into(), 500)), Some(200.0));
        assert_eq!(value(&MeasureKind::Latency("sensor".into(), 500)), None);
        assert_eq!(value(&MeasureKind::PortsEach), Some(5900.0));
        assert_eq!(value(&MeasureKind::HubCpu), Some(0.25));
    }

    #[test]
    fn rooms_have_measures() {
        let mut results = testing::by_hand();
        let measured = |results: &_| -> Vec<(String, f64, bool)> {
            let all = measures(&Metrics::from_results(results));
            let of_rooms = all.into_iter().filter(|(measure, _)| matches!(measure.kind, MeasureKind::Room(_)));
            of_rooms.map(|(measure, value)| (measure.name, value, measure.few)).collect()
        };
        assert_eq!(measured(&results), []);
        let stream = |node: &str, first_packet_ms| RoomStreamRecord {
            node: node.to_owned(),
            first_packet_ms,
            longest_gap_ms: first_packet_ms.map(|first| first * 2.0),
            missing: 3,
            ..RoomStreamRecord::default()
        };
        results.room_streams =
            vec![stream("n1", Some(100.0)), stream("n1", Some(200.0)), stream("n2", Some(900.0)), stream("n3", None)];
        let expected = [
            ("streams of rooms that came", 0.75, false),
            ("first packet in rooms, median", 200.0, true),
            ("first packet in rooms, latest", 900.0, false),
            ("packets missing in rooms", 12.0, false),
            ("longest gap in rooms", 1800.0, false),
        ];
        assert_eq!(measured(&results), expected.map(|(name, value, few)| (name.to_owned(), value, few)));
    }
}
