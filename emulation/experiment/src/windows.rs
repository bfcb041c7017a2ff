//! Usage in the worst ten seconds of a run: an average over the run would hide a standstill.

use std::collections::{BTreeMap, VecDeque};

use crate::host_facts::Processors;

/// The length of a window, seconds.
const WINDOW: f64 = 10.0;

/// The windows of a run: of all processors, and of each daemon.
#[derive(Debug, Default)]
pub(super) struct Windows {
    busy: Worst,
    waited: BTreeMap<String, Worst>,
}

impl Windows {
    /// Adds counters at `t` seconds after the beginning: those of the processors, and each daemon's wait for
    /// one. `None` stands for a failed reading.
    pub(super) fn add_sample(&mut self, t: f64, processors: Option<Processors>, waited: Vec<(String, Option<f64>)>) {
        if let Some(processors) = processors {
            self.busy.add_reading(Reading { t, part: processors.busy, of: processors.all });
        }
        for (daemon, waited) in waited {
            let worst = self.waited.entry(daemon).or_default();
            if let Some(part) = waited {
                worst.add_reading(Reading { t, part, of: t });
            }
        }
    }

    /// The fraction of the processors in use in the worst window; `None` if it is unknown.
    pub(super) fn busy(&self) -> Option<f64> {
        self.busy.part()
    }

    /// The daemon that waited longest in a window, with the fraction of the window.
    pub(super) fn most_starved(&self) -> Option<(String, f64)> {
        let parts = self.waited.iter().filter_map(|(name, worst)| Some((name, worst.part()?)));
        let most = parts.max_by(|a, b| a.1.total_cmp(&b.1));
        most.map(|(name, part)| (name.clone(), part))
    }

    /// The daemons whose waiting time is unknown.
    pub(super) fn unknown(&self) -> Vec<&str> {
        let unknown = self.waited.iter().filter(|(_, worst)| worst.part().is_none());
        unknown.map(|(name, _)| name.as_str()).collect()
    }
}

/// Two growing quantities at one time, whose ratio `part`
/// `of` is measured.
#[derive(Clone, Copy, Debug)]
struct Reading {
    t: f64,
    part: f64,
    of: f64,
}

#[derive(Clone, Debug, Default)]
struct Worst {
    /// The readings within a window of the last one, and one before them.
    readings: VecDeque<Reading>,
    worst: Option<f64>,
}

impl Worst {
    fn add_reading(&mut self, now: Reading) {
        self.readings.push_back(now);
        while self.readings.get(1).is_some_and(|second| now.t - second.t >= WINDOW) {
            self.readings.pop_front();
        }
        if self.readings.front().is_some_and(|first| now.t - first.t >= WINDOW) {
            self.worst = self.worst.into_iter().chain(self.present()).reduce(f64::max);
        }
    }

    /// The ratio from the first reading that is kept to the last one.
    fn present(&self) -> Option<f64> {
        let (first, last) = (self.readings.front()?, self.readings.back()?);
        let of = last.of - first.of;
        (of > 0.0).then(|| ((last.part - first.part) / of).max(0.0))
    }

    /// A run shorter than a window counts as one window.
    fn part(&self) -> Option<f64> {
        self.worst.or_else(|| self.present())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A minute in which a daemon waits all the time from `from` to `to` and never else.
    fn minute(from: u32, to: u32) -> Windows {
        let mut windows = Windows::default();
        for second in 0..=60 {
            let waited = f64::from(second.clamp(from, to) - from);
            let all = f64::from(second) * 200.0;
            let processors = Processors { busy: waited * 200.0, all };
            windows.add_sample(f64::from(second), Some(processors), vec![("a".to_owned(), Some(waited))]);
        }
        windows
    }

    #[test]
    fn ten_bad_seconds_are_detected() {
        for from in [0, 17, 50] {
            let windows = minute(from, from + 10);
            assert_eq!((windows.busy(), windows.most_starved()), (Some(1.0), Some(("a".to_owned(), 1.0))), "{from}");
        }
        assert_eq!(minute(30, 35).busy(), Some(0.5));
        assert_eq!(minute(0, 0).busy(), Some(0.0));
    }

    #[test]
    fn short_run_is_one_window() {
        let mut windows = Windows::default();
        windows.add_sample(0.0, None, vec![("a".to_owned(), Some(7.0))]);
        windows.add_sample(4.0, None, vec![("a".to_owned(), Some(8.0))]);
        assert_eq!((windows.busy(), windows.most_starved()), (None, Some(("a".to_owned(), 0.25))));
    }

    #[test]
    fn unreadable_daemon_is_unknown() {
        let mut windows = Windows::default();
        for t in [0.0, 20.0] {
            windows.add_sample(t, None, vec![("a".to_owned(), Some(0.0)), ("b".to_owned(), None)]);
        }
        assert_eq!((windows.unknown(), windows.busy()), (vec!["b"], None));
    }
}
