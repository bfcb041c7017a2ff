//! The table of the flows through the hub.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use roost_policy::Action;
use roost_wire::messages::{Accept, FlowDescription, FlowMessage, Message};
use roost_wire::{Cell, Channel, ConnectionId, Delivery, DeliveryPreferences, NodeId, RequestId, Service, Time};

use super::credit::Credit;
use super::exchange::DuplexCredit;
use super::header::{Side, kind};
use crate::request_key::RequestKey;

/// Time for which a flow may be silent before it is forgotten. Receivers report
/// every second, and a provider may take a request's deadline to accept.
pub(super) const IDLE: Duration = Duration::from_secs(60);

/// A message that one side of a relay sent.
pub(super) struct RelayedMessage<'a> {
    pub(super) id: RequestId,
    pub(super) side: Side,
    pub(super) connection: ConnectionId,
    pub(super) kind: u32,
    pub(super) message: &'a [u8],
}

#[derive(Debug, Default)]
pub(crate) struct Relays {
    pub(super) table: BTreeMap<RequestId, Relay>,
    pub(super) by_requester: BTreeMap<RequestKey, RequestId>,
    by_provider: BTreeSet<(NodeId, RequestId)>,
    timers: BTreeSet<(Time, RequestId)>,
    last: u32,
    notices: VecDeque<RelayNotice>,
}

/// News of a flow for the requests.
#[derive(Clone, Copy, Debug)]
pub(crate) enum RelayNotice {
    /// The provider is gone before it accepted.
    ProviderLost { key: RequestKey, relay: RequestId },
    /// The provider has sent more than it may.
    Overrun { provider: NodeId },
    /// The requester wants no more of the flow.
    Stopped(RequestKey),
}

#[derive(Debug)]
pub(super) struct Relay {
    /// The requester's side: the remote and the id it uses.
    pub(super) key: RequestKey,
    pub(super) requester_connection: ConnectionId,
    pub(super) provider: NodeId,
    pub(super) provider_connection: ConnectionId,
    pub(super) service: Service,
    pub(super) action: Action,
    pub(super) place: Option<Cell>,
    pub(super) terms: DeliveryPreferences,
    pub(super) accepted: bool,
    pub(super) ended: bool,
    pub(super) heard: Time,
    /// Time that it is kept after its end.
    pub(super) linger: Duration,
    /// The time under which it stands in `timers`; no later than its end.
    pub(super) listed: Time,
    pub(super) credit: Credit,
    pub(super) exchange: DuplexCredit,
}

/// The fate of a message of a flow.
pub(super) enum RelayVerdict {
    /// The flow goes over this connection, in this way, under this id.
    Open {
        connection: ConnectionId,
        channel: Channel,
        delivery: Delivery,
        id: RequestId,
    },
    Closed,
    /// The flow is dropped, as its sender heeds no credit.
    Overrun,
}

impl Relay {
    fn delivery(&self) -> Delivery {
        Delivery::for_request(self.service, self.terms)
    }

    /// A message has come from one side. Gives the connection of the other side, the delivery, and the id there.
    fn cross(&mut self, id: RequestId, side: Side, connection: ConnectionId) -> (ConnectionId, Delivery, RequestId) {
        match side {
            Side::Requester => {
                self.requester_connection = connection;
                (self.provider_connection, Delivery::CONTROL, id)
            }
            Side::Provider => {
                self.provider_connection = connection;
                (self.requester_connection, self.delivery(), self.key.id)
            }
        }
    }

    fn must_be_whole(&self) -> bool {
        !self.service.is_stream() || self.terms.is_whole()
    }
}

impl Relays {
    pub(crate) fn len(&self) -> usize {
        self.table.len()
    }

    pub(crate) fn next_expiry(&self) -> Option<Time> {
        self.timers.first().map(|(at, _)| *at)
    }

    pub(crate) fn has_notices(&self) -> bool {
        !self.notices.is_empty()
    }

    pub(crate) fn next_notice(&mut self) -> Option<RelayNotice> {
        self.notices.pop_front()
    }

    pub(super) fn push_notice(&mut self, notice: RelayNotice) {
        self.notices.push_back(notice);
    }

    /// The request behind the id that a provider's side uses.
    pub(crate) fn key_at_provider(&self, provider: NodeId, id: RequestId) -> Option<RequestKey> {
        self.table.get(&id).filter(|relay| relay.provider == provider).map(|relay| relay.key)
    }

    pub(crate) fn provider_connection(&self, id: RequestId) -> Option<ConnectionId> {
        self.table.get(&id).map(|relay| relay.provider_connection)
    }

    pub(crate) fn accepted(&mut self, now: Time, id: RequestId) {
        if let Some(relay) = self.table.get_mut(&id) {
            relay.accepted = true;
            relay.heard = now;
        }
    }

    /// Charges a provider for so many bytes towards the requester. False if it is beyond all credit.
    pub(crate) fn charge(&mut self, id: RequestId, bytes: usize) -> bool {
        self.table.get_mut(&id).is_none_or(|relay| relay.credit.sends(relay.service, bytes))
    }

    /// Nothing more is to come: keeps the flow for what is still on its way.
    pub(crate) fn ended(&mut self, now: Time, id: RequestId) {
        if let Some(relay) = self.table.get_mut(&id).filter(|relay| !relay.ended) {
            relay.ended = true;
            self.timers.remove(&(relay.listed, id));
            relay.listed = now + relay.linger;
            self.timers.insert((relay.listed, id));
        }
    }

    /// The requester has asked again: its flow is still wanted.
    pub(crate) fn renew(&mut self, now: Time, id: RequestId) {
        if let Some(relay) = self.table.get_mut(&id) {
            relay.heard = now;
        }
    }

