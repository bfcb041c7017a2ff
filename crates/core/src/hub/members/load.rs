//! Leases of each member, and room for copies of streams: what a hub says of itself, and what the others have said.

use std::collections::BTreeMap;
use std::time::Duration;

use roost_wire::{NodeId, Time};

use crate::hub::copy_room::CopyRoom;

/// Between two words about the number of leases.
pub(super) const LOAD_PAUSE: Duration = Duration::from_millis(500);

/// Between a word and the next one about the room for copies alone.
pub(super) const ROOM_PAUSE: Duration = Duration::from_secs(1);

/// A change by no more than this part of the leases is not worth a word.
const WORTH_A_WORD: usize = 32;

/// Nor is one by no more than this part of the room.
const ROOM_WORTH_A_WORD: u32 = 8;

/// The load of a hub, as the hub tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HubLoad {
    /// `None` of a hub that leaves.
    pub(crate) leases: Option<u32>,
    /// `None` of a hub that tells none: it reflects nothing, counts subscribers instead, or leaves.
    pub(crate) room: Option<CopyRoom>,
}

/// The loads of this hub and of the others.
#[derive(Debug)]
pub(super) struct Loads {
    by_hub: BTreeMap<NodeId, HubLoad>,
    /// Of this one, as it has said last.
    told: OwnLoad,
    last_announced: Time,
    next_announcement: Option<Time>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct OwnLoad {
    pub(crate) leases: usize,
    /// `None` if the hub tells none.
    pub(crate) room: Option<CopyRoom>,
}

impl Loads {
    pub(super) fn new(room: Option<CopyRoom>) -> Self {
        let told = OwnLoad { leases: 0, room };
        Self { by_hub: BTreeMap::new(), told, last_announced: Time::ZERO, next_announcement: None }
    }

    pub(super) fn has(&self, hub: NodeId) -> bool {
        self.by_hub.contains_key(&hub)
    }

    /// `None` of a hub that leaves, or has told nothing.
    pub(super) fn leases_of(&self, hub: NodeId) -> Option<u32> {
        self.by_hub.get(&hub)?.leases
    }

    pub(super) fn room_of(&self, hub: NodeId) -> Option<CopyRoom> {
        self.by_hub.get(&hub)?.room
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

    /// True if the others are to hear now of this load; if so, they are taken to have heard.
    pub(super) fn is_announcement_due(&mut self, now: Time, own: OwnLoad) -> bool {
        let leases_changed = own.leases.abs_diff(self.told.leases) > self.told.leases / WORTH_A_WORD;
        let room_changed = match (own.room, self.told.room) {
            (Some(CopyRoom::Kbps(room)), Some(CopyRoom::Kbps(told))) => room.abs_diff(told) > told / ROOM_WORTH_A_WORD,
            (room, told) => room != told,
        };
        let due = self.last_announced + if leases_changed { LOAD_PAUSE } else { ROOM_PAUSE };
        let changed = leases_changed || room_changed;
        self.next_announcement = (changed && now < due).then_some(due);
        let is_due = changed && now >= due;
        if is_due {
            (self.told, self.last_announced) = (own, now);
        }
        is_due
    }

    pub(super) fn record(&mut self, hub: NodeId, load: HubLoad) {
        self.by_hub.insert(hub, load);
    }

    /// A hub has one more node than it announced last.
    pub(super) fn count_node(&mut self, hub: NodeId) {
        if let Some(HubLoad { leases: Some(leases), .. }) = self.by_hub.get_mut(&hub) {
            *leases = leases.saturating_add(1);
        }
    }
}
