//! The picture of a network: rows under keys, and what they were in the last hour, or in a whole run.
//!
//! A picture computes; [`crate::feed`] reads the daemon, and [`crate::server`] tells browsers of the changes.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use serde::{Serialize, Serializer};
use serde_json::Value;

/// The time that the history reaches back.
pub(crate) const HISTORY: Duration = Duration::from_secs(3600);

/// The most bytes of the history's rows as JSON, which take some times that in memory. The history of a large network
/// that changes a lot reaches back less far.
const MAX_HISTORY_BYTES: usize = 16 * 1024 * 1024;

/// The most bytes of a run's rows as JSON. A run with more ends there on the page.
pub(crate) const MAX_RUN_BYTES: usize = 64 * 1024 * 1024;

/// Bytes that count for each change of a run, besides its rows.
const CHANGE_BYTES: usize = 64;

/// Rows by key. The part of a key before the first `/` is its section: `node/9405d298…`.
pub type Rows = BTreeMap<String, Value>;

/// The rows that differ from a moment to the next.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Change {
    /// Unix milliseconds, or milliseconds of a run.
    pub at_ms: u64,
    /// Rows that are new, or that differ from before.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub set: Rows,
    /// Keys of rows that are not there any more.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub gone: Vec<String>,
}

/// The picture of a run has no room for a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the page holds {} MiB of a run", MAX_RUN_BYTES / 1024 / 1024)]
pub struct RunFull;

/// The last hour: the rows at its start, and every change since.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct History {
    pub from_ms: u64,
    pub rows: Rows,
    #[serde(serialize_with = "serialize_shared")]
    pub changes: Vec<Arc<Change>>,
}

fn serialize_shared<S: Serializer>(changes: &[Arc<Change>], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(changes.iter().map(AsRef::as_ref))
}

#[derive(Debug, Default)]
pub(crate) struct Picture {
    rows: Rows,
    at_ms: u64,
    /// The rows before the first change of `changes`.
    first: Rows,
    first_ms: u64,
    changes: VecDeque<Arc<Change>>,
    bytes: usize,
}

impl Change {
    fn is_empty(&self) -> bool {
        self.set.is_empty() && self.gone.is_empty()
    }

    fn bytes(&self) -> usize {
        let set: usize = self.set.iter().map(|(key, row)| key.len() + row.to_string().len()).sum();
        set + self.gone.iter().map(String::len).sum::<usize>()
    }

    /// Makes these rows what they are after the change.
    pub(crate) fn apply(&self, rows: &mut Rows) {
        for key in &self.gone {
            rows.remove(key);
        }
        for (key, row) in &self.set {
            rows.insert(key.clone(), row.clone());
        }
    }
}

impl Picture {
    pub(crate) fn rows(&self) -> &Rows {
        &self.rows
    }

    /// The time of the last change, Unix milliseconds.
    pub(crate) fn at_ms(&self) -> u64 {
        self.at_ms
    }

    /// The start of the history, Unix milliseconds.
    pub(crate) fn history_start_ms(&self) -> u64 {
        self.first_ms
    }

    pub(crate) fn history(&self) -> History {
        let changes = self.changes.iter().cloned().collect();
        History { from_ms: self.first_ms, rows: self.first.clone(), changes }
    }

    /// Puts the rows of one section in place of those before. Gives what differs, if anything does.
    pub(crate) fn replace(&mut self, at_ms: u64, section: &str, rows: Rows) -> Option<Arc<Change>> {
        let prefix = format!("{section}/");
        let held = self.rows.keys().filter(|key| key.starts_with(&prefix));
        let gone = held.filter(|key| !rows.contains_key(*key)).cloned().collect();
        let set = rows.into_iter().filter(|(key, row)| self.rows.get(key) != Some(row)).collect();
        self.record(Change { at_ms, set, gone })
    }

    /// Takes what differs, as far as it does.
    pub(crate) fn merge(&mut self, mut change: Change) -> Option<Arc<Change>> {
        change.set.retain(|key, row| self.rows.get(key) != Some(row));
        change.gone.retain(|key| self.rows.contains_key(key));
        self.record(change)
    }

    /// Puts a change of a run at its time, which may be before other changes. Changes of one row come in order.
    ///
    /// # Errors
    /// Fails when the run has too much. Nothing changes then.
    pub(crate) fn insert(&mut self, change: Change) -> Result<Arc<Change>, RunFull> {
        let bytes = change.bytes() + CHANGE_BYTES;
        if self.bytes + bytes > MAX_RUN_BYTES {
            return Err(RunFull);
        }
        Ok(self.put(change))
    }

    /// Sets a row for the whole run, also in a full picture: it is for the few words about the run itself.
    pub(crate) fn set_for_run(&mut self, key: &str, row: Value) -> Arc<Change> {
        self.put(Change { at_ms: 0, set: Rows::from([(key.to_owned(), row)]), gone: Vec::new() })
    }

    fn put(&mut self, change: Change) -> Arc<Change> {
        self.bytes += change.bytes() + CHANGE_BYTES;
        change.apply(&mut self.rows);
        self.at_ms = self.at_ms.max(change.at_ms);
        let change = Arc::new(change);
        let place = self.changes.partition_point(|other| other.at_ms <= change.at_ms);
        self.changes.insert(place, Arc::clone(&change));
        change
    }

