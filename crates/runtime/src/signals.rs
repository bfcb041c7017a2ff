//! Signals: TERM and INT drain, a second one ends at once, HUP reloads, USR1 logs the state. PIPE is ignored by the
//! language's run-time.

use tokio::signal::unix::{Signal, SignalKind, signal};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SignalAction {
    Drain,
    /// Read the settings and the revocation list again.
    Reload,
    Dump,
}

#[derive(Debug)]
pub(crate) struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
    user: Signal,
}

impl Signals {
    pub(crate) fn new() -> std::io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: signal(SignalKind::hangup())?,
            user: signal(SignalKind::user_defined1())?,
        })
    }

    /// Waits for the next signal. Loses nothing when dropped.
    pub(crate) async fn next(&mut self) -> SignalAction {
        tokio::select! {
            _ = self.terminate.recv() => SignalAction::Drain,
            _ = self.interrupt.recv() => SignalAction::Drain,
            _ = self.hangup.recv() => SignalAction::Reload,
            _ = self.user.recv() => SignalAction::Dump,
        }
    }
}
