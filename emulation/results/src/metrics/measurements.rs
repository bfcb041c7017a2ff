//! The figures of measurements that programs have printed, by name.

use std::collections::BTreeMap;

use roost_statistics::{mean, quantile};
use serde::Serialize;

use super::has_enough_values;
use super::origins::Origins;
use crate::record::{Better, MeasurementKind, MeasurementRecord};

/// All measurements of one name, kind and unit.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MeasurementSummary {
    /// The name, with the unit behind it if another unit has the same name.
    pub name: String,
    pub kind: MeasurementKind,
    pub unit: MeasuredUnit,
    pub better: Option<Better>,
    pub values: MeasurementValues,
    /// Parts by host, label and program, as far as these are few; one part without a name if they are not.
    pub parts: Vec<MeasurementPart>,
}

/// The measurements of one name that come from one place.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MeasurementPart {
    pub origin: String,
    pub values: MeasurementValues,
    /// In the order of arrival.
    #[serde(skip)]
    pub course: Vec<MeasuredPoint>,
}

/// A measurement in the unit of its summary.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MeasuredPoint {
    pub t: f64,
    pub value: f64,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum MeasuredUnit {
    Number,
    Ms,
    Bytes,
    Part,
    #[serde(untagged)]
    Own(String),
}

impl MeasuredUnit {
    /// The unit of a word, and the factor that converts values into it.
    fn parse(word: &str) -> (Self, f64) {
        match word {
            "" => (Self::Number, 1.0),
            "ns" => (Self::Ms, 1e-6),
            "us" | "µs" => (Self::Ms, 1e-3),
            "ms" => (Self::Ms, 1.0),
            "s" => (Self::Ms, 1e3),
            "B" | "bytes" => (Self::Bytes, 1.0),
            "kB" => (Self::Bytes, 1e3),
            "MB" => (Self::Bytes, 1e6),
            "GB" => (Self::Bytes, 1e9),
            "part" => (Self::Part, 1.0),
            "%" => (Self::Part, 0.01),
            own => (Self::Own(own.to_owned()), 1.0),
        }
    }

    pub fn name(&self) -> &str {
        match self {
            Self::Number => "",
            Self::Ms => "ms",
            Self::Bytes => "bytes",
            Self::Part => "part",
            Self::Own(own) => own,
        }
    }
}

/// The distribution of values, which may be negative.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct MeasurementValues {
    pub count: u64,
    pub sum: f64,
    pub mean: Option<f64>,
    pub min: Option<f64>,
    pub p50: Option<f64>,
    pub p95: Option<f64>,
    pub p99: Option<f64>,
    pub max: Option<f64>,
    #[serde(skip)]
    pub sorted: Vec<f64>,
}

impl MeasurementValues {
    fn from_values(mut values: Vec<f64>) -> Self {
        values.retain(|value| value.is_finite());
        values.sort_by(f64::total_cmp);
        Self {
            count: values.len() as u64,
            sum: values.iter().sum(),
            mean: mean(&values),
            min: values.first().copied(),
            p50: quantile(&values, 0.5),
            p95: quantile(&values, 0.95),
            p99: quantile(&values, 0.99),
            max: values.last().copied(),
            sorted: values,
        }
    }

    /// True if enough values lie beyond this quantile, in thousandths.
    pub fn is_quantile_reliable(&self, thousandths: u32) -> bool {
        has_enough_values(self.count, thousandths)
    }
}

/// The measurements of one name, kind and unit, and the factor of its values.
#[derive(Default)]
struct MeasuredGroup<'a> {
    records: Vec<(&'a MeasurementRecord, f64)>,
}

impl MeasuredGroup<'_> {
    fn values(&self) -> MeasurementValues {
        MeasurementValues::from_values(self.records.iter().map(|(record, factor)| record.value * factor).collect())
    }

    fn better(&self) -> Option<Better> {
        self.records.iter().find_map(|(record, _)| record.better)
    }

    fn parts(&self) -> Vec<MeasurementPart> {
        let records: Vec<&MeasurementRecord> = self.records.iter().map(|(record, _)| *record).collect();
        let origins = Origins::from_records(&records);
        let mut courses: BTreeMap<Vec<&str>, Vec<MeasuredPoint>> = BTreeMap::new();
        for (record, factor) in &self.records {
            courses
                .entry(origins.values(record))
                .or_default()
                .push(MeasuredPoint { t: record.t, value: record.value * factor });
        }
        let part = |(origin, course): (Vec<&str>, Vec<MeasuredPoint>)| MeasurementPart {
            origin: origins.text(&origin),
            values: MeasurementValues::from_values(course.iter().map(|point| point.value).collect()),
            course,
        };
        courses.into_iter().map(part).collect()
    }
}

