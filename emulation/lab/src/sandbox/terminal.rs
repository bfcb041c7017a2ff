//! The terminal's foreground, which the sandbox has while it runs.
//!
//! A shell in a host makes itself the foreground, and when it ends gives that back to the process group that it
//! came from. A group has a number in a PID namespace only if its first process is in there: so the inside is a
//! group of its own, `init`'s, and the outer process does for it what a shell does for its jobs: it lends it
//! the foreground, stops with it at Ctrl-Z, and takes the foreground back at the end. A process in the
//! background has nothing to lend: it stops when the inside reads, and lends when a shell brings it to the
//! foreground.

use std::io::stdin;
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, getpgrp, kill_process_group, test_kill_process_group};
use rustix::termios::{tcgetpgrp, tcsetpgrp};

/// The pause before the inside tries the terminal again, if this process does not have it and nobody is left to
/// stop for.
const PAUSE: Duration = Duration::from_millis(100);

/// The terminal of this process.
///
/// Its calls need `SIGTTOU` to be blocked: otherwise the system stops a background process that changes the
/// foreground. Refusals of the terminal are ignored: it may have hung up.
#[derive(Clone, Copy, Debug)]
pub(super) struct SandboxTerminal {
    own: Pid,
}

impl SandboxTerminal {
    /// Stdin, if it is this session's terminal.
    pub(super) fn of_this_process() -> Option<Self> {
        tcgetpgrp(stdin()).is_ok().then(|| Self { own: getpgrp() })
    }

    /// Lends the foreground to the inside, whose group is that of `init`, if this process has it.
    pub(super) fn lend(self, init: Pid) {
        if self.has_it() {
            let _ = tcsetpgrp(stdin(), init);
        }
    }

    /// Takes the foreground back, unless somebody else has it.
    pub(super) fn take_back(self, init: Pid) {
        if self.is_ours(init) {
            let _ = tcsetpgrp(stdin(), self.own);
        }
    }

    pub(super) fn stopped(self, init: Pid) {
        let nobody_has_it = || tcgetpgrp(stdin()).is_ok_and(|front| test_kill_process_group(front).is_err());
        // The inside lacks only the foreground, if this process has it, or nobody: a killed process could not
        // give it back.
        if nobody_has_it() {
            let _ = tcsetpgrp(stdin(), self.own);
        } else if !self.has_it() {
            self.take_back(init);
            // Ctrl-Z is for this process's group as well, and so is the wait for the foreground. It stops here
            // until it is continued, or not at all if nobody is left to continue it.
            let _ = kill_process_group(self.own, Signal::TSTP);
        }
        if !self.has_it() {
            thread::sleep(PAUSE);
        }
        self.lend(init);
        let _ = kill_process_group(init, Signal::CONT);
    }

    /// Ctrl-C has ended the inside. This ends the process's own group too, as if it had been in the foreground:
    /// a loop in a shell stops only for that.
    pub(super) fn interrupted(self) {
        if self.has_it() {
            let _ = kill_process_group(self.own, Signal::INT);
        }
    }

    fn has_it(self) -> bool {
        tcgetpgrp(stdin()).is_ok_and(|front| front == self.own)
    }

    /// True if the foreground group is the inside, or one that is gone.
    fn is_ours(self, init: Pid) -> bool {
        tcgetpgrp(stdin()).is_ok_and(|front| front == init || test_kill_process_group(front).is_err())
    }
}
