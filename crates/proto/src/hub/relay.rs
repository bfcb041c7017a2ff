//! Flows through the hub: a table that translates ids, as a NAT does ports.
//!
//! Towards the provider's side the hub chooses an id of its own; towards the
//! requester's side the id is the requester's. Only the id of a message is
//! rewritten, the rest passes as it is.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bytes::Bytes;
use minicbor::data::Type;
use minicbor::{Decoder, Encoder};

use super::requests::Key;
use super::{Hub, MAX_PER_WAKE, Sender};
use crate::address::SchemeSet;
use crate::ids::{LinkId, NodeId, RequestId};
use crate::machine::{Channel, Traffic, Transmit};
use crate::service::Service;
use crate::time::Time;
use crate::wire::{MAX_MESSAGE_BYTES, Message, Reason};

/// How long a flow may be silent before it is forgotten. Receivers report
/// every second, and a provider may take a request's deadline to accept.
const IDLE: Duration = Duration::from_secs(60);

/// How long a flow is kept after its end, for what is still on its way.
const LINGER: Duration = Duration::from_secs(5);

/// Flows through the hub.
#[derive(Debug, Default)]
pub(super) struct Relays {
    /// By the id towards the provider.
    table: BTreeMap<RequestId, Relay>,
    by_asker: BTreeMap<Key, RequestId>,
    by_provider: BTreeSet<(NodeId, RequestId)>,
    timers: BTreeSet<(Time, RequestId)>,
    last: u32,
}

#[derive(Debug)]
struct Relay {
    /// The requester's side: the neighbour and the id it uses.
    key: Key,
    asker_link: LinkId,
    provider: NodeId,
    provider_link: LinkId,
    service: Service,
    accepted: bool,
    ended: bool,
    heard: Time,
    /// The time under which it stands in `timers`; no later than its end.
    listed: Time,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Asker,
    Provider,
}

/// What a data message says of itself before its payload.
struct Header {
    kind: u32,
    id: RequestId,
    /// Where the id stands in the message.
    at: std::ops::Range<usize>,
}

/// The numbers of the messages that are relayed unread.
mod kind {
    pub(super) const PACKET: u32 = 11;
    pub(super) const CHUNK: u32 = 12;
    pub(super) const END: u32 = 13;
    pub(super) const REPORT: u32 = 14;
    pub(super) const STOP: u32 = 15;
}

impl Relays {
    pub(super) fn len(&self) -> usize {
        self.table.len()
    }

    pub(super) fn next_expiry(&self) -> Option<Time> {
        self.timers.first().map(|(at, _)| *at)
    }

    /// The request behind the id that a provider's side uses.
    pub(super) fn key_at_provider(&self, provider: NodeId, id: RequestId) -> Option<Key> {
        self.table.get(&id).filter(|relay| relay.provider == provider).map(|relay| relay.key)
    }

    pub(super) fn provider_link(&self, id: RequestId) -> Option<LinkId> {
        self.table.get(&id).map(|relay| relay.provider_link)
    }

    pub(super) fn accepted(&mut self, now: Time, id: RequestId) {
        if let Some(relay) = self.table.get_mut(&id) {
            relay.accepted = true;
            relay.heard = now;
        }
    }

    /// The links that carry a flow.
    pub(super) fn links(&self) -> BTreeSet<LinkId> {
        self.table.values().flat_map(|relay| [relay.asker_link, relay.provider_link]).collect()
    }

    /// Which flow a message belongs to, and from which side it comes.
    fn of(&self, from: NodeId, id: RequestId) -> Option<(RequestId, Side)> {
        if self.key_at_provider(from, id).is_some() {
            return Some((id, Side::Provider));
        }
        self.by_asker.get(&Key { asker: from, id }).map(|relay| (*relay, Side::Asker))
    }

    /// The flows in which `node` takes part.
    fn all_of(&self, node: NodeId) -> Vec<RequestId> {
        let first = Key { asker: node, id: RequestId(0) };
        let last = Key { asker: node, id: RequestId(u32::MAX) };
        let asked = self.by_asker.range(first..=last).map(|(_, id)| *id);
        let provided = self.by_provider.range((node, RequestId(0))..=(node, RequestId(u32::MAX))).map(|(_, id)| *id);
        asked.chain(provided).collect()
    }

