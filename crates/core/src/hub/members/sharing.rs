//! Balance among super nodes: a node that comes goes to the one with the
//! fewest, and one that joins gets its share (the rule of Erum's reflectors).
//!
//! Only hubs that are near each other share: a node loses at most the round
//! trip between the two hubs by going from one to the other, whatever its own
//! paths are. Nobody has to measure anything for that. Nothing moves when a hub
//! leaves: its nodes have standbys.

use std::time::Duration;

use roost_wire::messages::RegistrationMessage;
use roost_wire::record::MAX_ADDRESSES;
use roost_wire::{Channel, NodeId, Role, SchemeSet, Time};

use super::Members;
use super::balance::{NEAR, SentNode, Share};
use crate::hub::core::HubCore;
use crate::hub::registry::Records;
use crate::hub::sender::Sender;
use crate::machine::Traffic;

/// A hub gives at most a node in this time, times the nodes it has: 5 % a second.
const SHARE_TIME: Duration = Duration::from_secs(20);

/// Number of nodes that a hub remembers having sent elsewhere. While that many are
/// on their way it takes newcomers in.
const MAX_SENT: usize = 4_096;

/// Number of nodes that are looked at to find one that may go.
const MAX_LOOKED_AT: usize = 64;

/// After so many looks in a row that found none, and as many as it takes to
/// look at all, there is nobody to send.
const MAX_VAIN_LOOKS: usize = 16;

impl Members {
    /// Time at which a node is to go next to a hub that has joined.
    pub(crate) fn next_share(&self) -> Option<Time> {
        self.balance.next_due()
    }

    /// Sends a node that nobody here knows to a near hub with fewer nodes, if
    /// there is one. Whoever comes although it was sent away is taken in.
    pub(crate) fn redirect(&mut self, core: &mut HubCore, from: Sender, may_stay: bool) -> bool {
        let was_sent = self.balance.sent.contains_key(&from.node);
        self.record_arrival(from.node);
        if was_sent || may_stay {
            return false;
        }
        let Some(target) = self.lighter_hub(core) else { return false };
        let sent = self.send_to(core, from, target, Channel::Datagram);
        core.counters.redirects += u64::from(sent);
        sent
    }

    /// The near hub with the fewest nodes, if those are fewer than this one's.
    fn lighter_hub(&self, core: &HubCore) -> Option<NodeId> {
        let leases = self.own.leases;
        let lighter = self.nodes().filter_map(|node| {
            let load = self.load(node).filter(|load| *load < leases)?;
            core.rtt_to(node).filter(|rtt| *rtt <= NEAR).map(|_| (load, node))
        });
        lighter.min().map(|(_, node)| node)
    }

    fn send_to(&mut self, core: &mut HubCore, from: Sender, target: NodeId, channel: Channel) -> bool {
        let now = core.now;
        self.forget_sent(core);
        let Some(reach) = self.get(target) else { return false };
        let mut addresses = core.shareable(from.connection, reach.addresses().to_vec());
        addresses.truncate(MAX_ADDRESSES);
        if addresses.is_empty() || self.balance.sent.len() >= MAX_SENT {
            return false;
        }
        self.balance.sent.insert(from.node, SentNode { until: now + core.config.lease, to: Some(target) });
        if let Some(reach) = self.get_mut(target) {
            reach.on_the_way += 1;
        }
        core.send(from.connection, channel, Traffic::Join, RegistrationMessage::Redirect(addresses));
        true
    }

    /// A node that was sent elsewhere is there, or here again.
    pub(crate) fn record_arrival(&mut self, node: NodeId) {
        let to = self.balance.sent.get_mut(&node).and_then(|sent| sent.to.take());
        if let Some(reach) = to.and_then(|to| self.get_mut(to)) {
            reach.on_the_way = reach.on_the_way.saturating_sub(1);
        }
    }

    fn forget_sent(&mut self, core: &mut HubCore) {
        let now = core.now;
        let old = self.balance.sent.iter().filter(|(_, sent)| sent.until <= now);
        for node in old.map(|(node, _)| *node).collect::<Vec<_>>() {
            self.record_arrival(node);
            self.balance.sent.remove(&node);
        }
    }

    /// A near hub has joined: it gets its share of this hub's nodes.
    pub(crate) fn share_with(&mut self, core: &mut HubCore, hub: NodeId) {
        self.schedule_share(core, hub, self.own.leases / (self.len() + 1));
    }

