//! Renews the daemon's certificate at the group's authority, when two thirds of its validity are over.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use roost_identity::{Identity, RenewalKey};
use roost_wire::NodeId;
use tokio::sync::Notify;
use tokio::time::timeout;

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
        let mut times = RenewalTimes::new(Arc::clone(&self.identity));
        loop {
            if let Some(left) = times.left(SystemTime::now()) {
                // The end of the time is no failure.
                let _ = timeout(left.min(LOOK), self.shared.authority.changed.notified()).await;
                continue;
            }
            let renewed = roost_authority::renew(&self.dir, &self.identity, &self.authority, RenewalKey::Same).await;
            let renewed = renewed.map(|fresh| self.identity.renew(&fresh, SystemTime::now()));
            let until = humantime::format_rfc3339_seconds(self.identity.not_after());
            let error = match renewed {
                Ok(Ok(_)) => {
                    times.renewed(SystemTime::now());
                    self.shared.authority.renewals.set(None);
                    self.shared.audit_renewed();
                    tracing::info!(%until, "the certificate was renewed");
                    self.renewed.notify_one();
                    continue;
                }
                Ok(Err(error)) => error.to_string(),
                Err(error) => error.to_string(),
            };
            self.shared.authority.renewals.set(Some(SystemTime::now()));
            let pause = times.failed(SystemTime::now());
            tracing::warn!(error, again_s = pause.as_secs(), %until, "the certificate was not renewed");
            self.shared.set_last_error(format!("the certificate was not renewed and ends at {until}: {error}"));
        }
    }
}

/// The times at which a member asks for its next certificate, without clock and network.
struct RenewalTimes {
    identity: Arc<Identity>,
    backoff: Backoff,
    /// The time at which this daemon has noticed that another authority than its certificate's is in force.
    changed: Option<SystemTime>,
    /// The earliest time of the next question, after an answer or a failure.
    again: SystemTime,
}

impl RenewalTimes {
    fn new(identity: Arc<Identity>) -> Self {
        Self { backoff: Backoff::new(&identity), identity, changed: None, again: SystemTime::UNIX_EPOCH }
    }

    /// The time until the next question; `None` if it is due.
    fn left(&mut self, now: SystemTime) -> Option<Duration> {
        self.changed = self.changed.or(Some(now)).filter(|_| !self.identity.is_of_authority_in_force());
        let left = |at: SystemTime| at.duration_since(now).ok().filter(|left| !left.is_zero());
        // A clock that was set back prolongs no pause.
        left(self.again).filter(|left| *left <= MAX_PAUSE).or_else(|| left(self.due()))
    }

    fn renewed(&mut self, now: SystemTime) {
        self.backoff.succeeded();
        // A certificate that ends with the group's is due again at once, and no later one can be had.
        self.again = now + MAX_PAUSE.min(self.identity.not_after().duration_since(now).unwrap_or_default());
    }

    fn failed(&mut self, now: SystemTime) -> Duration {
        let pause = self.backoff.failed();
        self.again = now + pause;
        pause
    }

    /// The time of the next renewal. At a new authority, members renew within a small part of the validity.
    fn due(&self) -> SystemTime {
        let (begin, end, node) = (self.identity.not_before(), self.identity.not_after(), self.identity.node());
        let spread =
            end.duration_since(begin).unwrap_or_default() / CHANGE_SPREAD * u32::from(node.as_bytes()[0]) / 256;
        let regular = due(begin, end, node);
        self.changed.map_or(regular, |at| (at + spread).min(regular))
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
    use roost_identity::group::{Group, Validity};
    use roost_wire::Role;

    use super::*;

    const DAY: Duration = Duration::from_secs(24 * 3600);

    /// The authority is away for a week in which members with certificates of 30 days have to renew.
    #[test]
    fn week_without_authority_is_made_up() {
        let dir = tempfile::tempdir().unwrap();
        let group = Group::init(&dir.path().join("group"), "alpha").unwrap();
        let (begin, returns) = (SystemTime::now(), SystemTime::now() + 26 * DAY);
        let renewal = |number: u32| {
            let (name, bundle) = (format!("uav{number}"), dir.path().join(number.to_string()));
            let valid = |from| Validity::Between { not_before: from, not_after: from + 30 * DAY };
            group.issue(&name, Role::Node, valid(begin), &bundle).unwrap();
            let identity = Arc::new(Identity::load(&bundle).unwrap());
            let (mut times, mut now, mut failures) = (RenewalTimes::new(Arc::clone(&identity)), begin, 0);
            loop {
                identity.check_validity(now).unwrap();
                match times.left(now) {
                    Some(left) => now += left,
                    None if now < returns => {
                        times.failed(now);
                        failures += 1;
                    }
                    None => break,
                }
            }
            assert!((90..240).contains(&failures), "{failures} questions");
            group.renew(&bundle, valid(now)).unwrap();
            assert!(identity.renew(&Identity::load(&bundle).unwrap(), now).unwrap());
            times.renewed(now);
            assert_eq!(times.left(now), Some(MAX_PAUSE));
            assert!(times.left(now + MAX_PAUSE).unwrap() > 19 * DAY);
            now
        };
        let mut renewals: Vec<_> = (0..10).map(renewal).collect();
        renewals.sort_unstable();
        assert!(renewals.iter().all(|at| *at <= returns + MAX_PAUSE), "{renewals:?}");
        let minute = Duration::from_secs(60);
        assert!(renewals.windows(7).all(|some| some[6] > some[0] + minute), "all come at once: {renewals:?}");
    }

    #[test]
    fn renewal_is_due_after_two_thirds() {
        let begin = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000);
        let month = Duration::from_secs(30 * 24 * 3600);
        let after = |byte| due(begin, begin + month, NodeId::from_bytes([byte; 16])).duration_since(begin).unwrap();
        assert_eq!(after(0), month * 2 / 3);
        assert!(after(255) > after(1) && after(255) < month * 2 / 3 + month / 20);
    }
}
