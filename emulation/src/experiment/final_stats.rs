//! What a daemon has counted that the plan is about to end. It is asked ahead of
//! its end, so that this comes at its time and not when an answer has come.

use std::path::PathBuf;
use std::time::Duration;

use roost_control::Status;
use tokio::sync::watch;

use super::daemon::Daemon;
use super::fleet::AbortOnDrop;

/// How long before its end a daemon is first asked.
pub(super) const AHEAD: Duration = Duration::from_millis(250);
/// The time between two questions.
const AGAIN: Duration = Duration::from_millis(50);

/// What a daemon says again and again. It is not asked any more when this value goes.
pub(super) struct FinalStats {
    newest: watch::Receiver<Option<Status>>,
    _asks: AbortOnDrop,
}

impl FinalStats {
    /// Asks the daemon behind this socket from now on.
    pub(super) fn poll_socket(socket: PathBuf) -> Self {
        let (sender, newest) = watch::channel(None);
        let asks = tokio::spawn(async move {
            loop {
                if let Some(status) = Daemon::status(socket.clone()).await {
                    sender.send_replace(Some(status));
                }
                tokio::time::sleep(AGAIN).await;
            }
        });
        Self { newest, _asks: AbortOnDrop(asks.abort_handle()) }
    }

    /// What it said last.
    pub(super) fn newest(&self) -> Option<Status> {
        self.newest.borrow().clone()
    }
}
