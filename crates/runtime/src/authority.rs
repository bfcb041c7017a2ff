//! The contact with the group's authority: asks it for newer documents, for as long as the daemon runs.
//!
//! A hub waits at the authority for the next document, and tells its nodes. A node looks now and then, for a document
//! that no hub has brought. An authority that is away costs one line of the log.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use data_encoding::BASE64;
use roost_authority::{Client, ClientError, Holdings};
use roost_identity::{Document, Identity};
use roost_wire::Role;
use roost_wire::messages::DocumentKind;
use tokio::sync::Notify;
use tokio::time::sleep;

use crate::api::DaemonService;

/// The pauses after a failure, doubled each time. The authority may be out of reach for weeks.
const MIN_PAUSE: Duration = Duration::from_secs(30);
const MAX_PAUSE: Duration = Duration::from_secs(3600);

/// The pause of a hub between two questions, each of which waits at the authority.
const HUB_PAUSE: Duration = Duration::from_secs(1);
const NODE_PAUSE: Duration = Duration::from_secs(600);

/// The time of the first failure since the last success.
#[derive(Debug, Default)]
pub(crate) struct Failing(Mutex<Option<SystemTime>>);

impl Failing {
    pub(crate) fn since(&self) -> Option<SystemTime> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes a failure at a time, or a success. True if the state has changed.
    pub(crate) fn set(&self, failed: Option<SystemTime>) -> bool {
        let mut since = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let before = *since;
        *since = failed.map(|now| before.unwrap_or(now));
        before.is_some() != since.is_some()
    }
}

/// The contact with the authority, for status and metrics.
#[derive(Debug, Default)]
pub(crate) struct AuthorityContact {
    pub(crate) renewals: Failing,
    pub(crate) documents: Failing,
    /// Told when other authorities are trusted than before.
    pub(crate) changed: Notify,
}

#[derive(Debug)]
pub(crate) struct Backoff {
    next: Duration,
    /// A byte by which members differ, so that they do not all come back at once.
    spread: u8,
}

impl Backoff {
    pub(crate) fn new(identity: &Identity) -> Self {
        Self { next: MIN_PAUSE, spread: identity.node().as_bytes()[1] }
    }

    pub(crate) fn succeeded(&mut self) {
        self.next = MIN_PAUSE;
    }

    /// The pause after a failure, of which each failure takes another part.
    pub(crate) fn failed(&mut self) -> Duration {
        let pause = self.next;
        self.next = (pause * 2).min(MAX_PAUSE);
        self.spread = self.spread.wrapping_mul(29).wrapping_add(71);
        self.scatter(pause)
    }

    /// Three quarters of a time, or up to all of it.
    fn scatter(&self, time: Duration) -> Duration {
        time * 3 / 4 + time / 4 * u32::from(self.spread) / 256
    }
}

/// The questions of a daemon that knows its authority.
pub(crate) struct DocumentQueries<S> {
    pub(crate) authority: String,
    pub(crate) identity: Arc<Identity>,
    pub(crate) service: S,
}

impl<S: DaemonService> DocumentQueries<S> {
    pub(crate) async fn run(self) {
        let mut backoff = Backoff::new(&self.identity);
        loop {
            let asked = self.ask().await;
            let documents = &self.service.shared().authority.documents;
            let pause = match &asked {
                Ok(true) => {
                    backoff.succeeded();
                    backoff.scatter(if self.is_node() { NODE_PAUSE } else { HUB_PAUSE })
                }
                // The authority would give a document that is not taken at once again.
                Ok(false) | Err(_) => backoff.failed(),
            };
            match (documents.set(asked.as_ref().err().map(|_| SystemTime::now())), &asked) {
                (true, Ok(_)) => tracing::info!("the authority answers again"),
                (true, Err(error)) => tracing::warn!(%error, "the authority tells no documents; asking goes on"),
                (false, Err(error)) => tracing::debug!(%error, "the authority tells no documents"),
                (false, Ok(_)) => {}
            }
            sleep(pause).await;
        }
    }

    fn is_node(&self) -> bool {
        self.identity.role() == Role::Node
    }

    /// Asks once, and puts in force what is newer. False if a document was not taken.
    async fn ask(&self) -> Result<bool, ClientError> {
        let mut held = Holdings { waits: !self.is_node(), ..Holdings::default() };
        for (kind, number) in self.service.shared().documents.numbers() {
            held.set(&kind, number);
        }
        let mut are_taken = true;
        for document in Client::for_member(&self.authority, &self.identity)?.documents(held).await? {
            are_taken &= self.put_in_force(document).await;
        }
        Ok(are_taken)
    }

    async fn put_in_force(&self, Document { kind, text, .. }: Document) -> bool {
        let Some(kind) = DocumentKind::named(&kind) else { return true };
        let bytes = match kind {
            DocumentKind::REVOCATIONS => text.into_bytes(),
            _ => BASE64.decode(text.as_bytes()).unwrap_or_default(),
        };
        let shared = self.service.shared();
        match shared.take_document(kind, bytes.into()).await {
            Ok(taken) => {
                shared.documents.verdicts().into_iter().for_each(|verdict| self.service.take_verdict(verdict));
                if shared.apply_document(&taken).await {
                    self.service.take_policy(shared.documents.rules());
                }
            }
            Err(error) => {
                tracing::warn!(%error, "a document of the authority is not taken");
                return false;
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WEEK: Duration = Duration::from_secs(7 * 24 * 3600);

    #[test]
    fn first_failure_counts_until_success() {
        let (failing, now) = (Failing::default(), SystemTime::now());
        assert!(failing.set(Some(now)));
        assert!(!failing.set(Some(now + MIN_PAUSE)));
        assert_eq!(failing.since(), Some(now));
        assert!(failing.set(None));
        assert_eq!(failing.since(), None);
    }

    #[test]
    fn absent_authority_is_asked_seldom() {
        for spread in 0..=255 {
            let mut backoff = Backoff { next: MIN_PAUSE, spread };
            let (mut passed, mut questions) = (Duration::ZERO, 0);
            while passed < WEEK {
                passed += backoff.failed();
                questions += 1;
            }
            assert!((160..240).contains(&questions), "{questions} in a week");
            backoff.succeeded();
            assert!(backoff.failed() <= MIN_PAUSE);
        }
    }

    #[test]
    fn members_come_back_one_after_another() {
        let pauses: std::collections::BTreeSet<_> =
            (0..=255).map(|spread| Backoff { next: MAX_PAUSE, spread }.failed()).collect();
        assert_eq!(pauses.len(), 256);
    }
}
