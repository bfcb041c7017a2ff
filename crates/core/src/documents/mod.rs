//! Documents of the group, which spread from member to member.
//!
//! Nodes and hubs have this part in their core. Bytes are opaque to it: a document that comes is told to the driver,
//! and is held only when the driver says that the group's authority has signed it. Numbers of remotes are claims.
//!
//! A connection begins with the holdings of both ends, so that those who were cut off catch up. When the own holdings
//! grow, each remote gets the document itself, or is told the number if it has it from another side in all
//! likelihood. It is told again until it says that it holds as much.

mod fetch;
mod remote;
mod serve;
#[cfg(test)]
mod tests;
mod transfers;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use bytes::Bytes;
use roost_wire::messages::{Capabilities, DocumentKind, DocumentMessage, Hello, Holdings, MAX_DOCUMENT_PART};
use roost_wire::{NodeId, Time};

use remote::{RemoteDocuments, Strikes};
use transfers::{Fetches, MAX_PER_WAKE, ServeQueue, Verification};

/// The most remotes that are gone and of which the holdings are remembered.
const MAX_DEPARTED: usize = 4_096;

/// A document that a remote has sent. The driver verifies it and answers with a [`DocumentVerdict`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReceivedDocument {
    pub kind: DocumentKind,
    pub bytes: Bytes,
    pub from: NodeId,
}