    /// A node has come back here from `home`, which lives: where hubs are near this one had its share
    /// already, and gives one for it.
    pub(crate) fn rebalance_returned(&mut self, core: &mut HubCore, home: NodeId) {
        let leases = self.own.leases;
        if self.load(home).is_none_or(|load| load + 1 >= leases) {
            return;
        }
        match self.balance.shares.get_mut(&home) {
            // The time at which it gets them stays as it is.
            Some(share) => share.left = leases.min(share.left + 1),
            None => self.schedule_share(core, home, 1),
        }
    }

    /// So many nodes are still to go to a hub, if it is near.
    fn schedule_share(&mut self, core: &mut HubCore, hub: NodeId, left: usize) {
        let now = core.now;
        let leases = self.own.leases;
        let near = core.rtt_to(hub).is_some_and(|rtt| rtt <= NEAR);
        if left > 0 && near && core.leaving.is_none() {
            let pause = SHARE_TIME / u32::try_from(leases).unwrap_or(u32::MAX);
            let next = now + self.pace(core, pause);
            self.balance.shares.insert(hub, Share { left, pause, next, vain: 0 });
        }
    }

    /// A pause of at least `pause`: many who share do not do so in step.
    fn pace(&mut self, core: &mut HubCore, pause: Duration) -> Duration {
        core.random.jitter(pause * 4 / 3).max(pause)
    }

    pub(crate) fn poll_balance(&mut self, core: &mut HubCore, records: Records<'_>) {
        let now = core.now;
        let due = self.balance.shares.iter().filter(|(_, share)| share.next <= now);
        for hub in due.map(|(hub, _)| *hub).collect::<Vec<_>>() {
            self.share_one(core, hub, records);
        }
    }

    fn share_one(&mut self, core: &mut HubCore, hub: NodeId, records: Records<'_>) {
        let now = core.now;
        let load = self.load(hub);
        let still = core.leaving.is_none() && load.is_some_and(|load| load < self.own.leases);
        let vain = MAX_VAIN_LOOKS + self.own.leases / MAX_LOOKED_AT;
        let goes_on = |share: &&mut Share| still && share.left > 0 && share.vain < vain;
        let Some(share) = self.balance.shares.get_mut(&hub).filter(goes_on) else {
            self.balance.shares.remove(&hub);
            return;
        };
        let pause = share.pause;
        let next = now + self.pace(core, pause);
        let moves = self
            .movable(core, records)
            .is_some_and(|from| self.send_to(core, from, hub, Channel::Reliable { flow: 0 }));
        core.counters.rebalanced += u64::from(moves);
        if let Some(share) = self.balance.shares.get_mut(&hub) {
            share.left -= usize::from(moves);
            share.vain = if moves { 0 } else { share.vain + 1 };
            share.next = next;
        }
    }

