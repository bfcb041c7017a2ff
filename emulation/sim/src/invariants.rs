//! Invariants of every run, checked while it runs.
//!
//! - A record is only used while its node lives, or less than a lease after its death: no hub names a node, or
//!   forwards a request to it, that has been dead for longer.
//! - No request is answered twice: each ends exactly once.
//! - Versions never go back: neither those that a node publishes and renews, nor those that a hub confirms to
//!   it.
//! - Tables and queues stay within their limits.
//! - Every request ends: at the end of a run no machine waits for anything.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use roost_core::Traffic;
use roost_core::hub::{self, Hub};
use roost_core::node::{MAX_REQUESTS, Node, Ticket};
use roost_wire::messages::{DirectoryMessage, Message, RegistrationMessage, Request, RequestMessage, Route};
use roost_wire::{NodeId, Time, Version};

use super::connections::MachineId;

/// The time after a lease for which a hub may still name a dead node: messages may have been in flight when it
/// died.
const GRACE: Duration = Duration::from_secs(5);
/// The interval at which an active machine is checked.
const LOOK: Duration = Duration::from_millis(100);
/// The most violations that are kept; one is enough to fail.
const MAX_KEPT: usize = 100;

#[derive(Clone, Debug, PartialEq)]
pub struct Violation {
    /// Time after the start of the workload, seconds.
    pub t: f64,
    pub machine: String,
    pub what: String,
}

impl Violation {
    pub fn sentence(&self) -> String {
        format!("{} at {:.3} s: {}", self.machine, self.t, self.what)
    }
}

/// A machine that has died or started.
#[derive(Clone, Copy, Debug)]
pub(super) struct LifeChange {
    machine: MachineId,
    died: Option<Time>,
}

pub(super) struct InvariantChecker {
    lease: Duration,
    pub(super) limits: hub::Limits,
    /// By node: the most requests that it may wait for.
    pub(super) requests: Vec<usize>,
    machines: BTreeMap<NodeId, MachineId>,
    /// By machine: the time of its death.
    dead: Vec<Option<Time>>,
    /// Machines that have died or started since the last fetch, if there are other parts of the network.
    changes: Option<Vec<LifeChange>>,
    /// By machine: the time of its last check.
    looked: Vec<Time>,
    /// The last version that each node published.
    published: Vec<Option<Version>>,
    /// The last version that a hub held, by hub and node.
    held: BTreeMap<(MachineId, MachineId), Version>,
    /// Tickets that were given up and whose machine has not confirmed this.
    given_up: BTreeSet<(MachineId, Ticket)>,
    found: Vec<(Time, MachineId, String)>,
}

impl InvariantChecker {
    pub(super) fn new(ids: impl Iterator<Item = NodeId>, lease: Duration, limits: hub::Limits) -> Self {
        let machines: BTreeMap<_, _> = ids.enumerate().map(|(machine, id)| (id, machine)).collect();
        let count = machines.len();
        Self {
            lease,
            limits,
            requests: vec![MAX_REQUESTS; count],
            machines,
            dead: vec![None; count],
            changes: None,
            looked: vec![Time::ZERO; count],
            published: vec![None; count],
            held: BTreeMap::new(),
            given_up: BTreeSet::new(),
            found: Vec::new(),
        }
    }

    pub(super) fn found(&self) -> &[(Time, MachineId, String)] {
        &self.found
    }

    fn violated(&mut self, now: Time, machine: MachineId, what: String) {
        if self.found.len() < MAX_KEPT {
            self.found.push((now, machine, what));
        }
    }

    pub(super) fn started(&mut self, machine: MachineId) {
        self.dead[machine] = None;
        self.add_change(machine, None);
    }

    /// Marks a machine as dead to others: it sends nothing for now.
    pub(super) fn fell_silent(&mut self, now: Time, machine: MachineId) {
        let died = *self.dead[machine].get_or_insert(now);
        self.add_change(machine, Some(died));
    }

    /// Keeps deaths and starts for other parts of the network, which fetch them often.
    pub(super) fn keep_changes(&mut self) {
        self.changes = Some(Vec::new());
    }

