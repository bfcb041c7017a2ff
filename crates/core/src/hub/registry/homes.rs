//! Nodes of this hub that another hub says are its own now.
//!
//! That may be false, and a node that is here is worse off without its record. So a node with a
//! connection is asked, and its record stays until the node goes or is silent.

use std::time::Duration;

use roost_wire::messages::{HierarchyMessage, HomeChanged, RegistrationMessage};
use roost_wire::{Channel, NodeId, SchemeSet, Version};

use super::claims::Claim;
use super::{RecordChange, Registry};
use crate::hub::core::HubCore;
use crate::hub::relation::Relation;
use crate::hub::remotes::MOVE;
use crate::hub::route::HOPS;
use crate::hub::sender::Sender;
use crate::hub::timers::MAX_PER_WAKE;
use crate::hub::{HubKind, HubLimit};
use crate::machine::Traffic;

/// For so long after its last word a hub counts as alive: it is asked for one
/// every five seconds.
pub(super) const LIVELY: Duration = Duration::from_secs(8);

impl Registry {
    /// Another hub holds this node from its version on.
    pub(crate) fn handle_claim(&mut self, core: &mut HubCore, node: NodeId, claim: Claim) {
        let now = core.now;
        if !core.is_plausible(claim.version) {
            return;
        }
        self.contradict_claim(core, claim.home, node, claim.version);
        let held = self.directory.get(node).map(|entry| entry.version());
        if held.is_none_or(|held| held >= claim.version) {
            return;
        }
        if self.is_contested(core, node, claim.home) {
            return self.replicas.record_contested_claim(node, claim);
        }
        if self.replicas.holds(node) || !core.remotes.is_up(node) {
            return self.release_to(core, node, claim);
        }
        self.claims.record_claim(now, node, claim);
        self.poll_claims(core);
    }

    /// A node has published here, so it is nobody else's.
    pub(crate) fn confirm_home(&mut self, core: &mut HubCore, node: NodeId, version: Version) {
        let now = core.now;
        if self.claims.confirm_claimed_node(now, node, version) {
            core.claim(node, version);
        }
    }

    /// A node has gone: where it went counts that another hub has said.
    pub(crate) fn apply_pending_claim(&mut self, core: &mut HubCore, node: NodeId) {
        if let Some(claim) = self.claims.take_claim(node) {
            self.release_to(core, node, claim);
        }
    }

    /// Drops the record of a node that another hub has now.
    fn release_to(&mut self, core: &mut HubCore, node: NodeId, claim: Claim) {
        let Claim { home, version, record } = claim;
        if let Some(place) = self.directory.claim(node, version)
            && !self.replicas.release(node)
        {
            core.counters.claimed += 1;
            self.record_change_by_hub(RecordChange::Claimed(place));
            self.moved.record(core, node, home);
            // Others hear first that the record of this hub's own is gone.
            if let Some(record) = record {
                self.record_change_by_hub(RecordChange::Replicated { home, record });
            }
        } else if let Some(record) = record {
            self.store_replica(core, home, record);
        }
    }

    pub(crate) fn poll_claims(&mut self, core: &mut HubCore) {
        let now = core.now;
        for _ in 0..MAX_PER_WAKE {
            let Some(node) = self.claims.first_due(now) else { return };
            let connection = core.remotes.best_connection(node, SchemeSet::ALL);
            let asked = connection.and_then(|connection| Some((connection, self.claims.count_question(node)?)));
            let Some((connection, times)) = asked else {
                self.apply_pending_claim(core, node);
                continue;
            };
            let patience = core.remotes.answer_timeout(connection) * (2 << (times - 1));
            self.claims.set_due(node, now + patience);
            core.send(connection, Channel::Datagram, Traffic::Renew, RegistrationMessage::UnknownVersion);
        }
    }

    /// A home is gone: nodes of it that another hub has claimed meanwhile are there.
    pub(crate) fn apply_contested_claims(&mut self, core: &mut HubCore, home: NodeId) {
        let is_newer = |node: &NodeId| {
            let held = self.directory.get(*node).map(|entry| entry.version());
            self.replicas.contested_claim(*node).is_some_and(|claim| held.is_none_or(|held| held < claim.version))
        };
        let claimed = self.replicas.nodes_of(home).filter(is_newer);
        for node in claimed.collect::<Vec<_>>() {
            self.drop_replica(core, home, node);
        }
    }

    /// True if a home that is there holds on to a node whose record it keeps here, though another hub says
    /// that it is its own. Records bear no signature, so the home is believed until it lets go. A central
    /// server's homes are caches of its own, the latest of which counts.
    pub(crate) fn is_contested(&self, core: &HubCore, node: NodeId, by: NodeId) -> bool {
        let contests = |home| home != by && core.is_lively(home);
        core.config.kind != HubKind::Server && self.replicas.home_of(node).is_some_and(contests)
    }

    /// Tells a hub that holds this version of a node that a newer one is here.
    pub(crate) fn contradict_claim(&mut self, core: &mut HubCore, home: NodeId, node: NodeId, version: Version) {
        let own = self.directory.get(node).filter(|_| !self.replicas.holds(node)).map(|entry| entry.version());
        if let Some(own) = own.filter(|own| *own > version) {
            core.send_to_hub(home, HierarchyMessage::Claim { node, version: own });
        }
    }

