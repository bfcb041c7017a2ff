//! Hubs that stand by for nodes of this one and that it does not know
//! otherwise: their copies need a way, wherever in the tree they are.
//!
//! Such a connection carries copies and what comes of them. It makes the two
//! neither siblings nor parent and child: no search and no claim goes over it.

use std::collections::BTreeMap;
use std::time::Duration;

use roost_wire::messages::HierarchyMessage;
use roost_wire::{Address, NodeId, Role, Time};

use super::HubLimit;
use super::core::HubCore;
use super::dialable::DialAttempt;
use super::mesh::DialPurpose;
use super::relation::Relation;
use super::sender::Sender;
use super::timers::MAX_PER_WAKE;
use crate::address_filter;
use crate::connections::Backoff;

/// The first pause before such a hub is dialled again; it doubles up to [`MAX_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_secs(1);

/// The longest pause before it is dialled again.
const MAX_PAUSE: Duration = Duration::from_secs(60);

/// The pause until a node may have sent enough to have its standby dialled.
const POOR_PAUSE: Duration = Duration::from_secs(5);

/// The hubs that nodes have named and that are no remotes.
#[derive(Debug, Default)]
pub(super) struct StandbyConnections {
    /// At most [`Limits::standby_connections`](super::Limits::standby_connections).
    hubs: BTreeMap<NodeId, StandbyDial>,
}

/// A hub that a node names as its standby.
#[derive(Debug)]
pub(super) struct NamedStandby {
    pub(super) hub: NodeId,
    /// Addresses that the node tells.
    pub(super) addresses: Vec<Address>,
    /// Addresses that the group knows. They count more.
    pub(super) known: Vec<Address>,
}

#[derive(Debug)]
struct StandbyDial {
    addresses: Vec<Address>,
    /// The node on whose allowance it is dialled; `None` if the hub knows the addresses itself.
    named_by: Option<NodeId>,
    backoff: Backoff,
    /// Time to dial; `None` while there is a connection or a dial under way.
    due: Option<Time>,
}

impl StandbyConnections {
    pub(super) fn next_due(&self) -> Option<Time> {
        self.hubs.values().filter_map(|dial| dial.due).min()
    }
}

impl StandbyConnections {
    /// A node has named a standby, and where it has found it. It names one at a time, so it
    /// has no more than one place here.
    pub(super) fn want(
        &mut self,
        core: &mut HubCore,
        from: Sender,
        NamedStandby { hub, addresses, known }: NamedStandby,
        is_named: impl Fn(NodeId) -> bool,
    ) {
        let now = core.now;
        self.hubs.retain(|hub, _| is_named(*hub));
        if core.remotes.is_up(hub) || self.hubs.contains_key(&hub) {
            return;
        }
        let found = match known.is_empty() {
            true => standby_addresses(core, from, addresses),
            false => Some((known, None)),
        };
        let Some((addresses, named_by)) = found else { return };
        if self.hubs.len() >= core.config.limits.standby_connections && !self.drop_unreachable_standby() {
            core.over_limit(from.node, HubLimit::StandbyConnections);
            return;
        }
        let backoff = Backoff::new(FIRST_PAUSE, MAX_PAUSE);
        self.hubs.insert(hub, StandbyDial { addresses, named_by, backoff, due: Some(now) });
    }

    /// Makes room by the standby that has failed for longest. False if all are reached.
    fn drop_unreachable_standby(&mut self) -> bool {
        let waiting = self.hubs.iter().filter_map(|(hub, dial)| Some((dial.due?, *hub)));
        let dropped = waiting.max().map(|(_, hub)| self.hubs.remove(&hub));
        dropped.is_some()
    }

    /// Dials the standbys whose turn it is, and forgets those that no node names.
    pub(super) fn poll(&mut self, core: &mut HubCore, is_named: impl Fn(NodeId) -> bool) {
        let now = core.now;
        let due = self.hubs.iter().filter(|(_, dial)| dial.due.is_some_and(|due| due <= now));
        for hub in due.map(|(hub, _)| *hub).take(MAX_PER_WAKE).collect::<Vec<_>>() {
            let wanted = is_named(hub) && core.leaving.is_none();
            let dial = self.hubs.get_mut(&hub).filter(|_| wanted);
            let Some(dial) = dial else {
                self.hubs.remove(&hub);
                continue;
            };
            dial.due = None;
            let (addresses, named_by) = (dial.addresses.clone(), dial.named_by);
            if core.remotes.is_up(hub) {
                continue;
            }
            if !core.may_dial_standby(&addresses, named_by) {
                if let Some(dial) = self.hubs.get_mut(&hub) {
                    dial.due = Some(now + POOR_PAUSE);
                }
            } else {
                core.dial(addresses, Role::SuperNode, Some(hub), DialPurpose::Standby(hub));
            }
        }
    }

    /// A dial has led to such a hub; another connection may have been there first.
    pub(super) fn standby_reached(&mut self, core: &mut HubCore, hub: NodeId) {
        let now = core.now;
        if let Some(dial) = self.hubs.get_mut(&hub) {
            dial.backoff.record_success(now);
            if let Some(node) = dial.named_by.and_then(|node| core.remotes.get_mut(node)) {
                dial.addresses.iter().for_each(|address| node.debt.allowance.refund(address.scheme));
            }
        }
        if core.remotes.connections_of(hub).len() == 1 {
            core.remotes.relate(hub, Relation::StandbyOnly);
            core.send_to_hub(hub, HierarchyMessage::StandbyOnly(true));
        }
    }

