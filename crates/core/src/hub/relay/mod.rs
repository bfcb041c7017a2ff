//! Flows through the hub: a table that translates ids, as a NAT does ports.
//!
//! Towards the provider's side the hub chooses an id of its own; towards the
//! requester's side the id is the requester's. Only the id of a message is
//! rewritten, the rest passes as it is.

mod credit;
mod exchange;
mod header;
mod table;
#[cfg(test)]
mod tests;

use std::time::Duration;

use bytes::Bytes;

use self::credit::Credit;
use self::exchange::DuplexCredit;
use self::header::{Header, Side, is_whole, kind, with_id};
use self::table::{IDLE, Relay, RelayVerdict, RelayedMessage};
pub(super) use self::table::{RelayNotice, Relays};
use super::sender::Sender;
use super::timers::MAX_PER_WAKE;
use super::{HubEvent, HubLimit};
use crate::hub::action::subject_of;
use crate::hub::core::HubCore;
use crate::machine::{Traffic, Transmit};
use crate::request_key::RequestKey;
use roost_policy::Action;
use roost_wire::messages::{FlowMessage, Message, Reason};
use roost_wire::{Cell, Channel, ConnectionId, DeliveryPreferences, NodeId, RequestId, Role, SchemeSet, Service};

/// The most bytes of a report, or of the message that ends a flow. A later version may say more in them than
/// this one reads.
const MAX_REPORT_BYTES: usize = 256;

/// Shortest time that a flow is kept after its end, for what is still on its way.
const LINGER: Duration = Duration::from_secs(5);

/// A remote at the end of a flow, and the connection that leads there.
#[derive(Clone, Copy, Debug)]
pub(super) struct RelayEnd {
    pub(super) node: NodeId,
    pub(super) connection: ConnectionId,
}

/// The subject of a flow, and the action of the requester for which the group's policy is asked.
#[derive(Clone, Copy, Debug)]
pub(super) struct RelaySubject {
    pub(super) service: Service,
    pub(super) action: Action,
    pub(super) place: Option<Cell>,
    pub(super) terms: DeliveryPreferences,
}

impl Relays {
    /// Opens a flow between two remotes, each with its connection, and gives the
    /// id by which the provider's side knows it.
    pub(super) fn open_relay(
        &mut self,
        core: &mut HubCore,
        key: RequestKey,
        requester_connection: ConnectionId,
        provider: RelayEnd,
        subject: RelaySubject,
    ) -> Result<RequestId, Reason> {
        let now = core.now;
        let (total, limits) = (self.len(), &core.config.limits);
        let remote = core.remotes.get_mut(key.requester).ok_or(Reason::Unreachable)?;
        let is_full = total >= limits.relays;
        if is_full || remote.relays >= remote.allowance(limits.relays_per_node) {
            core.over_limit(key.requester, if is_full { HubLimit::Relays } else { HubLimit::RelaysPerNode });
            return Err(Reason::TooMany);
        }
        remote.relays += 1;
        if let Some(before) = self.by_requester.get(&key).copied() {
            self.end_relay(core, before, None, Some(Reason::Cancelled));
        }
        let id = self.next_id(core.config.node, provider.node);
        let trip = |connection| {
            core.remotes.connections.get(&connection).map_or(Duration::ZERO, |connection| connection.rtt.pto())
        };
        let linger = LINGER.max(trip(requester_connection) + trip(provider.connection));
        let RelaySubject { service, action, place, terms } = subject;
        let relay = Relay {
            key,
            requester_connection,
            provider: provider.node,
            provider_connection: provider.connection,
            service,
            action,
            place,
            terms,
            accepted: false,
            ended: false,
            heard: now,
            linger,
            listed: now + IDLE,
            credit: Credit::default(),
            exchange: DuplexCredit::default(),
        };
        self.insert(id, relay);
        core.counters.relays += 1;
        Ok(id)
    }

    /// Passes a data message on if it belongs to a relayed flow. False if it
    /// is for the rest of the hub to read.
    pub(super) fn relay_data(&mut self, core: &mut HubCore, from: Sender, bytes: &Bytes) -> bool {
        let now = core.now;
        let Some(header) = Header::read(bytes) else { return false };
        let Some((id, side)) = self.find_flow(from.node, header.id) else { return false };
        let stops = header.kind == kind::STOP;
        let is_sound = match header.kind {
            kind::REPORT | kind::STOP => bytes.len() <= MAX_REPORT_BYTES && Message::decode(bytes).is_ok(),
            _ => is_whole(bytes),
        };
        if !header.may_come_from(side) || !is_sound {
            core.counters.malformed += 1;
            return true;
        }
        if stops && side == Side::Provider && !self.is_accepted(id) {
            // Nothing was promised yet: another provider may serve.
            self.lose_provider(core, id);
            return true;
        }
        let relayed = RelayedMessage { id, side, connection: from.connection, kind: header.kind, message: bytes };
        match self.pass(now, relayed) {
            RelayVerdict::Open { connection, channel, delivery, id } => {
                let (delivery, message) = (delivery.on_channel(channel), with_id(bytes, &header, id));
                core.counters.relayed_messages += 1;
                core.counters.relayed_bytes += message.len() as u64;
                let traffic = Traffic::Payload;
                core.out.push_back(Transmit::Message { connection, channel, delivery, traffic, message });
            }
            RelayVerdict::Closed => return true,
            RelayVerdict::Overrun => {
                self.overrun(core, id, side);
                return true;
            }
        }
        if stops {
            self.end_relay(core, id, None, None);
            if side == Side::Requester {
                self.push_notice(RelayNotice::Stopped(RequestKey { requester: from.node, id: header.id }));
            }
        }
        true
    }

