//! A publication and its members, whatever they do: everybody who is in can open
//! the stream, nobody who has left can open the epoch after, and the source
//! runs while somebody wants it.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests only")]

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::Duration;

use proptest::prelude::*;
use roost_core::Transmit;
use roost_core::machine::{Input, Machine};
use roost_core::node::{
    Discovery, LINGER, MEMBER_SILENCE, Node, NodeCommand, NodeConfig, NodeEvent, SessionId, SourceOutput,
};
use roost_wire::RemoteIdentity as Remote;
use roost_wire::messages::{
    Accept, CopyTarget, FlowMessage, Message, Reason, Rekey, Report, Request, RequestMessage, Route, ServiceRequest,
    StreamKeys,
};
use roost_wire::random::RootSecret;
use roost_wire::{
    Address, Area, Cell, ConnectionId, DeliveryClasses, Epoch, EpochSecret, Labels, NodeId, Nonce, RequestId, Role,
    Scheme, Service, StreamId, StreamTag, Time,
};

const HUB: ConnectionId = ConnectionId(1);
const NODES: u8 = 4;

fn node(number: u8) -> NodeId {
    NodeId::from_bytes([number; 16])
}

fn address(number: u8) -> Address {
    Address::single(Scheme::Udp, ([10, 0, 0, number], 7_700).into())
}

fn media(number: u8) -> SocketAddr {
    ([10, 0, 0, number], 9_000).into()
}

fn secret(stream: StreamId, epoch: Epoch) -> EpochSecret {
    EpochSecret::from_bytes([(stream.0 as u8).wrapping_mul(31).wrapping_add(epoch.0 as u8); 32])
}

#[derive(Clone, Debug)]
enum MemberStep {
    /// A node asks for the stream, by a further request.
    Join(u8),
    /// A request of a node comes once more.
    Repeat(u8),
    /// A node stops its latest request.
    Leave(u8),
    /// From now on a node is silent, or is not any more.
    Silence(u8, bool),
    /// A node's connection goes, and comes again.
    Lose(u8),
    /// The next epoch is drawn.
    Rekey,
    Wait(u64),
}

fn step() -> impl Strategy<Value = MemberStep> {
    let node = || 1..=NODES;
    prop_oneof![
        4 => node().prop_map(MemberStep::Join),
        1 => node().prop_map(MemberStep::Repeat),
        3 => node().prop_map(MemberStep::Leave),
        1 => (node(), any::<bool>()).prop_map(|(node, silent)| MemberStep::Silence(node, silent)),
        1 => node().prop_map(MemberStep::Lose),
        2 => Just(MemberStep::Rekey),
        3 => (1..20_000u64).prop_map(MemberStep::Wait),
    ]
}

/// A provider, the nodes around it, and what each of them knows.
struct PublicationScene {
    provider: Node,
    now: Time,
    connections: BTreeMap<u8, ConnectionId>,
    next_connection: u64,
    next_request: u32,
    /// The requests that a node has under way, as it sees it, and when it last reported.
    wanted: BTreeMap<u8, Vec<RequestId>>,
    reported: Time,
    silent: BTreeMap<u8, Time>,
    /// Epochs of each stream that each node can open.
    known: BTreeMap<u8, BTreeSet<(StreamId, Epoch)>>,
    /// The source that runs, and its latest epoch.
    source: Option<(SessionId, StreamId, Epoch)>,
    streams: u64,
    departures: usize,
    offers: Vec<(SocketAddr, StreamTag)>,
    /// Since when nobody wants the stream.
    unwanted: Option<Time>,
    /// True if sealed keys are left to hubs.
    seals: bool,
    /// Number of times that sealed keys were left to a hub.
    boxes: usize,
}

impl PublicationScene {
    fn new() -> Self {
        let config = NodeConfig {
            node: node(100),
            name: "n1".to_owned(),
            labels: Labels::default(),
            epoch: 1,
            cell: Cell::new(0, 0),
            position: None,
            datum: None,
            services: [Service::Video].into_iter().collect(),
            hubs: Vec::new(),
            hub_role: Role::SuperNode,
            addresses: vec![address(100)],
            max_streams: 1,
            uplink_kbps: Some(1_000),
            stream_duration: Duration::from_secs(10),
            classes: DeliveryClasses::default(),
            media: Some(media(100)),
            multicast: false,
            discovery: Discovery::SuperNode,
            seed: 1,
            secret: RootSecret::of_seed(1),
        };
        let mut scene = Self {
            provider: Node::new(config),
            now: Time::from_nanos(1),
            connections: BTreeMap::new(),
            next_connection: 1,
            next_request: 0,
            wanted: BTreeMap::new(),
            reported: Time::ZERO,
            silent: BTreeMap::new(),
            known: BTreeMap::new(),
            source: None,
            streams: 0,
            departures: 0,
            offers: Vec::new(),
            unwanted: None,
            seals: false,
            boxes: 0,
        };
        scene.connection_up(HUB, 200, Role::SuperNode);
        (1..=NODES).for_each(|number| scene.meet(number));
        scene
    }

