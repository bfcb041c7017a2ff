//! A remote, as far as documents are concerned.

use std::collections::BTreeMap;
use std::time::Duration;

use roost_wire::messages::{DocumentKind, DocumentRequest, Holdings};
use roost_wire::{NodeId, Time};

/// The pause before a remote is told again, doubled each time up to [`MAX_PAUSE`]: a way over satellites takes two
/// seconds when it is busy.
pub(super) const FIRST_PAUSE: Duration = Duration::from_secs(2);

/// Longest such pause: it costs an old or lying remote a few bytes.
const MAX_PAUSE: Duration = Duration::from_secs(300);

/// A remote that has not answered so often is not asked again over its connections until it claims more.
pub(super) const MAX_FAILURES: u32 = 6;

/// Bad documents after which nothing more is taken of a member.
const MAX_STRIKES: u8 = 3;

/// The most members that have sent bad documents and are remembered. Each of them has a certificate of the group.
const MAX_STRICKEN: usize = 1_024;

/// A remote with at least one connection: its holdings, and those that it was told and wants.
#[derive(Debug, Default)]
pub(super) struct RemoteDocuments {
    pub(super) is_hub: bool,
    /// False of a remote of a version before documents.
    pub(super) has_documents: bool,
    pub(super) holdings: Holdings,
    /// The highest numbers that it has claimed.
    claimed: Holdings,
    /// Holdings of this end, as last told to the remote.
    pub(super) told: Holdings,
    /// Number of times that it was told the own holdings in vain.
    pub(super) attempts: u32,
    /// Time at which it is told something.
    pub(super) due: Option<Time>,
    /// True if it gets the document itself then.
    pub(super) is_pushed: bool,
    /// Time of the last answer to what it has said twice.
    pub(super) answered: Option<Time>,
    /// Number of times that it was asked for a document in vain.
    pub(super) failures: u32,
    /// True if it was asked for a document and may still send the first part.
    pub(super) is_late: bool,
    /// Before this time the remote is not asked again.
    pub(super) asked_from: Time,
    pub(super) wanted: Option<DocumentRequest>,
}

impl RemoteDocuments {
    /// Takes what it says. A higher number than ever is worth one more question.
    pub(super) fn set_holdings(&mut self, holdings: Holdings) {
        for (kind, number) in holdings.iter().filter(|(kind, _)| kind.name().is_some()) {
            if number > self.claimed.number(kind) {
                self.claimed.set(kind, number);
                self.failures = self.failures.min(MAX_FAILURES - 1);
            }
        }
        self.holdings = holdings;
    }

    /// Kinds of which it has less than these.
    pub(super) fn kinds_behind<'a>(&'a self, own: &'a Holdings) -> impl Iterator<Item = DocumentKind> + 'a {
        own.iter().filter(|(kind, number)| self.holdings.number(*kind) < *number).map(|(kind, _)| kind)
    }

    /// Kinds, of those known here, of which it claims to have more.
    pub(super) fn kinds_ahead_of<'a>(&'a self, own: &'a Holdings) -> impl Iterator<Item = DocumentKind> + 'a {
        let known = self.holdings.iter().filter(|(kind, _)| kind.name().is_some());
        known.filter(|(kind, number)| *number > own.number(*kind)).map(|(kind, _)| kind)
    }

    pub(super) fn is_behind(&self, own: &Holdings) -> bool {
        self.has_documents && self.kinds_behind(own).next().is_some()
    }

    pub(super) fn is_ahead_of(&self, own: &Holdings) -> bool {
        self.kinds_ahead_of(own).next().is_some()
    }

    /// The pause before it is told again.
    pub(super) fn next_pause(&mut self) -> Duration {
        let pause = FIRST_PAUSE * (1 << self.attempts.min(16));
        self.attempts += 1;
        pause.min(MAX_PAUSE)
    }

    /// True unless it was answered just now: two ends must not answer one another for ever.
    pub(super) fn may_answer(&self, now: Time) -> bool {
        self.answered.is_none_or(|answered| now.since(answered) >= FIRST_PAUSE)
    }
}

/// Members that have sent bad documents. New connections do not clear them.
#[derive(Debug, Default)]
pub(super) struct Strikes(BTreeMap<NodeId, u8>);

impl Strikes {
    pub(super) fn add(&mut self, node: NodeId) {
        if self.0.len() >= MAX_STRICKEN && !self.0.contains_key(&node) {
            let fewest = self.0.iter().min_by_key(|(_, strikes)| **strikes).map(|(node, _)| *node);
            if let Some(fewest) = fewest {
                self.0.remove(&fewest);
            }
        }
        let strikes = self.0.entry(node).or_default();
        *strikes = strikes.saturating_add(1);
    }

    /// True if nothing more is taken of the member.
    pub(super) fn is_out(&self, node: NodeId) -> bool {
        self.0.get(&node).is_some_and(|strikes| *strikes >= MAX_STRIKES)
    }
}
