//! Handing a request to one provider or hub, and again if the requester repeats it.

use std::time::Duration;

use roost_wire::messages::{HopAction, HubHop, ProbeMessage, Reason, Request, RequestMessage, Route};
use roost_wire::{Address, Channel, ConnectionId, NodeId, RequestId, SchemeSet};

use super::routed_request::{RequestStage, RequestTarget, RoutedRequest};
use crate::hub::RequestOutcome;
use crate::hub::core::HubCore;
use crate::hub::dialable::DialAttempt;
use crate::hub::provider_event::ProviderEvent;
use crate::hub::relay::{RelayEnd, RelaySubject};
use crate::hub::requests::{RequestTurn, Requests};
use crate::hub::route::HOPS;
use crate::machine::Traffic;
use crate::request_key::RequestKey;

/// The least time between two repetitions that go on to another hub. The
/// requester, who knows the way to its home only, repeats more often than a
/// long way lasts.
pub(super) const REPEAT_PAUSE: Duration = Duration::from_millis(250);

/// The times that a call is put to its provider again before another one gets it: an answer may be lost, and to run it
/// twice is worse than to wait.
const CALL_REPEATS: u8 = 2;

/// The way of an answer to its requester.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AnswerWay {
    /// The provider dials the requester, if it can.
    Direct,
    Relayed,
}

impl Requests {
    /// Suspends a provider until it speaks, and has it speak if it lives.
    fn suspend_silent(&mut self, core: &mut HubCore, node: NodeId) {
        core.counters.suspensions += 1;
        self.note_provider(node, ProviderEvent::Suspended);
        if let Some(connection) = core.connection_to(node) {
            let ping = ProbeMessage::Ping(0);
            core.send(connection, Channel::Datagram, Traffic::Renew, ping);
        }
    }

    /// Hands the request to one provider or hub, or starts to dial it.
    pub(super) fn hand(
        &mut self,
        turn: &mut RequestTurn<'_>,
        key: RequestKey,
        choice: RequestTarget,
        way: AnswerWay,
    ) -> Result<(), Reason> {
        let reply_to = self.addresses_for_answer(turn, key, choice, way)?;
        if self.is_forbidden(turn, key, choice, reply_to.is_empty()) {
            return Err(Reason::Forbidden);
        }
        let asked = self.table.get(key).ok_or(Reason::Cancelled)?;
        let (is_relayed, allowed) = (reply_to.is_empty(), asked.transports());
        let wanted = if is_relayed && choice.node().is_some() { allowed } else { SchemeSet::ALL };
        let Some(connection) = turn.core.remotes.best_connection(choice.remote(), wanted) else {
            return self.dial_for(turn, key, choice, allowed);
        };
        let relay = match is_relayed {
            true => {
                let provider = RelayEnd { node: choice.remote(), connection };
                let (service, terms) = (asked.spec.service, asked.spec.delivery_preferences());
                let place = self.cell_of(turn, key, choice.provider());
                let subject = RelaySubject { service, action: asked.relayed_action(), place, terms };
                Some(self.relays.open_relay(turn.core, key, asked.connection, provider, subject)?)
            }
            false => {
                self.grant_copy(turn, key, choice)?;
                None
            }
        };
        self.count_handed(turn.core, key, choice);
        self.send_on(turn.core, key, connection, choice, relay, reply_to);
        let (sent, hop_due) = (turn.core.now, turn.core.hop_due(connection, choice));
        let (repeats, accepted) = (0, false);
        self.table.set_stage(key, RequestStage::Handed { to: choice, relay, sent, repeats, accepted, hop_due });
        if relay.is_none() {
            self.tell_grant(turn, key);
            choice.node().into_iter().for_each(|node| self.tell_provider(turn.core, key, node));
            choice.provider().into_iter().for_each(|provider| self.hand_keys(turn.core, key, provider));
        }
        self.report_handed(turn.core, key, choice);
        Ok(())
    }

    /// Addresses of the requester to which the provider may answer; none if the hub relays the answer.
    fn addresses_for_answer(
        &mut self,
        turn: &mut RequestTurn<'_>,
        key: RequestKey,
        choice: RequestTarget,
        way: AnswerWay,
    ) -> Result<Vec<Address>, Reason> {
        let is_dialled = self.table.get(key).is_some_and(|asked| asked.is_dialled);
        let reply_to = match way {
            // The requester's home relays it, if anybody does.
            AnswerWay::Direct if is_dialled => return Err(Reason::NoTransport),
            AnswerWay::Direct => self.reply_to(turn, key, choice, DialAttempt::First),
            AnswerWay::Relayed => Vec::new(),
        };
        let asked = self.table.get(key).ok_or(Reason::Cancelled)?;
        let is_other_homes = asked.named_requester().is_some();
        // Hubs may use any transport among themselves.
        let can_relay = asked.is_from_hub() || turn.core.remotes.uses(asked.connection, asked.transports());
        if reply_to.is_empty() && (is_other_homes || !can_relay) {
            return Err(Reason::NoTransport);
        }
        Ok(reply_to)
    }

