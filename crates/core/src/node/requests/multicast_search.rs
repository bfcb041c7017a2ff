//! Asking the connection: the inquiry, its repetitions, and its end.
//!
//! An inquiry takes the hub's place and nothing else: who answers it dials the
//! requester and accepts, as if a hub had handed the request over.

use std::time::Duration;

use roost_wire::messages::{
    Coverage, FlowMessage, LookupResult, MAX_CANDIDATES, MulticastCandidate, MulticastMessage, MulticastRequest,
    MulticastSuppression, Reason, ReflectionPolicy, Request, RequestMode, Route, ServiceRequest,
};
use roost_wire::{Area, Cell, NodeId, RequestId, Role, Scope};

use super::OutgoingRequests;
use super::discovery_policy::{self, DiscoveryMethod};
use super::outgoing_request::{OutgoingRequest, RequestPhase};
use super::search_methods::SearchMethods;
use crate::node::api::{Discovery, NodeEvent};
use crate::node::core::Core;
use crate::node::home::HomeRegistration;
use crate::node::timers::Timer;

/// The longest parameters of a request by multicast, bytes: its packet passes every path whole.
const MAX_PARAMS: usize = 400;

/// The limit of inquiries that nobody answers.
const ATTEMPTS: u8 = 3;

/// The longest time of an answer beyond the time within which providers answer: the way there and back on a
/// slow link. Doubled each time.
const PATIENCE: Duration = Duration::from_millis(250);

/// The longest time of a provider that says that it answers.
const TAKEN_PATIENCE: Duration = Duration::from_secs(2);

/// Whom a request asks first.
struct SearchPlan {
    hub: bool,
    link: bool,
    /// Set if that was a choice from which to learn.
    first: Option<DiscoveryMethod>,
}

impl SearchPlan {
    const HUB: Self = Self { hub: true, link: false, first: None };
    const LINK: Self = Self { hub: false, link: true, first: None };
}

