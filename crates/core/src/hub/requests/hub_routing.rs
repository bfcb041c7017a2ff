//! Requests that other hubs pass on, and hubs that go.

use roost_wire::messages::{Decline, HubHop, Reason, RequestMessage, RouteDirection};
use roost_wire::{Area, NodeId, RequestId, Scope};

use super::DEFAULT_CONSIDERED;
use super::handoff::REPEAT_PAUSE;
use super::routed_request::{PassedRequest, RequestStage, RequestTarget, RoutedRequest};
use crate::directory::{DirectoryEntry, DirectoryQuery, SearchPurpose};
use crate::hub::core::HubCore;
use crate::hub::relation::Relation;
use crate::hub::requests::{RequestTurn, Requests};
use crate::hub::route::RoutePlan;
use crate::hub::sender::Sender;
use crate::request_key::RequestKey;

impl Requests {
    /// Another hub passes a request on to this one.
    pub(crate) fn handle_passed_request(
        &mut self,
        turn: &mut RequestTurn<'_>,
        from: Sender,
        mut passed: PassedRequest,
    ) {
        let (id, hop, relay) = (passed.request.id, passed.hop, passed.reply_to.is_empty());
        passed.reply_to = turn.core.told_by_hub(from.connection, passed.reply_to);
        let key = RequestKey { requester: if relay { from.node } else { passed.requester }, id };
        let requester = (!relay).then_some(passed.requester);
        let taken = RequestMessage::RequestAck { id, requester, provider: None };
        let decline = |reason| RequestMessage::Decline(Decline { requester, ..Decline::new(id, reason) });
        if !turn.is_valid_target(from, &passed.request, hop) {
            return turn.core.send_answer(from.connection, decline(Reason::NotAllowed));
        }
        if self.serve_overflow_hub(turn, from, key, &passed.request) {
            return;
        }
        if self.table.get(key).is_some_and(|asked| asked.is_same(&passed)) {
            return self.handle_passed_duplicate(turn, from, key, &passed, taken);
        }
        if let Some(reason) = self.passed_objection(turn, from, key, requester, &passed) {
            return turn.core.send_answer(from.connection, decline(reason));
        }
        turn.core.send_answer(from.connection, taken);
        self.begin_passed(turn, key, from, passed);
    }

    /// The reason for which a request that another hub passes on is declined; `requester` is whom the provider is
    /// to answer directly.
    fn passed_objection(
        &mut self,
        turn: &mut RequestTurn<'_>,
        from: Sender,
        key: RequestKey,
        requester: Option<NodeId>,
        PassedRequest { request, reply_to, hop, .. }: &PassedRequest,
    ) -> Option<Reason> {
        let is_known = hop.direction == RouteDirection::Overflow
            && self.table.get(key).is_some_and(|asked| asked.nonce == request.nonce);
        let connected = hop.provider.is_some_and(|provider| turn.core.remotes.is_up(provider));
        let is_child = matches!(turn.core.relation(from.node), Some(Relation::Child(_)));
        if turn.core.leaving.is_some() && !connected {
            Some(Reason::Leaving)
        } else if requester.is_some() && reply_to.is_empty() {
            Some(Reason::NoTransport)
        } else if hop.direction == RouteDirection::Up && !is_child {
            // The hub has not enrolled, or its message has not arrived yet.
            Some(Reason::Unreachable)
        } else if is_known {
            // A hub that could not do it is not to do it for another one.
            Some(Reason::NotFound)
        } else {
            (!self.admit(turn.core, from.node, &request.spec)).then_some(Reason::TooMany)
        }
    }