    /// An id that is not in use. Two hubs never choose the same towards each
    /// other: the one with the greater id takes the upper half.
    fn next_id(&mut self, own: NodeId, provider: NodeId) -> RequestId {
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

    fn insert(&mut self, id: RequestId, relay: Relay) {
        self.by_asker.insert(relay.key, id);
        self.by_provider.insert((relay.provider, id));
        self.timers.insert((relay.listed, id));
        self.table.insert(id, relay);
    }

    fn remove(&mut self, id: RequestId) -> Option<Relay> {
        let relay = self.table.remove(&id)?;
        self.by_provider.remove(&(relay.provider, id));
        self.timers.remove(&(relay.listed, id));
        if self.by_asker.get(&relay.key) == Some(&id) {
            self.by_asker.remove(&relay.key);
        }
        Some(relay)
    }
}

impl Hub {
    /// Opens a flow between two neighbours, each with its link, and gives the
    /// id by which the provider's side knows it.
    pub(super) fn open_relay(
        &mut self,
        now: Time,
        key: Key,
        asker_link: LinkId,
        (provider, provider_link): (NodeId, LinkId),
        service: Service,
    ) -> Result<RequestId, Reason> {
        let (total, limits) = (self.relays.len(), &self.config.limits);
        let neighbour = self.neighbours.get_mut(key.asker).ok_or(Reason::Unreachable)?;
        if total >= limits.relays || neighbour.relays >= neighbour.allowance(limits.relays_per_node) {
            self.counters.over_limit += 1;
            return Err(Reason::TooMany);
        }
        neighbour.relays += 1;
        if let Some(before) = self.relays.by_asker.get(&key).copied() {
            self.end_relay(before, None, Some(Reason::Cancelled));
        }
        let id = self.relays.next_id(self.config.node, provider);
        let (accepted, ended, listed) = (false, false, now + IDLE);
        let heard = now;
        self.relays
            .insert(id, Relay { key, asker_link, provider, provider_link, service, accepted, ended, heard, listed });
        self.counters.relays += 1;
        Ok(id)
    }

    /// Passes a data message on if it belongs to a relayed flow. False if it
    /// is for the rest of the hub to read.
    pub(super) fn relay_data(&mut self, now: Time, from: Sender, bytes: &Bytes) -> bool {
        let Some(header) = read_header(bytes) else { return false };
        let Some((id, side)) = self.relays.of(from.node, header.id) else { return false };
        let Some(relay) = self.relays.table.get_mut(&id) else { return false };
        let by_provider = matches!(header.kind, kind::PACKET | kind::CHUNK | kind::END);
        if !is_whole(bytes)
            || (by_provider && side == Side::Asker)
            || (header.kind == kind::REPORT && side == Side::Provider)
        {
            self.counters.malformed += 1;
            return true;
        }
        relay.heard = now;
        let (link, other) = match side {
            Side::Asker => (relay.provider_link, id),
            Side::Provider => (relay.asker_link, relay.key.id),
        };
        match side {
            Side::Asker => relay.asker_link = from.link,
            Side::Provider => relay.provider_link = from.link,
        }
        let datagram = header.kind == kind::PACKET || header.kind == kind::REPORT && relay.service.is_stream();
        let channel = if datagram { Channel::Datagram } else { Channel::Reliable { flow: other.0 } };
        if header.kind == kind::END && !relay.ended {
            relay.ended = true;
            self.relays.timers.remove(&(relay.listed, id));
            relay.listed = now + LINGER;
            self.relays.timers.insert((relay.listed, id));
        }
        if header.kind == kind::STOP && side == Side::Provider && !relay.accepted {
            // Nothing was promised yet: another provider may serve.
            let key = relay.key;
            self.end_relay(id, None, None);
            self.provider_lost(now, key, id);
            return true;
        }
        let message = with_id(bytes, &header, other);
        self.counters.relayed_messages += 1;
        self.counters.relayed_bytes += message.len() as u64;
        self.out.push_back(Transmit::Message { link, channel, traffic: Traffic::Payload, message });
        if header.kind == kind::STOP {
            self.end_relay(id, None, None);
            if side == Side::Asker {
                self.drop_request_of(from.node, Key { asker: from.node, id: header.id });
            }
        }
        true
    }

