//! One daemon of a run: a process in a host's namespace. It ends when this
//! value goes, whatever happens.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::OpenOptions;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use roost_control::{Client, Status};
use rustix::process::{Pid, Signal, kill_process};

use super::error::RunError;
use crate::lab::{Lab, Usage};
use crate::topology::model::HostIndex;

/// How long a daemon may take to answer a question about itself.
const ANSWER: Duration = Duration::from_secs(5);

/// What a daemon is to a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// It requests and provides: its place among the nodes.
    Node(usize),
    /// A super node, or the server: its place among the hubs.
    Hub(usize),
}

/// How to start a daemon.
#[derive(Clone, Debug)]
pub(crate) struct Launch {
    pub(crate) role: Role,
    /// Its name, which its certificate and its files carry.
    pub(crate) name: String,
    pub(crate) host: HostIndex,
    pub(crate) class: String,
    /// What records call it: `node`, `supernode`, `server` or `cache`.
    pub(crate) title: &'static str,
    /// What its identity says.
    pub(crate) certified: roost_proto::Role,
    pub(crate) program: PathBuf,
    pub(crate) args: Vec<OsString>,
    pub(crate) socket: PathBuf,
    pub(crate) log: PathBuf,
}

/// A daemon, running or not.
#[derive(Debug)]
pub(crate) struct Daemon {
    pub(crate) launch: Launch,
    child: Option<Child>,
    /// How it ended last.
    ended: Option<ExitStatus>,
    /// What its earlier processes used.
    before: Usage,
    /// The last look at the present one.
    last: Usage,
    /// What its earlier processes had counted when they were ended.
    counted: Counters,
}

/// What a daemon counts since its start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Counters {
    /// Bytes of messages by class of traffic.
    pub(super) traffic_sent_bytes: BTreeMap<String, u64>,
    /// Bytes that its sockets sent.
    pub(super) sent_bytes: u64,
    /// Bytes that its sockets received.
    pub(super) received_bytes: u64,
}

impl Counters {
    /// Adds what a process says that it has counted.
    pub(super) fn add(&mut self, status: &Status) {
        for (class, bytes) in &status.traffic_sent_bytes {
            *self.traffic_sent_bytes.entry(class.clone()).or_default() += bytes;
        }
        self.sent_bytes += status.transport.sent_bytes;
        self.received_bytes += status.transport.received_bytes;
    }
}

impl Daemon {
    /// A daemon that has not been started yet.
    pub(crate) fn new(launch: Launch) -> Self {
        Self {
            launch,
            child: None,
            ended: None,
            before: Usage::default(),
            last: Usage::default(),
            counted: Counters::default(),
        }
    }

    /// Starts it in its host's namespace; its log is added to.
    pub(crate) fn start(&mut self, lab: &Lab) -> Result<(), RunError> {
        let Launch { program, args, socket, log, .. } = &self.launch;
        let file = OpenOptions::new().create(true).append(true).open(log);
        let file = file.map_err(|error| RunError::file("open", log, &error))?;
        // One that was killed has left its socket behind.
        let _ = std::fs::remove_file(socket);
        let mut command = Command::new(program);
        command
            .args(args)
            // What this machine is set up for must not leak into the run.
            .env_clear()
            .envs(std::env::var_os("RUST_BACKTRACE").map(|value| ("RUST_BACKTRACE", value)))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(file)
            // Ctrl-C is for whoever runs the experiment.
            .process_group(0);
        let spawned = lab.run_in(self.launch.host, || command.spawn())?;
        let cannot = |error| RunError::Failed(format!("cannot start {}: {error}", program.display()));
        self.child = Some(spawned.map_err(cannot)?);
        self.ended = None;
        Ok(())
    }

    /// Whether it runs. How it ended is kept.
    pub(crate) fn is_running(&mut self) -> bool {
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

    /// How it ended last, in words, with the last line of its log.
    pub(crate) fn exit_summary(&self) -> String {
        let how = self.ended.map_or_else(|| "has not been started".to_owned(), |status| format!("ended ({status})"));
        format!("{how}; {}", last_log_line(&self.launch.log))
    }

    /// Its status, if it answers.
    pub(crate) async fn status(socket: PathBuf) -> Option<Status> {
        let ask = async {
            let client = Client::connect(socket).await.ok()?;
            client.status().await.ok()
        };
        tokio::time::timeout(ANSWER, ask).await.ok().flatten()
    }

    /// What all its processes have counted, of which the present one says this.
    pub(super) fn counted(&self, status: Option<&Status>) -> Counters {
        let mut counted = self.counted.clone();
        if let Some(status) = status {
            counted.add(status);
        }
        counted
    }

    /// Keeps what its process has counted, before that is ended.
    pub(super) fn keep_counters(&mut self, status: &Status) {
        self.counted.add(status);
    }

    /// What all its processes have used. Of one that was killed it is what
    /// was seen last.
    pub(super) fn usage(&mut self) -> Usage {
        // What was seen last is the best there is.
        let _ = self.look_at_usage();
        add(self.before, self.last)
    }

    /// How long its processes have waited for a processor; `None` if it runs
    /// and the system does not tell.
    pub(super) fn waited(&mut self) -> Option<Duration> {
        let known = self.look_at_usage() || !self.is_running();
        known.then(|| add(self.before, self.last).waited)
    }

    /// Whether what it uses now is known.
    fn look_at_usage(&mut self) -> bool {
        let Some(usage) = self.child.as_ref().and_then(|child| Usage::read_process(child.id()).ok()) else {
            return false;
        };
        self.last = usage;
        true
    }

    /// Kills it: it says nothing to anybody.
    pub(super) fn kill(&mut self) {
        self.usage();
        if let Some(child) = &mut self.child {
            // One that has ended already cannot be killed, and need not be.
            let _ = child.kill();
            self.ended = child.wait().ok();
            self.child = None;
            self.before = add(self.before, std::mem::take(&mut self.last));
        }
    }

    /// Asks it to leave.
    pub(crate) fn leave(&mut self) {
        self.usage();
        self.signal(Signal::TERM);
    }

    /// Has it stand still.
    pub(super) fn freeze(&self) {
        self.signal(Signal::STOP);
    }

    /// Has it go on.
    pub(super) fn thaw(&self) {
        self.signal(Signal::CONT);
    }

    fn signal(&self, signal: Signal) {
        if let Some(child) = &self.child {
            // One that has ended already cannot be told, and need not be.
            let _ = kill_process(Pid::from_child(child), signal);
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
