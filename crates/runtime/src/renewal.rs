//! Renews the daemon's certificate at the group's authority, when two thirds of its validity are over.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use roost_identity::{Identity, RenewalKey};
use roost_wire::NodeId;
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};

use crate::authority::Backoff;
use crate::clock::LOOK;
use crate::shared::DaemonContext;

/// The longest pause after a renewal: a certificate that ends with the group's is due again at once.
const MAX_PAUSE: Duration = Duration::from_secs(3600);

/// The part of the validity over which the members of a group spread their renewals.
const SPREAD: u32 = 20;

/// The part of the validity over which they spread the renewals at a new authority.
const CHANGE_SPREAD: u32 = 1000;

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
        let (mut backoff, mut changed) = (Backoff::new(&self.identity), None);
        loop {
            let now = SystemTime::now();
            // The time at which this daemon has noticed that another authority than its certificate's is in force.
            changed = changed.or(Some(now)).filter(|_| !self.identity.is_of_authority_in_force());
            let due = self.due(changed);
            if let Ok(left) = due.duration_since(now) {
                // The end of the time is no failure.
                let _ = timeout(left.min(LOOK), self.shared.authority.changed.notified()).await;
                continue;
            }
            let renewed = roost_authority::renew(&self.dir, &self.identity, &self.authority, RenewalKey::Same).await;
            let error = match renewed.map(|fresh| self.identity.renew(&fresh, SystemTime::now())) {
                Ok(Ok(_)) => {
                    self.shared.authority.renewals.set(None);
                    self.shared.audit_renewed();
                    let until = humantime::format_rfc3339_seconds(self.identity.not_after());
                    tracing::info!(%until, "the certificate was renewed");
                    self.renewed.notify_one();
                    // A certificate that ends with the group's is due again at once, and no later one can be had.
                    sleep(MAX_PAUSE.min(self.identity.not_after().duration_since(due).unwrap_or_default())).await;
                    backoff.succeeded();
                    continue;
                }
                Ok(Err(error)) => error.to_string(),
                Err(error) => error.to_string(),
            };
            self.shared.authority.renewals.set(Some(SystemTime::now()));
            let pause = backoff.failed();
            tracing::warn!(error, again_s = pause.as_secs(), "the certificate was not renewed");
            self.shared.set_last_error(format!("the certificate was not renewed: {error}"));
            sleep(pause).await;
        }
    }

    /// The time of the next renewal. At a new authority, members renew within a small part of the validity.
    fn due(&self, changed: Option<SystemTime>) -> SystemTime {
        let (begin, end, node) = (self.identity.not_before(), self.identity.not_after(), self.identity.node());
        let spread =
            end.duration_since(begin).unwrap_or_default() / CHANGE_SPREAD * u32::from(node.as_bytes()[0]) / 256;
        let regular = due(begin, end, node);
        changed.map_or(regular, |at| (at + spread).min(regular))
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
}
