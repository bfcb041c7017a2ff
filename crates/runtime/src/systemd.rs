//! Messages to the service manager, if there is one.

use std::time::Duration;

use sd_notify::NotifyState;

/// Tells the service manager a state. Nothing happens without a manager; a manager that does not listen is no reason to
/// stop.
fn notify_manager(state: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(state) {
        tracing::debug!(%error, "the service manager was not told");
    }
}

pub(crate) fn ready(status: &str) {
    notify_manager(&[NotifyState::Ready, NotifyState::Status(status)]);
}

/// The daemon does not serve yet, and needs at least `longer`.
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

pub(crate) fn stopping() {
    notify_manager(&[NotifyState::Stopping]);
}

/// The period of signs of life: a third of the service manager's limit.
pub(crate) fn watchdog_interval() -> Option<Duration> {
    sd_notify::watchdog_enabled().map(|limit| limit / 3)
}

pub(crate) fn alive() {
    notify_manager(&[NotifyState::Watchdog]);
}