/// The driver's answer to a [`ReceivedDocument`], or a document that was handed to it by other means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DocumentVerdict {
    /// The group's authority has signed it, as this number.
    Verified {
        kind: DocumentKind,
        number: u64,
        bytes: Bytes,
        from: Option<NodeId>,
    },
    /// Genuine, but no newer than the one held.
    Known {
        kind: DocumentKind,
        number: u64,
        from: NodeId,
    },
    Refused {
        kind: DocumentKind,
        from: NodeId,
    },
    /// The driver could not look at it, which is not the sender's fault.
    Unread {
        kind: DocumentKind,
        from: NodeId,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeldDocument {
    pub kind: DocumentKind,
    pub number: u64,
    pub length: usize,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DocumentCounters {
    pub received: u64,
    /// Documents that the driver refused, or that were of a lower number than their sender has said.
    pub refused: u64,
    /// Messages of documents that were dropped: of remotes that have sent bad ones, or that ask too much.
    pub dropped: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Spread {
    Push,
    Tell,
    /// Telling waits a moment, in which the remote may say that it holds the document.
    TellLate,
}

/// A document that is newer than the one held.
struct NewDocument {
    kind: DocumentKind,
    number: u64,
    bytes: Bytes,
    from: Option<NodeId>,
}

#[derive(Debug)]
pub(crate) struct Documents {
    /// Only kinds that have a name here.
    held: BTreeMap<DocumentKind, Bytes>,
    holdings: Holdings,
    /// Wait before a remote is told that has the document from another side.
    late: Duration,
    remotes: BTreeMap<NodeId, RemoteDocuments>,
    /// Holdings of remotes that are gone, so that a node which sleeps does not count as one that has not heard.
    departed: BTreeMap<NodeId, Holdings>,
    /// Times at which remotes are to be told something, each remote at most once.
    due: BTreeSet<(Time, NodeId)>,
    fetches: Fetches,
    verifications: BTreeMap<DocumentKind, Verification>,
    strikes: Strikes,
    serving: ServeQueue,
    sends: VecDeque<(NodeId, DocumentMessage)>,
    events: VecDeque<ReceivedDocument>,
    counters: DocumentCounters,
}

impl Documents {
    pub(crate) fn new(late: Duration) -> Self {
        Self {
            held: BTreeMap::new(),
            holdings: Holdings::default(),
            late,
            remotes: BTreeMap::new(),
            departed: BTreeMap::new(),
            due: BTreeSet::new(),
            fetches: Fetches::default(),
            verifications: BTreeMap::new(),
            strikes: Strikes::default(),
            serving: ServeQueue::default(),
            sends: VecDeque::new(),
            events: VecDeque::new(),
            counters: DocumentCounters::default(),
        }
    }

    pub(crate) fn counters(&self) -> DocumentCounters {
        self.counters
    }

    pub(crate) fn holdings(&self) -> &Holdings {
        &self.holdings
    }

    pub(crate) fn held(&self) -> impl Iterator<Item = HeldDocument> + '_ {
        let number = |kind| self.holdings.number(kind);
        self.held.iter().map(move |(kind, bytes)| HeldDocument {
            kind: *kind,
            number: number(*kind),
            length: bytes.len(),
        })
    }

    /// True if a remote has said that it holds the own document of this kind, or a newer one.
    pub(crate) fn is_current(&self, node: NodeId, kind: DocumentKind) -> bool {
        let number = self.holdings.number(kind);
        let said = self.remotes.get(&node).map(|remote| &remote.holdings).or_else(|| self.departed.get(&node));
        number == 0 || said.is_some_and(|holdings| holdings.number(kind) >= number)
    }

    /// The holdings for the greeting of a remote.
    pub(crate) fn greeting(&mut self, node: NodeId) -> Option<Holdings> {
        let remote = self.remotes.entry(node).or_default();
        remote.told.clone_from(&self.holdings);
        (!self.holdings.is_empty()).then(|| self.holdings.clone())
    }

    pub(crate) fn greeted(&mut self, now: Time, node: NodeId, is_hub: bool, hello: &Hello) {
        let remote = self.remotes.entry(node).or_default();
        remote.is_hub = is_hub;
        self.departed.remove(&node);
        remote.has_documents = hello.capabilities.contains_all(Capabilities::DOCUMENTS);
        if remote.has_documents {
            remote.set_holdings(hello.holdings.clone().unwrap_or_default());
            (remote.attempts, remote.failures) = (0, 0);
            self.compare(now, node);
        }
    }

    /// The last connection with a remote is gone.
    pub(crate) fn disconnected(&mut self, now: Time, node: NodeId) {
        if let Some(remote) = self.remotes.remove(&node) {
            if let Some(due) = remote.due {
                self.due.remove(&(due, node));
            }
            if self.departed.len() >= MAX_DEPARTED {
                self.departed.pop_first();
            }
            if !remote.holdings.is_empty() {
                self.departed.insert(node, remote.holdings);
            }
        }
        self.abandon_fetches_from(now, node);
    }

    pub(crate) fn on_message(&mut self, now: Time, from: NodeId, message: DocumentMessage) {
        match message {
            DocumentMessage::Holdings(holdings) => self.on_holdings(now, from, holdings),
            DocumentMessage::Document(part) => self.on_part(now, from, part),
            DocumentMessage::DocumentRequest(request) => self.on_request(now, from, request),
            // Of hubs alone, which keep it elsewhere.
            DocumentMessage::Progress(_) => self.counters.dropped += 1,
        }
    }

    fn on_holdings(&mut self, now: Time, from: NodeId, holdings: Holdings) {
        let Some(remote) = self.remotes.get_mut(&from) else { return };
        // A greeting may have been lost.
        remote.has_documents = true;
        let is_repeated = remote.holdings == holdings;
        remote.set_holdings(holdings);
        // A remote that says the same again has missed what this end holds.
        let is_answered = is_repeated && !remote.is_ahead_of(&self.holdings) && remote.may_answer(now);
        if is_answered {
            remote.answered = Some(now);
            self.send_holdings(from);
        }
        self.compare(now, from);
    }

    /// Plans what the difference between the holdings of both ends makes necessary.
    fn compare(&mut self, now: Time, node: NodeId) {
        let Some(remote) = self.remotes.get_mut(&node) else { return };
        if !remote.is_behind(&self.holdings) {
            remote.attempts = 0;
            let is_told = remote.told == self.holdings;
            self.plan(node, (!is_told).then_some(now));
        } else if remote.due.is_none() {
            let at = now + remote.next_pause();
            self.plan(node, Some(at));
        }
        let ahead: Vec<DocumentKind> =
            self.remotes.get(&node).map_or(Vec::new(), |remote| remote.kinds_ahead_of(&self.holdings).collect());
        ahead.into_iter().for_each(|kind| self.fetch_from(now, kind, node));
    }

    /// Sets the time at which a remote is told something.
    fn plan(&mut self, node: NodeId, at: Option<Time>) {
        let Some(remote) = self.remotes.get_mut(&node) else { return };
        if let Some(before) = std::mem::replace(&mut remote.due, at) {
            self.due.remove(&(before, node));
        }
        self.due.extend(at.map(|at| (at, node)));
    }

    /// The driver has looked at a document.
    pub(crate) fn on_verdict(&mut self, now: Time, verdict: DocumentVerdict, spread: impl Fn(NodeId) -> Spread) {
        let (kind, from) = match &verdict {
            DocumentVerdict::Verified { kind, from, .. } => (*kind, *from),
            DocumentVerdict::Known { kind, from, .. }
            | DocumentVerdict::Refused { kind, from }
            | DocumentVerdict::Unread { kind, from } => (*kind, Some(*from)),
        };
        let claimed = self.end_verification(kind, from);
        match verdict {
            DocumentVerdict::Verified { number, bytes, .. } => {
                if let (Some(claimed), Some(from)) = (claimed, from) {
                    self.check_claim(from, kind, claimed, number);
                }
                if number > self.holdings.number(kind) && kind.name().is_some() {
                    self.hold(now, NewDocument { kind, number, bytes, from }, spread);
                }
            }
            DocumentVerdict::Known { number, from, .. } => {
                if let Some(claimed) = claimed {
                    self.check_claim(from, kind, claimed, number);
                }
            }
            DocumentVerdict::Refused { from, .. } => self.on_refused(from, kind),
            DocumentVerdict::Unread { from, .. } => self.put_off(now, from),
        }
        self.fetch_next(now, kind);
        if kind == DocumentKind::TRUST {
            self.fetch_others(now);
        }
    }

    fn hold(&mut self, now: Time, document: NewDocument, spread: impl Fn(NodeId) -> Spread) {
        let NewDocument { kind, number, bytes, from } = document;
        self.holdings.set(kind, number);
        self.held.insert(kind, bytes);
        self.drop_old_fetch(kind, number);
        for (node, remote) in self.remotes.iter_mut().filter(|(_, remote)| remote.has_documents) {
            remote.attempts = 0;
            let spread = if remote.is_behind(&self.holdings) { spread(*node) } else { Spread::TellLate };
            remote.is_pushed = spread == Spread::Push;
            // The sender waits for the answer.
            let is_late = spread == Spread::TellLate && from != Some(*node);
            let at = if is_late { now + self.late } else { now };
            if let Some(before) = remote.due.replace(at) {
                self.due.remove(&(before, *node));
            }
            self.due.insert((at, *node));
        }
    }

    /// Does what is due, of each sort at most [`MAX_PER_WAKE`] times.
    pub(crate) fn poll(&mut self, now: Time) {
        for _ in 0..MAX_PER_WAKE {
            let Some((_, node)) = self.due.first().copied().filter(|(at, _)| *at <= now) else { break };
            self.plan(node, None);
            self.tell_when_due(now, node);
        }
        self.poll_fetches(now);
        self.poll_serving(now);
    }

    /// Tells a remote what it may not know. Who is behind is told again later.
    fn tell_when_due(&mut self, now: Time, node: NodeId) {
        let Some(remote) = self.remotes.get_mut(&node) else { return };
        if !remote.is_behind(&self.holdings) {
            if remote.told != self.holdings {
                self.send_holdings(node);
            }
            return;
        }
        let at = now + remote.next_pause();
        let is_pushed = std::mem::take(&mut remote.is_pushed);
        if remote.wanted.is_some_and(|wanted| wanted.offset == 0) {
            // A document waits to be sent.
            return self.plan(node, Some(at));
        }
        let kinds: Vec<DocumentKind> = remote.kinds_behind(&self.holdings).collect();
        let short = |kind: &DocumentKind| self.held.get(kind).is_some_and(|bytes| bytes.len() <= MAX_DOCUMENT_PART);
        match kinds.as_slice() {
            [kind] if is_pushed && short(kind) => self.push(now, node, *kind),
            _ => self.send_holdings(node),
        }
        self.plan(node, Some(at));
    }

    fn send_holdings(&mut self, node: NodeId) {
        if let Some(remote) = self.remotes.get_mut(&node) {
            remote.told.clone_from(&self.holdings);
            self.sends.push_back((node, DocumentMessage::Holdings(self.holdings.clone())));
        }
    }

    /// The first time at which something is to be done.
    pub(crate) fn next_due(&self) -> Option<Time> {
        let told = self.due.first().map(|(at, _)| *at);
        [told, self.next_fetch(), self.serving.next_due()].into_iter().flatten().min()
    }

    pub(crate) fn poll_send(&mut self) -> Option<(NodeId, DocumentMessage)> {
        self.sends.pop_front()
    }

    pub(crate) fn poll_event(&mut self) -> Option<ReceivedDocument> {
        self.events.pop_front()
    }
}