    fn record(&mut self, mut change: Change) -> Option<Arc<Change>> {
        if change.is_empty() {
            return None;
        }
        // A clock that is set back does not turn the history around.
        change.at_ms = change.at_ms.max(self.at_ms);
        if self.first_ms == 0 {
            self.first_ms = change.at_ms;
        }
        change.apply(&mut self.rows);
        self.at_ms = change.at_ms;
        self.bytes += change.bytes();
        let change = Arc::new(change);
        self.changes.push_back(Arc::clone(&change));
        self.forget();
        Some(change)
    }

    fn forget(&mut self) {
        let oldest = self.at_ms.saturating_sub(HISTORY.as_millis() as u64);
        while let Some(first) = self.changes.front()
            && (first.at_ms < oldest || self.bytes > MAX_HISTORY_BYTES)
        {
            self.bytes -= first.bytes();
            first.apply(&mut self.first);
            self.first_ms = first.at_ms;
            self.changes.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn rows(section: &str, values: &[(&str, u32)]) -> Rows {
        values.iter().map(|(key, value)| (format!("{section}/{key}"), json!({ "v": value }))).collect()
    }

    #[test]
    fn only_what_differs_is_told() {
        let mut picture = Picture::default();
        assert!(picture.replace(1, "node", rows("node", &[("a", 1), ("b", 1)])).is_some());
        assert_eq!(picture.replace(2, "node", rows("node", &[("a", 1), ("b", 1)])), None);
        let change = picture.replace(3, "node", rows("node", &[("a", 2)])).unwrap();
        assert_eq!((change.set.len(), change.gone.as_slice()), (1, &["node/b".to_owned()][..]));
        assert!(picture.replace(4, "nodes", Rows::new()).is_none(), "another section");
        assert_eq!(picture.rows().len(), 1);
        let same = Change { at_ms: 5, set: rows("node", &[("a", 2)]), gone: vec!["node/b".to_owned()] };
        assert_eq!(picture.merge(same), None);
    }

    #[test]
    fn history_forgets_after_an_hour() {
        let mut picture = Picture::default();
        let hour = HISTORY.as_millis() as u64;
        picture.replace(1000, "node", rows("node", &[("a", 1)]));
        picture.replace(2000, "node", rows("node", &[("a", 2)]));
        picture.replace(1500 + hour, "node", rows("node", &[("a", 3)]));
        let history = picture.history();
        assert_eq!((history.from_ms, history.changes.len()), (1000, 2));
        assert_eq!(history.rows, rows("node", &[("a", 1)]));
    }

    #[test]
    fn clock_set_back_keeps_the_order() {
        let mut picture = Picture::default();
        picture.replace(9_000, "node", rows("node", &[("a", 1)]));
        picture.replace(2_000, "node", rows("node", &[("a", 2)]));
        let times: Vec<u64> = picture.history().changes.iter().map(|change| change.at_ms).collect();
        assert_eq!((times, picture.at_ms()), (vec![9_000, 9_000], 9_000));
    }

    #[test]
    fn history_has_a_greatest_size() {
        let mut picture = Picture::default();
        let long = "x".repeat(1024 * 1024);
        for at in 1..100 {
            picture.replace(at, "node", Rows::from([("node/a".to_owned(), json!({ "at": at, "note": long }))]));
        }
        assert!(picture.bytes <= MAX_HISTORY_BYTES && picture.history().changes.len() > 10);
    }

    #[test]
    fn run_keeps_changes_by_time() {
        let mut picture = Picture::default();
        let day = 24 * HISTORY.as_millis() as u64;
        for (at_ms, key) in [(0, "a"), (day, "b"), (5_000, "c"), (5_000, "d")] {
            picture.insert(Change { at_ms, set: rows("request", &[(key, 1)]), gone: Vec::new() }).unwrap();
        }
        let history = picture.history();
        let keys = history.changes.iter().flat_map(|change| change.set.keys().map(String::as_str));
        assert_eq!(keys.collect::<Vec<_>>(), ["request/a", "request/c", "request/d", "request/b"]);
        assert_eq!((history.from_ms, picture.at_ms(), picture.rows().len()), (0, day, 4));
    }

    #[test]
    fn run_has_a_greatest_size() {
        let mut picture = Picture::default();
        let long = "x".repeat(1024 * 1024);
        let change = |at_ms| Change {
            at_ms,
            set: Rows::from([("node/a".to_owned(), json!({ "note": long }))]),
            gone: Vec::new(),
        };
        let taken = (0..100).take_while(|at| picture.insert(change(*at)).is_ok()).count();
        assert_eq!(taken, 63);
        assert_eq!((picture.at_ms(), picture.insert(change(9))), (62, Err(RunFull)));
        picture.set_for_run("feed/run", json!({ "state": "partial" }));
        assert_eq!(picture.rows().len(), 2);
    }

    proptest! {
        /// The history leads from its first rows to those of now.
        #[test]
        fn history_leads_to_now(steps in prop::collection::vec((prop::collection::btree_map(0_u8..5, 0_u32..3, 0..5), any::<bool>()), 0..30)) {
            let mut picture = Picture::default();
            for (number, (values, other)) in steps.into_iter().enumerate() {
                let section = if other { "link" } else { "node" };
                let values = values.into_iter().map(|(key, value)| (format!("{section}/{key}"), json!(value))).collect();
                picture.replace(number as u64 * 400_000 + 1, section, values);
            }
            let history = picture.history();
            let mut rows = history.rows.clone();
            history.changes.iter().for_each(|change| change.apply(&mut rows));
            prop_assert_eq!(&rows, picture.rows());
        }
    }
}