    pub(crate) fn connections(&self) -> BTreeSet<ConnectionId> {
        self.table.values().flat_map(|relay| [relay.requester_connection, relay.provider_connection]).collect()
    }

    /// The flow of a message, and the side from which it comes.
    pub(super) fn find_flow(&self, from: NodeId, id: RequestId) -> Option<(RequestId, Side)> {
        if self.key_at_provider(from, id).is_some() {
            return Some((id, Side::Provider));
        }
        self.by_requester.get(&RequestKey { requester: from, id }).map(|relay| (*relay, Side::Requester))
    }

    /// The flows in which `node` takes part.
    pub(super) fn all_of(&self, node: NodeId) -> Vec<RequestId> {
        let asked = self.by_requester.range(RequestKey::all_of(node)).map(|(_, id)| *id);
        let provided = self.by_provider.range((node, RequestId(0))..=(node, RequestId(u32::MAX))).map(|(_, id)| *id);
        asked.chain(provided).collect()
    }

    /// An id that is not in use. Two hubs never choose the same towards each
    /// other: the one with the greater id takes the upper half.
    pub(super) fn next_id(&mut self, own: NodeId, provider: NodeId) -> RequestId {
        const HALF: u32 = RequestId::FIRST_OF_HUB / 2;
        let half = if own > provider { HALF } else { 0 };
        loop {
            self.last = (self.last + 1) % HALF;
            let id = RequestId(RequestId::FIRST_OF_HUB + half + self.last);
            // The table is far smaller than the numbers there are.
            if !self.table.contains_key(&id) {
                return id;
            }
        }
    }

    pub(super) fn insert(&mut self, id: RequestId, relay: Relay) {
        self.by_requester.insert(relay.key, id);
        self.by_provider.insert((relay.provider, id));
        self.timers.insert((relay.listed, id));
        self.table.insert(id, relay);
    }

    pub(super) fn remove(&mut self, id: RequestId) -> Option<Relay> {
        let relay = self.table.remove(&id)?;
        self.by_provider.remove(&(relay.provider, id));
        self.timers.remove(&(relay.listed, id));
        if self.by_requester.get(&relay.key) == Some(&id) {
            self.by_requester.remove(&relay.key);
        }
        Some(relay)
    }

    /// The request that a flow answers.
    pub(super) fn key(&self, id: RequestId) -> Option<RequestKey> {
        self.table.get(&id).map(|relay| relay.key)
    }

    pub(super) fn is_accepted(&self, id: RequestId) -> bool {
        self.table.get(&id).is_some_and(|relay| relay.accepted)
    }

    /// Delivery of data that must not overtake its acceptance, if it must not.
    pub(crate) fn flow_after(&self, accept: &Accept) -> Option<Delivery> {
        let is_inline = matches!(&accept.flow, FlowDescription::Object { inline: Some(_), .. });
        self.table.get(&accept.id).filter(|relay| relay.must_be_whole() && !is_inline).map(Relay::delivery)
    }

    /// The flow of which messages go over `connection` under this number.
    pub(super) fn sent_over(&self, connection: ConnectionId, flow: u32) -> Option<RequestId> {
        let id = RequestId(flow);
        if self.table.get(&id).is_some_and(|relay| relay.provider_connection == connection) {
            return Some(id);
        }
        self.table
            .iter()
            .find(|(_, relay)| relay.requester_connection == connection && relay.key.id == id)
            .map(|(id, _)| *id)
    }

    /// Takes note of a message, and says where it goes, how, and under which id.
    pub(super) fn pass(&mut self, now: Time, relayed: RelayedMessage<'_>) -> RelayVerdict {
        let RelayedMessage { id, side, connection, kind, message } = relayed;
        let Some(relay) = self.table.get_mut(&id) else { return RelayVerdict::Closed };
        relay.heard = now;
        if kind == kind::REPORT
            && let Ok(Message::Flow(FlowMessage::Report(report))) = Message::decode(message)
            && !relay.credit.reports(now, report.bytes)
        {
            return RelayVerdict::Closed;
        }
        let (to, delivery, other) = relay.cross(id, side, connection);
        // Whatever two nodes say to one another, most of it is of files.
        let delivery =
            if kind == kind::THROUGH { Delivery::for_request(Service::Image, relay.terms) } else { delivery };
        let datagram = (kind == kind::PACKET || kind == kind::REPORT) && !relay.must_be_whole();
        let channel = if datagram { Channel::Datagram } else { Channel::Reliable { flow: other.0 } };
        let has_credit = match side {
            _ if kind == kind::THROUGH => relay.exchange.says(now, side, message),
            Side::Requester if kind == kind::BODY => relay.credit.gives(relay.service, message.len()),
            Side::Provider if !datagram => relay.credit.sends(relay.service, message.len()),
            _ => true,
        };
        if !has_credit {
            return RelayVerdict::Overrun;
        }
        if kind == kind::END {
            self.ended(now, id);
        }
        RelayVerdict::Open { connection: to, channel, delivery, id: other }
    }

    /// A flow that has been silent for too long, and whether it had ended. Puts
    /// right the listing of those that were heard in the meantime.
    pub(super) fn due(&mut self, now: Time) -> Option<(RequestId, bool)> {
        while let Some((at, id)) = self.timers.first().copied().filter(|(at, _)| *at <= now) {
            let relay = self.table.get_mut(&id)?;
            let ends = relay.heard + if relay.ended { relay.linger } else { IDLE };
            if ends <= now {
                return Some((id, relay.ended));
            }
            relay.listed = ends;
            self.timers.remove(&(at, id));
            self.timers.insert((ends, id));
        }
        None
    }
}