    fn connection_up(&mut self, connection: ConnectionId, number: u8, role: Role) {
        let remote = Remote { node: node(number), role, name: format!("n{number}"), labels: Labels::default() };
        let (address, rtt) = (address(number), Duration::from_millis(20));
        self.input(Input::ConnectionUp { connection, dial: None, remote, address, rtt });
    }

    fn meet(&mut self, number: u8) {
        self.next_connection += 1;
        let connection = ConnectionId(self.next_connection);
        self.connections.insert(number, connection);
        self.connection_up(connection, number, Role::Node);
    }

    fn input(&mut self, input: Input<NodeCommand>) {
        self.provider.handle(self.now, input);
        self.drain_outputs();
    }

    fn command(&mut self, command: NodeCommand) {
        self.input(Input::Command(command));
    }

    fn say(&mut self, connection: ConnectionId, message: &Message) {
        self.input(Input::Message { connection, message: message.encode() });
    }

    fn drain_outputs(&mut self) {
        while let Some(transmit) = self.provider.poll_transmit() {
            let Transmit::Message { connection, message, .. } = transmit else { continue };
            if connection == HUB && matches!(Message::decode(&message), Ok(Message::Flow(FlowMessage::SealedKeys(_)))) {
                self.boxes += 1;
            }
            if let Some(number) =
                self.connections.iter().find(|(_, other)| **other == connection).map(|(number, _)| *number)
            {
                self.receive_message(number, Message::decode(&message).unwrap());
            }
        }
        while let Some(event) = self.provider.poll_event() {
            self.own(event);
        }
    }

    /// A node takes what the provider says to it.
    fn receive_message(&mut self, number: u8, message: Message) {
        let known = self.known.entry(number).or_default();
        match message {
            Message::Request(RequestMessage::Accept(Accept {
                stream_keys: Some(StreamKeys { stream, epoch, secret: key, next }),
                ..
            })) => {
                for (epoch, key) in [Some((epoch, key)), next].into_iter().flatten() {
                    assert_eq!(key, secret(stream, epoch));
                    known.insert((stream, epoch));
                }
            }
            Message::Flow(FlowMessage::Rekey(Rekey { stream, epoch, secret: key, .. })) => {
                assert_eq!(key, secret(stream, epoch));
                known.insert((stream, epoch));
            }
            Message::Flow(FlowMessage::Stop { id, .. }) | Message::Flow(FlowMessage::End { id, .. }) => {
                self.wanted.entry(number).or_default().retain(|wanted| *wanted != id);
            }
            _ => {}
        }
    }

    /// The provider's driver opens sources, and closes them.
    fn own(&mut self, event: NodeEvent) {
        match event {
            NodeEvent::OpenSource { session, reflected, .. } => {
                assert!(reflected && self.source.is_none(), "one source at a time");
                self.streams += 1;
                let (stream, epoch) = (StreamId(self.streams), Epoch(1));
                self.source = Some((session, stream, epoch));
                let (bits_per_second, format, secret) = (700_000, "synthetic".to_owned(), secret(stream, epoch));
                let opened = SourceOutput::Reflected { bits_per_second, format, stream, epoch, secret };
                self.command(NodeCommand::SourceOpened { session, opened });
            }
            NodeEvent::Reflect { to, tag, .. } => self.offers.push((to, tag)),
            NodeEvent::Seal { session, .. } if self.seals => {
                self.command(NodeCommand::Sealed { session, sealed: vec![1; 100].into() });
            }
            NodeEvent::MemberLeft { session } => {
                assert_eq!(Some(session), self.source.map(|(session, ..)| session));
                self.departures += 1;
            }
            NodeEvent::CloseSource { session, .. } => {
                assert_eq!(Some(session), self.source.take().map(|(session, ..)| session));
            }
            _ => {}
        }
    }

