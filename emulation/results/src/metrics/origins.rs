//! The hosts, labels and programs by which measurements of one name are told apart.

use std::collections::BTreeSet;

use crate::record::MeasurementRecord;

/// The most parts of a name: more have no place in a table or a figure.
const MOST: usize = 12;
/// The most keys of labels that are looked at.
const MAX_KEYS: usize = 32;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OriginKey<'a> {
    Host,
    Label(&'a str),
    Program,
}

impl<'a> OriginKey<'a> {
    fn value(self, record: &MeasurementRecord) -> &str {
        match self {
            Self::Host => &record.host,
            Self::Label(key) => record.labels.get(key).map_or("", String::as_str),
            Self::Program => &record.program,
        }
    }

    fn text(self, value: &str) -> String {
        match (self, value) {
            (Self::Host, host) => format!("at {host}"),
            (Self::Label(key), "") => format!("no {key}"),
            (Self::Label(key), value) => format!("{key}={value}"),
            (Self::Program, program) => format!("by {program}"),
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Origins<'a> {
    keys: Vec<OriginKey<'a>>,
}

impl<'a> Origins<'a> {
    /// Keys are added as long as each tells more records apart, and the parts stay few. Parts have two records or more
    /// on average, so a label that differs each time makes none.
    pub(super) fn from_records(records: &[&'a MeasurementRecord]) -> Self {
        let labels: BTreeSet<&str> =
            records.iter().flat_map(|record| record.labels.keys()).map(String::as_str).collect();
        let labels = labels.into_iter().take(MAX_KEYS).map(OriginKey::Label);
        let mut origins = Self::default();
        let mut parts = 1;
        for key in [OriginKey::Host].into_iter().chain(labels).chain([OriginKey::Program]) {
            let more = Self { keys: [origins.keys.as_slice(), &[key]].concat() };
            let count = more.count(records);
            if count > parts && count <= MOST && 2 * count <= records.len() {
                (origins, parts) = (more, count);
            }
        }
        origins
    }

    /// The number of parts, or one more than the most.
    fn count(&self, records: &[&MeasurementRecord]) -> usize {
        let mut seen: BTreeSet<Vec<&str>> = BTreeSet::new();
        for record in records {
            seen.insert(self.values(record));
            if seen.len() > MOST {
                break;
            }
        }
        seen.len()
    }

    pub(super) fn values<'r>(&self, record: &'r MeasurementRecord) -> Vec<&'r str> {
        self.keys.iter().map(|key| key.value(record)).collect()
    }

    pub(super) fn text(&self, values: &[&str]) -> String {
        self.keys.iter().zip(values).map(|(key, value)| key.text(value)).collect::<Vec<_>>().join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(host: &str, program: &str) -> MeasurementRecord {
        MeasurementRecord { host: host.to_owned(), program: program.to_owned(), ..MeasurementRecord::default() }
    }

    #[test]
    fn program_tells_more_than_host() {
        let told = |records: &[MeasurementRecord]| {
            let records: Vec<&MeasurementRecord> = records.iter().collect();
            let origins = Origins::from_records(&records);
            origins.text(&origins.values(records[0]))
        };
        let twice = |records: [MeasurementRecord; 2]| [records.as_slice(), &records].concat();
        assert_eq!(told(&twice([record("a", "one"), record("b", "two")])), "at a");
        assert_eq!(told(&twice([record("a", "one"), record("a", "two")])), "by one");
        assert_eq!(told(&twice([record("a", "one"), record("a", "one")])), "");
    }

    #[test]
    fn label_without_repetition_makes_no_parts() {
        let numbered = |number: u32| {
            let labels = [("number".to_owned(), number.to_string())].into();
            MeasurementRecord { labels, ..record(["a", "b"][number as usize % 2], "one") }
        };
        let records: Vec<MeasurementRecord> = (0..12).map(numbered).collect();
        let records: Vec<&MeasurementRecord> = records.iter().collect();
        let origins = Origins::from_records(&records);
        assert_eq!(origins.text(&origins.values(records[0])), "at a");
    }
}
