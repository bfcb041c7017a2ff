//! Documents on their way here: asked for part by part, of one remote at a time for each kind, and verified.

use std::collections::BTreeSet;
use std::time::Duration;

use roost_wire::messages::{DocumentKind, DocumentMessage, DocumentPart, DocumentRequest, MAX_DOCUMENT_PART};
use roost_wire::{NodeId, Time};

use super::remote::{MAX_FAILURES, RemoteDocuments};
use super::transfers::{Fetch, LOOK, Verification};
use super::{Documents, ReceivedDocument};

/// Longest wait for a part, doubled with each one that did not come: a longer way may be slow, and a shorter one
/// leaves more time to ask another remote.
const PART_TIMEOUT: Duration = Duration::from_secs(2);

/// Longest wait for a part after the first: many may ask the same hub, and the remote has shown that it answers.
const LATER_TIMEOUT: Duration = Duration::from_secs(60);

/// Time that a document may take before another remote that claims one is asked instead, and the time that each part
/// adds. Both double with each failure of the other one: a hub with ten thousand nodes gives each of them a part in half a minute.
const SLOW_BASE: Duration = Duration::from_secs(30);
const SLOW_PART: Duration = Duration::from_secs(1);

/// Time until a remote that did not answer is asked again, doubled each time.
const RETRY: Duration = Duration::from_secs(5);

/// Longest wait for the driver, which reads a list of 4 MiB in less than a second.
const VERIFY_TIMEOUT: Duration = Duration::from_secs(60);

/// The factor of all times that grow with the failures of a remote.
fn factor(failures: u32) -> u32 {
    1 << failures.min(MAX_FAILURES)
}

impl Documents {
    /// Asks a remote for a document, unless one of the kind is on its way.
    pub(super) fn fetch_from(&mut self, now: Time, kind: DocumentKind, from: NodeId) {
        if self.verifications.contains_key(&kind) || !self.may_ask(from, kind) || !self.is_free_for(now, kind, from) {
            return;
        }
        let Some(remote) = self.remotes.get_mut(&from) else { return };
        if remote.asked_from > now {
            let retry = self.fetches.retries.entry(kind).or_insert(remote.asked_from);
            *retry = remote.asked_from.min(*retry);
            return;
        }
        remote.is_late = false;
        let deadline = now + PART_TIMEOUT * factor(remote.failures);
        let before = self.fetches.under_way.insert(kind, Fetch::new(now, from, deadline));
        if let Some(before) = before {
            self.displaced(now, &before);
        }
        self.ask(kind);
    }

    /// True if nothing of the kind is on its way, or what is on its way gives way to this remote.
    fn is_free_for(&self, now: Time, kind: DocumentKind, from: NodeId) -> bool {
        self.fetches.under_way.get(&kind).is_none_or(|fetch| self.gives_way(now, fetch, from))
    }

    /// True if a fetch is too slow, or has not begun although its remote has failed more often than the other.
    fn gives_way(&self, now: Time, fetch: &Fetch, other: NodeId) -> bool {
        let [before, other] = [fetch.from, other].map(|node| self.remotes.get(&node));
        let (Some(before), Some(other)) = (before, other) else { return false };
        let parts = fetch.bytes.len().div_ceil(MAX_DOCUMENT_PART) as u32;
        let is_slow = fetch.began + (SLOW_BASE + SLOW_PART * parts) * factor(other.failures) <= now;
        let is_worse = if fetch.bytes.is_empty() { other.failures < before.failures } else { is_slow };
        !fetch.is_whole() && is_worse && other.asked_from <= now
    }

    fn may_ask(&self, node: NodeId, kind: DocumentKind) -> bool {
        let is_ahead = |remote: &RemoteDocuments, kind| remote.holdings.number(kind) > self.holdings.number(kind);
        // An authority that is not trusted here yet may have signed its other documents.
        let must_wait = |remote| kind != DocumentKind::TRUST && is_ahead(remote, DocumentKind::TRUST);
        let remote = self.remotes.get(&node).filter(|remote| is_ahead(remote, kind) && !must_wait(remote));
        remote.is_some_and(|remote| remote.failures < MAX_FAILURES) && !self.strikes.is_out(node)
    }

    /// Asks the best of the remotes that claim to hold more: hubs first, as they answer many.
    pub(super) fn fetch_next(&mut self, now: Time, kind: DocumentKind) {
        self.verify_whole(now, kind);
        if self.fetches.under_way.contains_key(&kind) || self.verifications.contains_key(&kind) {
            return;
        }
        self.fetches.retries.remove(&kind);
        if let Some(best) = self.best(now, kind) {
            self.fetch_from(now, kind, best);
        }
    }

    /// Asks for all that waited for the document of trust.
    pub(super) fn fetch_others(&mut self, now: Time) {
        let ahead = self.remotes.values().flat_map(|remote| remote.kinds_ahead_of(&self.holdings));
        let kinds: BTreeSet<DocumentKind> = ahead.filter(|kind| *kind != DocumentKind::TRUST).collect();
        kinds.into_iter().for_each(|kind| self.fetch_next(now, kind));
    }