    /// A provider is asked, or another hub.
    fn count_handed(&mut self, core: &mut HubCore, key: RequestKey, choice: RequestTarget) {
        let Some(asked) = self.table.get(key) else { return };
        let (service, is_call) = (asked.spec.service, asked.is_connect());
        if !asked.is_from_hub() {
            core.counters.count_outcome(service, asked.mode, RequestOutcome::Handed);
        }
        match choice {
            RequestTarget::Node(node) => {
                if !is_call && !self.joins_reflected(key, node) {
                    self.note_provider(node, ProviderEvent::Asked(service));
                }
                core.counters.forwards += 1;
            }
            RequestTarget::Hub { .. } => core.counters.requests_routed += 1,
        }
    }

    /// A try was in vain: goes on to the next one.
    pub(crate) fn try_next(&mut self, turn: &mut RequestTurn<'_>, key: RequestKey, reason: Reason) {
        self.record_reason(key, reason);
        self.advance(turn, key);
    }

    /// Addresses at which the provider can answer over a transport that the request allows.
    pub(super) fn reply_to(
        &mut self,
        turn: &mut RequestTurn<'_>,
        key: RequestKey,
        to: RequestTarget,
        attempt: DialAttempt,
    ) -> Vec<Address> {
        let Some(asked) = self.table.get(key) else { return Vec::new() };
        let (allowed, requester, is_own) = (asked.transports(), asked.requester, !asked.is_from_hub());
        let seen_over = asked.connection;
        let mut addresses = match is_own {
            // The hub before has chosen among them.
            false => asked.reply_to.clone(),
            true => turn.view.records.get(requester).map_or(Vec::new(), |entry| entry.addresses()),
        };
        if is_own {
            turn.core.add_seen(seen_over, &mut addresses);
        }
        addresses.retain(|address| allowed.contains(address.scheme));
        if is_own {
            addresses = turn.core.dialable(requester, &addresses, attempt);
        }
        match turn.core.remotes.best_connection(to.remote(), SchemeSet::ALL) {
            Some(connection) => turn.core.shareable(connection, addresses),
            None => addresses,
        }
    }

    pub(super) fn send_on(
        &mut self,
        core: &mut HubCore,
        key: RequestKey,
        connection: ConnectionId,
        to: RequestTarget,
        relay: Option<RequestId>,
        reply_to: Vec<Address>,
    ) {
        let now = core.now;
        let Some(asked) = self.table.get(key) else { return };
        let left = asked.until.since(now).as_millis();
        let deadline_ms = u32::try_from(left).unwrap_or(u32::MAX);
        let id = relay.unwrap_or(key.id);
        let hop = match to {
            RequestTarget::Node(_) => None,
            RequestTarget::Hub { way, named, .. } => {
                let hops = asked.route_constraints.map_or(HOPS, |carried| carried.hops);
                let Some(cell) = named.map(|(_, cell)| cell).or(asked.cell) else { return };
                let provider = named.map(|(node, _)| node).or(asked.named_provider());
                Some(HubHop { cell, direction: way, hops_left: hops.saturating_sub(1), provider })
            }
        };
        let message = RequestMessage::Request(Request {
            id,
            nonce: asked.nonce,
            spec: asked.spec.clone(),
            deadline_ms,
            route: Some(Route { requester: asked.requester, reply_to, hop }),
            copy_target: core.copy_onward(asked, relay.is_some()),
            connect_to: asked.connect_to,
        });
        core.send_answer(connection, message);
    }

    /// The provider has no connection of a wanted transport: dials it, if its record
    /// has an address for one and the request is to be relayed.
    pub(super) fn dial_for(
        &mut self,
        turn: &mut RequestTurn<'_>,
        key: RequestKey,
        choice: RequestTarget,
        allowed: SchemeSet,
    ) -> Result<(), Reason> {
        let node = choice.node().filter(|node| turn.core.remotes.is_up(*node)).ok_or(Reason::Unreachable)?;
        let mut addresses = turn.view.records.get(node).map_or(Vec::new(), |entry| entry.addresses());
        addresses.retain(|address| allowed.contains(address.scheme));
        let addresses = turn.core.dialable(node, &addresses, DialAttempt::First);
        if addresses.is_empty() || !turn.core.dial_provider(node, allowed, addresses, key) {
            return Err(Reason::NoTransport);
        }
        self.table.set_stage(key, RequestStage::Dialling(choice));
        Ok(())
    }

