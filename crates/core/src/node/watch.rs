//! Watches: what changes in an area, across losses and changes of the home.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use roost_policy::Action;
use roost_wire::messages::{Candidate, Coverage, Decline, DirectoryMessage, Reason, Watch, WatchChange};
use roost_wire::{Area, Capacity, Cell, ConnectionId, ExactPosition, NodeId, RequestId, ServiceSet, Version};

use super::api::{NodeEvent, Ticket};
use super::core::Core;
use super::timers::Timer;

/// The most watches at once.
pub const MAX_WATCHES: usize = 64;

/// The most nodes of which a watch remembers what it has told. Changes of
/// further ones are passed on without a comparison.
pub const MAX_WATCHED_NODES: usize = 16 * 1024;

/// The pause between two renewals of a watch at the home.
const RENEWAL: Duration = Duration::from_secs(20);

/// The time of a new home to hear of the nodes that the old one knew before they count as gone: they need a
/// new home, too.
const SETTLING: Duration = Duration::from_secs(15);

/// The watches of a node.
#[derive(Debug, Default)]
pub(super) struct OutgoingWatches {
    watches: BTreeMap<RequestId, OutgoingWatch>,
}

#[derive(Debug)]
pub(super) struct OutgoingWatch {
    ticket: Ticket,
    services: ServiceSet,
    area: Area,
    names: bool,
    /// The last change of the present home; 0 while its first one is awaited.
    seen: u64,
    tries: u32,
    /// Changes told to the owner.
    told: u64,
    known: BTreeMap<NodeId, WatchedNode>,
    /// Known from an earlier snapshot and not seen in the present one yet.
    doubtful: BTreeSet<NodeId>,
    /// The coverage of the watch, if not everywhere, and the one that was told.
    coverage: Option<Coverage>,
    told_coverage: Option<Coverage>,
}

/// The facts of a node that were told.
#[derive(Clone, Debug, PartialEq, Eq)]
struct WatchedNode {
    version: Version,
    cell: Cell,
    services: ServiceSet,
    capacity: Capacity,
    position: Option<ExactPosition>,
}

impl OutgoingWatch {
    pub(super) fn new(ticket: Ticket, services: ServiceSet, area: Area, names: bool) -> Self {
        Self {
            ticket,
            services,
            area,
            names,
            seen: 0,
            tries: 0,
            told: 0,
            known: BTreeMap::new(),
            doubtful: BTreeSet::new(),
            coverage: None,
            told_coverage: None,
        }
    }
}

impl OutgoingWatches {
    pub(super) fn watch(&mut self, core: &mut Core, home: Option<ConnectionId>, watching: OutgoingWatch) {
        let OutgoingWatch { ticket, area, .. } = watching;
        if self.watches.len() >= MAX_WATCHES || !area.is_valid() {
            let detail = "the watch is malformed or one too many".to_owned();
            return core.emit(NodeEvent::failed(ticket, Reason::TooMany, detail));
        }
        let id = core.next_request();
        self.watches.insert(id, watching);
        self.subscribe(core, home, id);
    }

    pub(super) fn on_timer(&mut self, core: &mut Core, home: Option<ConnectionId>, id: RequestId) {
        self.subscribe(core, home, id);
    }

    /// Tells the home, and comes back: soon while it has not answered, else to renew.
    fn subscribe(&mut self, core: &mut Core, home: Option<ConnectionId>, id: RequestId) {
        let (Some(watching), Some(home)) = (self.watches.get_mut(&id), home) else { return };
        let OutgoingWatch { ref services, area, seen, .. } = *watching;
        let services = services.clone();
        let names = watching.names.then_some(true);
        core.send(home, DirectoryMessage::Watch(Watch { id, services, area, last_seen: seen, direction: None, names }));
        let retry = core.pto(home) * (1 << watching.tries.min(6));
        watching.tries += 1;
        core.set(Timer::Watch(id), if seen == 0 { retry.min(RENEWAL) } else { RENEWAL });
    }

    /// There is a new home: it is asked for all there is, which is compared
    /// with what is known.
    pub(super) fn on_attached(&mut self, core: &mut Core, home: Option<ConnectionId>) {
        for id in self.watches.keys().copied().collect::<Vec<_>>() {
            self.start_over(core, home, id);
        }
    }

    /// Asks for all there is; what is known counts as doubtful until then.
    fn start_over(&mut self, core: &mut Core, home: Option<ConnectionId>, id: RequestId) {
        if let Some(watching) = self.watches.get_mut(&id) {
            (watching.seen, watching.tries) = (0, 0);
            watching.doubtful = watching.known.keys().copied().collect();
            if !watching.doubtful.is_empty() {
                core.set(Timer::Settle(id), SETTLING);
            }
        }
        self.subscribe(core, home, id);
    }

    pub(super) fn on_watch_change(
        &mut self,
        core: &mut Core,
        home: Option<ConnectionId>,
        connection: ConnectionId,
        change: WatchChange,
    ) {
        let id = change.id;
        if home != Some(connection) {
            core.counters.refused += 1;
            return;
        }
        let Some(watching) = self.watches.get_mut(&id) else {
            core.counters.stale += 1;
            return core.send(connection, DirectoryMessage::Unwatch(id));
        };
        if watching.seen != 0 && change.sequence <= watching.seen {
            return;
        }
        if watching.seen != 0 && change.sequence != watching.seen + 1 {
            // A change was lost.
            return self.start_over(core, home, id);
        }
        if watching.seen == 0 {
            core.set(Timer::Watch(id), RENEWAL);
        }
        watching.seen = change.sequence.max(1);
        watching.coverage = change.coverage;
        let present = change.updated.into_iter().filter(|candidate| watching.record_candidate(candidate)).collect();
        let gone = change.removed.into_iter().filter(|node| watching.forget(*node)).collect();
        watching.emit_change(core, present, gone);
    }

