//! Invariants that hold in any world, whatever befalls it.

use std::collections::BTreeMap;
use std::time::Duration;

use roost_core::node::{MAX_OBJECT_SESSIONS, MAX_REQUESTS, NodeEvent, Ticket};
use roost_wire::{NodeId, Role, Time, Version};

use super::{HostId, SECOND, World, node_id};

/// Longest time for which a hub may know of a dead node: a lease, and the delay of the sign of life that a
/// standby gets.
const FORGETTING: Duration = Duration::from_secs(60 + 12);

/// Looks at a world from time to time; what it says names the seed.
pub struct InvariantChecker {
    seed: u64,
    /// The version that each hub was last seen to hold of each node.
    held: BTreeMap<(HostId, NodeId), Version>,
    dead: BTreeMap<HostId, Time>,
}

impl InvariantChecker {
    pub fn new(seed: u64) -> Self {
        Self { seed, held: BTreeMap::new(), dead: BTreeMap::new() }
    }

    /// A hub starts again: it may know less than before.
    pub fn forget(&mut self, hub: HostId) {
        self.held.retain(|(of, _), _| *of != hub);
    }

    /// Checks what must hold at any moment.
    pub fn check_now(&mut self, world: &World) {
        for id in (0..world.hosts.len()).map(HostId) {
            let host = &world.hosts[id.0];
            if !host.alive {
                self.dead.entry(id).or_insert(world.now);
            } else if host.role == Role::Node {
                self.dead.remove(&id);
                let status = world.status(id);
                assert!(status.requests.len() <= MAX_REQUESTS, "seed {}", self.seed);
                assert!(status.sessions.len() <= MAX_OBJECT_SESSIONS + 8, "seed {}", self.seed);
                assert!(
                    status.connections <= world.hosts.len() * 2 + 8,
                    "seed {}: {} links",
                    self.seed,
                    status.connections
                );
            }
        }
        for id in (0..world.hosts.len()).map(HostId) {
            if world.hosts[id.0].alive && world.hosts[id.0].role != Role::Node {
                self.look_at_hub(world, id);
            }
        }
    }

    fn look_at_hub(&mut self, world: &World, hub: HostId) {
        let seed = self.seed;
        for entry in world.hub_at(hub).index(world.now + world.hosts[hub.0].ahead, None, usize::MAX) {
            let before = self.held.insert((hub, entry.node), entry.version);
            assert!(before <= Some(entry.version), "seed {seed}: {hub:?} went back to {entry:?} from {before:?}");
        }
        let dead = self.dead.iter().filter(|(_, since)| world.now.since(**since) > FORGETTING);
        for (host, since) in dead.filter(|(host, _)| world.hosts[host.0].role == Role::Node) {
            let known = world.hub_at(hub).index(world.now, None, usize::MAX);
            let known = known.iter().find(|entry| entry.node == node_id(host.0));
            assert!(known.is_none(), "seed {seed}: {hub:?} knows {host:?}, dead since {since}: {known:?}");
        }
    }

    /// Every request has ended, once.
    pub fn check_ended(&self, world: &World, asked: &[(HostId, Ticket)]) {
        for (host, ticket) in asked {
            let endings: Vec<_> = world.hosts[host.0].endings(*ticket).collect();
            assert_eq!(endings.len(), 1, "seed {}: {ticket:?} of {host:?}: {endings:?}", self.seed);
        }
    }

    /// Checks as well that none of the requests was in vain.
    pub fn check_served(&self, world: &World, asked: &[(HostId, Ticket)]) {
        self.check_ended(world, asked);
        for (host, ticket) in asked {
            let served = match world.hosts[host.0].ending(*ticket) {
                Some(NodeEvent::Finished { summary, .. }) => summary.complete,
                Some(NodeEvent::LookupResult { found, .. }) => !found.candidates.is_empty(),
                _ => false,
            };
            let ending = world.hosts[host.0].ending(*ticket);
            assert!(served, "seed {}: {ticket:?} of {host:?} ended with {ending:?}", self.seed);
        }
    }
}

/// In steps of a second, with a look at the end of each.
pub fn run_checked(world: &mut World, checker: &mut InvariantChecker, span: Duration) {
    let end = world.now + span;
    while world.now < end {
        world.run(SECOND.min(end.since(world.now)));
        checker.check_now(world);
    }
}
