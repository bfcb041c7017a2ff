//! The terminal's foreground, which the inside has while it runs.
//!
//! A shell in a host makes itself the foreground, and when it ends gives that
//! back to the process group that it came from. A group has a number in a PID
//! namespace only if its first process is in there: so the inside is a group
//! of its own, `init`'s, and the outer process does for it what a shell does
//! for its jobs: it lends it the foreground, stops with it at Ctrl-Z, and takes
//! the foreground back at the end. One that was started in the background has
//! nothing to lend: it stops when the inside wants to read, and lends when a
//! shell brings it to the foreground.

use std::io::stdin;
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, getpgrp, kill_process_group, test_kill_process_group};
use rustix::termios::{tcgetpgrp, tcsetpgrp};

/// How long the inside waits before it tries the terminal again, where this
/// process does not have it and nobody is there to stop for.
const PAUSE: Duration = Duration::from_millis(100);

/// The terminal that this process was started at.
///
/// Its calls need `SIGTTOU` to be held back: without that the system stops a
/// process that is not in the foreground and changes who is. What the terminal
/// refuses is left as it is: it may have hung up.
#[derive(Clone, Copy, Debug)]
pub(super) struct SandboxTerminal {
    own: Pid,
}

impl SandboxTerminal {
    /// The terminal that stdin is, if it is this session's.
    pub(super) fn of_this_process() -> Option<Self> {
        tcgetpgrp(stdin()).is_ok().then(|| Self { own: getpgrp() })
    }

    /// Lends the foreground to the inside, whose group is that of `init`, if
    /// this process has it.
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

    /// What to do when the inside was stopped.
    pub(super) fn stopped(self, init: Pid) {
        let nobody_has_it = || tcgetpgrp(stdin()).is_ok_and(|front| test_kill_process_group(front).is_err());
        // Only stopped for want of the foreground, if this process has it, or
        // nobody: one who was killed could not give it back.
        if nobody_has_it() {
            let _ = tcsetpgrp(stdin(), self.own);
        } else if !self.has_it() {
            self.take_back(init);
            // Ctrl-Z is for this process's group as well, and so is the wait for
            // the foreground: it stops here until it is continued, or not at all
            // where nobody is left to do that.
            let _ = kill_process_group(self.own, Signal::TSTP);
        }
        if !self.has_it() {
            thread::sleep(PAUSE);
        }
        self.lend(init);
        let _ = kill_process_group(init, Signal::CONT);
    }

    /// Ctrl-C has ended the inside: it ends this process's group too, as if it
    /// had been in the foreground. A loop in a shell stops only for that.
    pub(super) fn interrupted(self) {
        if self.has_it() {
            let _ = kill_process_group(self.own, Signal::INT);
        }
    }

    fn has_it(self) -> bool {
        tcgetpgrp(stdin()).is_ok_and(|front| front == self.own)
    }

    /// Whether the inside has the foreground, or somebody who is gone.
    fn is_ours(self, init: Pid) -> bool {
        tcgetpgrp(stdin()).is_ok_and(|front| front == init || test_kill_process_group(front).is_err())
    }
}
