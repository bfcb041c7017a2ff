//! The costs of one request: the bytes of its messages and the round trips of its data.
//!
//! Nothing here is a constant. Messages are encoded as the daemons encode them, and sent once over a pair of
//! the transport's own simulated ends, on which packets, acknowledgements and handshakes are counted. A change
//! of the wire format therefore shows here.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use bytes::Bytes;
use roost_core::flow::{ObjectReceiver, ObjectSender, REPORT_INTERVAL, SendBudget, StreamSender};
use roost_experiment::Plan;
use roost_netcore::HEADER_BYTES;
use roost_transport::simulated::{ConnectionEnd, Detail, EndEvent};
use roost_wire::messages::{
    Accept, FlowDescription, FlowMessage, HubHop, Message, Request, RequestMessage, Route, RouteDirection,
    ServiceRequest,
};
use roost_wire::object::digest;
use roost_wire::{Address, Area, Cell, Channel, FlowKind, NodeId, Nonce, RequestId, Scheme, SchemeSet, Service, Time};

/// The delay between the two ends, far longer than any other wait here.
const ONE_WAY: Duration = Duration::from_millis(500);
/// The longest part of a stream that is sent to measure it.
const SAMPLE: Duration = Duration::from_secs(20);
/// The pause between two objects on a connection: many round trips, as between requests. TCP's congestion
/// window has then been reset.
const PAUSE: Duration = Duration::from_secs(60);
/// Longer than any exchange here.
const END: Time = Time::from_nanos(3600 * 1_000_000_000);

/// Bytes over each link, in both directions, with the headers of frames.
pub(super) type BytesBothWays = [f64; 2];

#[derive(Clone, Debug)]
pub(super) struct RequestCosts {
    pub(super) request: BytesBothWays,
    pub(super) forward: BytesBothWays,
    /// Hub to hub, with its acknowledgement.
    pub(super) route_request: BytesBothWays,
    /// Provider to hub: it has to dial first.
    pub(super) pending: BytesBothWays,
    /// By service, in the order of [`Service::ALL`]: provider to requester.
    pub(super) flows: [RequestFlow; 4],
}

/// The data of one request, from a provider to its receiver.
#[derive(Clone, Debug, Default)]
pub(super) struct RequestFlow {
    /// Bytes from the provider, and to it.
    pub(super) bytes: BytesBothWays,
    /// The provider's dial, if the two have no connection yet.
    pub(super) handshake: BytesBothWays,
    /// Round trips of that dial, until the provider may send.
    pub(super) dial_trips: f64,
    /// The bytes before a latency ends, by round trip, on a new connection and on one that has carried such an
    /// object already. For a stream these are its first packets, in one round.
    pub(super) rounds: [Vec<f64>; 2],
    /// As above, behind a server that relays; empty without one.
    pub(super) onward: [RelayedData; 2],
}

/// Data that a server relays: each message when all of it has come.
#[derive(Clone, Debug, Default)]
pub(super) struct RelayedData {
    /// Round trips with the provider until there is one.
    pub(super) lead: usize,
    /// The bytes before the latency ends, by round trip with the requester.
    pub(super) rounds: Vec<f64>,
}

impl RequestCosts {
    /// Measures the costs of a plan's requests; `relayed` if a server relays all data.
    pub(super) fn measure(plan: &Plan, relayed: bool) -> Self {
        let control = plan.transport.preference()[0];
        let datagram = |message: &Message| ConnectionPair::connected(control).exchange(message);
        let reply_to = if relayed { Vec::new() } else { addresses() };
        // A single service stands for all: they differ by a byte or two.
        let (service, nonce) = (Service::Video, Nonce::from_u64(u64::MAX));
        let (id, deadline_ms, cell) = (RequestId(1000), millis(plan.timeout), Cell::new(30, 90));
        let is_stream = service.is_stream();
        let spec = ServiceRequest {
            duration: is_stream.then_some(plan.stream),
            transports: SchemeSet::only(plan.transport.for_service(is_stream)),
            ..ServiceRequest::new(service, Area::Exact(cell))
        };
        let request = Request::new(id, nonce, spec, deadline_ms);
        let passed = |hop| {
            let route = Some(Route { requester: node(), reply_to: reply_to.clone(), hop });
            Message::Request(RequestMessage::Request(Request { route, ..request.clone() }))
        };
        let hop = HubHop { cell, direction: RouteDirection::Across, hops_left: 7, provider: None };
        let [there, back] = datagram(&passed(Some(hop)));
        let requester = Some(node());
        let [receipt_there, receipt_back] =
            datagram(&Message::Request(RequestMessage::RequestAck { id, requester, provider: None }));
        Self {
            request: datagram(&Message::Request(RequestMessage::Request(request.clone()))),
            forward: datagram(&passed(None)),
            route_request: [there + receipt_back, back + receipt_there],
            pending: datagram(&Message::Request(RequestMessage::Pending { id, requester, provider: None })),
            flows: Service::ALL.map(|service| flow(plan, service, relayed)),
        }
    }
}

