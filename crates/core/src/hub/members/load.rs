//! How many nodes each member has, and what room for copies of streams: what a
//! hub says of itself, and what the others have said.

use std::collections::BTreeMap;
use std::time::Duration;

use roost_wire::{NodeId, Time};

/// Between two words about the number of leases.
pub(super) const LOAD_PAUSE: Duration = Duration::from_millis(500);

/// Between a word and the next one about the room for copies alone.
pub(super) const ROOM_PAUSE: Duration = Duration::from_secs(1);

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
    pub(super) fn is_announcement_due(&mut self, now: Time, leases: usize, room: Option<u32>) -> bool {
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

    pub(super) fn record(&mut self, hub: NodeId, load: (u32, Option<u32>)) {
        self.by_hub.insert(hub, load);
    }

    /// One more node is with a hub.
    pub(super) fn count_node(&mut self, hub: NodeId) {
        if let Some((leases, _)) = self.by_hub.get_mut(&hub) {
            *leases = leases.saturating_add(1);
        }
    }
}
