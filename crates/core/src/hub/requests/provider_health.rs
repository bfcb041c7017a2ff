//! Marks of providers by their answers and their silence. The directory orders those that could serve as well as one
//! another, and puts who has failed behind the others for a while: see [`crate::directory`]. Only a hub's own
//! providers are judged; other hubs judge theirs.
//!
//! Of a request that is answered directly a hub hears trouble only. So one that
//! was handed on, and of which nothing was heard until its deadline, was served.

use roost_wire::messages::Reason;

use super::routed_request::{RequestStage, RequestTarget};
use crate::hub::core::HubCore;
use crate::hub::provider_event::ProviderEvent;
use crate::hub::requests::Requests;
use crate::request_key::RequestKey;

impl Requests {
    /// The provider has said something about a request: so fast does it answer.
    /// After a repetition it cannot be told to which of the two it was.
    pub(crate) fn note_answer(&mut self, core: &mut HubCore, key: RequestKey) {
        let now = core.now;
        let Some(asked) = self.table.get(key) else { return };
        if let RequestStage::Handed { to, sent, repeats: 0, accepted: false, .. } = asked.stage
            && let Some(node) = to.node()
        {
            self.note_provider(node, ProviderEvent::Answered(now.since(sent)));
        }
    }

    pub(crate) fn note_success(&mut self, to: RequestTarget) {
        if let Some(node) = to.node() {
            self.note_provider(node, ProviderEvent::Served);
        }
    }

    pub(crate) fn note_failure(&mut self, core: &mut HubCore, to: RequestTarget) {
        if let Some(node) = to.node() {
            core.counters.failures += 1;
            self.note_provider(node, ProviderEvent::Failed);
        }
    }

    /// The provider does not serve. That it is busy, leaves or cannot reach the
    /// requester says nothing of how it serves others.
    pub(crate) fn note_refusal(&mut self, core: &mut HubCore, to: RequestTarget, reason: Reason) {
        if matches!(reason, Reason::SourceFailed | Reason::TimedOut | Reason::Protocol) {
            self.note_failure(core, to);
        }
    }

    /// A request's deadline has passed.
    pub(crate) fn note_end(&mut self, key: RequestKey) {
        let Some(asked) = self.table.get(key) else { return };
        if let RequestStage::Handed { to, relay: None, repeats: 0, .. } = asked.stage {
            self.note_success(to);
        }
    }
}
