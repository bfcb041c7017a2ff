//! Documents on their way here: asked for part by part, of one remote at a time for each kind, and verified.

use std::time::Duration;

use roost_wire::messages::{DocumentKind, DocumentMessage, DocumentPart, DocumentRequest};
use roost_wire::{NodeId, Time};

use super::transfers::{Fetch, Verification};
use super::{Documents, ReceivedDocument};

/// Longest wait for a part, doubled with each one that did not come: a longer way may be slow, and a shorter one
/// leaves more time to ask another remote.
const PART_TIMEOUT: Duration = Duration::from_secs(2);

/// Longest wait for a part after the first: many may ask the same hub, and the remote has shown that it answers.
const LATER_TIMEOUT: Duration = Duration::from_secs(60);

/// Time until a remote that did not answer is asked again, doubled each time.
const RETRY: Duration = Duration::from_secs(5);

/// A remote that has not answered so often is not asked again over its connections.
const MAX_FAILURES: u32 = 6;

/// Longest wait for the driver, which reads a list of 4 MiB in less than a second.
const VERIFY_TIMEOUT: Duration = Duration::from_secs(60);

impl Documents {
    /// Asks a remote for a document, unless one of the kind is on its way.
    pub(super) fn fetch_from(&mut self, now: Time, kind: DocumentKind, from: NodeId) {
        if self.fetches.under_way.contains_key(&kind) || self.verifications.contains_key(&kind) {
            return;
        }
        if !self.may_ask(from, kind) {
            return;
        }
        let Some(remote) = self.remotes.get(&from) else { return };
        if remote.asked_from > now {
            let retry = self.fetches.retries.entry(kind).or_insert(remote.asked_from);
            *retry = remote.asked_from.min(*retry);
            return;
        }
        let deadline = now + PART_TIMEOUT * (1 << remote.failures);
        self.fetches.under_way.insert(kind, Fetch { from, deadline, number: 0, length: 0, bytes: Vec::new() });
        self.ask(kind);
    }

    fn may_ask(&self, node: NodeId, kind: DocumentKind) -> bool {
        let claims = |number: u64| number > self.holdings.number(kind);
        let remote = self.remotes.get(&node).filter(|remote| claims(remote.holdings.number(kind)));
        remote.is_some_and(|remote| remote.failures < MAX_FAILURES) && !self.strikes.is_out(node)
    }

    /// Asks the best of the remotes that claim to hold more: hubs first, as they answer many.
    pub(super) fn fetch_next(&mut self, now: Time, kind: DocumentKind) {
        if self.fetches.under_way.contains_key(&kind) || self.verifications.contains_key(&kind) {
            return;
        }
        self.fetches.retries.remove(&kind);
        let candidates = self.remotes.iter().filter(|(node, _)| self.may_ask(**node, kind));
        let best = candidates.min_by_key(|(_, remote)| (remote.asked_from.max(now), remote.failures, !remote.is_hub));
        if let Some(best) = best.map(|(node, _)| *node) {
            self.fetch_from(now, kind, best);
        }
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
            self.fetches.under_way.remove(&kind);
            self.verify(now, from, kind, part.number, part.bytes.to_vec());
        } else if is_asked || self.adopts(now, from, &part) {
            self.on_asked_part(now, part);
        }
    }

    /// Goes on with a first part that has come later than was waited for, unless other parts have come meanwhile.
    fn adopts(&mut self, now: Time, from: NodeId, part: &DocumentPart) -> bool {
        let is_free = self.fetches.under_way.get(&part.kind).is_none_or(|fetch| fetch.bytes.is_empty());
        let adopted = is_free && part.offset == 0 && !self.verifications.contains_key(&part.kind);
        if adopted {
            let fetch = Fetch { from, deadline: now + LATER_TIMEOUT, number: 0, length: 0, bytes: Vec::new() };
            self.fetches.under_way.insert(part.kind, fetch);
        }
        adopted
    }

    /// Takes a part that was asked for.
    fn on_asked_part(&mut self, now: Time, part: DocumentPart) {
        let kind = part.kind;
        let Some(fetch) = self.fetches.under_way.get_mut(&kind) else { return };
        if part.offset == 0 {
            (fetch.number, fetch.length) = (part.number, part.length);
            fetch.bytes.clear();
        }
        if (fetch.number, fetch.length, fetch.bytes.len()) != (part.number, part.length, part.offset as usize) {
            // The remote has another document by now: from the start, or of another remote.
            return self.fail_fetch(now, kind);
        }
        fetch.bytes.extend_from_slice(&part.bytes);
        fetch.deadline = now + LATER_TIMEOUT;
        if fetch.bytes.len() < fetch.length as usize {
            return self.ask(kind);
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
        if let Some(remote) = self.remotes.get_mut(&fetch.from) {
            remote.asked_from = now + RETRY * (1 << remote.failures);
            remote.failures += 1;
        }
        self.fetch_next(now, kind);
    }

    pub(super) fn poll_fetches(&mut self, now: Time) {
        let late = self.fetches.under_way.iter().filter(|(_, fetch)| fetch.deadline <= now);
        for kind in late.map(|(kind, _)| *kind).collect::<Vec<_>>() {
            self.fail_fetch(now, kind);
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
        let parts = self.fetches.under_way.values().map(|fetch| fetch.deadline);
        let verdicts = self.verifications.values().map(|verification| verification.deadline);
        parts.chain(verdicts).chain(self.fetches.retries.values().copied()).min()
    }
}
