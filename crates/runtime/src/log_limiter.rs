//! A limit on the lines of the log that a remote can cause, with a count of the suppressed lines.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Lines written at once.
const BURST: u32 = 5;

/// The time until another line may be written.
const INTERVAL: Duration = Duration::from_secs(10);

#[derive(Debug, Default)]
pub struct LogLimiter(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    used: u32,
    since: Option<Instant>,
    suppressed: u64,
}

impl LogLimiter {
    /// Returns `None` if no line may be written now, or else the number of lines suppressed since the last one, if any.
    pub fn admit(&self) -> Option<Option<u64>> {
        self.admit_at(Instant::now())
    }

    fn admit_at(&self, now: Instant) -> Option<Option<u64>> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let since = *state.since.get_or_insert(now);
        let restored = u32::try_from(now.duration_since(since).as_secs() / INTERVAL.as_secs()).unwrap_or(u32::MAX);
        if restored > 0 {
            state.used = state.used.saturating_sub(restored);
            state.since = Some(now);
        }
        if state.used >= BURST {
            state.suppressed += 1;
            return None;
        }
        state.used += 1;
        let suppressed = std::mem::take(&mut state.suppressed);
        Some((suppressed > 0).then_some(suppressed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn log_flood_is_limited_and_counted() {
        let (pace, began) = (LogLimiter::default(), Instant::now());
        let at = |seconds| pace.admit_at(began + Duration::from_secs(seconds));
        let written = (0..1_000).filter(|_| at(1) == Some(None)).count();
        assert_eq!(written, BURST as usize);
        assert_eq!((at(12), at(12)), (Some(Some(995)), None));
        assert_eq!(at(30), Some(Some(1)));
    }
}
