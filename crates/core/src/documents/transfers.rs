//! State of documents on their way here and from here.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use roost_wire::messages::{DocumentKind, MAX_DOCUMENT_PART};
use roost_wire::{NodeId, Time};

/// Remotes that are told something in one wake; the rest wait for the next, which is due at once.
pub(super) const MAX_PER_WAKE: usize = 256;

/// Time that a byte takes: ten megabytes a second leave the rest of a hub's uplink to streams, and ten thousand nodes
/// get a list of one part in half a second.
pub(super) const BYTE: Duration = Duration::from_nanos(100);

/// Time in which a member gets a document a few times at most.
const PERIOD: Duration = Duration::from_secs(60);

/// Parts that are sent at once, as time at that rate: one of the longest is.
const BURST: Duration = BYTE.saturating_mul(2 * MAX_DOCUMENT_PART as u32);

/// The time between two looks if a fetch is slow.
pub(super) const LOOK: Duration = Duration::from_secs(5);

/// At most one for each kind that has a name.
#[derive(Debug, Default)]
pub(super) struct Fetches {
    pub(super) under_way: BTreeMap<DocumentKind, Fetch>,
    /// Times at which remotes may be asked again.
    pub(super) retries: BTreeMap<DocumentKind, Time>,
}

#[derive(Debug)]
pub(super) struct Fetch {
    pub(super) from: NodeId,
    /// Time by which the next part must come.
    pub(super) deadline: Time,
    pub(super) began: Time,
    /// Time of the next look if another remote is to take over.
    pub(super) look_at: Time,
    pub(super) number: u64,
    pub(super) length: u32,
    pub(super) bytes: Vec<u8>,
}

impl Fetch {
    pub(super) fn new(now: Time, from: NodeId, deadline: Time) -> Self {
        Self { from, deadline, began: now, look_at: now + LOOK, number: 0, length: 0, bytes: Vec::new() }
    }

    /// True if all parts have come: the driver looks at another document of the kind.
    pub(super) fn is_whole(&self) -> bool {
        !self.bytes.is_empty() && self.bytes.len() >= self.length as usize
    }

    pub(super) fn next_due(&self) -> Option<Time> {
        (!self.is_whole()).then_some(self.deadline.min(self.look_at))
    }
}

/// A document that the driver looks at. Meanwhile no other one of the kind is taken.
#[derive(Debug)]
pub(super) struct Verification {
    pub(super) from: NodeId,
    pub(super) claimed: u64,
    pub(super) deadline: Time,
}

/// Remotes that wait for a part, each once, the first one first.
#[derive(Debug, Default)]
pub(super) struct ServeQueue {
    pub(super) waiting: VecDeque<NodeId>,
    /// Time at which all that was sent has left at the rate of [`BYTE`].
    pub(super) busy_until: Time,
    /// By member and kind: new connections do not clear them.
    served: BTreeMap<(NodeId, DocumentKind), Served>,
    cleared: Time,
}

#[derive(Debug)]
struct Served {
    number: u64,
    bytes: u64,
    since: Time,
}

impl ServeQueue {
    /// The bytes of the document with this number that a member has got within [`PERIOD`].
    pub(super) fn served(&mut self, now: Time, node: NodeId, kind: DocumentKind, number: u64) -> &mut u64 {
        if now.since(self.cleared) >= PERIOD {
            self.served.retain(|_, served| now.since(served.since) < PERIOD);
            self.cleared = now;
        }
        let fresh = || Served { number, bytes: 0, since: now };
        let served = self.served.entry((node, kind)).or_insert_with(fresh);
        if served.number != number || now.since(served.since) >= PERIOD {
            *served = fresh();
        }
        &mut served.bytes
    }

    pub(super) fn next_due(&self) -> Option<Time> {
        let wait = self.busy_until.since(Time::ZERO).saturating_sub(BURST);
        (!self.waiting.is_empty()).then_some(Time::ZERO + wait)
    }
}