    /// Ends a flow and says why to the sides that are to hear it.
    pub(super) fn end_relay(&mut self, id: RequestId, to_asker: Option<Reason>, to_provider: Option<Reason>) {
        let Some(relay) = self.relays.remove(id) else { return };
        if let Some(neighbour) = self.neighbours.get_mut(relay.key.asker) {
            neighbour.relays = neighbour.relays.saturating_sub(1);
        }
        let ends = [(relay.asker_link, relay.key.id, to_asker), (relay.provider_link, id, to_provider)];
        for (link, id, reason) in ends {
            if let Some(reason) = reason.filter(|_| self.neighbours.links.contains_key(&link)) {
                let channel = Channel::Reliable { flow: id.0 };
                self.send(link, channel, Traffic::Payload, &Message::Stop { id, reason });
            }
        }
    }

    /// A link is gone: its flows go on over another one of the same
    /// neighbour, or end.
    pub(super) fn relays_lost_link(&mut self, now: Time, node: NodeId, link: LinkId) {
        for id in self.relays.all_of(node) {
            let Some(relay) = self.relays.table.get(&id) else { continue };
            let (asks, provides) = (relay.asker_link == link, relay.provider_link == link);
            if !asks && !provides {
                continue;
            }
            let key = relay.key;
            let allowed = self.requests.get(key).map_or(SchemeSet::ALL, |asked| asked.transports());
            let other = self.neighbours.best_link(node, allowed);
            let Some(relay) = self.relays.table.get_mut(&id) else { continue };
            match other {
                Some(other) if asks => relay.asker_link = other,
                Some(other) => relay.provider_link = other,
                None if asks => self.end_relay(id, None, Some(Reason::Unreachable)),
                None if relay.accepted => self.end_relay(id, Some(Reason::Unreachable), None),
                None => {
                    self.end_relay(id, None, None);
                    self.provider_lost(now, key, id);
                }
            }
        }
    }

    pub(super) fn expire_relays(&mut self, now: Time) {
        for _ in 0..MAX_PER_WAKE {
            let Some((at, id)) = self.relays.timers.first().copied().filter(|(at, _)| *at <= now) else { return };
            let Some(relay) = self.relays.table.get_mut(&id) else { return };
            let ends = relay.heard + if relay.ended { LINGER } else { IDLE };
            if ends <= now {
                let reason = (!relay.ended).then_some(Reason::TimedOut);
                self.end_relay(id, reason, reason);
            } else {
                relay.listed = ends;
                self.relays.timers.remove(&(at, id));
                self.relays.timers.insert((ends, id));
            }
        }
    }
}

/// The header of a message that may be relayed unread.
fn read_header(message: &[u8]) -> Option<Header> {
    if message.len() > MAX_MESSAGE_BYTES {
        return None;
    }
    let mut d = Decoder::new(message);
    d.array().ok()?;
    let kind = d.u32().ok()?;
    if !(kind::PACKET..=kind::STOP).contains(&kind) {
        return None;
    }
    if d.datatype().ok()? == Type::Array {
        d.array().ok()?;
    }
    let start = d.position();
    let id = RequestId(d.u32().ok()?);
    Some(Header { kind, id, at: start..d.position() })
}

/// Whether the message is one CBOR value and nothing else.
fn is_whole(message: &[u8]) -> bool {
    let mut d = Decoder::new(message);
    d.skip().is_ok() && d.position() == message.len()
}

/// The message with another id.
fn with_id(message: &[u8], header: &Header, id: RequestId) -> Bytes {
    /// The most that an id takes.
    const ID_BYTES: usize = 5;
    let mut buffer = Vec::with_capacity(message.len() + ID_BYTES);
    buffer.extend_from_slice(&message[..header.at.start]);
    match Encoder::new(&mut buffer).u32(id.0) {
        Ok(_) => {}
        // A `Vec` takes every write.
        Err(error) => unreachable!("encoding into memory cannot fail: {error}"),
    }
    buffer.extend_from_slice(&message[header.at.end..]);
    Bytes::from(buffer)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Bench, address, decline, forwarded, node, over, refused, request};
    use super::super::{Config, Kind};
    use super::*;
    use crate::address::{Address, Scheme};
    use crate::ids::Nonce;
    use crate::machine::Input;
    use crate::service::Role;
    use crate::wire::{Accept, Chunk, Mode, Offer, Packet, Report, Request};

    const PAYLOAD: Bytes = Bytes::from_static(&[7; 300]);

