//! A daemon of a run: a process in a host's namespace. Dropping the value ends the process.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::Duration;

use roost_api::{Client, Status};
use roost_lab::{HostCommand, HostProcess, Lab, Usage};
use roost_topology::model::HostIndex;
use rustix::process::Signal;

use super::error::RunError;

/// The longest time for a daemon's answer about its own state.
const ANSWER: Duration = Duration::from_secs(5);

/// The part of a daemon in a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// A node, by its index among the nodes.
    Node(usize),
    /// A super node or a server, by its index among the hubs.
    Hub(usize),
}

/// The command line of a daemon, and its files.
#[derive(Clone, Debug)]
pub struct Launch {
    pub role: Role,
    /// The name in its certificate and of its files.
    pub name: String,
    pub host: HostIndex,
    pub class: String,
    /// The name in records: `node`, `supernode`, `server` or `cache`.
    pub title: &'static str,
    pub certified: roost_wire::Role,
    pub program: PathBuf,
    pub args: Vec<OsString>,
    pub socket: PathBuf,
    pub log: PathBuf,
}

#[derive(Debug)]
pub struct Daemon {
    pub launch: Launch,
    child: Option<HostProcess>,
    /// The end of its latest process.
    ended: Option<ExitStatus>,
    before: Usage,
    /// The latest usage of the current process.
    last: Usage,
    /// Counters of its earlier processes at their end.
    counted: Counters,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Counters {
    /// Bytes of messages by class of traffic.
    pub(super) traffic_sent_bytes: BTreeMap<String, u64>,
    pub(super) sent_bytes: u64,
    pub(super) received_bytes: u64,
}

impl Counters {
    /// Adds the counters in a process's status.
    pub(super) fn add(&mut self, status: &Status) {
        for (class, bytes) in &status.traffic_sent_bytes {
            *self.traffic_sent_bytes.entry(class.clone()).or_default() += bytes;
        }
        self.sent_bytes += status.transport.sent_bytes;
        self.received_bytes += status.transport.received_bytes;
    }
}

impl Daemon {
    pub fn new(launch: Launch) -> Self {
        Self {
            launch,
            child: None,
            ended: None,
            before: Usage::default(),
            last: Usage::default(),
            counted: Counters::default(),
        }
    }

    /// Starts it in its host's namespace and appends to its log.
    pub fn start(&mut self, lab: &Lab) -> Result<(), RunError> {
        let Launch { program, args, socket, log, .. } = self.launch.clone();
        let command = HostCommand { program, args, socket, log };
        self.child = Some(lab.spawn(self.launch.host, &command)?);
        self.ended = None;
        Ok(())
    }

    /// True if it runs. A process that has ended is reaped, and its exit status kept.
    pub fn is_running(&mut self) -> bool {
        let Some(child) = &mut self.child else { return false };
        match child.try_wait() {
            Ok(Some(status)) => {
                self.ended = Some(status);
                self.child = None;
                self.before = add(self.before, std::mem::take(&mut self.last));
                false
            }
            _ => true,
        }
    }

    /// Describes its last exit, with the last line of its log.
    pub fn exit_summary(&self) -> String {
        let how = self.ended.map_or_else(|| "has not been started".to_owned(), |status| format!("ended ({status})"));
        format!("{how}; {}", last_log_line(&self.launch.log))
    }

    pub async fn status(socket: PathBuf) -> Option<Status> {
        let ask = async {
            let client = Client::connect(socket).await.ok()?;
            client.status().await.ok()
        };
        tokio::time::timeout(ANSWER, ask).await.ok().flatten()
    }

    /// The counters of all its processes; `status` is the current one's.
    pub(super) fn counted(&self, status: Option<&Status>) -> Counters {
        let mut counted = self.counted.clone();
        if let Some(status) = status {
            counted.add(status);
        }
        counted
    }

    /// Keeps the counters of its process before the process is ended.
    pub(super) fn keep_counters(&mut self, status: &Status) {
        self.counted.add(status);
    }

    /// The usage of all its processes. That of a killed process is the latest known.
    pub(super) fn usage(&mut self) -> Usage {
        // On failure the latest known usage must do.
        let _ = self.look_at_usage();
        add(self.before, self.last)
    }

    /// Time for which its processes have waited for a processor; `None` if it runs and the system does not
    /// tell.
    pub(super) fn waited(&mut self) -> Option<Duration> {
        let known = self.look_at_usage() || !self.is_running();
        known.then(|| add(self.before, self.last).waited)
    }

    /// Updates the current usage; true if it succeeded.
    fn look_at_usage(&mut self) -> bool {
        let Some(usage) = self.child.as_ref().and_then(|child| child.usage().ok()) else {
            return false;
        };
        self.last = usage;
        true
    }

    /// Kills it: it sends no farewell.
    pub(super) fn kill(&mut self) {
        self.usage();
        if let Some(child) = &mut self.child {
            self.ended = child.kill();
            self.child = None;
            self.before = add(self.before, std::mem::take(&mut self.last));
        }
    }

    /// Requests a clean exit (SIGTERM).
    pub fn leave(&mut self) {
        self.usage();
        self.signal(Signal::TERM);
    }

    pub(super) fn freeze(&self) {
        self.signal(Signal::STOP);
    }

    pub(super) fn thaw(&self) {
        self.signal(Signal::CONT);
    }

    fn signal(&self, signal: Signal) {
        if let Some(child) = &self.child {
            child.signal(signal);
        }
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.kill();
    }
}

fn add(a: Usage, b: Usage) -> Usage {
    Usage {
        cpu: a.cpu + b.cpu,
        waited: a.waited + b.waited,
        peak_memory_bytes: a.peak_memory_bytes.max(b.peak_memory_bytes),
    }
}

/// The last line of a log, as part of a sentence.
pub(super) fn last_log_line(log: &Path) -> String {
    let text = std::fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    match text.lines().rev().find(|line| !line.trim().is_empty()) {
        Some(line) => format!("it last said: {}", line.trim()),
        None => "it said nothing".to_owned(),
    }
}
