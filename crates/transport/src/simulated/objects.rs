//! Two nodes, and an object from one to the other over a path of a certain rate.

use std::collections::VecDeque;

use roost_core::machine::Machine;
use roost_core::node::{
    Discovery, Node, NodeCommand, NodeConfig, NodeEvent, Provider, RequestSummary, SourceOutput, Ticket,
};
use roost_wire::RemoteIdentity as Remote;
use roost_wire::messages::ServiceRequest;
use roost_wire::object::digest;
use roost_wire::random::{RootSecret, SplitMix64};
use roost_wire::{Address, Area, Cell, ConnectionId, DeliveryClasses, Labels, NodeId, Role, Service, ServiceSet};

use roost_core::{Input, Transmit};

use super::*;

const CONNECTION: ConnectionId = ConnectionId(1);
const TICKET: Ticket = Ticket(1);

/// A direction of the path. Packets wait for those before them, and are lost by chance, or if more wait than pass in
/// one round trip.
struct SimulatedWire {
    bits_per_second: u64,
    delay: Duration,
    /// Lost packets in a million.
    loss: u64,
    random: SplitMix64,
    free: Time,
    wire: VecDeque<(Time, Bytes)>,
}

impl SimulatedWire {
    fn push(&mut self, now: Time, parcel: SimPacket) {
        let begins = self.free.max(now);
        if begins.since(now) >= 2 * self.delay {
            return;
        }
        self.free = begins + Duration::from_nanos(u64::from(parcel.bytes) * 8_000_000_000 / self.bits_per_second);
        if self.random.below(1_000_000) >= self.loss {
            self.wire.push_back((self.free + self.delay, parcel.content));
        }
    }
}

struct TransferHarness {
    now: Time,
    nodes: [Node; 2],
    ends: Option<[ConnectionEnd; 2]>,
    ways: [SimulatedWire; 2],
    dial: Option<roost_wire::DialId>,
    object: Bytes,
    /// The arrival times and sizes of the object's parts.
    came: Vec<(Time, usize)>,
    summary: Option<RequestSummary>,
}

fn node(number: u8) -> NodeId {
    NodeId::from_bytes([number + 1; 16])
}

fn address(number: u8) -> Address {
    Address::single(Scheme::Quic, ([10, 0, 0, number + 1], 7700).into())
}

fn new_node(number: u8) -> Node {
    Node::new(NodeConfig {
        node: node(number),
        name: String::new(),
        labels: Labels::default(),
        epoch: 1,
        cell: Cell::new(0, 0),
        position: None,
        datum: None,
        services: [Service::Image].into_iter().filter(|_| number == 0).collect::<ServiceSet>(),
        hubs: Vec::new(),
        hub_role: Role::SuperNode,
        addresses: vec![address(number)],
        max_streams: 8,
        uplink_kbps: None,
        stream_duration: Duration::from_secs(1),
        media: None,
        classes: DeliveryClasses::default(),
        multicast: true,
        discovery: Discovery::Multicast,
        seed: u64::from(number),
        secret: RootSecret::of_seed(u64::from(number)),
    })
}

impl TransferHarness {
    fn new(bits_per_second: u64, delay: Duration, loss: u64, bytes: usize) -> Self {
        let now = Time::from_nanos(1_000_000_000);
        let random = SplitMix64::new(7);
        let way =
            || SimulatedWire { bits_per_second, delay, loss, random: random.clone(), free: now, wire: VecDeque::new() };
        let object = Bytes::from(vec![0x5a; bytes]);
        let nodes = [new_node(0), new_node(1)];
        let (ways, came) = ([way(), way()], Vec::new());
        Self { now, nodes, ends: None, ways, dial: None, object, came, summary: None }
    }

    fn input(&mut self, side: usize, input: Input<NodeCommand>) {
        self.nodes[side].handle(self.now, input);
        self.drain_node(side);
    }

    fn drain_node(&mut self, side: usize) {
        loop {
            while let Some(transmit) = self.nodes[side].poll_transmit() {
                self.carry_out(side, transmit);
            }
            let Some(event) = self.nodes[side].poll_event() else { return };
            let answer = match event {
                NodeEvent::OpenSource { session, .. } => {
                    let (length, digest) = (self.object.len() as u64, digest(&self.object));
                    let opened = SourceOutput::Stored { length, digest, format: String::new() };
                    NodeCommand::SourceOpened { session, opened }
                }
                NodeEvent::ReadObject { session, offset, length, .. } => {
                    let bytes = self.object.slice(offset as usize..(offset + length) as usize);
                    NodeCommand::ObjectRead { session, offset, bytes }
                }
                NodeEvent::Data { ticket, payload } => {
                    self.came.push((self.now, payload.len()));
                    NodeCommand::Consumed { ticket, bytes: payload.len() as u64 }
                }
                NodeEvent::Finished { summary, .. } => {
                    self.summary = Some(summary);
                    continue;
                }
                NodeEvent::Failed { detail, .. } => panic!("{detail}"),
                _ => continue,
            };
            self.nodes[side].handle(self.now, Input::Command(answer));
        }
    }