    #[test]
    fn only_the_id_of_a_relayed_message_changes() {
        let all = |id| {
            [
                Message::Packet(Packet { id, sequence: 9, sent_us: 70_000, payload: PAYLOAD }),
                Message::Chunk(Chunk { id, offset: 16_384, payload: PAYLOAD }),
                Message::End { id, packets: 3, bytes: 900, digest: [5; 32] },
                Message::Report(Report { id, bytes: 1, packets: 2, lost: 3, jitter_us: 4 }),
                Message::Stop { id, reason: Reason::Cancelled },
            ]
        };
        for (short, long) in [(RequestId(5), RequestId(0x8000_0001)), (RequestId(70_000), RequestId(23))] {
            for (before, after) in all(short).iter().zip(all(long)) {
                let bytes = before.encode();
                let header = read_header(&bytes).unwrap();
                assert_eq!(header.id, short);
                assert!(is_whole(&bytes));
                assert_eq!(Message::decode(&with_id(&bytes, &header, long)), Ok(after));
            }
        }
    }

    #[test]
    fn other_messages_and_fragments_are_not_taken_for_data() {
        assert!(read_header(&Message::Ping(3).encode()).is_none());
        let stop = Message::Stop { id: RequestId(1), reason: Reason::Busy }.encode();
        assert!(!is_whole(&stop[..stop.len() - 1]));
    }

    /// A server with a provider and a requester whose request it relays.
    fn relaying(request: Request) -> (Bench, LinkId, LinkId, RequestId) {
        let mut bench = Bench::with(Config::new(node(200), Kind::Server, 1));
        let (provider, asker) = (bench.provider(1), bench.requester(2));
        let (link, forward) = forwarded(&bench.ask(asker, request));
        assert!(link == provider && forward.reply_to.is_empty() && forward.id.is_of_hub());
        (bench, provider, asker, forward.id)
    }

    fn accept(bench: &mut Bench, provider: LinkId, id: RequestId) -> Vec<(LinkId, Message)> {
        let offer = Offer::Stream { duration_ms: 10_000, bits_per_second: 40_000, format: String::new() };
        let cell = super::super::testing::HERE;
        bench.say(provider, &Message::Accept(Accept { id, nonce: Nonce::from_u64(1), offer, cell, provider: None }))
    }

    fn packet(id: RequestId) -> Message {
        Message::Packet(Packet { id, sequence: 0, sent_us: 0, payload: PAYLOAD })
    }