    fn forward(&mut self, number: u8, id: RequestId) {
        // A single super node reflects the stream to all.
        self.forward_to(number, id, media(200));
        assert_eq!(self.offers.pop(), Some((media(200), StreamTag(u64::from(id.0)))));
    }

    fn forward_to(&mut self, number: u8, id: RequestId, to: SocketAddr) {
        let tag = StreamTag(u64::from(id.0));
        let reflect = Some(CopyTarget { to, tag, hops: 1, provider: None, is_resuming: None });
        let route = Route { requester: node(number), reply_to: vec![address(number)], hop: None };
        let spec = ServiceRequest::new(Service::Video, Area::Anywhere);
        let request = Request::new(id, Nonce::from_u64(id.0.into()), spec, 5_000);
        self.say(
            HUB,
            &Message::Request(RequestMessage::Request(Request { route: Some(route), copy_target: reflect, ..request })),
        );
    }

    fn report_all(&mut self) {
        let mut wanted = self.wanted.clone();
        wanted.retain(|number, _| !self.silent.contains_key(number));
        for (number, requests) in wanted {
            for id in requests {
                let report = Message::Flow(FlowMessage::Report(Report { id, ..Report::default() }));
                self.say(self.connections[&number], &report);
            }
        }
        self.reported = self.now;
    }

    fn wait(&mut self, span: Duration) {
        self.wait_and(span, Self::look);
    }

    /// Waits, and looks whenever something may have happened.
    fn wait_and(&mut self, span: Duration, look: impl Fn(&mut Self)) {
        let end = self.now + span;
        while self.now < end {
            let report = self.reported + Duration::from_secs(10);
            let due = self.provider.poll_deadline().map(|deadline| deadline.at);
            let next = [Some(report), due].into_iter().flatten().min().unwrap_or(end).max(self.now).min(end);
            self.now = next;
            if self.now >= report {
                self.report_all();
            }
            self.input(Input::Timeout);
            if due.is_some_and(|due| due <= self.now) && self.provider.poll_deadline().is_some_and(|d| d.at <= self.now)
            {
                continue;
            }
            look(self);
        }
    }

    fn apply(&mut self, step: &MemberStep) {
        match *step {
            MemberStep::Join(number) => {
                self.next_request += 1;
                let id = RequestId(self.next_request);
                self.wanted.entry(number).or_default().push(id);
                self.forward(number, id);
                if !self.silent.contains_key(&number) {
                    self.say(
                        self.connections[&number],
                        &Message::Flow(FlowMessage::Report(Report { id, ..Report::default() })),
                    );
                }
            }
            MemberStep::Repeat(number) => {
                if let Some(id) = self.wanted.get(&number).and_then(|wanted| wanted.last()).copied() {
                    self.forward(number, id);
                }
            }
            MemberStep::Leave(number) => {
                if let Some(id) = self.wanted.get_mut(&number).and_then(Vec::pop) {
                    self.say(
                        self.connections[&number],
                        &Message::Flow(FlowMessage::Stop { id, reason: Reason::Cancelled }),
                    );
                }
            }
            MemberStep::Silence(number, true) => {
                self.silent.entry(number).or_insert(self.now);
            }
            MemberStep::Silence(number, false) => drop(self.silent.remove(&number)),
            MemberStep::Lose(number) => {
                let connection = self.connections[&number];
                let reason = "gone".to_owned();
                self.input(Input::ConnectionDown { connection, reason, refused: false });
                self.meet(number);
            }
            MemberStep::Rekey => self.rekey(),
            MemberStep::Wait(millis) => self.wait(Duration::from_millis(millis)),
        }
        self.look();
    }

    /// Nobody who has left before learns what opens the next epoch.
    fn rekey(&mut self) {
        let Some((session, stream, epoch)) = self.source else { return };
        let next = Epoch(epoch.0 + 1);
        self.source = Some((session, stream, next));
        let is_out = |number: &u8| self.wanted.get(number).is_none_or(Vec::is_empty);
        let out: Vec<u8> = (1..=NODES).filter(is_out).collect();
        self.command(NodeCommand::Rekey { session, epoch: next, secret: secret(stream, next) });
        for number in out {
            let knows = self.known.get(&number).is_some_and(|known| known.contains(&(stream, next)));
            assert!(!knows, "{number} has left and can open {next}");
        }
    }