    /// The dial that the request waited for has ended.
    pub(crate) fn dialled_for(&mut self, turn: &mut RequestTurn<'_>, key: RequestKey, node: NodeId, reached: bool) {
        let Some(RoutedRequest { stage: RequestStage::Dialling(choice), .. }) = self.table.get(key) else { return };
        let choice = *choice;
        if choice.node() != Some(node) {
            return;
        }
        let handed = if reached { self.hand(turn, key, choice, AnswerWay::Relayed) } else { Err(Reason::NoTransport) };
        if let Err(reason) = handed {
            self.record_reason(key, reason);
            self.advance(turn, key);
        }
    }

    /// The remote asks again: it has heard nothing, or not everything.
    pub(crate) fn repeat(&mut self, turn: &mut RequestTurn<'_>, key: RequestKey, connection: ConnectionId) {
        let now = turn.core.now;
        let Some(asked) = self.table.get_mut(key) else { return };
        asked.connection = connection;
        match &mut asked.stage {
            RequestStage::LookingUp | RequestStage::Dialling(_) => {}
            RequestStage::Held { .. } => self.retry_held(turn, key),
            RequestStage::Declined { .. } => self.send_refusal(turn.core, key),
            RequestStage::Handed { to, relay, sent, accepted, .. } if to.node().is_none() => {
                let (to, relay, sent, accepted) = (*to, *relay, *sent, *accepted);
                if now >= sent + REPEAT_PAUSE && !accepted {
                    self.resend_to_hub(turn, key, to, relay);
                }
            }
            RequestStage::Handed { to, relay, sent, repeats, accepted, .. } => {
                let (to, relay) = (*to, *relay);
                let Some(way) = turn.core.remotes.best_connection(to.remote(), SchemeSet::ALL) else {
                    return self.give_up(turn, key, to, relay, Reason::Unreachable);
                };
                let may_still_answer = *repeats > 0 && now < *sent + turn.core.remotes.answer_timeout(way);
                if may_still_answer {
                    return;
                }
                let is_call = asked.spec.service.is_call();
                // At the first repetition another one serves, if there is one. A call may be running.
                let is_late = now >= *sent + turn.core.remotes.answer_timeout(way) && !asked.choices.is_empty();
                let is_silent = if is_call { *repeats >= CALL_REPEATS } else { *repeats > 0 || is_late };
                if is_silent && !*accepted {
                    return self.give_up(turn, key, to, relay, Reason::Unreachable);
                }
                (*sent, *repeats) = (now, repeats.saturating_add(1));
                turn.core.counters.repeats += 1;
                self.hand_again(turn, key, way, to, relay);
            }
        }
    }

    pub(super) fn hand_again(
        &mut self,
        turn: &mut RequestTurn<'_>,
        key: RequestKey,
        connection: ConnectionId,
        to: RequestTarget,
        relay: Option<RequestId>,
    ) {
        let now = turn.core.now;
        let reply_to = if relay.is_some() { Vec::new() } else { self.reply_to(turn, key, to, DialAttempt::Again) };
        if relay.is_none() && reply_to.is_empty() {
            // Nothing can be dialled any more.
            if let Err(reason) = self.hand(turn, key, to, AnswerWay::Relayed) {
                self.record_reason(key, reason);
                self.advance(turn, key);
            }
            return;
        }
        if let Some(relay) = relay {
            self.relays.renew(now, relay);
        }
        let connection = relay.and_then(|relay| self.relays.provider_connection(relay)).unwrap_or(connection);
        self.send_on(turn.core, key, connection, to, relay, reply_to);
        if relay.is_none() {
            self.tell_grant(turn, key);
            to.provider().into_iter().for_each(|provider| self.hand_keys(turn.core, key, provider));
        }
    }

    /// The provider is silent: goes on to the next, and holds it back if it was asked twice.
    pub(super) fn give_up(
        &mut self,
        turn: &mut RequestTurn<'_>,
        key: RequestKey,
        to: RequestTarget,
        relay: Option<RequestId>,
        reason: Reason,
    ) {
        let once = self.table.get(key).is_some_and(|asked| {
            matches!(asked.stage, RequestStage::Handed { repeats: 0, .. }) && turn.core.remotes.is_up(to.remote())
        });
        // A single silence may be loss: the provider goes behind the others, and stays listed.
        if let Some(node) = to.node().filter(|_| !once) {
            self.suspend_silent(turn.core, node);
        }
        self.note_failure(turn.core, to);
        self.report(turn.core, key, HopAction::TimedOut, to.remote(), Some(reason));
        if let Some(relay) = relay {
            self.relays.end_relay(turn.core, relay, None, Some(Reason::Cancelled));
        }
        self.record_reason(key, reason);
        self.advance(turn, key);
    }

    /// The flow's provider is gone before it accepted.
    pub(crate) fn provider_lost(&mut self, turn: &mut RequestTurn<'_>, key: RequestKey, relay: RequestId) {
        if self.table.get(key).and_then(RoutedRequest::relay) == Some(relay) {
            self.record_reason(key, Reason::Unreachable);
            self.advance(turn, key);
        }
    }
}
