//! The gaps in the answers to a search.

use std::collections::BTreeMap;

use roost_wire::NodeId;
use roost_wire::messages::LookupResult;

use crate::hub::route::HubQuery;

/// The parts that hubs left out of their answers, and the silence of others.
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

    pub(super) fn need_second_round(&self) -> bool {
        self.has_losses && self.has_omissions()
    }

    /// Takes the questions that the second round repeats.
    pub(super) fn begin_second_round(&mut self) -> impl Iterator<Item = HubQuery> + use<> {
        self.is_second_round = true;
        std::mem::take(&mut self.omitting).into_values()
    }
}