    fn begin_passed(&mut self, turn: &mut RequestTurn<'_>, key: RequestKey, from: Sender, passed: PassedRequest) {
        let now = turn.core.now;
        let (service, requester) = (passed.request.spec.service, passed.requester);
        let filter = passed.request.spec.filter.clone();
        let HubHop { cell, provider, .. } = passed.hop;
        self.remember(turn.core, key, from, RoutedRequest::by_hub(now, from, passed));
        match provider {
            None => {
                let (area, count) = (Area::Exact(cell), DEFAULT_CONSIDERED);
                let (origin, except) = (cell, Some(requester));
                let query = DirectoryQuery::new(service, area, SearchPurpose::Serve, count);
                let query = DirectoryQuery { filter, origin, except, ..query };
                self.choose_or_lookup(turn, key, area, Scope::Anywhere, query);
            }
            Some(provider) if self.table.get(key).is_some_and(RoutedRequest::is_overflow_here) => {
                let named = Some((provider, cell));
                let back = RequestTarget::Hub { hub: from.node, way: RouteDirection::Down, named, silences: 0 };
                if let Some(asked) = self.table.get_mut(key) {
                    (asked.climbed, asked.choices) = (true, [back].into());
                }
                self.advance(turn, key);
            }
            Some(provider) => self.choose_named(turn, key, provider),
        }
    }

    /// Only one provider is meant: it is here, where it went, or sought.
    pub(crate) fn choose_named(&mut self, turn: &mut RequestTurn<'_>, key: RequestKey, provider: NodeId) {
        let Some(asked) = self.table.get(key) else { return };
        let (service, cell, is_carried, requester) =
            (asked.spec.service, asked.cell, asked.is_from_hub(), asked.remote);
        // A node that is connected knows best what it offers, wherever its record is by now.
        let (connected, held) = (turn.core.remotes.is_up(provider), turn.view.records.get(provider));
        // A call is for the node, whatever that offers.
        let offers = |entry: DirectoryEntry<'_>| asked.is_connect() || entry.services().contains(service);
        let offered = held.map_or(connected, offers);
        let moved = turn.view.records.moved_to(turn.core, provider).filter(|hub| *hub != requester);
        if !offered && moved.is_none() && turn.view.records.has_moved(turn.core, provider) {
            // The node is found elsewhere in a moment: for another hub as if this one were leaving.
            let reason = if is_carried { Reason::Leaving } else { Reason::Unreachable };
            return self.decline(turn.core, key, reason);
        }
        let there = |hub| RequestTarget::Hub {
            hub,
            way: RouteDirection::Down,
            named: cell.map(|cell| (provider, cell)),
            silences: 0,
        };
        // Of one copy for all, its home is asked first: this hub may be about to stand by for it.
        let elsewhere = offered && held.is_none() && asked.is_reflected() && !is_carried && cell.is_some();
        let choice = if offered { Some(self.choice(turn, key, provider)) } else { moved.map(there) };
        if let Some(asked) = self.table.get_mut(key).filter(|asked| asked.may_go_on() || offered) {
            // A node that is here is nowhere else.
            asked.climbed = offered && !elsewhere;
            let choices = if elsewhere { None } else { choice };
            asked.choices.extend(choices);
            asked.rest.extend(choice.filter(|_| elsewhere));
        }
        self.advance(turn, key);
    }

    /// The hub has this request already, from the same remote or along
    /// another way.
    fn handle_passed_duplicate(
        &mut self,
        turn: &mut RequestTurn<'_>,
        from: Sender,
        key: RequestKey,
        passed: &PassedRequest,
        taken: RequestMessage,
    ) {
        let now = turn.core.now;
        let Some(asked) = self.table.get(key) else { return };
        let (same, of_node) = (asked.remote == from.node, !asked.is_from_hub());
        let refused = matches!(asked.stage, RequestStage::Declined { .. });
        // A second hub's copy of what has just gone on says nothing new; later it
        // is the requester's repetition, whichever way it has come.
        let is_copy = matches!(asked.stage, RequestStage::Handed { sent, .. } if !same && now < sent + REPEAT_PAUSE);
        let has_gone_round = asked.is_back_from(from.node) && passed.hop.direction != RouteDirection::Overflow
            || !same && asked.is_beyond() && (of_node || passed.hop.direction != RouteDirection::Up);
        if has_gone_round || refused && of_node {
            // The request has gone round, or a second hub of the requester's asks here: what this hub has for
            // it, it has found already.
            return refuse_duplicate(turn.core, from, key, Reason::NotFound);
        }
        if !same && !of_node && !self.admit_of(turn.core, from.node) {
            return refuse_duplicate(turn.core, from, key, Reason::TooMany);
        }
        if !refused {
            turn.core.send_answer(from.connection, taken);
        }
        if !same && !of_node {
            self.change_requesting_hub(turn.core, key, from);
            self.grant_again(key, passed.request.copy_target);
        }
        if !is_copy && !of_node {
            self.repeat(turn, key, from.connection);
        }
    }

