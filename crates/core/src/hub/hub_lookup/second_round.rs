//! A second round of a search: what hubs left out because another one was to have it is asked for, if a hub was
//! silent that may have been that one.

use roost_wire::{RequestId, Time};

use super::{HubLookups, PendingLookup};
use crate::hub::core::HubCore;

impl HubLookups {
    /// Asks for what was left out, if that is needed and there is time. True if so.
    pub(super) fn begin_second_round(&mut self, core: &mut HubCore, id: RequestId) -> bool {
        if !self.table.get(&id).is_some_and(|lookup| lookup.needs_second_round(core.now)) {
            return false;
        }
        let Some(mut lookup) = self.take_lookup(id) else { return false };
        let omitting = lookup.gaps.begin_second_round();
        // Answers to the first round that come late are not taken for those to this one.
        let (id, search) = (self.next_id(), self.begin_search(core));
        self.insert_lookup(id, lookup);
        for query in omitting {
            self.ask(core, id, query, search);
        }
        true
    }
}

impl PendingLookup {
    fn needs_second_round(&self, now: Time) -> bool {
        let is_idle = self.awaited.is_empty() && now < self.until;
        is_idle && self.is_of_use() && self.gaps.need_second_round()
    }
}
