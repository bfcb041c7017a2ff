//! How many nodes each member has: what a hub says of itself, and what the
//! others have said.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::hub::{Hub, Sender};
use crate::ids::NodeId;
use crate::time::Time;
use crate::wire::Message;

/// Between two words about the number of leases.
pub(super) const LOAD_PAUSE: Duration = Duration::from_millis(500);

/// Said in place of a number by a hub that leaves.
const LEAVING: u32 = u32::MAX;

/// A change by no more than this part of the leases is not worth a word.
const WORTH_A_WORD: usize = 32;

/// The numbers of leases.
#[derive(Debug, Default)]
pub(super) struct Loads {
    /// Of each hub with an association.
    by_hub: BTreeMap<NodeId, u32>,
    /// Of this one, as it has said last.
    told: usize,
    last_word: Time,
    next_word: Option<Time>,
}

impl Loads {
    pub(super) fn of(&self, hub: NodeId) -> Option<u32> {
        self.by_hub.get(&hub).copied()
    }

    pub(super) fn forget(&mut self, hub: NodeId) {
        self.by_hub.remove(&hub);
    }

    pub(super) fn next_word(&self) -> Option<Time> {
        self.next_word
    }

    /// Nobody is left to tell.
    pub(super) fn fall_silent(&mut self) {
        self.next_word = None;
    }

    /// Whether the others are to hear now of so many leases; if so, they are
    /// taken to have heard.
    fn is_word_due(&mut self, now: Time, leases: usize) -> bool {
        let due = self.last_word + LOAD_PAUSE;
        let changed = leases.abs_diff(self.told) > self.told / WORTH_A_WORD;
        self.next_word = (changed && now < due).then_some(due);
        let is_due = changed && now >= due;
        if is_due {
            (self.told, self.last_word) = (leases, now);
        }
        is_due
    }
}

impl Hub {
    /// How many nodes have this hub as their home.
    pub(in crate::hub) fn leases(&self) -> usize {
        self.directory.nodes().saturating_sub(self.copies.len())
    }

    /// Tells the other members how many leases there are, if that has changed
    /// by enough to matter.
    pub(in crate::hub) fn tell_load(&mut self, now: Time) {
        if self.members.reach.is_empty() {
            return self.members.loads.fall_silent();
        }
        if self.members.loads.is_word_due(now, self.leases()) {
            for node in self.members.nodes().collect::<Vec<_>>() {
                self.say_load(node);
            }
        }
    }

    pub(super) fn say_load(&mut self, to: NodeId) {
        let leases = if self.leaving.is_some() { LEAVING } else { self.leases() as u32 };
        self.tell_peer(to, &Message::Load(leases));
    }

    /// Another member says how many leases it has.
    pub(in crate::hub) fn hear_load(&mut self, now: Time, from: Sender, load: u32) {
        self.members.loads.by_hub.insert(from.node, load);
        self.mesh.says_goodbye(from.node, load == LEAVING);
        self.welcome(now, from.node);
    }

    /// A hub says that one more node is with it.
    pub(in crate::hub) fn count_arrival(&mut self, hub: NodeId, node: NodeId) {
        if let Some(load) = self.members.loads.by_hub.get_mut(&hub) {
            *load = load.saturating_add(1);
        }
        self.arrived(node);
    }

    /// Gives a member that has joined its share, once it has said what it has.
    pub(super) fn welcome(&mut self, now: Time, node: NodeId) {
        let said = self.members.loads.of(node).is_some();
        let Some(reach) = self.members.reach.get_mut(&node).filter(|_| said) else { return };
        if std::mem::take(&mut reach.fresh) {
            self.share_with(now, node);
        }
    }
}
