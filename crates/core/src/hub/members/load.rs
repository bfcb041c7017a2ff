//! How many nodes each member has, and what room for copies of streams: what a
//! hub says of itself, and what the others have said.

use std::collections::BTreeMap;
use std::time::Duration;

use roost_wire::messages::{HierarchyMessage, Message};
use roost_wire::{NodeId, Time};

use crate::hub::core::HubCore;
use crate::hub::members::Members;
use crate::hub::sender::Sender;

/// Between two words about the number of leases.
pub(super) const LOAD_PAUSE: Duration = Duration::from_millis(500);

/// Between a word and the next one about the room for copies alone.
pub(super) const ROOM_PAUSE: Duration = Duration::from_secs(1);

/// Said in place of a number by a hub that leaves.
const LEAVING: u32 = u32::MAX;

/// A change by no more than this part of the leases is not worth a word.
const WORTH_A_WORD: usize = 32;

/// Nor is one by no more than this part of the room.
const ROOM_WORTH_A_WORD: u32 = 8;

/// The numbers of leases, and the room for copies in kbit/s.
#[derive(Debug)]
pub(super) struct Loads {
    /// Of each hub with a connection.
    by_hub: BTreeMap<NodeId, (u32, Option<u32>)>,
    /// Of this one, as it has said last.
    told: (usize, Option<u32>),
    last_announced: Time,
    next_announcement: Option<Time>,
}

/// What this hub has itself: nodes, and room for copies.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct OwnLoad {
    pub(crate) leases: usize,
    /// In kbit/s; `None` if it reflects nothing.
    pub(crate) residual_kbps: Option<u32>,
}

impl Loads {
    pub(super) fn new(room: Option<u32>) -> Self {
        Self { by_hub: BTreeMap::new(), told: (0, room), last_announced: Time::ZERO, next_announcement: None }
    }

    pub(super) fn leases_of(&self, hub: NodeId) -> Option<u32> {
        self.by_hub.get(&hub).map(|(leases, _)| *leases)
    }

    pub(super) fn room_of(&self, hub: NodeId) -> Option<u32> {
        self.by_hub.get(&hub).and_then(|(_, room)| *room)
    }

    pub(super) fn forget(&mut self, hub: NodeId) {
        self.by_hub.remove(&hub);
    }

    pub(super) fn next_announcement(&self) -> Option<Time> {
        self.next_announcement
    }

    /// Nobody is left to tell.
    pub(super) fn stop_announcing(&mut self) {
        self.next_announcement = None;
    }

    /// Whether the others are to hear now of so many leases and such room; if
    /// so, they are taken to have heard.
    fn is_announcement_due(&mut self, now: Time, leases: usize, room: Option<u32>) -> bool {
        let (told, told_room) = self.told;
        let leases_changed = leases.abs_diff(told) > told / WORTH_A_WORD;
        let room_changed = match (room, told_room) {
            (Some(room), Some(told)) => room.abs_diff(told) > told / ROOM_WORTH_A_WORD,
            (room, told) => room != told,
        };
        let due = self.last_announced + if leases_changed { LOAD_PAUSE } else { ROOM_PAUSE };
        let changed = leases_changed || room_changed;
        self.next_announcement = (changed && now < due).then_some(due);
        let is_due = changed && now >= due;
        if is_due {
            (self.told, self.last_announced) = ((leases, room), now);
        }
        is_due
    }
}

impl Members {
    /// Tells the other members how many leases and what room there are, if that
    /// has changed by enough to matter.
    pub(crate) fn announce_load(&mut self, core: &mut HubCore) {
        let now = core.now;
        if self.reach.is_empty() {
            return self.loads.stop_announcing();
        }
        if self.loads.is_announcement_due(now, self.own.leases, self.own.residual_kbps) {
            for node in self.nodes().collect::<Vec<_>>() {
                self.send_load(core, node);
            }
        }
    }

    pub(crate) fn send_load(&mut self, core: &mut HubCore, to: NodeId) {
        let leases = if core.leaving.is_some() { LEAVING } else { self.own.leases as u32 };
        let residual_kbps = self.own.residual_kbps;
        core.send_to_hub(to, &Message::Hierarchy(HierarchyMessage::HubLoad { leases, residual_kbps }));
    }

    /// Another member says how many leases it has, and what room.
    pub(crate) fn handle_load(&mut self, core: &mut HubCore, from: Sender, load: (u32, Option<u32>)) {
        self.loads.by_hub.insert(from.node, load);
        core.mesh.set_departing(from.node, load.0 == LEAVING);
        self.welcome(core, from.node);
    }

    /// A hub says that one more node is with it.
    pub(crate) fn count_arrival(&mut self, hub: NodeId, node: NodeId) {
        if let Some((load, _)) = self.loads.by_hub.get_mut(&hub) {
            *load = load.saturating_add(1);
        }
        self.record_arrival(node);
    }

    /// Gives a member that has joined its share, once it has said what it has.
    pub(crate) fn welcome(&mut self, core: &mut HubCore, node: NodeId) {
        let said = self.loads.leases_of(node).is_some();
        let Some(reach) = self.reach.get_mut(&node).filter(|_| said) else { return };
        if std::mem::take(&mut reach.fresh) {
            self.share_with(core, node);
        }
    }
}
