//! What a service manager is told, if there is one.

use std::time::Duration;

use sd_notify::NotifyState;

/// Tells the service manager something. Without one nothing happens; a manager
/// that does not listen is no reason to stop.
fn notify_manager(state: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(state) {
        tracing::debug!(%error, "the service manager was not told");
    }
}

/// The daemon serves.
pub(crate) fn ready(status: &str) {
    notify_manager(&[NotifyState::Ready, NotifyState::Status(status)]);
}

/// The daemon has not begun to serve, and needs so much longer at least.
pub(crate) fn waiting(status: &str, longer: Duration) {
    let micros = u32::try_from(longer.as_micros()).unwrap_or(u32::MAX);
    notify_manager(&[NotifyState::ExtendTimeoutUsec(micros), NotifyState::Status(status)]);
}

/// The daemon reads its settings again; [`ready`] follows.
pub(crate) fn reloading() {
    match NotifyState::monotonic_usec_now() {
        Ok(now) => notify_manager(&[NotifyState::Reloading, now]),
        Err(error) => tracing::debug!(%error, "the clock for the service manager failed"),
    }
}

/// The daemon is on its way out.
pub(crate) fn stopping() {
    notify_manager(&[NotifyState::Stopping]);
}

/// How often the service manager wants to hear that the daemon lives.
pub(crate) fn watchdog_interval() -> Option<Duration> {
    sd_notify::watchdog_enabled().map(|limit| limit / 3)
}

/// The daemon lives.
pub(crate) fn alive() {
    notify_manager(&[NotifyState::Watchdog]);
}