    /// The standby cannot be reached, or its last connection is gone.
    pub(super) fn standby_dial_failed(&mut self, core: &mut HubCore, hub: NodeId) {
        let now = core.now;
        if let Some(dial) = self.hubs.get_mut(&hub) {
            dial.due = Some(now + dial.backoff.record_failure(now, &mut core.random));
        }
    }
}

impl HubCore {
    /// True if the standby may be dialled now: hosts that only a node has named count against its allowance.
    fn may_dial_standby(&mut self, addresses: &[Address], named_by: Option<NodeId>) -> bool {
        named_by.is_none_or(|node| addresses.iter().all(|address| self.may_dial(node, address, DialAttempt::Standby)))
    }

    /// Another hub says what a connection is for.
    pub(super) fn set_standby_only(&mut self, hub: NodeId, is_standby_only: bool) {
        match (self.relation(hub), is_standby_only) {
            (Some(Relation::Sibling), true) => self.remotes.relate(hub, Relation::StandbyOnly),
            (Some(Relation::StandbyOnly), false) => self.remotes.relate(hub, Relation::Sibling),
            _ => return,
        }
        self.relations_changed = true;
    }

    /// A hub that was a standby only turns out to be a sibling.
    pub(super) fn promote_to_sibling(&mut self, hub: NodeId) {
        if self.relation(hub) == Some(Relation::StandbyOnly) {
            self.send_to_hub(hub, HierarchyMessage::StandbyOnly(false));
            self.remotes.relate(hub, Relation::Sibling);
            self.relations_changed = true;
        }
    }
}

/// The addresses of a standby that a node has named. Hosts where the node itself is not seen
/// count least: one is tried, on its allowance.
fn standby_addresses(core: &HubCore, from: Sender, addresses: Vec<Address>) -> Option<(Vec<Address>, Option<NodeId>)> {
    let seen = core.remotes.connections.get(&from.connection)?.address.primary()?.ip();
    let (there, elsewhere) =
        address_filter::split(&address_filter::filter_reported(addresses, seen), &core.hosts_of(from.node));
    if !there.is_empty() {
        return Some((there, None));
    }
    Some((vec![address_filter::least(&elsewhere)?], Some(from.node)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hub::testing::*;

    /// A hub one of whose nodes has named hub 100, and the dial that follows.
    fn named() -> Bench {
        let mut bench = Bench::new();
        let connection = bench.provider(1);
        bench.say(connection, RegistrationMessage::SetStandby { hub: node(100), addresses: Some(vec![address(100)]) });
        bench.wait(Duration::from_millis(1));
        bench
    }

    #[test]
    fn unconnected_standby_dialed_and_sent_replicas() {
        let mut bench = named();
        let (dial, addresses) = bench.dialled.pop().unwrap();
        assert_eq!(addresses, [address(100)]);
        let connection = bench.up_over(100, Role::SuperNode, address(100), Some(dial));
        assert_eq!(bench.hub.core.relation(node(100)), Some(Relation::StandbyOnly));
        let sent = bench.wait(Duration::from_secs(1));
        let copies = sent.iter().filter(|(to, message)| {
            *to == connection && matches!(message, Message::Replication(ReplicationMessage::ReplicaUpdate(_)))
        });
        assert_eq!(copies.count(), 1, "{sent:?}");
        assert_eq!(bench.hub.core.roots(), [node(200)], "it owns nothing");
    }

    /// The node says enough for one more dial over UDP.
    fn publish(bench: &mut Bench, connection: ConnectionId, versions: std::ops::Range<u32>) {
        for number in versions {
            bench.say(connection, RegistrationMessage::Publish(Record { version: version(number), ..record(1) }));
            // Not faster than it may.
            bench.wait(Duration::from_millis(50));
        }
    }

    #[test]
    fn standby_redialed_while_named() {
        let mut bench = named();
        let fail = |bench: &mut Bench| {
            let (dial, _) = bench.dialled.pop().unwrap();
            bench.input(Input::DialFailed { dial, reason: "nobody there".to_owned(), refused: false });
        };
        fail(&mut bench);
        let connection = bench.up(1, Role::Node);
        publish(&mut bench, connection, 2..220);
        bench.wait(FIRST_PAUSE * 2);
        fail(&mut bench);
        bench.say(connection, RegistrationMessage::Withdraw(version(220)));
        bench.wait(MAX_PAUSE);
        assert!(bench.dialled.is_empty());
    }

    #[test]
    fn standby_only_hub_is_no_root() {
        let mut bench = Bench::new();
        let connection = bench.up(100, Role::SuperNode);
        assert_eq!(bench.hub.core.roots().len(), 2);
        bench.say(connection, HierarchyMessage::StandbyOnly(true));
        assert_eq!(bench.hub.core.roots().len(), 1);
        bench.say(connection, HierarchyMessage::StandbyOnly(false));
        assert_eq!(bench.hub.core.roots().len(), 2);
    }
}