    /// The next node of this hub for which it relays nothing.
    fn movable(&mut self, core: &mut HubCore, records: Records<'_>) -> Option<Sender> {
        let all = records.directory().entries_after(self.balance.cursor).chain(records.directory().entries_after(None));
        let some: Vec<NodeId> = all.take(MAX_LOOKED_AT).map(|entry| entry.node()).collect();
        let idle = some.iter().position(|node| {
            let relays = core.remotes.get(*node).map(|remote| remote.relays);
            relays == Some(0) && !records.is_replica(*node) && !self.balance.sent.contains_key(node)
        });
        self.balance.cursor = some.get(idle.unwrap_or(MAX_LOOKED_AT - 1)).copied();
        let node = some.get(idle?).copied()?;
        let connection = core.remotes.best_connection(node, SchemeSet::ALL)?;
        Some(Sender { connection, node, role: Role::Node })
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::announce;
    use super::super::tests::met_at;
    use super::*;
    use crate::hub::testing::*;

    /// A hub beside another one that has `load` nodes.
    fn beside(rtt: Duration, load: u32) -> (Bench, ConnectionId) {
        let (mut bench, hub, _) = met_at(rtt);
        bench.say(hub, HierarchyMessage::HubLoad { leases: load, residual_kbps: None });
        (bench, hub)
    }

    /// True if a node that publishes is sent elsewhere; if not, it has a lease.
    fn is_sent(bench: &mut Bench, number: u8) -> bool {
        let connection = bench.up(number, Role::Node);
        publish(bench, connection, number)
    }

    fn publish(bench: &mut Bench, connection: ConnectionId, number: u8) -> bool {
        let said = bench.say(connection, RegistrationMessage::Publish(record(number)));
        let to_node: Vec<Message> =
            said.into_iter().filter(|(to, _)| *to == connection).map(|(_, message)| message).collect();
        match &to_node[..] {
            [Message::Registration(RegistrationMessage::Redirect(addresses))] => {
                assert_eq!(*addresses, [address(100)]);
                true
            }
            [Message::Registration(RegistrationMessage::Lease { .. })] => false,
            other => panic!("{other:?}"),
        }
    }

    fn redirections(said: &[(ConnectionId, Message)]) -> usize {
        said.iter()
            .filter(|(_, message)| matches!(message, Message::Registration(RegistrationMessage::Redirect(_))))
            .count()
    }

    #[test]
    fn newcomers_redirected_until_loads_equal() {
        let (mut bench, _) = beside(NEAR, 0);
        let sent: Vec<bool> = (1..=6).map(|number| is_sent(&mut bench, number)).collect();
        assert_eq!(sent, [false, true, false, true, false, true]);
        assert_eq!(bench.hub.counters().redirects, 3);
    }

    #[test]
    fn redirected_arrival_counted_once() {
        let (mut bench, hub) = beside(NEAR, 0);
        assert!(!is_sent(&mut bench, 1) && is_sent(&mut bench, 2));
        bench.say(hub, HierarchyMessage::Claim { node: node(2), version: version(1) });
        assert_eq!(bench.hub.members.load(node(100)), Some(1));
        bench.say(hub, HierarchyMessage::HubLoad { leases: 1, residual_kbps: None });
        assert!(!is_sent(&mut bench, 3) && is_sent(&mut bench, 4));
    }

    #[test]
    fn who_comes_back_is_taken_in() {
        let (mut bench, _) = beside(NEAR, 0);
        assert!(!is_sent(&mut bench, 1) && is_sent(&mut bench, 2));
        assert_eq!(bench.hub.members.load(node(100)), Some(1));
        assert!(!is_sent(&mut bench, 2));
        assert_eq!((bench.hub.members.load(node(100)), bench.hub.registry.records().leases()), (Some(0), 2));
    }

    #[test]
    fn far_or_leaving_hubs_get_none() {
        let (mut far, _) = beside(NEAR + Duration::from_millis(1), 0);
        let (mut leaving, _) = beside(NEAR, u32::MAX);
        for bench in [&mut far, &mut leaving] {
            assert!((1..=5).all(|number| !is_sent(bench, number)));
        }
    }

    #[test]
    fn join_burst_is_not_redirected() {
        let (mut bench, _) = beside(NEAR, 0);
        bench.hub.core.config.limits.joins_per_second = 2;
        let connections: Vec<ConnectionId> = (1..=20).map(|number| bench.up(number, Role::Node)).collect();
        let said: Vec<_> = connections
            .iter()
            .zip(1..)
            .flat_map(|(connection, number)| bench.say(*connection, RegistrationMessage::Publish(record(number))))
            .collect();
        assert!(redirections(&said) <= 2, "{said:?}");
    }

    #[test]
    fn unmovable_nodes_end_rebalancing() {
        let mut bench = Bench::new();
        bench.rtt = NEAR;
        let nodes: Vec<ConnectionId> = (1..=40).map(|number| bench.provider(number)).collect();
        let hub = bench.up(100, Role::SuperNode);
        // The nodes are still listed, but out of reach.
        nodes.into_iter().for_each(|connection| drop(bench.down(connection)));
        announce(&mut bench, hub, 100);
        bench.say(hub, HierarchyMessage::HubLoad { leases: 0, residual_kbps: None });
        assert!(bench.hub.members.balance.next_due().is_some());
        for _ in 0..4 {
            bench.wait(Duration::from_secs(5));
            bench.say(hub, ProbeMessage::Pong(0));
        }
        assert_eq!(bench.hub.members.balance.next_due(), None);
    }

    #[test]
    fn returning_node_is_offset_by_redirect() {
        for (returns, load, given) in [(Some(true), 5, 1), (None, 5, 0), (Some(true), 40, 0)] {
            let (mut bench, hub) = beside(NEAR, 40);
            let nodes: Vec<ConnectionId> = (1..=10).map(|number| bench.provider(number)).collect();
            bench.say(hub, ReplicationMessage::ReplicaUpdate(copies(vec![record(20)])));
            bench.say(hub, HierarchyMessage::HubLoad { leases: load, residual_kbps: None });
            let back = bench.up(20, Role::Node);
            let (held, version, capacity) = (version(1), version(2), record(20).capacity);
            bench.say(
                back,
                RegistrationMessage::Adopt(Adopt { held_version: held, version, capacity, is_failback: returns }),
            );
            let mut moved = 0;
            for _ in 0..20 {
                moved += redirections(&bench.wait(Duration::from_secs(1)));
                bench.say(hub, ProbeMessage::Pong(0));
                nodes.iter().for_each(|connection| drop(bench.say(*connection, ProbeMessage::Ping(1))));
            }
            assert_eq!(moved, given, "{returns:?} {load}");
        }
    }
}