fn millis(duration: Duration) -> u32 {
    u32::try_from(duration.as_millis()).unwrap_or(u32::MAX)
}

fn node() -> NodeId {
    NodeId::from_bytes([0xa5; 16])
}

/// The addresses of a node, one for each transport, as in plans.
fn addresses() -> Vec<Address> {
    Scheme::ALL.into_iter().map(|scheme| Address::single(scheme, ([10, 1, 1, 2], 7710).into())).collect()
}

fn flow(plan: &Plan, service: Service, relayed: bool) -> RequestFlow {
    let scheme = plan.transport.for_service(service.is_stream());
    let mut pair = ConnectionPair::connected(scheme);
    let (handshake, dial_trips) =
        (pair.bytes, pair.now.since(Time::ZERO).as_secs_f64() / (2.0 * ONE_WAY.as_secs_f64()));
    let provider = relayed.then(node);
    let accept = |description| {
        let (id, nonce, cell) = (RequestId(1000), Nonce::from_u64(u64::MAX), Cell::new(30, 90));
        Message::Request(RequestMessage::Accept(Accept {
            id,
            nonce,
            flow: description,
            cell,
            provider,
            stream_keys: None,
        }))
    };
    let flow = RequestFlow { handshake, dial_trips, ..RequestFlow::default() };
    let format = service.name().to_owned();
    match service.flow_kind() {
        FlowKind::Stream { bits_per_second, packet_bytes } => {
            let accept = accept(FlowDescription::Stream { duration_ms: millis(plan.stream), bits_per_second, format });
            let (bytes, first) = pair.stream(&accept, bits_per_second, packet_bytes, plan.stream);
            let onward = || RelayedData { lead: 0, rounds: if relayed { vec![first] } else { Vec::new() } };
            RequestFlow { bytes, rounds: [vec![first], vec![first]], onward: [onward(), onward()], ..flow }
        }
        FlowKind::Object { bytes } => {
            let object = Bytes::from(vec![0x5a; bytes as usize]);
            let description = FlowDescription::Object {
                bytes: bytes.into(),
                digest: digest(&object),
                format,
                inline: None,
                offset: None,
            };
            let accept = accept(description);
            let mut second = relayed.then(|| ConnectionPair::connected(scheme));
            let [cold, warm] = [(); 2].map(|()| {
                let moved = pair.object(&accept, &object);
                let onward = second.as_mut().map(|second| second.pass_on(&moved.messages)).unwrap_or_default();
                pair.rest(PAUSE);
                second.iter_mut().for_each(|second| second.rest(PAUSE));
                (moved, onward)
            });
            RequestFlow {
                bytes: cold.0.bytes,
                rounds: [cold.0.rounds, warm.0.rounds],
                onward: [cold.1, warm.1],
                ..flow
            }
        }
    }
}

struct ReceivedObject {
    /// Bytes of all of it, in both directions.
    bytes: BytesBothWays,
    /// Bytes that came with each round trip.
    rounds: Vec<f64>,
    /// The messages, and the time until each was whole.
    messages: Vec<(Duration, Bytes)>,
}

/// Two distant ends of a connection without limits between them.
struct ConnectionPair {
    ends: [ConnectionEnd; 2],
    now: Time,
    /// Packets in flight, in the order of sending, with the receiving end.
    air: VecDeque<(Time, usize, Bytes)>,
    /// Bytes sent by each end so far.
    bytes: BytesBothWays,
    /// The bytes that came to the second end, by time.
    arrived: BTreeMap<Time, f64>,
    /// Messages that each end has received and not read.
    heard: VecDeque<(usize, Bytes)>,
}

impl ConnectionPair {
    /// A connection whose dialler may send.
    fn connected(scheme: Scheme) -> Self {
        let now = Time::ZERO;
        let ends =
            [ConnectionEnd::dial(scheme, Detail::Message, now), ConnectionEnd::accept(scheme, Detail::Message, now)];
        let (air, heard) = (VecDeque::new(), VecDeque::new());
        let mut pair = Self { ends, now, air, bytes: [0.0; 2], arrived: BTreeMap::new(), heard };
        let mut is_up = false;
        while !is_up && pair.step(END) {
            while let Some(happening) = pair.ends[0].poll_event() {
                is_up |= matches!(happening, EndEvent::Up { .. });
            }
        }
        pair
    }

