//! Rows of a report: a target, an observation and a verdict.

use std::collections::BTreeMap;

use serde::Serialize;

use super::BenchCase;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum BenchVerdict {
    Met,
    Missed,
    /// Not measurable here, which never counts as met.
    NotMeasured,
    /// There is no target: the value is only shown.
    Shown,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BenchRow {
    #[serde(serialize_with = "name")]
    pub case: BenchCase,
    pub what: String,
    /// The target in words; empty if there is none.
    pub target: String,
    /// A harder bound, within reach of a quiet machine; it does not affect the verdict.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub aim: Option<StretchTarget>,
    /// The observation; empty if it was not measured.
    pub seen: String,
    pub verdict: BenchVerdict,
    /// The reason for not measuring it, or another note.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// The figures; the unit ends each name.
    pub values: BTreeMap<&'static str, f64>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct StretchTarget {
    /// In words.
    pub what: String,
    pub met: bool,
}

fn name<S: serde::Serializer>(case: &BenchCase, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(case.name())
}

impl BenchRow {
    pub(super) fn judged(
        case: BenchCase,
        what: impl Into<String>,
        target: impl Into<String>,
        seen: String,
        met: bool,
    ) -> Self {
        let verdict = if met { BenchVerdict::Met } else { BenchVerdict::Missed };
        let (what, target) = (what.into(), target.into());
        Self { case, what, target, aim: None, seen, verdict, note: None, values: BTreeMap::new() }
    }

    pub(super) fn shown(case: BenchCase, what: impl Into<String>, seen: String) -> Self {
        Self { verdict: BenchVerdict::Shown, ..Self::judged(case, what, "", seen, true) }
    }

    pub(super) fn unmeasured(
        case: BenchCase,
        what: impl Into<String>,
        target: impl Into<String>,
        why: impl Into<String>,
    ) -> Self {
        let row = Self::judged(case, what, target, String::new(), false);
        Self { verdict: BenchVerdict::NotMeasured, note: Some(why.into()), ..row }
    }

    pub(super) fn with_stretch_target(self, what: impl Into<String>, met: bool) -> Self {
        Self { aim: Some(StretchTarget { what: what.into(), met }), ..self }
    }

    pub(super) fn with(mut self, name: &'static str, value: f64) -> Self {
        self.values.insert(name, value);
        self
    }

    pub(super) fn noting(self, note: impl Into<String>) -> Self {
        Self { note: Some(note.into()), ..self }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct BenchReport {
    pub rows: Vec<BenchRow>,
    /// By case, the fraction of all processors that other programs used meanwhile, 0 to 1. The load that
    /// belongs to a case does not count.
    pub beside: BTreeMap<&'static str, f64>,
    /// Facts about this machine, and the carrying of packets on it.
    pub machine: BTreeMap<String, String>,
    pub seconds: f64,
    /// True if it was stopped before its end.
    pub interrupted: bool,
}

impl BenchReport {
    pub fn count(&self, verdict: BenchVerdict) -> usize {
        self.rows.iter().filter(|row| row.verdict == verdict).count()
    }

    /// The case with the most other load, and that load.
    pub fn busiest(&self) -> Option<(&'static str, f64)> {
        self.beside.iter().map(|(case, part)| (*case, *part)).max_by(|a, b| a.1.total_cmp(&b.1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unmeasured_row_is_not_met() {
        let rows = vec![
            BenchRow::judged(BenchCase::Rate, "1 Mbit/s", "0.2 %", "0.1 %".to_owned(), true)
                .with_stretch_target("0.05 %", false)
                .with("error_percent", 0.1),
            BenchRow::judged(BenchCase::Rate, "1 Gbit/s", "2 %", "5 %".to_owned(), false),
            BenchRow::unmeasured(BenchCase::Rate, "TCP", "98 %", "iperf3 is not installed"),
            BenchRow::shown(BenchCase::Setup, "11 hosts", "3 ms".to_owned()),
        ];
        let report = BenchReport { rows, ..BenchReport::default() };
        let counts = [BenchVerdict::Met, BenchVerdict::Missed, BenchVerdict::NotMeasured, BenchVerdict::Shown]
            .map(|one| report.count(one));
        assert_eq!(counts, [1, 1, 1, 1]);
        let json = serde_json::to_value(&report).unwrap();
        assert_eq!(json["rows"][0]["case"], "rate");
        assert_eq!(json["rows"][0]["values"]["error_percent"], 0.1);
        assert_eq!(
            (&json["rows"][0]["aim"]["met"], &json["rows"][1]["aim"]),
            (&false.into(), &serde_json::Value::Null)
        );
        assert_eq!(json["rows"][2]["verdict"], "not-measured");
        assert_eq!(json["rows"][2]["seen"], "");
    }

    #[test]
    fn the_busiest_case_is_named() {
        let report = BenchReport { beside: BTreeMap::from([("delay", 0.02), ("rate", 0.4)]), ..BenchReport::default() };
        assert_eq!(report.busiest(), Some(("rate", 0.4)));
        assert_eq!(BenchReport::default().busiest(), None);
    }
}
