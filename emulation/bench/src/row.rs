//! Rows of a report: a target, an observation and a verdict.

use std::collections::BTreeMap;

use serde::Serialize;

use super::BenchCase;
use super::frame::{Column, Measured, Row, whole};

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
    pub case: Option<BenchCase>,
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
    pub what: String,
    pub met: bool,
}

impl Row for BenchRow {
    const COLUMNS: &'static [Column<Self>] = &[
        Column("CASE", |row, _| whole(row.case)),
        Column("WHAT", |row, _| row.what.clone()),
        Column("TARGET", |row, _| row.target.clone()),
        Column("AIM", |row, _| row.aim.as_ref().map_or_else(String::new, |aim| aim.what.clone())),
        Column("SEEN", |row, _| if row.seen.is_empty() { "-".to_owned() } else { row.seen.clone() }),
        Column("RESULT", |row, _| row.result().to_owned()),
    ];
}

impl BenchRow {
    fn result(&self) -> &'static str {
        match (self.verdict, self.aim.as_ref().map(|aim| aim.met)) {
            (BenchVerdict::Met, Some(true)) => "met, aim too",
            (BenchVerdict::Met, _) => "met",
            (BenchVerdict::Missed, _) => "NOT MET",
            (BenchVerdict::NotMeasured, _) => "not measured",
            (BenchVerdict::Shown, Some(true)) => "aim met",
            (BenchVerdict::Shown, _) => "",
        }
    }

    pub(super) fn judged(what: impl Into<String>, target: impl Into<String>, seen: String, met: bool) -> Self {
        let verdict = if met { BenchVerdict::Met } else { BenchVerdict::Missed };
        let (what, target) = (what.into(), target.into());
        Self { case: None, what, target, aim: None, seen, verdict, note: None, values: BTreeMap::new() }
    }

    pub(super) fn shown(what: impl Into<String>, seen: String) -> Self {
        Self { verdict: BenchVerdict::Shown, ..Self::judged(what, "", seen, true) }
    }

    pub(super) fn unmeasured(what: impl Into<String>, target: impl Into<String>, why: impl Into<String>) -> Self {
        let row = Self::judged(what, target, String::new(), false);
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

impl Measured<BenchRow> {
    pub fn count(&self, verdict: BenchVerdict) -> usize {
        self.rows.iter().filter(|row| row.verdict == verdict).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unmeasured_row_is_not_met() {
        let rows = vec![
            BenchRow::judged("1 Mbit/s", "0.2 %", "0.1 %".to_owned(), true)
                .with_stretch_target("0.05 %", false)
                .with("error_percent", 0.1),
            BenchRow::judged("1 Gbit/s", "2 %", "5 %".to_owned(), false),
            BenchRow::unmeasured("TCP", "98 %", "iperf3 is not installed"),
            BenchRow::shown("11 hosts", "3 ms".to_owned()),
        ];
        let report = Measured { rows, ..Measured::default() };
        let counts = [BenchVerdict::Met, BenchVerdict::Missed, BenchVerdict::NotMeasured, BenchVerdict::Shown]
            .map(|one| report.count(one));
        assert_eq!(counts, [1, 1, 1, 1]);
        let json = serde_json::to_value(&report).unwrap();
        let row = BenchRow { case: Some(BenchCase::Rate), ..report.rows[0].clone() };
        assert_eq!(serde_json::to_value(row).unwrap()["case"], "rate");
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
        let beside_each = [("delay", 0.02), ("rate", 0.4)].map(|(case, part)| (case.to_owned(), part)).into();
        let report = Measured::<BenchRow> { beside_each, ..Measured::default() };
        assert_eq!(report.busiest(), Some(("rate", 0.4)));
        assert_eq!(Measured::<BenchRow>::default().busiest(), None);
    }
}