impl OutgoingRequests {
    /// Why a request cannot go as far, or as near, as it is to; `None` if it can.
    pub(super) fn out_of_scope(&self, request: &ServiceRequest) -> Option<&'static str> {
        let connection_alone = self.multicast && self.discovery == Discovery::Multicast;
        match request.scope {
            Scope::Subnet if !self.multicast => {
                Some("this node does not use multicast, so it cannot search its subnet")
            }
            Scope::Subnet if request.mode == RequestMode::Relay => Some("without a hub nobody relays"),
            Scope::Home | Scope::Area if connection_alone => {
                Some("this node finds others by multicast alone and has no home")
            }
            Scope::Cell if matches!(request.area, Area::Rectangle { .. }) => Some("a rectangle is not one cell"),
            _ if connection_alone && request.mode == RequestMode::Relay => Some("without a hub nobody relays"),
            _ if (connection_alone || request.scope == Scope::Subnet) && request.params.len() > MAX_PARAMS => {
                Some("by multicast a request has at most 400 bytes of parameters")
            }
            _ => None,
        }
    }

    /// Begins to look for a provider.
    pub(super) fn begin_search(&mut self, core: &mut Core, attach: &HomeRegistration, id: RequestId) {
        let SearchPlan { hub, link, first } = self.plan(core, attach, id);
        let Some(asked) = self.asked.get_mut(&id) else { return };
        asked.ways = SearchMethods { hub, multicast: None, first };
        asked.phase = if hub { RequestPhase::NoHub } else { RequestPhase::Waiting };
        if hub {
            self.ask(core, attach, id);
        }
        if link {
            self.send_multicast_request(core, attach, id);
        }
    }

    fn plan(&mut self, core: &mut Core, attach: &HomeRegistration, id: RequestId) -> SearchPlan {
        let Some(asked) = self.asked.get(&id) else { return SearchPlan::HUB };
        let request = &asked.request;
        let hub_alone = asked.is_direct()
            || !self.multicast
            || core.hub_role == Role::Server
            || request.mode == RequestMode::Relay
            || asked.subscription.is_requested
            || request.params.len() > MAX_PARAMS
            || matches!(request.scope, Scope::Home | Scope::Area);
        match self.discovery {
            _ if request.scope == Scope::Subnet => SearchPlan::LINK,
            Discovery::Multicast if self.multicast && !asked.is_direct() => SearchPlan::LINK,
            _ if hub_alone => SearchPlan::HUB,
            // A complete answer is worth more than two.
            _ if request.mode == RequestMode::Lookup => SearchPlan::HUB,
            Discovery::SuperNode => SearchPlan::HUB,
            Discovery::Both => SearchPlan { link: true, ..SearchPlan::HUB },
            Discovery::Multicast | Discovery::Auto => {
                let quiet = core.multicast_load.is_quiet(core.now);
                let kind = discovery_policy::discovery_key(request.service, request.area);
                match self.judge.first(core.now, kind, attach.record().cell, quiet) {
                    first @ DiscoveryMethod::Multicast => SearchPlan { first: Some(first), ..SearchPlan::LINK },
                    first @ DiscoveryMethod::Hub => {
                        SearchPlan { hub: true, link: attach.home().is_none(), first: Some(first) }
                    }
                }
            }
        }
    }

    /// Asks the connection.
    fn send_multicast_request(&mut self, core: &mut Core, attach: &HomeRegistration, id: RequestId) {
        let Some(asked) = self.asked.get_mut(&id) else { return };
        let (area, transports) = (asked.request.area, asked.request.transports);
        let fits = |address: &&roost_wire::address::Address| transports.contains(address.scheme);
        let reply_to = attach.record().addresses.iter().filter(fits).cloned().collect();
        let route = Route { requester: core.node, reply_to, hop: None };
        let request = asked.wire_request(core, id);
        let spec = ServiceRequest { reflect: ReflectionPolicy::Never, ..ServiceRequest::clone(&request.spec) };
        let request = Request { spec: spec.into(), route: Some(route), copy_target: None, ..request };
        let inquiring = asked.ways.multicast.get_or_insert_default();
        let inquiry = MulticastRequest { request, attempt: inquiring.attempts };
        (inquiring.sent, inquiring.taken, inquiring.over) = (core.now, None, false);
        inquiring.window = core.multicast_load.window(core.now, area);
        let patience = inquiring.window + PATIENCE * (1 << inquiring.attempts.min(4));
        inquiring.attempts += 1;
        core.counters.multicast_requests += 1;
        core.multicast(MulticastMessage::MulticastRequest(inquiry));
        core.set(Timer::MulticastSearch(id), patience);
    }

    /// Nobody on the link has answered in time, or who said to answer has not.
    pub(crate) fn on_multicast_search_timer(&mut self, core: &mut Core, attach: &HomeRegistration, id: RequestId) {
        let Some(asked) = self.asked.get_mut(&id).filter(|asked| !matches!(asked.phase, RequestPhase::Receiving(_)))
        else {
            return;
        };
        let hub_next = asked.ways.first == Some(DiscoveryMethod::Multicast) && !asked.ways.hub && asked.last.is_none();
        let Some(inquiring) = asked.ways.multicast.as_mut() else { return };
        let answered = !inquiring.present.is_empty();
        if inquiring.attempts < ATTEMPTS && !answered {
            self.send_multicast_request(core, attach, id);
        } else {
            inquiring.over = true;
        }
        if hub_next {
            // Loss or nobody: the hub is asked as well.
            self.turn_to_hub(core, attach, id);
        }
        self.conclude_multicast_search(core, attach, id);
    }

    fn turn_to_hub(&mut self, core: &mut Core, attach: &HomeRegistration, id: RequestId) {
        if let Some(asked) = self.asked.get_mut(&id) {
            asked.ways.hub = true;
            self.ask(core, attach, id);
        }
    }

    /// If nobody on the link will answer any more and no hub is asked, the
    /// request has its final answer.
    fn conclude_multicast_search(&mut self, core: &mut Core, attach: &HomeRegistration, id: RequestId) {
        let Some(asked) = self.asked.get_mut(&id) else { return };
        if asked.ways.is_inquiring() {
            return;
        }
        if asked.request.mode == RequestMode::Lookup {
            return self.list(core, id, attach.record().cell);
        }
        core.counters.missed_by_multicast += 1;
        if asked.ways.hub {
            return;
        }
        match asked.last {
            Some(reason) if asked.may_be_premature(core, reason) => {
                let id = self.renumber(core, id);
                if let Some(asked) = self.asked.get_mut(&id) {
                    asked.ways = SearchMethods { hub: true, ..SearchMethods::default() };
                }
                self.ask(core, attach, id);
            }
            last => self.fail(core, id, last.unwrap_or(Reason::NotFound)),
        }
    }

    /// Answers a lookup with those on the link who said to be there.
    fn list(&mut self, core: &mut Core, id: RequestId, here: Cell) {
        let Some(mut asked) = self.remove(core, id) else { return };
        let mut candidates = asked.ways.multicast.take().unwrap_or_default().present;
        let center = asked.request.area.center().unwrap_or(here);
        candidates.sort_by_key(|candidate| (center.distance_squared(candidate.cell), candidate.node));
        let most = if asked.request.count == 0 { MAX_CANDIDATES } else { usize::from(asked.request.count) };
        candidates.truncate(most);
        // A node that is not on this link, or was not heard, is missing.
        let found = LookupResult { id, candidates, coverage: Coverage::Partial, has_omissions: None, has_losses: None };
        core.emit(NodeEvent::LookupResult { ticket: asked.ticket, found });
    }

    /// A provider says that it answers.
    pub(crate) fn on_multicast_suppression(&mut self, core: &mut Core, taken: MulticastSuppression) {
        if taken.requester != core.node || taken.sender == core.node {
            return;
        }
        let open = |asked: &&mut OutgoingRequest| !matches!(asked.phase, RequestPhase::Receiving(_));
        let Some(asked) = self.asked.get_mut(&taken.id).filter(open) else { return };
        let Some(inquiring) = asked.ways.multicast.as_mut() else { return };
        if inquiring.taken.is_none() && taken.attempt < inquiring.attempts {
            inquiring.taken = Some(taken.sender);
            inquiring.over = false;
            core.set(Timer::MulticastSearch(taken.id), TAKEN_PATIENCE);
        }
    }

    /// Somebody is there.
    pub(crate) fn on_multicast_candidate(&mut self, core: &Core, present: MulticastCandidate) {
        let MulticastCandidate { requester, id, candidate } = present;
        let Some(asked) = self.asked.get_mut(&id).filter(|_| requester == core.node) else { return };
        let fits = candidate.services.has(asked.request.service, &asked.request.filter)
            && asked.request.area.contains(candidate.cell);
        let Some(inquiring) =
            asked.ways.multicast.as_mut().filter(|_| fits && asked.request.mode == RequestMode::Lookup)
        else {
            return;
        };
        let known = inquiring.present.iter().any(|other| other.node == candidate.node);
        if !known && inquiring.present.len() < MAX_CANDIDATES {
            inquiring.present.push(candidate);
        }
    }

    /// The hub has nobody: the connection may still. Returns whether the request goes on there.
    pub(super) fn continue_by_multicast(
        &mut self,
        core: &mut Core,
        attach: &HomeRegistration,
        id: RequestId,
        reason: Reason,
    ) -> bool {
        let Some(asked) = self.asked.get_mut(&id) else { return false };
        let nobody = matches!(reason, Reason::NotFound | Reason::NotYetKnown | Reason::Unreachable);
        let untried = asked.ways.first == Some(DiscoveryMethod::Hub) && asked.ways.multicast.is_none() && nobody;
        if !asked.ways.is_inquiring() && !untried {
            return false;
        }
        asked.ways.hub = false;
        asked.last = Some(reason);
        asked.phase = RequestPhase::Waiting;
        core.timers.clear(Timer::Ask(id));
        if untried {
            self.send_multicast_request(core, attach, id);
        }
        true
    }

    /// `provider` has accepted: whoever else is asked need not go on.
    pub(super) fn end_search(&mut self, core: &mut Core, id: RequestId, provider: NodeId, relayed: bool) {
        core.timers.clear(Timer::MulticastSearch(id));
        let Some(asked) = self.asked.get_mut(&id) else { return };
        let took = core.now.since(asked.commanded);
        if let Some(first) = asked.ways.first {
            let kind = discovery_policy::discovery_key(asked.request.service, asked.request.area);
            self.judge.learn(core.now, kind, first, took);
        }
        let Some(inquiring) = asked.ways.multicast.as_mut() else { return };
        let on_link = !relayed && (inquiring.taken == Some(provider) || !asked.ways.hub);
        inquiring.over = true;
        if on_link {
            core.counters.found_by_multicast += 1;
        }
        if core.now < inquiring.sent + inquiring.window {
            let (requester, attempt) = (core.node, inquiring.attempts.saturating_sub(1));
            core.multicast(MulticastMessage::MulticastSuppression(MulticastSuppression {
                requester,
                id,
                attempt,
                sender: requester,
            }));
        }
        let hubs = [asked.via, asked.hedge].into_iter().flatten().filter(|_| on_link && asked.ways.hub);
        for hub in hubs.collect::<Vec<_>>() {
            core.send(hub, FlowMessage::Stop { id, reason: Reason::Cancelled });
        }
    }
}