    /// A second hub passes the same request on: the one who asked last is the
    /// one who waits for a refusal.
    fn change_requesting_hub(&mut self, core: &mut HubCore, key: RequestKey, from: Sender) {
        let Some(asked) = self.table.get_mut(key) else { return };
        let before = std::mem::replace(&mut asked.remote, from.node);
        asked.connection = from.connection;
        asked.route_plan = asked.route_plan.map(|plan| RoutePlan { from: Some(from.node), ..plan });
        if let Some(before) = core.remotes.get_mut(before)
            && let Some(place) = before.requests.iter().rposition(|other| *other == key)
        {
            before.requests.remove(place);
        }
        if let Some(remote) = core.remotes.get_mut(from.node) {
            remote.requests.push_back(key);
        }
    }

    /// A hub says that it has a request, or which provider has it.
    pub(crate) fn handle_request_ack(
        &mut self,
        turn: &mut RequestTurn<'_>,
        from: Sender,
        id: RequestId,
        requester: Option<NodeId>,
        provider: Option<NodeId>,
    ) -> bool {
        match self.handed_to(from, id, requester) {
            Some((key, to)) => {
                self.time_hop(turn.core, from, key);
                self.end_hop_wait(key);
                if let Some(provider) = provider {
                    self.found_provider(turn, key, provider);
                    self.tell_provider(turn.core, key, provider);
                    if to.provider().is_none() {
                        self.hand_keys(turn.core, key, provider);
                    }
                }
            }
            None => return false,
        }
        true
    }

    /// Tells the hub that has passed on a request for a reflected stream which
    /// provider has it.
    pub(crate) fn tell_provider(&mut self, core: &mut HubCore, key: RequestKey, provider: NodeId) {
        let Some(asked) = self.table.get(key).filter(|asked| asked.is_from_hub() && asked.is_reflected()) else {
            return;
        };
        let (connection, requester) = (asked.connection, asked.named_requester());
        let found = RequestMessage::RequestAck { id: key.id, requester, provider: Some(provider) };
        core.send_answer(connection, found);
    }

    /// A hub's last connection is gone. Success is silent, so what it has taken is
    /// most likely served, or else the requester asks again; what it has not
    /// confirmed goes on at once.
    pub(crate) fn requests_lost_hub(&mut self, turn: &mut RequestTurn<'_>, gone: NodeId) {
        let unconfirmed = self.table.hops.iter().filter_map(|(_, key)| match self.table.get(*key)?.stage {
            RequestStage::Handed { to: RequestTarget::Hub { hub, way, .. }, .. } if hub == gone => Some((*key, way)),
            _ => None,
        });
        for (key, way) in unconfirmed.collect::<Vec<_>>() {
            self.record_reason(key, Reason::for_silence(way));
            self.advance(turn, key);
        }
    }
}

/// Declines what a second hub passes on of a request that is here already.
fn refuse_duplicate(core: &mut HubCore, from: Sender, key: RequestKey, reason: Reason) {
    let decline = Decline { requester: Some(key.requester), ..Decline::new(key.id, reason) };
    core.send_answer(from.connection, RequestMessage::Decline(decline));
}