    /// Nodes that the new home has not named by now are gone.
    pub(super) fn on_settle_timer(&mut self, core: &mut Core, id: RequestId) {
        let Some(watching) = self.watches.get_mut(&id) else { return };
        let gone: Vec<_> = std::mem::take(&mut watching.doubtful).into_iter().collect();
        for node in &gone {
            watching.known.remove(node);
        }
        watching.emit_change(core, Vec::new(), gone);
    }

    /// The hub does not keep the watch. Returns false if none is meant.
    pub(super) fn on_decline(
        &mut self,
        core: &mut Core,
        home: Option<ConnectionId>,
        connection: ConnectionId,
        decline: &Decline,
    ) -> bool {
        if home != Some(connection) {
            return false;
        }
        let Some(watching) = self.remove(core, decline.id) else { return false };
        let detail = match decline.reason {
            Reason::Forbidden => {
                "the group's policy does not let this node watch that: `roost policy explain` names the rule"
            }
            _ => "the hub does not keep the watch",
        };
        core.emit(NodeEvent::failed(watching.ticket, decline.reason, detail));
        true
    }

    /// There is another policy: watches end of which it allows nothing.
    pub(super) fn on_policy(&mut self, core: &mut Core, home: Option<ConnectionId>) {
        let refusal = |watching: &OutgoingWatch| {
            let place = if let Area::Exact(cell) = watching.area { Some(cell) } else { None };
            let refusals = watching.services.iter().map(|service| core.objection(Action::Watch, Some(service), place));
            refusals.collect::<Option<Vec<_>>>()?.into_iter().next()
        };
        let refused = self.watches.iter().filter_map(|(id, watching)| Some((*id, refusal(watching)?)));
        for (id, refusal) in refused.collect::<Vec<_>>() {
            if let Some(home) = home {
                core.send_reliably(home, id, DirectoryMessage::Unwatch(id));
            }
            if let Some(watching) = self.remove(core, id) {
                core.forbid(watching.ticket, refusal);
            }
        }
    }

    /// The owner no longer wants it. Returns false if the ticket is not here.
    pub(super) fn cancel(&mut self, core: &mut Core, home: Option<ConnectionId>, ticket: Ticket) -> bool {
        let mut ids = self.watches.iter().filter(|(_, watching)| watching.ticket == ticket);
        let Some(id) = ids.next().map(|(id, _)| *id) else { return false };
        if let Some(home) = home {
            core.send_reliably(home, id, DirectoryMessage::Unwatch(id));
        }
        self.remove(core, id);
        core.emit(NodeEvent::failed(ticket, Reason::Cancelled, "the watch was cancelled"));
        true
    }

    /// Ends everything.
    pub(super) fn leave(&mut self, core: &mut Core) {
        for (_, watching) in std::mem::take(&mut self.watches) {
            let detail = "this node is leaving".to_owned();
            core.emit(NodeEvent::failed(watching.ticket, Reason::Leaving, detail));
        }
    }

    fn remove(&mut self, core: &mut Core, id: RequestId) -> Option<OutgoingWatch> {
        core.timers.clear(Timer::Watch(id));
        core.timers.clear(Timer::Settle(id));
        self.watches.remove(&id)
    }

    pub(super) fn len(&self) -> usize {
        self.watches.len()
    }
}

impl OutgoingWatch {
    /// Notes what a candidate is now; false if the owner knows it already.
    fn record_candidate(&mut self, candidate: &Candidate) -> bool {
        self.doubtful.remove(&candidate.node);
        let Candidate { version, cell, ref services, capacity, position, .. } = *candidate;
        let services = services.clone();
        let known = WatchedNode { version, cell, services, capacity, position };
        match self.known.get_mut(&candidate.node) {
            Some(before) if before.version > version => false,
            Some(before) => {
                // A version comes with the position of the time at which it is told.
                let told = if before.version == version { position } else { before.position };
                let same = WatchedNode { version, position: told, ..before.clone() } == known;
                *before = known;
                !same
            }
            None => {
                if self.known.len() < MAX_WATCHED_NODES {
                    self.known.insert(candidate.node, known);
                }
                true
            }
        }
    }

    fn forget(&mut self, node: NodeId) -> bool {
        self.doubtful.remove(&node);
        self.known.remove(&node).is_some() || self.known.len() >= MAX_WATCHED_NODES
    }

    /// Tells the owner. The first change is told even if it is empty: it says
    /// that the watch stands.
    fn emit_change(&mut self, core: &mut Core, present: Vec<Candidate>, gone: Vec<NodeId>) {
        let same = self.told_coverage == self.coverage;
        if self.told > 0 && present.is_empty() && gone.is_empty() && same {
            return;
        }
        (self.told, self.told_coverage) = (self.told + 1, self.coverage);
        let change = WatchChange {
            id: RequestId(0),
            sequence: self.told,
            updated: present,
            removed: gone,
            coverage: self.coverage,
        };
        core.emit(NodeEvent::Changed { ticket: self.ticket, change });
    }
}
