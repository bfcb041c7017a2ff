//! Signals that are read from a descriptor and passed on.

use std::ffi::c_int;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::process::{Pid, Signal, kill_process};

use crate::{LabError, kernel};

/// The signals that both waiting processes read: the end of a child, those that are passed on, and those that
/// would stop a process in the background of its terminal.
const READ: [c_int; 6] = [libc::SIGCHLD, libc::SIGHUP, libc::SIGINT, libc::SIGQUIT, libc::SIGTERM, libc::SIGTTOU];

/// `struct signalfd_siginfo`: the offsets of its number and its code, and its size.
const NUMBER_AT: usize = 0;
const CODE_AT: usize = 8;
const INFO_BYTES: usize = 128;
/// The code of a signal from the kernel, as for a key of the terminal (`SI_KERNEL`).
const FROM_KERNEL: i32 = 0x80;

/// Signals that are blocked in this process and read one by one.
pub(super) struct Signals(OwnedFd);

pub(super) struct ReceivedSignal {
    pub(super) number: c_int,
    /// True if a key of the terminal sent it: then every process in the foreground has it.
    pub(super) is_from_terminal: bool,
}

impl Signals {
    /// Blocks them all, except for signals that end a process and that the parent had ignored.
    pub(super) fn hold() -> Result<Self, LabError> {
        let is_held = |signal: &c_int| matches!(*signal, libc::SIGCHLD | libc::SIGTTOU) || !kernel::is_ignored(*signal);
        let held: Vec<c_int> = READ.into_iter().filter(is_held).collect();
        kernel::open_signals(&held).map(Self).map_err(|error| LabError::kernel("listen to signals", error))
    }

    /// Undoes [`hold`](Self::hold), also in a worker that has inherited it.
    pub(super) fn release() -> Result<(), LabError> {
        kernel::release_signals(&READ).map_err(|error| LabError::kernel("listen to signals", error))
    }

    pub(super) fn next(&self) -> Result<ReceivedSignal, LabError> {
        let mut info = [0; INFO_BYTES];
        loop {
            match rustix::io::read(&self.0, &mut info) {
                Ok(_) => break,
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(LabError::kernel("listen to signals", error)),
            }
        }
        let word = |at: usize| i32::from_ne_bytes([info[at], info[at + 1], info[at + 2], info[at + 3]]);
        Ok(ReceivedSignal { number: word(NUMBER_AT), is_from_terminal: word(CODE_AT) == FROM_KERNEL })
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Passes a signal on; a process that is gone needs none.
pub(super) fn send(to: Pid, number: c_int) {
    let signal = match number {
        libc::SIGHUP => Signal::HUP,
        libc::SIGINT => Signal::INT,
        libc::SIGQUIT => Signal::QUIT,
        libc::SIGTERM => Signal::TERM,
        _ => return,
    };
    let _ = kill_process(to, signal);
}
