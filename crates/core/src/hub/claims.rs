//! Nodes of this hub that another hub says are its own now.
//!
//! That may be false, and a node that is here is worse off without its record. So a node with an
//! connection is asked, and its record stays until the node goes or is silent.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use roost_wire::messages::{Message, RegistrationMessage};
use roost_wire::{Channel, NodeId, Record, SchemeSet, Time, Version};

use super::core::HubCore;
use super::registry::{RecordChange, Registry};
use super::timers::MAX_PER_WAKE;
use crate::machine::Traffic;

/// Most times that a node is asked, as a question or its answer may be lost.
const ASKS: u32 = 2;

/// A node that has answered is not asked again before this time: it publishes for an answer,
/// and leaves a hub that wants that too often.
const QUIET: Duration = Duration::from_secs(20);

/// The nodes that are asked, or were a moment ago; all are connected and have a record here.
#[derive(Debug, Default)]
pub(super) struct Claims {
    nodes: BTreeMap<NodeId, ClaimCheck>,
    due: BTreeSet<(Time, NodeId)>,
}

#[derive(Debug)]
struct ClaimCheck {
    /// `None` once the node has said that it is here.
    claim: Option<Claim>,
    times: u32,
    /// Time to ask, to stop waiting for an answer, or to forget this.
    due: Time,
}

/// The word of another hub.
#[derive(Debug)]
pub(super) struct Claim {
    pub(super) home: NodeId,
    pub(super) version: Version,
    /// The record, if that hub has this one keep a replica of it.
    pub(super) record: Option<Record>,
}

impl Claims {
    pub(super) fn next_due(&self) -> Option<Time> {
        self.due.first().map(|(due, _)| *due)
    }

    /// Another hub says something of a node, of which nothing is believed before it was asked.
    fn record_claim(&mut self, now: Time, node: NodeId, claim: Claim) {
        let Some(asked) = self.nodes.get_mut(&node) else {
            self.nodes.insert(node, ClaimCheck { claim: Some(claim), times: 0, due: now });
            self.due.insert((now, node));
            return;
        };
        if asked.claim.as_ref().is_none_or(|known| known.version <= claim.version) {
            let record =
                asked.claim.take().filter(|known| known.version == claim.version).and_then(|known| known.record);
            asked.claim = Some(Claim { record: claim.record.or(record), ..claim });
        }
    }

    /// The node has published this version here. True if somebody had claimed it.
    fn confirm_claimed_node(&mut self, now: Time, node: NodeId, version: Version) -> bool {
        let Some(asked) = self.nodes.get_mut(&node).filter(|asked| asked.times > 0) else { return false };
        let was_claimed = asked.claim.is_some();
        // A word from before a move may come after it: it is asked again.
        asked.claim.take_if(|claim| claim.version < version);
        asked.times = 0;
        self.set_due(node, now + QUIET);
        was_claimed
    }

    fn set_due(&mut self, node: NodeId, due: Time) {
        let Some(asked) = self.nodes.get_mut(&node) else { return };
        self.due.remove(&(asked.due, node));
        asked.due = due;
        self.due.insert((due, node));
    }

    fn take_claim(&mut self, node: NodeId) -> Option<Claim> {
        let asked = self.nodes.remove(&node)?;
        self.due.remove(&(asked.due, node));
        asked.claim
    }
}

impl Registry {
    /// Another hub holds this node from its version on.
    pub(super) fn handle_claim(&mut self, core: &mut HubCore, node: NodeId, claim: Claim) {
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
    pub(super) fn confirm_home(&mut self, core: &mut HubCore, node: NodeId, version: Version) {
        let now = core.now;
        if self.claims.confirm_claimed_node(now, node, version) {
            core.claim(node, version);
        }
    }

    /// A node has gone: where it went counts that another hub has said.
    pub(super) fn apply_pending_claim(&mut self, core: &mut HubCore, node: NodeId) {
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
            self.note_moved(core, node, home);
            // Others hear first that the record of this hub's own is gone.
            if let Some(record) = record {
                self.record_change_by_hub(RecordChange::Replicated { home, record });
            }
        } else if let Some(record) = record {
            self.store_replica(core, home, &record);
        }
    }