    fn add_change(&mut self, machine: MachineId, died: Option<Time>) {
        self.changes.iter_mut().for_each(|changes| changes.push(LifeChange { machine, died }));
    }

    /// Deaths and starts since the last call.
    pub(super) fn fetch_changes(&mut self) -> Vec<LifeChange> {
        self.changes.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Adds the deaths and starts in another part of the network.
    pub(super) fn add_changes(&mut self, changes: &[LifeChange]) {
        changes.iter().for_each(|change| self.dead[change.machine] = change.died);
    }

    pub(super) fn died(&mut self, now: Time, machine: MachineId) {
        self.fell_silent(now, machine);
        // The machine's requests died with it, and so did the versions it confirmed as a hub.
        self.given_up.retain(|(of, _)| *of != machine);
        self.held.retain(|(hub, _), _| *hub != machine);
    }

    /// Checks a message from one machine to another.
    pub(super) fn sent(&mut self, now: Time, from: MachineId, to: MachineId, traffic: Traffic, message: &[u8]) {
        // Data has no versions and names no nodes.
        if traffic == Traffic::Payload {
            return;
        }
        match Message::decode(message) {
            Ok(Message::Registration(RegistrationMessage::Publish(record))) => {
                self.publishes(now, from, record.version)
            }
            Ok(Message::Registration(RegistrationMessage::Renew(renew))) => self.publishes(now, from, renew.version),
            Ok(Message::Registration(RegistrationMessage::Adopt(adopt))) => self.publishes(now, from, adopt.version),
            Ok(Message::Registration(RegistrationMessage::Lease { version, .. })) => self.holds(now, from, to, version),
            Ok(Message::Request(RequestMessage::Request(Request { route: Some(Route { hop: None, .. }), .. }))) => {
                self.names(now, from, to)
            }
            Ok(Message::Directory(DirectoryMessage::LookupResult(found))) => {
                for candidate in &found.candidates {
                    if let Some(named) = self.machines.get(&candidate.node).copied() {
                        self.names(now, from, named);
                    }
                }
            }
            Ok(_) => {}
            Err(error) => self.violated(now, from, format!("it sends a malformed message: {error}")),
        }
    }

    fn publishes(&mut self, now: Time, node: MachineId, version: Version) {
        match self.published[node].replace(version) {
            Some(before) if before > version => {
                self.violated(now, node, format!("it published {before:?} and then {version:?}"));
            }
            _ => {}
        }
    }

    fn holds(&mut self, now: Time, hub: MachineId, node: MachineId, version: Version) {
        match self.held.insert((hub, node), version) {
            Some(before) if before > version => {
                self.violated(now, hub, format!("it held {before:?} of a node and now {version:?}"));
            }
            _ => {}
        }
    }

    fn names(&mut self, now: Time, hub: MachineId, named: MachineId) {
        if self.dead[named].is_some_and(|died| now.since(died) > self.lease + GRACE) {
            self.violated(now, hub, "it answers with a node that has been dead for more than a lease".to_owned());
        }
    }

    /// Checks the end of a ticket; `current` is the one that is waited for.
    pub(super) fn ended(&mut self, now: Time, node: MachineId, ticket: Ticket, current: Option<Ticket>) {
        if current != Some(ticket) && !self.given_up.remove(&(node, ticket)) {
            self.violated(now, node, format!("its request {} ended twice", ticket.0));
        }
    }

    /// Marks a ticket as given up; its machine knows.
    pub(super) fn gave_up(&mut self, node: MachineId, ticket: Ticket) {
        self.given_up.insert((node, ticket));
    }

    /// Checks a hub after it was active.
    pub(super) fn look_at_hub(&mut self, now: Time, machine: MachineId, hub: &Hub) {
        if !self.is_due(now, machine) {
            return;
        }
        let (status, limits) = (hub.status(now), &self.limits);
        let tables = [
            ("nodes", status.nodes, limits.nodes as usize),
            ("associations", status.connections, limits.connections),
            ("requests", status.requests, limits.requests),
            ("relayed flows", status.relays, limits.relays),
            ("watches", status.watches, limits.watches),
            ("searches", status.hub_lookups, limits.hub_lookups),
        ];
        if let Some((what, held, limit)) = tables.into_iter().find(|(_, held, limit)| held > limit) {
            self.violated(now, machine, format!("it holds {held} {what}, and its limit is {limit}"));
        }
    }

    /// Checks a node after it was active.
    pub(super) fn look_at_node(&mut self, now: Time, machine: MachineId, node: &Node) {
        if !self.is_due(now, machine) {
            return;
        }
        let (requests, limit) = (node.requests(now).len(), self.requests[machine]);
        if requests > limit {
            self.violated(now, machine, format!("it waits for {requests} requests, and its limit is {limit}"));
        }
    }

    fn is_due(&mut self, now: Time, machine: MachineId) -> bool {
        let is_due = now.since(self.looked[machine]) >= LOOK;
        if is_due {
            self.looked[machine] = now;
        }
        is_due
    }

    /// Checks a node at the end of the run, when no request is waited for.
    pub(super) fn at_end(&mut self, now: Time, machine: MachineId, node: &Node) {
        let open: Vec<Ticket> = node.requests(now).iter().map(|request| request.ticket).collect();
        for ticket in open {
            self.violated(now, machine, format!("its request {} has not ended with the run", ticket.0));
        }
        let first = (machine, Ticket(0))..=(machine, Ticket(u64::MAX));
        let silent: Vec<Ticket> = self.given_up.range(first).map(|(_, ticket)| *ticket).collect();
        for ticket in silent {
            self.violated(now, machine, format!("it never said that its request {} has ended", ticket.0));
        }
    }
}

#[cfg(test)]
mod tests {
    use roost_wire::messages::{Message, RegistrationMessage};