    fn carry_out(&mut self, side: usize, transmit: Transmit) {
        match transmit {
            Transmit::Dial { dial, .. } => {
                self.dial = Some(dial);
                let (now, rate) = (instant(self.now), Congestion::Rate);
                let ends = [QuicEnd::accept(now, rate, false), QuicEnd::dial(now, rate, 1)];
                self.ends = Some(ends.map(|end| ConnectionEnd(Box::new(end))));
            }
            Transmit::Message { channel, delivery, message, .. } => {
                if let Some(ends) = &mut self.ends {
                    ends[side].send_as(self.now, channel, &delivery, message);
                }
            }
            Transmit::Multicast { .. } | Transmit::Close { .. } => {}
        }
    }

    /// Advances to the next event.
    fn step(&mut self) {
        for side in 0..2 {
            while self.ways[1 - side].wire.front().is_some_and(|(at, _)| *at <= self.now) {
                let (_, content) = self.ways[1 - side].wire.pop_front().unwrap();
                self.ends.as_mut().unwrap()[side].handle_packet(self.now, 0, &content);
            }
            self.drive(side);
        }
        let machines = self.nodes.iter().filter_map(|node| node.poll_deadline().map(|deadline| deadline.at));
        let ends = self.ends.iter_mut().flatten().filter_map(ConnectionEnd::deadline);
        let wires = self.ways.iter().filter_map(|way| way.wire.front().map(|(at, _)| *at));
        let next = machines.chain(ends).chain(wires).min().expect("something is to happen");
        self.now = next.max(self.now + Duration::from_micros(10));
    }

    fn drive(&mut self, side: usize) {
        if self.nodes[side].poll_deadline().is_some_and(|deadline| deadline.at <= self.now) {
            self.input(side, Input::Timeout);
        }
        let Some(end) = self.ends.as_mut().map(|ends| &mut ends[side]) else { return };
        if end.deadline().is_some_and(|at| at <= self.now) {
            end.handle_timeout(self.now);
        }
        let happenings: Vec<_> = std::iter::from_fn(|| end.poll_event()).collect();
        for happening in happenings {
            let other = 1 - side as u8;
            let input = match happening {
                EndEvent::Up { rtt } => Input::ConnectionUp {
                    connection: CONNECTION,
                    dial: self.dial.filter(|_| side == 1),
                    remote: Remote {
                        node: node(other),
                        role: Role::Node,
                        name: String::new(),
                        labels: Labels::default(),
                    },
                    address: address(other),
                    rtt,
                },
                EndEvent::Message(message) => Input::Message { connection: CONNECTION, message },
                EndEvent::Down { reason } => panic!("{reason}"),
            };
            self.input(side, input);
        }
        let ends = self.ends.as_mut().unwrap();
        while let Some(parcel) = ends[side].poll_packet(self.now) {
            self.ways[side].push(self.now, parcel);
        }
    }

    /// The rate at which the second half of the object arrived, bits per second.
    fn carry(&mut self) -> f64 {
        let request = ServiceRequest {
            timeout: Some(Duration::from_secs(30)),
            ..ServiceRequest::new(Service::Image, Area::Anywhere)
        };
        let provider = Some(Provider { node: node(0), addresses: vec![address(0)] });
        self.input(1, Input::Command(NodeCommand::Request { ticket: TICKET, request, provider }));
        while self.summary.is_none() {
            self.step();
        }
        assert!(self.summary.as_ref().is_some_and(|summary| summary.complete), "{:?}", self.summary);
        let half = self.object.len() / 2;
        let mut sum = 0;
        let begin = self.came.iter().find(|(_, bytes)| {
            sum += bytes;
            sum >= half
        });
        let span = self.came.last().unwrap().0.since(begin.unwrap().0);
        half as f64 * 8.0 / span.as_secs_f64()
    }
}

#[test]
fn object_fills_fat_and_satellite_paths() {
    for (rate, delay, loss, bytes, share) in [
        (200_000_000, 50, 0, 60_000_000, 0.85),
        (200_000_000, 50, 100, 60_000_000, 0.85),
        (20_000_000, 300, 1000, 80_000_000, 0.75),
    ] {
        let came = TransferHarness::new(rate, Duration::from_millis(delay), loss, bytes).carry();
        assert!(came >= share * rate as f64, "{:.1} of {:.1} Mbit/s", came / 1e6, rate as f64 / 1e6);
    }
}
