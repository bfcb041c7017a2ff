//! A host's program, on this machine or another one.

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use super::remote::RemoteProcess;
use crate::{LabError, Usage};

/// A program of Roost for a host, with its files.
#[derive(Clone, Debug)]
pub struct HostCommand {
    /// A path; on another machine the program of the same name beside that machine's `emulate` runs.
    pub program: PathBuf,
    pub args: Vec<OsString>,
    /// The file to which its messages are appended.
    pub log: PathBuf,
    /// The path of its Unix socket, which can be used here wherever the program runs.
    pub socket: PathBuf,
}

impl HostCommand {
    pub(crate) fn open_log(&self) -> Result<File, LabError> {
        let file = OpenOptions::new().create(true).append(true).open(&self.log);
        file.map_err(|error| LabError::kernel(format!("open {}", self.log.display()), error))
    }

    /// Starts it in the calling thread's namespace.
    pub(crate) fn spawn(&self, messages: impl Into<Stdio>) -> io::Result<Child> {
        start(&self.program, &self.args, &self.socket, messages)
    }
}

/// Starts a program of Roost. Its settings come from its arguments alone.
pub(super) fn start(program: &Path, args: &[OsString], socket: &Path, messages: impl Into<Stdio>) -> io::Result<Child> {
    // A killed process leaves its socket behind.
    let _ = std::fs::remove_file(socket);
    Command::new(program)
        .args(args)
        // Settings of this machine must not leak into the run.
        .env_clear()
        .envs(std::env::var_os("RUST_BACKTRACE").map(|value| ("RUST_BACKTRACE", value)))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(messages)
        // Ctrl-C is meant for the experiment, not for its programs.
        .process_group(0)
        .spawn()
}

#[derive(Debug)]
pub enum HostProcess {
    Here(Child),
    There(RemoteProcess),
}

impl HostProcess {
    /// Returns the exit status of a program that has ended.
    ///
    /// # Errors
    /// Fails when the system does not tell.
    pub fn try_wait(&mut self) -> io::Result<Option<ExitStatus>> {
        match self {
            Self::Here(child) => child.try_wait(),
            Self::There(process) => Ok(process.status().map(ExitStatus::from_raw)),
        }
    }

    /// Kills it and waits for its end. On another machine nobody waits: the agent does nothing else before that end.
    pub fn kill(&mut self) -> Option<ExitStatus> {
        match self {
            // A process that has ended already need not be killed.
            Self::Here(child) => child.kill().and_then(|()| child.wait()).ok(),
            Self::There(process) => {
                process.signal(libc::SIGKILL);
                Some(ExitStatus::from_raw(process.status().unwrap_or(libc::SIGKILL)))
            }
        }
    }

    /// Sends a signal. A process that has ended already needs none.
    pub fn signal(&self, signal: Signal) {
        match self {
            Self::Here(child) => {
                let _ = kill_process(Pid::from_child(child), signal);
            }
            Self::There(process) => process.signal(signal.as_raw()),
        }
    }

    /// The resources that it has used; on another machine, at the latest [`Lab::observe`](crate::Lab::observe).
    ///
    /// # Errors
    /// Fails when it has ended, or the system does not tell.
    pub fn usage(&self) -> io::Result<Usage> {
        match self {
            Self::Here(child) => Usage::read_process(child.id()),
            Self::There(process) => process.usage().ok_or_else(|| io::ErrorKind::NotFound.into()),
        }
    }
}