    #[test]
    fn a_server_carries_the_answer_the_data_and_the_reports() {
        let (mut bench, provider, asker, id) = relaying(request(1, Mode::Forward));
        match &accept(&mut bench, provider, id)[..] {
            [(link, Message::Accept(accept))] => {
                assert_eq!((*link, accept.id, accept.provider), (asker, RequestId(1), Some(node(1))));
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(bench.say(provider, &packet(id)), [(asker, packet(RequestId(1)))]);
        let report = |id| Message::Report(Report { id, ..Report::default() });
        assert_eq!(bench.say(asker, &report(RequestId(1))), [(provider, report(id))]);
        let end = |id| Message::End { id, packets: 1, bytes: 300, digest: [0; 32] };
        let input = Input::Message { link: provider, message: end(id).encode() };
        assert_eq!(bench.channels(input), [(asker, Channel::Reliable { flow: 1 }, end(RequestId(1)))]);
        assert_eq!(bench.hub.status(bench.now).relays, 1);
        bench.wait(LINGER);
        assert_eq!(bench.hub.status(bench.now).relays, 0);
        assert_eq!(bench.hub.counters().relayed_messages, 4);
    }

    #[test]
    fn only_the_two_who_are_meant_speak_in_a_flow() {
        let (mut bench, _, asker, id) = relaying(request(1, Mode::Relay));
        let third = bench.requester(3);
        assert!(bench.say(third, &packet(id)).is_empty());
        assert!(bench.say(asker, &packet(RequestId(1))).is_empty());
        assert_eq!((bench.hub.counters().stray, bench.hub.counters().malformed), (1, 1));
    }

    #[test]
    fn a_stop_ends_the_flow_for_both() {
        let (mut bench, provider, asker, id) = relaying(request(1, Mode::Relay));
        accept(&mut bench, provider, id);
        let stop = |id| Message::Stop { id, reason: Reason::Cancelled };
        assert_eq!(bench.say(asker, &stop(RequestId(1))), [(provider, stop(id))]);
        let status = bench.hub.status(bench.now);
        assert_eq!((status.relays, status.requests), (0, 0));
    }

    #[test]
    fn whoever_goes_the_other_is_told() {
        let (mut bench, provider, asker, id) = relaying(request(1, Mode::Relay));
        accept(&mut bench, provider, id);
        let stop = |id| Message::Stop { id, reason: Reason::Unreachable };
        assert_eq!(bench.down(provider), [(asker, stop(RequestId(1)))]);
        let (mut bench, provider, asker, id) = relaying(request(1, Mode::Relay));
        assert_eq!(bench.down(asker), [(provider, stop(id))]);
        assert_eq!(bench.hub.status(bench.now).relays, 0);
    }

    #[test]
    fn a_provider_that_goes_before_it_accepts_is_replaced() {
        let (mut bench, provider, asker, _) = relaying(request(1, Mode::Relay));
        let second = bench.provider(4);
        // The second was not known when the request came: it is asked anew.
        assert_eq!(refused(&bench.down(provider)), (asker, Reason::Unreachable));
        let (link, forward) = forwarded(&bench.ask(asker, request(2, Mode::Relay)));
        assert_eq!(link, second);
        let third = bench.provider(5);
        assert_eq!(refused(&bench.say(second, &decline(&forward, Reason::Busy))), (asker, Reason::Busy));
        bench.ask(asker, request(3, Mode::Relay));
        assert_eq!(forwarded(&bench.down(third)).0, second);
    }

    #[test]
    fn a_silent_flow_is_ended() {
        let (mut bench, provider, asker, id) = relaying(request(1, Mode::Relay));
        accept(&mut bench, provider, id);
        let told = bench.wait(Duration::from_secs(59));
        assert!(told.is_empty());
        bench.say(provider, &Message::Ping(0));
        bench.say(asker, &Message::Ping(0));
        let stop = |id| Message::Stop { id, reason: Reason::TimedOut };
        assert_eq!(bench.wait(Duration::from_secs(2)), [(asker, stop(RequestId(1))), (provider, stop(id))]);
    }

    #[test]
    fn a_wanted_transport_holds_for_both_legs() {
        let tcp = |number| Address { scheme: Scheme::Tcp, ..address(number) };
        let wanted = |id| Request { params: over(Scheme::Tcp), ..request(id, Mode::Relay) };
        let mut bench = Bench::with(Config::new(node(200), Kind::Server, 1));
        let provider = bench.up(1, Role::Node);
        let mut record = super::super::testing::record(1);
        record.addresses.push(tcp(1));
        bench.say(provider, &Message::Publish(record));
        let asker = bench.requester(2);
        assert_eq!(refused(&bench.ask(asker, wanted(1))), (asker, Reason::NoTransport));
        let asker = bench.up_over(2, Role::Node, tcp(2), None);
        assert!(bench.ask(asker, wanted(2)).is_empty());
        let (dial, addresses) = bench.dialled.pop().unwrap();
        assert_eq!(addresses, [tcp(1)]);
        let link = LinkId(99);
        let peer = crate::machine::Peer { node: node(1), role: Role::Node, name: String::new() };
        let (dial, rtt) = (Some(dial), Duration::ZERO);
        let sent = bench.input(Input::LinkUp { link, dial, peer, address: tcp(1), rtt });
        assert_eq!(forwarded(&sent).0, link);
    }

    #[test]
    fn a_requester_has_a_limited_number_of_flows() {
        let mut config = Config::new(node(200), Kind::Server, 1);
        config.limits.relays_per_node = 2;
        let mut bench = Bench::with(config);
        let (_, asker) = (bench.provider(1), bench.requester(2));
        for id in 1..=2 {
            forwarded(&bench.ask(asker, request(id, Mode::Relay)));
        }
        assert_eq!(refused(&bench.ask(asker, request(3, Mode::Relay))), (asker, Reason::TooMany));
    }

    #[test]
    fn a_provider_that_stops_before_it_accepts_is_followed_by_the_next() {
        let mut bench = Bench::with(Config::new(node(200), Kind::Server, 1));
        let (first, second, asker) = (bench.provider(1), bench.provider(2), bench.requester(3));
        let (link, forward) = forwarded(&bench.ask(asker, request(1, Mode::Relay)));
        assert_eq!(link, first);
        let stop = Message::Stop { id: forward.id, reason: Reason::SourceFailed };
        assert_eq!(forwarded(&bench.say(first, &stop)).0, second);
    }
}
