//! Renews the daemon's certificate at the group's authority, when two thirds of its validity are over.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use roost_identity::{Identity, RenewalKey};
use roost_wire::NodeId;
use tokio::sync::Notify;
use tokio::time::sleep;

use crate::clock::LOOK;
use crate::shared::DaemonContext;

/// The pauses after a renewal that failed. The authority may be out of reach for weeks.
const MIN_PAUSE: Duration = Duration::from_secs(30);
const MAX_PAUSE: Duration = Duration::from_secs(3600);

/// The part of the validity over which the members of a group spread their renewals.
const SPREAD: u32 = 20;

/// The state of the contact with the group's authority, for status and metrics.
#[derive(Debug, Default)]
pub(crate) struct AuthorityContact(Mutex<Option<SystemTime>>);

impl AuthorityContact {
    /// The time of the first failure since the last success.
    pub(crate) fn failing_since(&self) -> Option<SystemTime> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, failed: Option<SystemTime>) {
        let mut since = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *since = failed.map(|now| since.unwrap_or(now));
    }
}

/// The renewals of a daemon that knows its authority.
pub(crate) struct Renewal {
    pub(crate) authority: String,
    /// The folder of the identity, in which the certificate is replaced.
    pub(crate) dir: PathBuf,
    pub(crate) identity: Arc<Identity>,
    pub(crate) shared: Arc<DaemonContext>,
    /// Told after each renewal, which also brings the newest revocation list.
    pub(crate) renewed: Arc<Notify>,
}

impl Renewal {
    /// Renews for as long as the daemon runs.
    pub(crate) async fn run(self) {
        let mut pause = MIN_PAUSE;
        loop {
            let due = due(self.identity.not_before(), self.identity.not_after(), self.identity.node());
            if let Ok(left) = due.duration_since(SystemTime::now()) {
                // The host's date may be set meanwhile.
                sleep(left.min(LOOK)).await;
                continue;
            }
            let renewed = roost_authority::renew(&self.dir, &self.identity, &self.authority, RenewalKey::Same).await;
            let error = match renewed.map(|fresh| self.identity.renew(&fresh, SystemTime::now())) {
                Ok(Ok(_)) => {
                    self.shared.authority.set(None);
                    let until = humantime::format_rfc3339_seconds(self.identity.not_after());
                    tracing::info!(%until, "the certificate was renewed");
                    self.renewed.notify_one();
                    // A certificate that ends with the group's is due again at once, and no later one can be had.
                    sleep(MAX_PAUSE.min(self.identity.not_after().duration_since(due).unwrap_or_default())).await;
                    pause = MIN_PAUSE;
                    continue;
                }
                Ok(Err(error)) => error.to_string(),
                Err(error) => error.to_string(),
            };
            self.shared.authority.set(Some(SystemTime::now()));
            tracing::warn!(error, again_s = pause.as_secs(), "the certificate was not renewed");
            self.shared.set_last_error(format!("the certificate was not renewed: {error}"));
            sleep(pause).await;
            pause = (pause * 2).min(MAX_PAUSE);
        }
    }
}

/// Two thirds of the validity, and a part that the member's id gives, so that a group's members do not renew at once.
fn due(not_before: SystemTime, not_after: SystemTime, node: NodeId) -> SystemTime {
    let validity = not_after.duration_since(not_before).unwrap_or_default();
    let jitter = validity / SPREAD * u32::from(node.as_bytes()[0]) / 256;
    not_before + validity * 2 / 3 + jitter
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn renewal_is_due_after_two_thirds() {
        let begin = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000);
        let month = Duration::from_secs(30 * 24 * 3600);
        let after = |byte| due(begin, begin + month, NodeId::from_bytes([byte; 16])).duration_since(begin).unwrap();
        assert_eq!(after(0), month * 2 / 3);
        assert!(after(255) > after(1) && after(255) < month * 2 / 3 + month / 20);
    }

    #[test]
    fn first_failure_counts_until_success() {
        let (contact, now) = (AuthorityContact::default(), SystemTime::now());
        contact.set(Some(now));
        contact.set(Some(now + LOOK));
        assert_eq!(contact.failing_since(), Some(now));
        contact.set(None);
        assert_eq!(contact.failing_since(), None);
    }
}
