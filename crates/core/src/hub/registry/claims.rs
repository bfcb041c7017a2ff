//! The nodes of this hub that are asked if they are here, and the words of other hubs.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use roost_wire::{NodeId, Record, Time, Version};

/// Most times that a node is asked, as a question or its answer may be lost.
const ASKS: u32 = 2;

/// A node that has answered is not asked again before this time: it publishes for an answer,
/// and leaves a hub that wants that too often.
pub(super) const QUIET: Duration = Duration::from_secs(20);

/// The nodes that are asked, or were a moment ago; all are connected and have a record here.
#[derive(Debug, Default)]
pub(crate) struct Claims {
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

#[derive(Debug)]
pub(crate) struct Claim {
    pub(crate) home: NodeId,
    pub(crate) version: Version,
    /// The record, if that hub has this one keep a replica of it.
    pub(crate) record: Option<LeasedRecord>,
}

/// A record that another hub has this one keep.
#[derive(Debug)]
pub(crate) struct LeasedRecord {
    pub(crate) record: Record,
    /// The end of its lease unless the node is heard.
    pub(crate) expires: Time,
}

impl Claims {
    pub(crate) fn next_due(&self) -> Option<Time> {
        self.due.first().map(|(due, _)| *due)
    }

    /// Another hub says something of a node, of which nothing is believed before it was asked.
    pub(super) fn record_claim(&mut self, now: Time, node: NodeId, claim: Claim) {
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
    pub(super) fn confirm_claimed_node(&mut self, now: Time, node: NodeId, version: Version) -> bool {
        let Some(asked) = self.nodes.get_mut(&node).filter(|asked| asked.times > 0) else { return false };
        let was_claimed = asked.claim.is_some();
        // A word from before a move may come after it: it is asked again.
        asked.claim.take_if(|claim| claim.version < version);
        asked.times = 0;
        self.set_due(node, now + QUIET);
        was_claimed
    }

    pub(super) fn set_due(&mut self, node: NodeId, due: Time) {
        let Some(asked) = self.nodes.get_mut(&node) else { return };
        self.due.remove(&(asked.due, node));
        asked.due = due;
        self.due.insert((due, node));
    }

    /// The first node whose time has come.
    pub(super) fn first_due(&self, now: Time) -> Option<NodeId> {
        self.due.first().filter(|(due, _)| *due <= now).map(|(_, node)| *node)
    }

    /// Counts one more question to a node that is claimed; `None` if it has been asked often enough.
    pub(super) fn count_question(&mut self, node: NodeId) -> Option<u32> {
        let asked = self.nodes.get_mut(&node).filter(|asked| asked.claim.is_some() && asked.times < ASKS)?;
        asked.times += 1;
        Some(asked.times)
    }

    pub(super) fn take_claim(&mut self, node: NodeId) -> Option<Claim> {
        let asked = self.nodes.remove(&node)?;
        self.due.remove(&(asked.due, node));
        asked.claim
    }
}
