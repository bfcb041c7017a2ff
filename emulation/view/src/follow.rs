//! Fills the page's picture from the folder of a run, as far as it is written.

use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use roost_dashboard::{Change, Feed};
use roost_results::record::RunRecord;
use roost_results::{EVENTS_FILE, RUN_FILE, read_run};
use serde_json::{Value, json};

use crate::description::{Description, ViewError};
use crate::run_rows::{RunRows, run_row};
use crate::tail::RecordTail;

/// The longest pause between two records of a run that goes on: a run samples each second, and a simulation writes
/// some of its records together.
const SILENCE: Duration = Duration::from_secs(60);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FollowState {
    Running,
    Finished,
    /// The page has no room for the rest.
    Full,
}

/// The run in a folder, on its way to the page.
pub struct RunFollower<'a> {
    description: &'a Description,
    folder: PathBuf,
    feed: Feed,
    rows: RunRows<'a>,
    tail: Option<RecordTail>,
    at_ms: u64,
    /// The rows of the run and of the feed that the page has.
    told: [Value; 2],
}

impl<'a> RunFollower<'a> {
    pub fn new(description: &'a Description, folder: &Path, feed: Feed) -> Self {
        let rows = RunRows::new(description);
        let folder = folder.to_owned();
        let follower = Self { description, folder, feed, rows, tail: None, at_ms: 0, told: Default::default() };
        // An empty picture has room for a network.
        let _ = follower.feed.add(follower.rows.first());
        follower
    }

    /// Adds what has been written since the last call.
    ///
    /// # Errors
    /// Fails when a file cannot be read, or is of a later version.
    pub fn advance(&mut self) -> Result<FollowState, ViewError> {
        // Read before the records: those of a run that has ended are all there.
        let path = self.folder.join(RUN_FILE);
        let run = if path.is_file() { read_run(&path).map(Some) } else { Ok(None) };
        // A run that ends just now has written half of its file.
        let run = run.or_else(|error| if self.is_young(&path) { Ok(None) } else { Err(error) })?;
        let has_ended = run.as_ref().is_some_and(|run| run.ran_s > 0.0);
        let is_full = !self.take_records()? || has_ended && !self.take_rest();
        let state = match &run {
            Some(run) if has_ended && run.interrupted => "interrupted",
            Some(_) if has_ended => "finished",
            _ if self.is_silent() => "silent",
            _ => "running",
        };
        self.show_state(run.as_ref(), state, is_full);
        Ok(match (is_full, has_ended) {
            (true, _) => FollowState::Full,
            (_, true) => FollowState::Finished,
            _ => FollowState::Running,
        })
    }

