//! Keeps an error that recurs from filling the log.

use std::time::{Duration, Instant};

/// The time for which the same sentence is not logged again.
const QUIET: Duration = Duration::from_secs(300);

/// The most sentences that are remembered; the oldest makes room.
const REMEMBERED: usize = 16;

#[derive(Debug, Default)]
pub struct LogDedup(Vec<(String, Instant)>);

impl LogDedup {
    /// Returns true if `sentence` was not logged within [`QUIET`], and remembers it.
    pub fn admit(&mut self, now: Instant, sentence: &str) -> bool {
        self.0.retain(|(_, logged)| now.saturating_duration_since(*logged) < QUIET);
        if self.0.iter().any(|(known, _)| known == sentence) {
            return false;
        }
        if self.0.len() == REMEMBERED {
            self.0.remove(0);
        }
        self.0.push((sentence.to_owned(), now));
        true
    }

    /// Forgets all sentences after a change of the state, so that the next one counts as new.
    pub fn clear(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeated_line_is_suppressed_until_cleared() {
        let (mut repeats, start) = (LogDedup::default(), Instant::now());
        assert!(repeats.admit(start, "a") && repeats.admit(start, "b"));
        assert!(!repeats.admit(start + QUIET / 2, "a"));
        assert!(repeats.admit(start + QUIET, "a"));
        repeats.clear();
        assert!(repeats.admit(start + QUIET, "a"));
    }

    #[test]
    fn only_so_many_are_remembered() {
        let (mut repeats, start) = (LogDedup::default(), Instant::now());
        for number in 0..=REMEMBERED {
            assert!(repeats.admit(start, &number.to_string()));
        }
        assert_eq!(repeats.0.len(), REMEMBERED);
        assert!(repeats.admit(start, "0"));
    }
}
