//! Final counters of a daemon that the plan is about to end. It is asked in advance, so that it ends on time
//! and not after its answer.

use std::path::PathBuf;
use std::time::Duration;

use roost_api::Status;
use tokio::sync::watch;

use super::abort_on_drop::AbortOnDrop;
use super::daemon::Daemon;

/// The time before a daemon's end at which it is first asked.
pub(super) const AHEAD: Duration = Duration::from_millis(250);
const AGAIN: Duration = Duration::from_millis(50);

/// Repeated status requests to a daemon. Dropping the value stops them.
pub(super) struct FinalStats {
    newest: watch::Receiver<Option<Status>>,
    _asks: AbortOnDrop,
}

impl FinalStats {
    /// Starts to ask the daemon behind this socket.
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

    pub(super) fn newest(&self) -> Option<Status> {
        self.newest.borrow().clone()
    }
}