    fn best(&self, now: Time, kind: DocumentKind) -> Option<NodeId> {
        let candidates = self.remotes.iter().filter(|(node, _)| self.may_ask(**node, kind));
        let best = candidates.min_by_key(|(_, remote)| (remote.asked_from.max(now), remote.failures, !remote.is_hub));
        best.map(|(node, _)| *node)
    }

    /// True if another remote may take over.
    fn has_other(&self, now: Time, kind: DocumentKind, fetch: &Fetch) -> bool {
        let mut others = self.remotes.keys().filter(|node| **node != fetch.from && self.may_ask(**node, kind));
        others.any(|other| self.gives_way(now, fetch, *other))
    }

    /// Asks for the part that comes next.
    fn ask(&mut self, kind: DocumentKind) {
        let Some(fetch) = self.fetches.under_way.get(&kind) else { return };
        let claimed = self.remotes.get(&fetch.from).map_or(0, |remote| remote.holdings.number(kind));
        let number = if fetch.bytes.is_empty() { claimed } else { fetch.number };
        let offset = fetch.bytes.len() as u32;
        let request = DocumentMessage::DocumentRequest(DocumentRequest { kind, number, offset });
        self.sends.push_back((fetch.from, request));
    }

    pub(super) fn on_part(&mut self, now: Time, from: NodeId, part: DocumentPart) {
        let kind = part.kind;
        if self.strikes.is_out(from) || kind.name().is_none() {
            self.counters.dropped += 1;
            return;
        }
        let Some(remote) = self.remotes.get_mut(&from) else { return };
        remote.has_documents = true;
        if remote.holdings.number(kind) < part.number {
            remote.holdings.set(kind, part.number);
        }
        let is_asked = self.fetches.under_way.get(&kind).is_some_and(|fetch| fetch.from == from);
        if part.number <= self.holdings.number(kind) {
            // The remote holds less than it has claimed, or the document came from elsewhere meanwhile.
            if is_asked {
                remote.holdings.set(kind, part.number);
                self.fail_fetch(now, kind);
            }
            self.compare(now, from);
        } else if part.is_whole() {
            // A fetch from another remote goes on: this document may not be genuine.
            if is_asked {
                self.fetches.under_way.remove(&kind);
            }
            self.verify(now, from, kind, part.number, part.bytes.to_vec());
        } else if !is_full(&part) {
            self.counters.dropped += 1;
            self.strikes.add(from);
            if is_asked {
                self.fail_fetch(now, kind);
            }
        } else if is_asked || self.adopts(now, from, &part) {
            self.on_asked_part(now, part);
        }
    }

    /// Goes on with a first part that was asked for and has come later than was waited for, unless other parts have
    /// come meanwhile.
    fn adopts(&mut self, now: Time, from: NodeId, part: &DocumentPart) -> bool {
        let is_free = self.fetches.under_way.get(&part.kind).is_none_or(|fetch| fetch.bytes.is_empty());
        let Some(remote) = self.remotes.get_mut(&from) else { return false };
        let is_late = std::mem::take(&mut remote.is_late);
        let adopted = is_free && is_late && part.offset == 0 && !self.verifications.contains_key(&part.kind);
        if adopted {
            self.fetches.under_way.insert(part.kind, Fetch::new(now, from, now + LATER_TIMEOUT));
        }
        adopted
    }

    /// Takes a part that was asked for.
    fn on_asked_part(&mut self, now: Time, part: DocumentPart) {
        let kind = part.kind;
        let Some(fetch) = self.fetches.under_way.get_mut(&kind) else { return };
        if fetch.is_whole() {
            return;
        }
        if part.offset == 0 {
            (fetch.number, fetch.length) = (part.number, part.length);
            fetch.bytes.clear();
        }
        if (fetch.number, fetch.length, fetch.bytes.len()) != (part.number, part.length, part.offset as usize) {
            if fetch.number == part.number && fetch.length != part.length {
                self.strikes.add(fetch.from);
            }
            // The remote has another document by now: from the start, or of another remote.
            return self.fail_fetch(now, kind);
        }
        fetch.bytes.extend_from_slice(&part.bytes);
        fetch.deadline = now + LATER_TIMEOUT;
        if fetch.is_whole() { self.verify_whole(now, kind) } else { self.ask(kind) }
    }

    /// Has a document verified of which all parts have come, once no other one of the kind is looked at.
    fn verify_whole(&mut self, now: Time, kind: DocumentKind) {
        if self.verifications.contains_key(&kind) || !self.fetches.under_way.get(&kind).is_some_and(Fetch::is_whole) {
            return;
        }
        if let Some(Fetch { from, number, bytes, .. }) = self.fetches.under_way.remove(&kind) {
            self.verify(now, from, kind, number, bytes);
        }
    }

    fn verify(&mut self, now: Time, from: NodeId, kind: DocumentKind, claimed: u64, bytes: Vec<u8>) {
        if self.verifications.contains_key(&kind) {
            // Once the verdict is there, the remote is asked if it holds more.
            return;
        }
        self.counters.received += 1;
        self.verifications.insert(kind, Verification { from, claimed, deadline: now + VERIFY_TIMEOUT });
        self.events.push_back(ReceivedDocument { kind, bytes: bytes.into(), from });
    }