    fn post(&mut self) {
        for end in 0..2 {
            while let Some(parcel) = self.ends[end].poll_packet(self.now) {
                self.bytes[end] += f64::from(parcel.bytes) + HEADER_BYTES as f64;
                self.air.push_back((self.now + ONE_WAY, 1 - end, parcel.content));
                if end == 0 {
                    *self.arrived.entry(self.now + ONE_WAY).or_default() +=
                        f64::from(parcel.bytes) + HEADER_BYTES as f64;
                }
            }
        }
    }

    /// Handles the next event that is due by `until`; false if there is none.
    fn step(&mut self, until: Time) -> bool {
        self.post();
        let [first, second] = &mut self.ends;
        let air = self.air.front().map(|(at, ..)| *at);
        let Some(at) = [air, first.deadline(), second.deadline()].into_iter().flatten().min().filter(|at| *at <= until)
        else {
            return false;
        };
        self.now = self.now.max(at);
        if air.is_some_and(|air| air <= self.now) {
            if let Some((_, end, content)) = self.air.pop_front() {
                self.ends[end].handle_packet(self.now, 0, &content);
            }
        } else {
            self.ends.iter_mut().for_each(|end| end.handle_timeout(self.now));
        }
        for end in 0..2 {
            while let Some(happening) = self.ends[end].poll_event() {
                if let EndEvent::Message(message) = happening {
                    self.heard.push_back((end, message));
                }
            }
        }
        self.post();
        true
    }

    /// Runs up to a time, or until nothing is left to do.
    fn run(&mut self, until: Time) {
        while self.step(until) {}
        self.now = self.now.max(until.min(self.now + 4 * ONE_WAY));
    }

    fn rest(&mut self, pause: Duration) {
        let until = self.now + pause;
        while self.step(until) {}
        self.now = until;
    }

    fn send(&mut self, end: usize, channel: Channel, message: &Message) {
        self.ends[end].send(self.now, channel, message.encode());
        self.post();
    }

    /// Bytes of one control message, in both directions.
    fn exchange(&mut self, message: &Message) -> BytesBothWays {
        let before = self.bytes;
        self.send(0, Channel::Datagram, message);
        self.run(self.now + 8 * ONE_WAY);
        since(self.bytes, before)
    }

    /// Bytes of a whole stream, and of the packets with its first data.
    fn stream(
        &mut self,
        accept: &Message,
        bits_per_second: u32,
        packet_bytes: u32,
        length: Duration,
    ) -> (BytesBothWays, f64) {
        let (begun, sample) = (self.now, length.min(SAMPLE));
        let pause = Duration::from_nanos(u64::from(packet_bytes) * 8_000_000_000 / u64::from(bits_per_second));
        let mut sender = StreamSender::new(RequestId(1000), begun);
        let before = self.bytes;
        self.send(0, Channel::Datagram, accept);
        let mut first = 0.0;
        let mut report = begun + REPORT_INTERVAL;
        let payload = Bytes::from(vec![0x5a; packet_bytes as usize]);
        while self.now < begun + sample {
            if let Some(packet) = sender.packet(self.now, payload.clone()) {
                self.send(0, Channel::Datagram, &packet.into());
            }
            if first == 0.0 {
                first = self.bytes[0] - before[0];
            }
            let next = self.now + pause;
            while self.step(next) {}
            self.now = next;
            if self.now >= report {
                self.send(1, Channel::Datagram, &Message::Flow(FlowMessage::Report(Default::default())));
                report = report + REPORT_INTERVAL;
            }
        }
        let scale = length.as_secs_f64() / sample.as_secs_f64().max(1e-9);
        let data = since(self.bytes, before).map(|bytes| bytes * scale);
        let before = self.bytes;
        if let Some(end) = sender.end() {
            self.send(0, Channel::Reliable { flow: 1000 }, &end.into());
        }
        self.run(self.now + 8 * ONE_WAY);
        let end = since(self.bytes, before);
        ([data[0] + end[0], data[1] + end[1]], first)
    }