    /// Adds the records that are there; false if the page has no room for them.
    fn take_records(&mut self) -> Result<bool, ViewError> {
        let path = self.folder.join(EVENTS_FILE);
        let failed = |source| ViewError::Io { path: path.clone(), source };
        if self.tail.is_none() {
            self.tail = match RecordTail::open(&path) {
                Ok(tail) => Some(tail),
                Err(error) if error.kind() == io::ErrorKind::NotFound => None,
                Err(error) => return Err(failed(error)),
            };
        }
        let Some(tail) = &mut self.tail else { return Ok(true) };
        let mut shown = ShownChanges { feed: &self.feed, at_ms: &mut self.at_ms };
        while let Some(record) = tail.next().map_err(failed)? {
            if !shown.add(self.rows.add(record)) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Adds the changes that waited for later records; false if the page has no room for them.
    fn take_rest(&mut self) -> bool {
        let mut shown = ShownChanges { feed: &self.feed, at_ms: &mut self.at_ms };
        shown.add(self.rows.rest())
    }

    /// Adds the rows of the run and of the feed, as far as they are new.
    fn show_state(&mut self, run: Option<&RunRecord>, state: &str, is_full: bool) {
        let end_ms = run.filter(|run| run.ran_s > 0.0).map(|run| ((run.ran_s + run.drain_s) * 1e3) as u64);
        let left_out = self.tail.as_ref().map_or(0, |tail| tail.left_out);
        let message = if is_full {
            let until = self.at_ms / 1000;
            Some(format!("the run has more than the page can hold: the first {until} s are shown"))
        } else if left_out > 0 {
            Some(format!("{left_out} lines of {EVENTS_FILE} are no records that this version knows"))
        } else {
            self.description.remark.clone()
        };
        let feed = json!({ "state": if message.is_some() { "partial" } else { "live" }, "message": message });
        let rows = [("run/self", run_row(self.description, run, state)), ("feed/run", feed)];
        for ((key, row), told) in rows.into_iter().zip(&mut self.told) {
            if *told != row {
                told.clone_from(&row);
                self.feed.set_for_run(key, row);
            }
        }
        if let Some(end_ms) = end_ms.filter(|end_ms| *end_ms > self.at_ms && !is_full) {
            let end = Change { at_ms: end_ms, gone: vec!["sample/self".to_owned()], ..Change::default() };
            self.at_ms = end_ms;
            let _ = self.feed.add(end);
        }
    }

    fn is_silent(&self) -> bool {
        let modified = std::fs::metadata(self.folder.join(EVENTS_FILE)).and_then(|about| about.modified());
        modified.is_ok_and(|at| SystemTime::now().duration_since(at).is_ok_and(|since| since > SILENCE))
    }

    fn is_young(&self, path: &Path) -> bool {
        let modified = std::fs::metadata(path).and_then(|about| about.modified());
        modified.is_ok_and(|at| SystemTime::now().duration_since(at).is_ok_and(|since| since < Duration::from_secs(2)))
    }
}

/// The changes that the page has, and the time of the last one.
struct ShownChanges<'f> {
    feed: &'f Feed,
    at_ms: &'f mut u64,
}

impl ShownChanges<'_> {
    /// False if the page has no room for them.
    fn add(&mut self, changes: Vec<Change>) -> bool {
        changes.into_iter().all(|change| {
            let at_ms = change.at_ms;
            let has_room = self.feed.add(change).is_ok();
            if has_room {
                *self.at_ms = at_ms.max(*self.at_ms);
            }
            has_room
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{RUN, folder_of_run};

    fn message(follower: &RunFollower<'_>) -> Value {
        follower.told[1]["message"].clone()
    }

    #[test]
    fn run_is_followed_to_its_end() {
        let folder = folder_of_run("");
        let description = Description::read(folder.path()).unwrap();
        let mut follower = RunFollower::new(&description, folder.path(), Feed::of_run());
        assert_eq!(follower.advance().unwrap(), FollowState::Running);
        assert_eq!((&follower.told[0]["state"], follower.at_ms), (&json!("running"), 0));
        let sample = "{\"record\":\"sample\",\"t\":1.0,\"offered_bytes\":1,\"delivered_bytes\":1,\"active\":0,\
                      \"completed\":0,\"failed\":0,\"lateness_p99_ms\":0.0}\n";
        std::fs::write(folder.path().join(EVENTS_FILE), format!("{sample}nonsense\n")).unwrap();
        assert_eq!(follower.advance().unwrap(), FollowState::Running);
        assert_eq!((follower.at_ms, message(&follower).is_null()), (1000, false));
        std::fs::write(folder.path().join(RUN_FILE), RUN).unwrap();
        assert_eq!(follower.advance().unwrap(), FollowState::Finished);
        assert_eq!((&follower.told[0]["state"], follower.at_ms), (&json!("finished"), 31_500));
    }

    #[test]
    fn long_run_ends_at_full_page() {
        let incident = |t: u64| {
            format!("{{\"record\":\"incident\",\"t\":{t},\"object\":\"a\",\"what\":\"{}\"}}\n", "x".repeat(1_000_000))
        };
        let folder = folder_of_run(&(1..70).map(incident).collect::<String>());
        let description = Description::read(folder.path()).unwrap();
        let mut follower = RunFollower::new(&description, folder.path(), Feed::of_run());
        assert_eq!(follower.advance().unwrap(), FollowState::Full);
        assert_eq!(message(&follower), json!("the run has more than the page can hold: the first 67 s are shown"));
    }
}
