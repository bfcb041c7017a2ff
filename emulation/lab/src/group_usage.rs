//! Resources of process groups: of a program with all processes that it started.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::time::Duration;

use super::usage::Usage;

/// The unit of processor times in `/proc`.
const TICKS_PER_SECOND: u64 = 100;
/// Positions in `/proc/PID/stat`, counted from the field after the name (proc_pid_stat(5): 5 and 14 to 17).
const GROUP_AT: usize = 2;
const TIMES_AT: usize = 11;
/// The four times: of the process itself and of its children that have ended, in user and in kernel mode.
const TIMES: usize = 4;

impl Usage {
    /// Reads the present usage of each of these process groups that still has processes. The memory is that which
    /// is in use now.
    ///
    /// # Errors
    /// Fails when `/proc` cannot be read, or shows the processes of another namespace.
    pub fn read_groups(groups: &BTreeSet<u32>) -> io::Result<BTreeMap<u32, Self>> {
        if fs::read_link("/proc/self")?.to_str() != Some(&std::process::id().to_string()) {
            return Err(io::Error::other("/proc shows the processes of another namespace"));
        }
        let mut all: BTreeMap<u32, Self> = BTreeMap::new();
        for entry in fs::read_dir("/proc")?.flatten() {
            let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else { continue };
            // A process may end meanwhile.
            let Ok(stat) = fs::read_to_string(entry.path().join("stat")) else { continue };
            let Some((group, cpu)) = group_and_cpu(&stat).filter(|(group, _)| groups.contains(group)) else { continue };
            let usage = all.entry(group).or_default();
            usage.cpu += cpu;
            if let Ok(own) = Self::read_process(pid) {
                usage.waited += own.waited;
            }
            let status = fs::read_to_string(entry.path().join("status")).unwrap_or_default();
            usage.peak_memory_bytes += resident(&status).unwrap_or(0);
        }
        Ok(all)
    }
}

fn group_and_cpu(stat: &str) -> Option<(u32, Duration)> {
    let (_, rest) = stat.rsplit_once(')')?;
    let fields: Vec<&str> = rest.split_whitespace().take(TIMES_AT + TIMES).collect();
    let group = fields.get(GROUP_AT)?.parse().ok()?;
    let times = fields.get(TIMES_AT..)?.iter().map(|field| field.parse::<u64>().ok());
    let ticks = times.sum::<Option<u64>>()?;
    Some((group, Duration::from_millis(ticks * 1000 / TICKS_PER_SECOND)))
}

/// The memory that is the process's own: shared libraries would count once for each process.
fn resident(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stat_names_group_and_times() {
        let stat = "42 (odd ) (name) S 1 41 42 0 -1 4194560 100 0 0 0 150 25 10 5 20 0 4 0 123 456 789";
        assert_eq!(group_and_cpu(stat), Some((41, Duration::from_millis(1900))));
        assert_eq!(group_and_cpu("42 (short) S 1"), None);
        assert_eq!(resident("VmRSS:\t  9 kB\nRssAnon:\t   4 kB\n"), Some(4096));
    }

    #[test]
    fn own_group_uses_memory() {
        let own = u32::try_from(rustix::process::getpgrp().as_raw_nonzero().get()).unwrap();
        let all = Usage::read_groups(&[own, u32::MAX].into()).unwrap();
        assert!(all.len() == 1 && all[&own].peak_memory_bytes > 50_000);
    }
}