    /// Sends a whole object; data that is ready at one time leaves together.
    fn object(&mut self, accept: &Message, object: &Bytes) -> ReceivedObject {
        let id = RequestId(1000);
        let (mut sender, mut receiver) = (
            ObjectSender::held(id, object.clone(), digest(object)),
            ObjectReceiver::new(id, object.len() as u64, digest(object), 0),
        );
        let channel = Channel::Reliable { flow: id.0 };
        let (before, began) = (self.bytes, self.now);
        self.arrived.clear();
        self.heard.clear();
        self.ends[0].send(self.now, channel, accept.encode());
        let until = self.now + Duration::from_secs(600);
        let (mut whole, mut messages) = (None, Vec::new());
        loop {
            while let Some(message) = sender.poll(self.now, SendBudget::ALL) {
                self.ends[0].send(self.now, channel, Message::from(message).encode());
            }
            while let Some((end, message)) = self.heard.pop_front() {
                if end == 1 {
                    messages.push((self.now.since(began), message.clone()));
                }
                match Message::decode(&message) {
                    Ok(Message::Flow(FlowMessage::Chunk(chunk))) => {
                        let fresh = receiver.chunk(chunk).map_or(0, |fresh| fresh.len());
                        receiver.read(fresh as u64);
                        if receiver.has_everything() {
                            whole.get_or_insert(self.now);
                        }
                        if receiver.wants_report() && receiver.has_news() {
                            let report = Message::Flow(FlowMessage::Report(receiver.report()));
                            self.send(1, Channel::Datagram, &report);
                        }
                    }
                    Ok(Message::Flow(FlowMessage::Report(report))) => {
                        sender.report(self.now, 2 * ONE_WAY, report.bytes)
                    }
                    _ => {}
                }
            }
            if !self.step(until) {
                break;
            }
        }
        // Later packets are acknowledgements.
        let of_object = self.arrived.range(..=whole.unwrap_or(until));
        ReceivedObject { bytes: since(self.bytes, before), rounds: rounds(of_object), messages }
    }

    /// Relays the messages of an object, each when it has come from a provider as far away as the other end.
    fn pass_on(&mut self, messages: &[(Duration, Bytes)]) -> RelayedData {
        let (began, channel) = (self.now, Channel::Reliable { flow: 1000 });
        self.arrived.clear();
        self.heard.clear();
        for (at, message) in messages {
            let pause = (began + *at).since(self.now);
            if !pause.is_zero() {
                self.rest(pause);
            }
            self.ends[0].send(self.now, channel, message.clone());
        }
        while self.heard.len() < messages.len() && self.step(END) {}
        let is_data = |message: &Bytes| matches!(Message::decode(message), Ok(Message::Flow(FlowMessage::Chunk(_))));
        let first = messages.iter().find(|(_, message)| is_data(message)).map_or(ONE_WAY, |(at, _)| *at);
        let lead = (first.saturating_sub(ONE_WAY).as_secs_f64() / (2.0 * ONE_WAY.as_secs_f64())).round() as usize;
        RelayedData { lead, rounds: rounds(self.arrived.range(began + first..=self.now)) }
    }
}

fn since(now: BytesBothWays, before: BytesBothWays) -> BytesBothWays {
    [now[0] - before[0], now[1] - before[1]]
}

/// Arrivals less than half a round trip apart belong to one round.
fn rounds<'a>(arrived: impl Iterator<Item = (&'a Time, &'a f64)>) -> Vec<f64> {
    let mut rounds: Vec<f64> = Vec::new();
    let mut last: Option<Time> = None;
    for (at, bytes) in arrived {
        match rounds.last_mut().filter(|_| last.is_some_and(|last| at.since(last) < ONE_WAY)) {
            Some(round) => *round += bytes,
            None => rounds.push(*bytes),
        }
        last = Some(*at);
    }
    rounds
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn exchanges() -> RequestCosts {
        let plan = "topology = 'x'\narchitecture = 'super-node'\nduration = '60s'\n";
        RequestCosts::measure(&Plan::parse(plan, Path::new("p.toml")).unwrap(), false)
    }

    #[test]
    fn data_dominates_request_cost() {
        let RequestCosts { flows: [video, track, image, sensor], request, route_request: carry, .. } = exchanges();
        for (flow, payload) in [(&video, 875_000.0), (&track, 50_000.0), (&image, 100_000.0), (&sensor, 10_000.0)] {
            let over = flow.bytes[0] / payload;
            assert!(over > 1.0 && over < 1.5, "{flow:?}");
            assert!(flow.bytes[1] > 0.0 && flow.bytes[1] < flow.bytes[0] / 5.0, "{flow:?}");
        }
        assert!(request[0] > 64.0 && request[0] < carry[0], "{request:?} {carry:?}");
    }

    #[test]
    fn udp_handshake_two_trips_tcp_three() {
        let RequestCosts { flows: [video, _, _, sensor], .. } = exchanges();
        assert_eq!((video.dial_trips.round(), sensor.dial_trips.round()), (2.0, 3.0));
        assert!(video.handshake.iter().all(|bytes| *bytes > 800.0));
    }

    #[test]
    fn warm_image_takes_no_more_trips() {
        let RequestCosts { flows: [video, _, image, sensor], .. } = exchanges();
        assert_eq!((video.rounds[0].len(), sensor.rounds[0].len()), (1, 1));
        let [cold, warm] = image.rounds;
        assert_eq!((cold.len(), warm.len()), (3, 3), "{cold:?} {warm:?}");
        // Each round of a slow start is about twice the one before.
        assert!((1.7..2.3).contains(&(cold[1] / cold[0])), "{cold:?}");
    }
}