    /// The provider accepts once more than an honest one does.
    pub(super) fn accepts_too_much(&mut self, core: &mut HubCore, id: RequestId) {
        self.overrun(core, id, Side::Provider);
    }

    /// Ends a flow of which one side has sent beyond all credit. Others are asked before a provider that did: it
    /// has filled the connection of the other side, which is not to blame.
    fn overrun(&mut self, core: &mut HubCore, id: RequestId, side: Side) {
        let Some(relay) = self.table.get(&id) else { return };
        let (requester, provider) = (relay.key.requester, relay.provider);
        core.counters.overruns += 1;
        let node = match side {
            Side::Requester => requester,
            Side::Provider => provider,
        };
        core.events.push_back(HubEvent::Refused { node, what: "it sends more than it may".into() });
        if side == Side::Provider {
            self.push_notice(RelayNotice::Overrun { provider });
            return self.end_relay(core, id, Some(Reason::Unreachable), Some(Reason::Protocol));
        }
        self.end_relay(core, id, Some(Reason::Protocol), Some(Reason::Unreachable));
    }

    /// A message of a flow was not taken, as the connection has no room: the flow has a gap and ends, the connection
    /// goes on.
    pub(super) fn flow_broken(&mut self, core: &mut HubCore, connection: ConnectionId, flow: u32) {
        if let Some(id) = self.sent_over(connection, flow) {
            self.end_relay(core, id, Some(Reason::Unreachable), Some(Reason::TimedOut));
        }
    }

    /// The provider is gone before it accepted: the next one is asked.
    fn lose_provider(&mut self, core: &mut HubCore, id: RequestId) {
        let Some(key) = self.key(id) else { return };
        self.end_relay(core, id, None, None);
        self.push_notice(RelayNotice::ProviderLost { key, relay: id });
    }

    /// Ends a flow and says why to the sides that are to hear it.
    pub(super) fn end_relay(
        &mut self,
        core: &mut HubCore,
        id: RequestId,
        to_requester: Option<Reason>,
        to_provider: Option<Reason>,
    ) {
        let Some(relay) = self.remove(id) else { return };
        if let Some(remote) = core.remotes.get_mut(relay.key.requester) {
            remote.relays = remote.relays.saturating_sub(1);
        }
        let ends =
            [(relay.requester_connection, relay.key.id, to_requester), (relay.provider_connection, id, to_provider)];
        for (connection, id, reason) in ends {
            if let Some(reason) = reason.filter(|_| core.remotes.connections.contains_key(&connection)) {
                let channel = Channel::Reliable { flow: id.0 };
                core.send(connection, channel, Traffic::Payload, FlowMessage::Stop { id, reason });
            }
        }
    }

    /// There is another policy: flows end that one of their ends may not have any more.
    pub(super) fn end_forbidden(&mut self, core: &mut HubCore) {
        let is_forbidden = |relay: &Relay| {
            let service = subject_of(relay.action, relay.service);
            let is_node = core.remotes.get(relay.provider).is_some_and(|remote| remote.role == Role::Node);
            let may_offer = |service| core.permits(relay.provider, Action::Offer, Some(service), relay.place);
            !core.permits(relay.key.requester, relay.action, service, relay.place)
                || is_node && !service.is_none_or(may_offer)
        };
        let forbidden = self.table.iter().filter(|(_, relay)| is_forbidden(relay)).map(|(id, _)| *id);
        for id in forbidden.collect::<Vec<_>>() {
            core.counters.forbidden += 1;
            let is_accepted = self.is_accepted(id);
            self.end_relay(core, id, is_accepted.then_some(Reason::Forbidden), Some(Reason::Forbidden));
        }
    }

    /// A connection is gone: its flows go on over another one of the same
    /// remote, or end.
    pub(super) fn relays_lost_connection(
        &mut self,
        core: &mut HubCore,
        node: NodeId,
        connection: ConnectionId,
        transports_of: impl Fn(RequestKey) -> SchemeSet,
    ) {
        for id in self.all_of(node) {
            let Some(relay) = self.table.get(&id) else { continue };
            let (asks, provides) = (relay.requester_connection == connection, relay.provider_connection == connection);
            if !asks && !provides {
                continue;
            }
            let allowed = transports_of(relay.key);
            let other = core.remotes.best_connection(node, allowed);
            let Some(relay) = self.table.get_mut(&id) else { continue };
            match other {
                Some(other) if asks => relay.requester_connection = other,
                Some(other) => relay.provider_connection = other,
                None if asks => self.end_relay(core, id, None, Some(Reason::Unreachable)),
                None if relay.accepted => self.end_relay(core, id, Some(Reason::Unreachable), None),
                None => self.lose_provider(core, id),
            }
        }
    }

    pub(super) fn expire_relays(&mut self, core: &mut HubCore) {
        let now = core.now;
        for _ in 0..MAX_PER_WAKE {
            let Some((id, ended)) = self.due(now) else { return };
            let reason = (!ended).then_some(Reason::TimedOut);
            self.end_relay(core, id, reason, reason);
        }
    }
}
