//! The figures of measurements that programs have printed, by name.

use std::collections::BTreeMap;

use roost_statistics::{mean, quantile};
use serde::Serialize;

use super::has_enough_values;
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

#[derive(Default)]
struct MeasuredGroup {
    better: Option<Better>,
    values: Vec<f64>,
}

/// The summaries in the order of the names.
pub(super) fn summaries(records: &[MeasurementRecord]) -> Vec<MeasurementSummary> {
    let mut groups: BTreeMap<(&str, MeasurementKind, MeasuredUnit), MeasuredGroup> = BTreeMap::new();
    for record in records {
        let (unit, factor) = match record.kind {
            MeasurementKind::Ok => (MeasuredUnit::Part, 1.0),
            _ => MeasuredUnit::parse(&record.unit),
        };
        let group = groups.entry((&record.measure, record.kind, unit)).or_default();
        group.better = group.better.or(record.better);
        group.values.push(record.value * factor);
    }
    let mut uses: BTreeMap<&str, usize> = BTreeMap::new();
    groups.keys().for_each(|(name, ..)| *uses.entry(*name).or_default() += 1);
    let mut summaries = Vec::with_capacity(groups.len());
    for ((name, kind, unit), MeasuredGroup { better, values }) in groups {
        let is_only = uses.get(name).is_none_or(|uses| *uses == 1);
        let name = if is_only { name.to_owned() } else { format!("{name} ({} {})", kind.name(), unit.name()) };
        let better = better.or((kind == MeasurementKind::Ok).then_some(Better::Higher));
        summaries.push(MeasurementSummary { name, kind, unit, better, values: MeasurementValues::from_values(values) });
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
