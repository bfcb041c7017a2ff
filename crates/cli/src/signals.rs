//! Signs that a command is to end: a signal, or a reader of its output that has gone.

use std::os::fd::AsFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::failure::{Failure, Outcome};

/// The pause between two looks at the reader of the output.
const LOOK: Duration = Duration::from_millis(250);

/// Linux' number of the signal that a terminal sends when it closes.
const HANGUP: u32 = 1;

/// Ctrl-C, `kill`, and a terminal that closes.
pub(crate) struct Signals {
    interrupt: Signal,
    terminate: Signal,
    /// `None` where `nohup` is to keep the command running.
    hangup: Option<Signal>,
}

impl Signals {
    pub(crate) fn catch() -> Outcome<Self> {
        let catch = |kind| signal(kind).map_err(|error| Failure::failed(format!("cannot wait for Ctrl-C: {error}")));
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let hangup = if ignores(&status, HANGUP) { None } else { Some(catch(SignalKind::hangup())?) };
        Ok(Self { interrupt: catch(SignalKind::interrupt())?, terminate: catch(SignalKind::terminate())?, hangup })
    }

    pub(crate) async fn next(&mut self) {
        let Self { interrupt, terminate, hangup } = self;
        let hung_up = async {
            match hangup {
                Some(hangup) => hangup.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            _ = hung_up => {}
        }
    }
}

/// Waits until nobody reads stdout any more: a pipe tells it to its writer with the next write only.
pub(crate) async fn wait_for_reader_exit() {
    let mut looks = tokio::time::interval(LOOK);
    while !is_unread(std::io::stdout()) {
        looks.tick().await;
    }
}

/// True if nobody is left at the other end of a pipe.
fn is_unread(output: impl AsFd) -> bool {
    let mut polled = [PollFd::new(&output, PollFlags::empty())];
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut polled, Some(&at_once)).is_ok() && polled[0].revents().intersects(PollFlags::ERR | PollFlags::HUP)
}

/// True if a process with this `/proc/PID/status` ignores a signal.
fn ignores(status: &str, number: u32) -> bool {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    mask >> (number - 1) & 1 == 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nohup_is_seen() {
        assert!(ignores("Name:\troost\nSigIgn:\t0000000000001001\n", HANGUP));
        assert!(!ignores("Name:\troost\nSigIgn:\t0000000000001000\n", HANGUP));
        assert!(!ignores("", HANGUP));
    }

    #[test]
    fn closed_pipe_is_detected() {
        let (reader, writer) = std::io::pipe().unwrap();
        assert!(!is_unread(&writer));
        drop(reader);
        assert!(is_unread(&writer));
        assert!(!is_unread(tempfile::tempfile().unwrap()));
    }
}