    /// A node of this hub says where it was before. Gives what hubs that are not siblings are to hear;
    /// siblings have heard of it already (`HierarchyMessage::Claim`).
    pub(crate) fn accept_move(&mut self, core: &mut HubCore, from: Sender, moved: HomeChanged) -> Option<HomeChanged> {
        let held = self.directory.get(from.node).filter(|_| !self.replicas.holds(from.node));
        let Some(version) = held.map(|entry| entry.version()).filter(|_| moved.node == from.node) else {
            core.counters.stray += 1;
            return None;
        };
        // A node says it once. The old home that does not hear of it keeps its copy for a lease.
        let now = core.now;
        if !core.remotes.get_mut(from.node).is_some_and(|node| node.try_charge(now, MOVE)) {
            core.over_limit(from.node, HubLimit::WorkRate);
            return None;
        }
        let own = core.config.node;
        let is_news = core.relation(moved.old_home) != Some(Relation::Sibling) && moved.old_home != own;
        is_news.then_some(HomeChanged { version, new: own, hops_left: HOPS, ..moved })
    }
}

impl HubCore {
    /// True if a hub was heard of late.
    pub(crate) fn is_lively(&self, hub: NodeId) -> bool {
        let now = self.now;
        let connection = self.remotes.best_connection(hub, SchemeSet::ALL);
        let heard = connection
            .and_then(|connection| self.remotes.connections.get(&connection))
            .map(|connection| connection.heard);
        heard.is_some_and(|heard| now.since(heard) < LIVELY)
    }
}

#[cfg(test)]
mod tests {
    use super::super::claims::QUIET;
    use super::*;
    use crate::hub::testing::*;

    const PATIENCE: Duration = Duration::from_secs(2);

    /// A hub with a node, and another hub that claims the node in this version.
    fn claimed(sequence: u32) -> (Bench, ConnectionId, ConnectionId, Vec<(ConnectionId, Message)>) {
        let mut bench = Bench::new();
        let sibling = bench.up(100, Role::SuperNode);
        let connection = bench.provider(1);
        let sent = bench.say(sibling, HierarchyMessage::Claim { node: node(1), version: version(sequence) });
        (bench, sibling, connection, sent)
    }

    /// Counts the questions to the node in that time.
    fn asked(bench: &mut Bench, connection: ConnectionId, span: Duration) -> usize {
        bench
            .wait(span)
            .iter()
            .filter(|sent| **sent == (connection, Message::Registration(RegistrationMessage::UnknownVersion)))
            .count()
    }

    fn held(bench: &Bench) -> usize {
        bench.hub.status(bench.now).nodes
    }

    #[test]
    fn claimed_node_that_answers_stays() {
        let (mut bench, sibling, connection, sent) = claimed(2);
        assert_eq!(
            (sent, held(&bench)),
            (vec![(connection, Message::Registration(RegistrationMessage::UnknownVersion))], 1)
        );
        let sent = bench.say(connection, RegistrationMessage::Publish(Record { version: version(3), ..record(1) }));
        assert!(
            sent.contains(&(
                sibling,
                Message::Hierarchy(HierarchyMessage::Claim { node: node(1), version: version(3) })
            )),
            "{sent:?}"
        );
        assert_eq!(asked(&mut bench, connection, QUIET), 0);
        assert_eq!(held(&bench), 1);
    }

    #[test]
    fn silent_claimed_node_is_dropped() {
        let (mut bench, _, connection, _) = claimed(2);
        assert_eq!((asked(&mut bench, connection, PATIENCE), held(&bench)), (1, 0));
        assert!(
            bench.hub.registry.records().has_moved(&bench.hub.core, node(1))
                && bench.hub.registry.claims.next_due().is_none()
        );
    }

    #[test]
    fn disconnected_claimed_node_is_dropped() {
        let (mut bench, _, connection, _) = claimed(2);
        bench.down(connection);
        assert_eq!(bench.hub.registry.directory.nodes(), 0);
        assert_eq!(bench.hub.registry.claims.next_due(), None);
    }

    #[test]
    fn a_word_from_before_is_checked() {
        let (mut bench, _, connection, _) = claimed(9);
        bench.say(connection, RegistrationMessage::Publish(Record { version: version(2), ..record(1) }));
        assert_eq!(asked(&mut bench, connection, QUIET), 1);
        bench.wait(PATIENCE);
        assert_eq!(held(&bench), 0);
    }

    #[test]
    fn replica_kept_when_node_is_silent() {
        let mut bench = Bench::new();
        let sibling = bench.up(100, Role::SuperNode);
        bench.provider(1);
        bench
            .say(sibling, ReplicationMessage::ReplicaUpdate(copies(vec![Record { version: version(2), ..record(1) }])));
        assert!(!bench.hub.registry.replicas.holds(node(1)));
        bench.wait(PATIENCE);
        assert!(bench.hub.registry.replicas.holds(node(1)));
    }

    #[test]
    fn many_claims_ask_a_node_seldom() {
        let (mut bench, sibling, connection, _) = claimed(2);
        let (mut times, mut own) = (0, 2);
        for _ in 0..600 {
            own += 1;
            bench.say(connection, RegistrationMessage::Publish(Record { version: version(own), ..record(1) }));
            let sent = bench.say(sibling, HierarchyMessage::Claim { node: node(1), version: version(own + 1) });
            times += sent
                .iter()
                .filter(|(_, message)| *message == Message::Registration(RegistrationMessage::UnknownVersion))
                .count();
            times += asked(&mut bench, connection, Duration::from_millis(100));
        }
        assert!(times <= 2 * 3 && held(&bench) == 1, "{times}");
    }
}