/// The summaries in the order of the names.
pub(super) fn summaries(records: &[MeasurementRecord]) -> Vec<MeasurementSummary> {
    let mut groups: BTreeMap<(&str, MeasurementKind, MeasuredUnit), MeasuredGroup<'_>> = BTreeMap::new();
    for record in records {
        let (unit, factor) = match record.kind {
            MeasurementKind::Ok => (MeasuredUnit::Part, 1.0),
            _ => MeasuredUnit::parse(&record.unit),
        };
        groups.entry((&record.measure, record.kind, unit)).or_default().records.push((record, factor));
    }
    let mut uses: BTreeMap<&str, usize> = BTreeMap::new();
    groups.keys().for_each(|(name, ..)| *uses.entry(*name).or_default() += 1);
    let mut summaries = Vec::with_capacity(groups.len());
    for ((name, kind, unit), group) in groups {
        let is_only = uses.get(name).is_none_or(|uses| *uses == 1);
        let name = if is_only { name.to_owned() } else { format!("{name} ({} {})", kind.name(), unit.name()) };
        let better = group.better().or((kind == MeasurementKind::Ok).then_some(Better::Higher));
        summaries.push(MeasurementSummary { name, kind, unit, better, values: group.values(), parts: group.parts() });
    }
    summaries
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(measure: &str, value: f64, unit: &str) -> MeasurementRecord {
        MeasurementRecord { measure: measure.into(), value, unit: unit.into(), ..MeasurementRecord::default() }
    }

    #[test]
    fn values_of_one_name_are_summarized() {
        let values = [record("delay", 1.0, "s"), record("delay", 250.0, "ms"), record("offset", -2.0, "K")];
        let summaries = summaries(&values);
        let names: Vec<(&str, &str)> = summaries.iter().map(|one| (one.name.as_str(), one.unit.name())).collect();
        assert_eq!(names, [("delay", "ms"), ("offset", "K")]);
        assert_eq!((summaries[0].values.mean, summaries[0].values.max), (Some(625.0), Some(1000.0)));
        assert_eq!((summaries[1].values.min, summaries[1].values.count), (Some(-2.0), 1));
    }

    #[test]
    fn few_hosts_and_labels_are_parts() {
        let at = |host: &str, size: &str, t, value| MeasurementRecord {
            t,
            host: host.to_owned(),
            labels: [("size".to_owned(), size.to_owned()), ("number".to_owned(), t.to_string())].into(),
            ..record("delay", value, "s")
        };
        let records: Vec<MeasurementRecord> =
            (0..40).map(|n| at(["a", "b"][n % 2], ["5", "9"][n / 20], n as f64, n as f64)).collect();
        let parts = summaries(&records).remove(0).parts;
        let origins: Vec<&str> = parts.iter().map(|part| part.origin.as_str()).collect();
        assert_eq!(origins, ["at a, size=5", "at a, size=9", "at b, size=5", "at b, size=9"]);
        assert_eq!((parts[0].values.count, parts[3].course[0]), (10, MeasuredPoint { t: 21.0, value: 21_000.0 }));
        let many: Vec<MeasurementRecord> = (0..40).map(|n| at(&format!("n{n}"), "5", f64::from(n), 1.0)).collect();
        let parts = summaries(&many).remove(0).parts;
        assert_eq!((parts.len(), parts[0].origin.as_str()), (1, ""));
    }

    #[test]
    fn shares_and_sums_have_own_kinds() {
        let ok = |value| MeasurementRecord { kind: MeasurementKind::Ok, ..record("delivered", value, "") };
        let count = |value| MeasurementRecord { kind: MeasurementKind::Count, ..record("retries", value, "") };
        let summaries = summaries(&[ok(1.0), ok(0.0), count(3.0), count(4.0)]);
        assert_eq!((summaries[0].values.mean, summaries[0].better), (Some(0.5), Some(Better::Higher)));
        assert_eq!((summaries[1].values.sum, summaries[1].better), (7.0, None));
    }

    #[test]
    fn units_of_one_name_stay_apart() {
        let summaries = summaries(&[record("x", 1.0, "ms"), record("x", 1.0, "Mbit/s"), record("x", f64::NAN, "ms")]);
        let names: Vec<&str> = summaries.iter().map(|one| one.name.as_str()).collect();
        assert_eq!(names, ["x (value ms)", "x (value Mbit/s)"]);
        assert_eq!(summaries[0].values.count, 1);
    }
}
