//! A second round of a search: what hubs left out because another one was to have it is asked for, if a hub was
//! silent that may have been that one.

use std::collections::BTreeMap;

use roost_wire::messages::LookupResult;
use roost_wire::{NodeId, RequestId, Time};

use super::{HubLookups, PendingLookup};
use crate::hub::core::HubCore;
use crate::hub::route::HubQuery;

/// The gaps in the answers to a search.
#[derive(Debug, Default)]
pub(super) struct Gaps {
    /// The questions to hubs that have left something out.
    omitting: BTreeMap<NodeId, HubQuery>,
    /// True if a hub has not answered, here or farther on. What others told it is in no answer.
    has_losses: bool,
    is_second_round: bool,
}

impl Gaps {
    pub(super) fn record_answer(&mut self, query: HubQuery, found: &LookupResult) {
        let is_farther = self.omitting.get(&query.hub).is_none_or(|before| query.way < before.way);
        if found.has_omissions == Some(true) && is_farther {
            self.omitting.insert(query.hub, query);
        }
        self.has_losses |= found.has_losses == Some(true);
    }

    pub(super) fn record_silence(&mut self) {
        self.has_losses = true;
    }

    /// True if another hub of the search gets what is left out here. In a second round that is one that answers to
    /// this hub.
    pub(super) fn has_omissions(&self) -> bool {
        !self.omitting.is_empty() && !self.is_second_round
    }

    pub(super) fn has_losses(&self) -> bool {
        self.has_losses
    }

    fn need_second_round(&self) -> bool {
        self.has_losses && self.has_omissions()
    }
}

impl HubLookups {
    /// Asks for what was left out, if that is needed and there is time. True if so.
    pub(super) fn begin_second_round(&mut self, core: &mut HubCore, id: RequestId) -> bool {
        if !self.table.get(&id).is_some_and(|lookup| lookup.needs_second_round(core.now)) {
            return false;
        }
        let Some(mut lookup) = self.take_lookup(id) else { return false };
        let omitting = std::mem::take(&mut lookup.gaps.omitting);
        lookup.gaps.is_second_round = true;
        // Answers to the first round that come late are not taken for those to this one.
        let (id, search) = (self.next_id(), self.begin_search(core));
        self.insert_lookup(id, lookup);
        for query in omitting.into_values() {
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