    /// The driver has answered. Gives the number that the remote has said.
    pub(super) fn end_verification(&mut self, kind: DocumentKind, from: Option<NodeId>) -> Option<u64> {
        let awaited = self.verifications.get(&kind).filter(|verification| Some(verification.from) == from)?.claimed;
        self.verifications.remove(&kind);
        Some(awaited)
    }

    /// A document of a remote is genuine; its number may not be the one that was said.
    pub(super) fn check_claim(&mut self, from: NodeId, kind: DocumentKind, claimed: u64, number: u64) {
        if let Some(remote) = self.remotes.get_mut(&from) {
            if claimed == number {
                remote.failures = 0;
            } else {
                remote.holdings.set(kind, number);
            }
        }
        if claimed != number {
            self.counters.refused += 1;
            self.strikes.add(from);
        }
    }

    pub(super) fn on_refused(&mut self, from: NodeId, kind: DocumentKind) {
        self.counters.refused += 1;
        self.strikes.add(from);
        if let Some(remote) = self.remotes.get_mut(&from) {
            // The claim is worth nothing until the remote makes another one.
            remote.holdings.set(kind, 0);
        }
    }

    /// A newer document is held, whatever is on its way.
    pub(super) fn drop_old_fetch(&mut self, kind: DocumentKind, number: u64) {
        let claimed = |from: &NodeId| self.remotes.get(from).map_or(0, |remote| remote.holdings.number(kind));
        if self.fetches.under_way.get(&kind).is_some_and(|fetch| claimed(&fetch.from) <= number) {
            self.fetches.under_way.remove(&kind);
        }
    }

    pub(super) fn abandon_fetches_from(&mut self, now: Time, node: NodeId) {
        let fetches = self.fetches.under_way.iter().filter(|(_, fetch)| fetch.from == node);
        for kind in fetches.map(|(kind, _)| *kind).collect::<Vec<_>>() {
            self.fetches.under_way.remove(&kind);
            self.fetch_next(now, kind);
        }
    }

    /// A remote has not sent what it has claimed to hold.
    fn fail_fetch(&mut self, now: Time, kind: DocumentKind) {
        let Some(fetch) = self.fetches.under_way.remove(&kind) else { return };
        self.put_off(now, fetch.from);
        if let Some(remote) = self.remotes.get_mut(&fetch.from) {
            remote.is_late = fetch.bytes.is_empty();
        }
        self.fetch_next(now, kind);
    }

    /// Another remote is asked instead, before this one has failed.
    fn displaced(&mut self, now: Time, fetch: &Fetch) {
        if !fetch.bytes.is_empty() {
            self.put_off(now, fetch.from);
        } else if let Some(remote) = self.remotes.get_mut(&fetch.from) {
            remote.is_late = true;
        }
    }

    /// Makes the remote wait until it is asked again.
    pub(super) fn put_off(&mut self, now: Time, node: NodeId) {
        if let Some(remote) = self.remotes.get_mut(&node) {
            remote.asked_from = now + RETRY * factor(remote.failures);
            remote.failures = MAX_FAILURES.min(remote.failures + 1);
        }
    }

    pub(super) fn poll_fetches(&mut self, now: Time) {
        let late = self.fetches.under_way.iter().filter(|(_, fetch)| fetch.next_due().is_some_and(|due| due <= now));
        for kind in late.map(|(kind, _)| *kind).collect::<Vec<_>>() {
            let is_over = |fetch: &Fetch| fetch.deadline <= now || self.has_other(now, kind, fetch);
            if self.fetches.under_way.get(&kind).is_some_and(is_over) {
                self.fail_fetch(now, kind);
            } else if let Some(fetch) = self.fetches.under_way.get_mut(&kind) {
                fetch.look_at = now + LOOK;
            }
        }
        let unanswered = self.verifications.iter().filter(|(_, verification)| verification.deadline <= now);
        let again = self.fetches.retries.iter().filter(|(_, at)| **at <= now).map(|(kind, _)| *kind);
        for kind in unanswered.map(|(kind, _)| *kind).chain(again).collect::<Vec<_>>() {
            self.verifications.retain(|_, verification| verification.deadline > now);
            self.fetches.retries.remove(&kind);
            self.fetch_next(now, kind);
        }
    }

    pub(super) fn next_fetch(&self) -> Option<Time> {
        let parts = self.fetches.under_way.values().filter_map(Fetch::next_due);
        let verdicts = self.verifications.values().map(|verification| verification.deadline);
        parts.chain(verdicts).chain(self.fetches.retries.values().copied()).min()
    }
}

/// True if the part goes as far as a part may: all but the last one do.
fn is_full(part: &DocumentPart) -> bool {
    let end = part.offset as usize + part.bytes.len();
    part.bytes.len() == MAX_DOCUMENT_PART || end == part.length as usize
}