    use super::*;

    const HUB: MachineId = 0;
    const NODE: MachineId = 1;

    fn at(seconds: u64) -> Time {
        Time::from_nanos(seconds * 1_000_000_000)
    }

    fn checks() -> InvariantChecker {
        let ids = [[1; 16], [2; 16]].map(NodeId::from_bytes);
        InvariantChecker::new(ids.into_iter(), Duration::from_secs(60), hub::Limits::default())
    }

    fn lease(checks: &mut InvariantChecker, now: Time, sequence: u32) {
        let version = Version { epoch: 7, sequence };
        let message = Message::Registration(RegistrationMessage::Lease {
            version,
            lease_ms: 60_000,
            siblings: None,
            addresses: None,
            media: None,
        });
        checks.sent(now, HUB, NODE, Traffic::Join, &message.encode());
    }

    #[test]
    fn version_rollback_is_found_unless_restarted() {
        let mut checks = checks();
        lease(&mut checks, at(1), 2);
        lease(&mut checks, at(2), 2);
        assert_eq!(checks.found(), []);
        lease(&mut checks, at(3), 1);
        assert_eq!((checks.found().len(), checks.found()[0].1), (1, HUB));
        checks.died(at(4), HUB);
        lease(&mut checks, at(5), 1);
        assert_eq!(checks.found().len(), 1);
    }

    #[test]
    fn naming_dead_node_violates_after_lease() {
        let mut checks = checks();
        checks.died(at(10), NODE);
        checks.names(at(70), HUB, NODE);
        assert_eq!(checks.found(), []);
        checks.names(at(76), HUB, NODE);
        assert_eq!(checks.found().len(), 1);
        checks.started(NODE);
        checks.names(at(80), HUB, NODE);
        assert_eq!(checks.found().len(), 1);
    }

    #[test]
    fn double_end_is_found_unless_cancelled() {
        let mut checks = checks();
        checks.ended(at(1), NODE, Ticket(1), Some(Ticket(1)));
        checks.gave_up(NODE, Ticket(2));
        checks.ended(at(2), NODE, Ticket(2), None);
        assert_eq!(checks.found(), []);
        checks.ended(at(3), NODE, Ticket(2), None);
        checks.ended(at(3), NODE, Ticket(1), Some(Ticket(3)));
        assert_eq!(checks.found().len(), 2);
    }

    #[test]
    fn what_nobody_can_read_is_found() {
        let mut checks = checks();
        checks.sent(at(1), HUB, NODE, Traffic::Mesh, b"nonsense");
        assert_eq!(checks.found().len(), 1);
    }
}
