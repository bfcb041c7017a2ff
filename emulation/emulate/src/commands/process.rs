//! Programs that run in hosts.

use std::ffi::OsStr;
use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use roost_lab::Lab;
use roost_topology::model::HostIndex;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, kill_process_group, pidfd_open};

use super::interrupt::{InterruptSource, Interrupted};
use crate::failure::{CommandResult, Failure, FailureCode};

/// The interval at which Ctrl-C is checked.
const LOOK: Duration = Duration::from_millis(100);
/// The time for a program to end after it was asked to.
const GRACE: Duration = Duration::from_secs(1);

/// A program that runs in a host, with this command's input and output.
pub(crate) struct LabProgram {
    child: Child,
}

impl LabProgram {
    pub(crate) fn start<S: AsRef<OsStr> + Sync>(lab: &Lab, host: HostIndex, words: &[S]) -> CommandResult<Self> {
        let Some((program, arguments)) = words.split_first() else {
            return Err(Failure::bad_input("no command: write it after --"));
        };
        let mut command = Command::new(program);
        command.args(arguments);
        Self::spawn(lab, host, command)
    }

    /// Starts a command line with `sh`.
    pub(crate) fn start_line(lab: &Lab, host: HostIndex, line: &str) -> CommandResult<Self> {
        Self::spawn(lab, host, shell(line))
    }

    /// As above, without input.
    pub(crate) fn start_without_input(lab: &Lab, host: HostIndex, line: &str) -> CommandResult<Self> {
        let mut command = shell(line);
        command.stdin(Stdio::null());
        Self::spawn(lab, host, command)
    }

    /// Starts a command line with `sh` as a background program: without input, and without Ctrl-C.
    pub(crate) fn start_beside(lab: &Lab, host: HostIndex, line: &str) -> CommandResult<Self> {
        let mut command = shell(line);
        command.stdin(Stdio::null()).process_group(0);
        Self::spawn(lab, host, command)
    }

    fn spawn(lab: &Lab, host: HostIndex, mut command: Command) -> CommandResult<Self> {
        let started = lab.run_in(host, || command.spawn())?;
        let not_started = |error: io::Error| {
            let code =
                if error.kind() == io::ErrorKind::NotFound { FailureCode::NoProgram } else { FailureCode::CannotRun };
            Failure::new(code, format!("cannot run {}: {error}", command.get_program().display()))
        };
        started.map(|child| Self { child }).map_err(not_started)
    }

    /// Waits for its end; returns its exit code, like shells. Passes `SIGINT` on unless the terminal has sent
    /// it to the program as well.
    pub(crate) fn wait(mut self, interrupted: &Interrupted) -> CommandResult<u8> {
        let failed = |error: io::Error| Failure::failed(format!("cannot wait for a program: {error}"));
        let pid = Pid::from_child(&self.child);
        let handle = pidfd_open(pid, PidfdFlags::empty()).map_err(|error| failed(error.into()))?;
        loop {
            if let Some(status) = self.child.try_wait().map_err(failed)? {
                return Ok(code(status));
            }
            if interrupted.take_source() == Some(InterruptSource::Process) {
                // A process that is gone needs no signal.
                let _ = kill_process(pid, Signal::INT);
            }
            let time = Timespec { tv_sec: 0, tv_nsec: LOOK.subsec_nanos().into() };
            match poll(&mut [PollFd::new(&handle, PollFlags::IN)], Some(&time)) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(failed(error.into())),
            }
        }
    }

    /// Ends a background program and its children, and waits for it a moment.
    pub(crate) fn stop(mut self) -> io::Result<()> {
        let pid = Pid::from_child(&self.child);
        // A process that is gone needs no signal.
        let _ = kill_process_group(pid, Signal::TERM);
        let began = Instant::now();
        while self.child.try_wait()?.is_none() && began.elapsed() < GRACE {
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }
}

fn shell(line: &str) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", line]);
    command
}

fn code(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(FailureCode::Failed as u8)
}

/// Ends the command with the exit code of its program.
pub(crate) fn outcome(code: u8) -> CommandResult {
    if code == 0 { Ok(()) } else { Err(Failure::ProgramExit(code.into())) }
}