    /// Checks what holds at any moment.
    fn look(&mut self) {
        let total: usize = self.wanted.values().map(Vec::len).sum();
        match (total, self.source) {
            (0, Some(_)) => {
                let since = *self.unwanted.get_or_insert(self.now);
                assert!(self.now.since(since) <= LINGER + MEMBER_SILENCE, "the source goes on for nobody");
            }
            (0, None) => {}
            (_, source) => {
                self.unwanted = None;
                let (_, stream, latest) = source.expect("somebody wants the stream");
                for (number, _) in self.wanted.iter().filter(|(_, wanted)| !wanted.is_empty()) {
                    let known = &self.known[number];
                    assert!(known.contains(&(stream, latest)), "{number} cannot open {latest}: {known:?}");
                }
            }
        }
        let status = self.provider.status(self.now);
        let members = status.publications.first().map_or(0, |publication| publication.members);
        assert_eq!(members, total, "as many members as requests under way");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]
    #[test]
    fn members_open_stream_departed_cannot(steps in prop::collection::vec(step(), 1..60)) {
        let mut scene = PublicationScene::new();
        for step in &steps {
            scene.apply(step);
        }
        for number in 1..=NODES {
            scene.silent.remove(&number);
            while !scene.wanted.get(&number).is_none_or(Vec::is_empty) {
                scene.apply(&MemberStep::Leave(number));
            }
        }
        scene.wait(LINGER);
        prop_assert!(scene.source.is_none(), "nobody wants it and it goes on");
    }

    /// The owner hears of everybody who has left, once.
    #[test]
    fn each_departure_is_told_once(joins in prop::collection::vec(1..=NODES, 1..20)) {
        let mut scene = PublicationScene::new();
        joins.iter().for_each(|number| scene.apply(&MemberStep::Join(*number)));
        let present: BTreeSet<u8> = joins.iter().copied().collect();
        joins.iter().for_each(|number| scene.apply(&MemberStep::Leave(*number)));
        prop_assert_eq!(scene.departures, present.len());
    }
}

#[test]
fn who_falls_silent_has_left() {
    let mut scene = PublicationScene::new();
    scene.apply(&MemberStep::Join(1));
    scene.apply(&MemberStep::Join(2));
    scene.apply(&MemberStep::Silence(1, true));
    scene.wait(MEMBER_SILENCE + Duration::from_secs(11));
    assert_eq!((scene.departures, scene.wanted[&1].len(), scene.wanted[&2].len()), (1, 0, 1));
    scene.apply(&MemberStep::Rekey);
}

/// A scene with one member, of whose stream a hub has what opens it.
fn scene_with_a_box() -> PublicationScene {
    let mut scene = PublicationScene::new();
    scene.seals = true;
    scene.apply(&MemberStep::Join(1));
    scene
}

#[test]
fn refused_requests_rekey_every_ten_seconds() {
    let mut scene = scene_with_a_box();
    for number in 0..300 {
        // There is no room for a copy to a second place.
        scene.forward_to(2, RequestId(1_000 + number), media(201));
        assert_eq!(scene.departures, 1 + number as usize / 100, "the first is shut out at once");
        scene.wait(Duration::from_millis(100));
    }
    scene.wait(Duration::from_secs(60));
    assert_eq!(scene.departures, 4, "the last one as well, and then nobody is left");
}

#[test]
fn abandoned_requests_rekey_rarely() {
    let mut scene = scene_with_a_box();
    for number in 0..40 {
        scene.forward_to(50 + number as u8, RequestId(1_000 + number), media(200));
        scene.wait_and(Duration::from_millis(200), |_| ());
    }
    scene.wait_and(Duration::from_secs(30), |_| ());
    assert!((1..=3).contains(&scene.departures), "{}", scene.departures);
}

#[test]
fn leaving_member_flushes_pending_rekeys() {
    let mut scene = scene_with_a_box();
    scene.apply(&MemberStep::Join(2));
    scene.forward_to(3, RequestId(1_000), media(201));
    scene.forward_to(3, RequestId(1_001), media(201));
    assert_eq!(scene.departures, 1);
    scene.apply(&MemberStep::Leave(2));
    assert_eq!(scene.departures, 2, "a member is not waited for");
    scene.wait(Duration::from_secs(30));
    assert_eq!(scene.departures, 2, "its epoch was for all of them");
}

#[test]
fn every_request_renews_sealed_keys() {
    let mut scene = scene_with_a_box();
    assert_eq!(scene.boxes, 1);
    scene.apply(&MemberStep::Repeat(1));
    assert_eq!(scene.boxes, 2, "a request that is repeated");
    scene.apply(&MemberStep::Join(2));
    assert_eq!(scene.boxes, 3, "another request");
}
