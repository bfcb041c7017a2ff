//! The kernel's figures of the hub's process.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use crate::failure::{Failure, Outcome};

pub(super) struct Probe {
    folder: PathBuf,
}

impl Probe {
    /// Opens the process with this number.
    pub(super) fn new(pid: u32) -> Outcome<Self> {
        let probe = Self { folder: PathBuf::from(format!("/proc/{pid}")) };
        probe
            .memory()
            .map_err(|_| Failure::usage(format!("there is no process {pid} here: give the hub's with --pid")))?;
        Ok(probe)
    }

    /// Memory in use, bytes.
    pub(super) fn memory(&self) -> Outcome<u64> {
        let status = self.read("status")?;
        let kilobytes = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).and_then(first_number);
        kilobytes.map(|kilobytes| kilobytes * 1024).ok_or_else(|| self.gone("its memory is not told"))
    }

    /// Processor time used so far, over all threads.
    pub(super) fn processor(&self) -> Outcome<Duration> {
        let tasks = fs::read_dir(self.folder.join("task")).map_err(|error| self.gone(&error.to_string()))?;
        let spent = tasks.flatten().filter_map(|task| {
            // A thread may end between the listing and the reading.
            let text = fs::read_to_string(task.path().join("schedstat")).ok()?;
            first_number(&text)
        });
        Ok(Duration::from_nanos(spent.sum()))
    }

    fn read(&self, name: &str) -> Outcome<String> {
        fs::read_to_string(self.folder.join(name)).map_err(|error| self.gone(&error.to_string()))
    }

    fn gone(&self, why: &str) -> Failure {
        Failure::failed(format!("cannot look at the hub's process in {}: {why}", self.folder.display()))
    }
}

fn first_number(text: &str) -> Option<u64> {
    text.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_process_has_memory_and_time() {
        let probe = Probe::new(std::process::id()).unwrap();
        assert!(probe.memory().unwrap() > 0);
        assert!(probe.processor().unwrap() > Duration::ZERO);
    }

    #[test]
    fn missing_process_is_usage_error() {
        assert!(Probe::new(u32::MAX).is_err());
    }
}