    pub(super) fn poll_claims(&mut self, core: &mut HubCore) {
        let now = core.now;
        for _ in 0..MAX_PER_WAKE {
            let Some((_, node)) = self.claims.due.first().copied().filter(|(due, _)| *due <= now) else {
                return;
            };
            let connection = core.remotes.best_connection(node, SchemeSet::ALL);
            let asked = self.claims.nodes.get_mut(&node).filter(|asked| asked.claim.is_some() && asked.times < ASKS);
            let (Some(connection), Some(asked)) = (connection, asked) else {
                self.apply_pending_claim(core, node);
                continue;
            };
            asked.times += 1;
            let patience = core.remotes.answer_timeout(connection) * (2 << (asked.times - 1));
            self.claims.set_due(node, now + patience);
            core.send(
                connection,
                Channel::Datagram,
                Traffic::Renew,
                &Message::Registration(RegistrationMessage::UnknownVersion),
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Bench, copies, node, record, version};
    use super::*;
    use roost_wire::ids::ConnectionId;
    use roost_wire::messages::{HierarchyMessage, ReplicationMessage};
    use roost_wire::service::Role;

    const PATIENCE: Duration = Duration::from_secs(2);

    /// A hub with a node, and another hub that claims the node in this version.
    fn claimed(sequence: u32) -> (Bench, ConnectionId, ConnectionId, Vec<(ConnectionId, Message)>) {
        let mut bench = Bench::new();
        let peer = bench.up(100, Role::SuperNode);
        let connection = bench.provider(1);
        let sent =
            bench.say(peer, &Message::Hierarchy(HierarchyMessage::Claim { node: node(1), version: version(sequence) }));
        (bench, peer, connection, sent)
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
        let (mut bench, peer, connection, sent) = claimed(2);
        assert_eq!(
            (sent, held(&bench)),
            (vec![(connection, Message::Registration(RegistrationMessage::UnknownVersion))], 1)
        );
        let sent = bench.say(
            connection,
            &Message::Registration(RegistrationMessage::Publish(Record { version: version(3), ..record(1) })),
        );
        assert!(
            sent.contains(&(peer, Message::Hierarchy(HierarchyMessage::Claim { node: node(1), version: version(3) }))),
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
                && bench.hub.registry.claims.nodes.is_empty()
        );
    }

    #[test]
    fn disconnected_claimed_node_is_dropped() {
        let (mut bench, _, connection, _) = claimed(2);
        bench.down(connection);
        assert_eq!(bench.hub.registry.directory.nodes(), 0);
        assert!(bench.hub.registry.claims.due.is_empty());
    }

    #[test]
    fn a_word_from_before_is_checked() {
        let (mut bench, _, connection, _) = claimed(9);
        bench.say(
            connection,
            &Message::Registration(RegistrationMessage::Publish(Record { version: version(2), ..record(1) })),
        );
        assert_eq!(asked(&mut bench, connection, QUIET), 1);
        bench.wait(PATIENCE);
        assert_eq!(held(&bench), 0);
    }

    #[test]
    fn replica_kept_when_node_is_silent() {
        let mut bench = Bench::new();
        let peer = bench.up(100, Role::SuperNode);
        bench.provider(1);
        bench.say(
            peer,
            &Message::Replication(ReplicationMessage::ReplicaUpdate(copies(vec![Record {
                version: version(2),
                ..record(1)
            }]))),
        );
        assert!(!bench.hub.registry.replicas.holds(node(1)));
        bench.wait(PATIENCE);
        assert!(bench.hub.registry.replicas.holds(node(1)));
    }

    #[test]
    fn many_claims_ask_a_node_seldom() {
        let (mut bench, peer, connection, _) = claimed(2);
        let (mut times, mut own) = (0, 2);
        for _ in 0..600 {
            own += 1;
            bench.say(
                connection,
                &Message::Registration(RegistrationMessage::Publish(Record { version: version(own), ..record(1) })),
            );
            let sent = bench
                .say(peer, &Message::Hierarchy(HierarchyMessage::Claim { node: node(1), version: version(own + 1) }));
            times += sent
                .iter()
                .filter(|(_, message)| *message == Message::Registration(RegistrationMessage::UnknownVersion))
                .count();
            times += asked(&mut bench, connection, Duration::from_millis(100));
        }
        assert!(times <= 2 * 3 && held(&bench) == 1, "{times}");
    }
}
