//! Resources that a process has used.

use std::fs;
use std::io;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The unit of processor times in `/proc`, the same on all systems that Linux runs on.
const TICKS_PER_SECOND: u64 = 100;
/// The position of the times in user and in kernel mode in `/proc/PID/stat`, counted from the field after the
/// program's name (proc_pid_stat(5): 14 and 15).
const USER_TIME_AT: usize = 11;

/// Resources that a process has used since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Processor time of all its threads, in steps of 10 ms.
    pub cpu: Duration,
    /// Time for which its threads were ready and waited for a processor; without threads that have ended.
    pub waited: Duration,
    /// Peak memory in use, bytes.
    pub peak_memory_bytes: u64,
}

impl Usage {
    /// Reads the usage of the process `pid`, as the caller's PID namespace numbers it.
    ///
    /// # Errors
    /// Fails when it has ended, or `/proc` shows the processes of another namespace.
    pub fn read_process(pid: u32) -> io::Result<Self> {
        if fs::read_link("/proc/self")?.to_str() != Some(&std::process::id().to_string()) {
            return Err(io::Error::other("/proc shows the processes of another namespace"));
        }
        let odd = || io::Error::other(format!("/proc/{pid} does not read as expected"));
        let read = |file: &str| fs::read_to_string(format!("/proc/{pid}/{file}"));
        let mut waited = Duration::ZERO;
        for thread in fs::read_dir(format!("/proc/{pid}/task"))? {
            // A thread that ended meanwhile has no file any more.
            let Ok(text) = fs::read_to_string(thread?.path().join("schedstat")) else { continue };
            waited += waited_of(&text).ok_or_else(odd)?;
        }
        Ok(Self {
            cpu: cpu_of(&read("stat")?).ok_or_else(odd)?,
            waited,
            // An ending process has no memory any more.
            peak_memory_bytes: peak_of(&read("status")?).unwrap_or(0),
        })
    }
}

fn cpu_of(stat: &str) -> Option<Duration> {
    // The name is in brackets, and may contain brackets and spaces itself.
    let (_, rest) = stat.rsplit_once(')')?;
    let mut times = rest.split_whitespace().skip(USER_TIME_AT).map(str::parse::<u64>);
    let ticks = times.next()?.ok()? + times.next()?.ok()?;
    Some(Duration::from_millis(ticks * 1000 / TICKS_PER_SECOND))
}

/// Parses `/proc/PID/task/TID/schedstat`: time on a processor and time waiting for one, in nanoseconds, and
/// turns.
fn waited_of(schedstat: &str) -> Option<Duration> {
    Some(Duration::from_nanos(schedstat.split_whitespace().nth(1)?.parse().ok()?))
}

fn peak_of(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stat_parses_any_program_name() {
        let stat = "42 (odd ) (name) S 1 42 42 0 -1 4194560 100 0 0 0 150 25 0 0 20 0 4 0 123 456 789";
        assert_eq!(cpu_of(stat), Some(Duration::from_millis(1750)));
        assert_eq!(cpu_of("42 (short) S 1"), None);
    }

    #[test]
    fn wait_and_memory_units_parse() {
        assert_eq!(waited_of("1000 2000 3\n"), Some(Duration::from_micros(2)));
        assert_eq!(peak_of("Name:\tx\nVmHWM:\t    1234 kB\nVmRSS:\t 5 kB\n"), Some(1234 * 1024));
        assert_eq!(peak_of("Name:\tx\n"), None);
    }

    #[test]
    fn this_process_uses_memory() {
        assert!(Usage::read_process(std::process::id()).unwrap().peak_memory_bytes > 100_000);
        assert!(Usage::read_process(u32::MAX).is_err());
    }
}
