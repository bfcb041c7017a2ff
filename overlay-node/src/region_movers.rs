//! Nodes in motion around a watched region. Hubs tell when one enters or leaves the rectangle around the region, and the
//! region's own border is crossed without a word.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use roost_geo::{Datum, is_moving};
use roost_runtime::places::predicted;
use roost_wire::NodeId;
use roost_wire::messages::Candidate;
use tokio::time::Instant;

/// The most nodes in motion that are tested; of others only hubs tell.
pub(crate) const MAX_MOVERS: usize = 1_024;
const MOST_AT_ONCE: usize = 64;
/// A node is tested so often, if it is its turn.
const PAUSE: Duration = Duration::from_secs(1);

#[derive(Debug, Default)]
pub(crate) struct RegionMovers {
    movers: BTreeMap<NodeId, RegionMover>,
    due: BTreeSet<(Instant, NodeId)>,
}

#[derive(Debug)]
struct RegionMover {
    told: Candidate,
    at: Instant,
    due: Instant,
}

impl RegionMovers {
    /// Takes note of a candidate that was told now.
    pub(crate) fn record(&mut self, now: Instant, candidate: &Candidate) {
        self.forget(candidate.node);
        let has_room = self.movers.len() < MAX_MOVERS;
        if has_room && candidate.position.as_ref().is_some_and(is_moving) {
            let due = now + PAUSE;
            self.movers.insert(candidate.node, RegionMover { told: candidate.clone(), at: now, due });
            self.due.insert((due, candidate.node));
        }
    }

    pub(crate) fn forget(&mut self, node: NodeId) {
        if let Some(mover) = self.movers.remove(&node) {
            self.due.remove(&(mover.due, node));
        }
    }

    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.due.first().map(|(due, _)| *due)
    }

    /// The nodes whose turn it is, where they are now.
    pub(crate) fn take_due(&mut self, now: Instant, datum: &Datum) -> Vec<Candidate> {
        let mut taken = Vec::new();
        while let Some((_, node)) = self.due.first().copied().filter(|(due, _)| *due <= now) {
            if taken.len() >= MOST_AT_ONCE {
                break;
            }
            self.due.pop_first();
            if let Some(mover) = self.movers.get_mut(&node) {
                mover.due = now + PAUSE;
                self.due.insert((mover.due, node));
                taken.push(predicted(&mover.told, datum, now.duration_since(mover.at)));
            }
        }
        taken
    }
}
