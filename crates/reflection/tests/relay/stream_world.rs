//! Whole hosts in virtual time: a publisher, hubs and subscribers, each the machine that its daemon runs. The
//! world plays the control plane: it grants what a request along a way would, and carries keys.

use std::collections::VecDeque;

use crate::*;

pub(crate) const P: u8 = 1;
const SESSION: SessionId = SessionId(1);
/// The time that messages of the control plane take.
pub(crate) const CONTROL: Duration = Duration::from_millis(60);

/// Marks the frames of [`StreamWorld`]: the first byte says what a datagram is.
struct WorldMarker;

impl FrameMarker for WorldMarker {
    fn mark(&mut self, datagram: &[u8]) -> FrameMarks {
        let number = number_of(datagram);
        let (frame, packet) = (number / PACKETS, number % PACKETS);
        FrameMarks {
            key_frame: packet == 0 && frame.is_multiple_of(GROUP),
            parameters: false,
            frame_end: packet + 1 == PACKETS,
            // Wraps around by design.
            frame: frame as u16,
        }
    }

    fn bytes_before_key_frame(&self, _: &[u8]) -> usize {
        0
    }

    fn part_bytes(&self) -> Option<usize> {
        None
    }
}

fn number_of(payload: &[u8]) -> u64 {
    u64::from_be_bytes(payload[..8].try_into().unwrap())
}

/// A message of the control plane on its way to a host.
enum ControlMessage {
    Node(NodeInput),
    Hub(HubInput),
}

/// A subscription as the control plane knows it.
struct KnownSubscription {
    host: u8,
    /// The ways that are tried one after the other.
    ways: VecDeque<Vec<u8>>,
    is_member: bool,
}

/// The stream of a request, as its application has it.
#[derive(Default)]
pub(crate) struct Played {
    /// The numbers of its payloads, and when each came.
    pub(crate) payloads: Vec<(Time, u64)>,
    pub(crate) reception: Reception,
    pub(crate) failed: Option<SubscriptionError>,
}

impl Played {
    pub(crate) fn numbers(&self) -> Vec<u64> {
        self.payloads.iter().map(|(_, number)| *number).collect()
    }

    /// The numbers that are missing between the first payload and the last.
    pub(crate) fn missing(&self) -> Vec<u64> {
        let had: BTreeSet<u64> = self.payloads.iter().map(|(_, number)| *number).collect();
        let (Some(first), Some(last)) = (had.first(), had.last()) else { return Vec::new() };
        (*first..*last).filter(|number| !had.contains(number)).collect()
    }

    /// Asserts that each payload came once and in order, and that the counts say so.
    pub(crate) fn assert_in_order(&self) {
        let numbers = self.numbers();
        assert!(numbers.windows(2).all(|pair| pair[0] < pair[1]), "out of order: {numbers:?}");
        assert_eq!(self.reception.packets, numbers.len() as u64);
    }
}

pub(crate) struct StreamWorld {
    pub(crate) now: Time,
    pub(crate) network: VirtualNetwork,
    nodes: BTreeMap<u8, NodeReflection>,
    hubs: BTreeMap<u8, HubReflection>,
    messages: Vec<(Time, u8, ControlMessage)>,
    next_frame: Option<Time>,
    published: u64,
    key: AnnouncedKey,
    subscriptions: BTreeMap<Ticket, KnownSubscription>,
    pub(crate) played: BTreeMap<Ticket, Played>,
    pub(crate) commands: Vec<(Time, u8, NodeCommand)>,
    tag: u64,
}

impl StreamWorld {
    /// A world in which the publisher's stream has begun.
    pub(crate) fn new(seed: u64) -> Self {
        let key = AnnouncedKey { epoch: Epoch(1), secret: EpochSecret::from_bytes([1; 32]) };
        let mut world = Self {
            now: Time::from_nanos(1_000_000_000),
            network: VirtualNetwork::new(seed),
            nodes: BTreeMap::new(),
            hubs: BTreeMap::new(),
            messages: Vec::new(),
            next_frame: None,
            published: 0,
            key: key.clone(),
            subscriptions: BTreeMap::new(),
            played: BTreeMap::new(),
            commands: Vec::new(),
            tag: 0,
        };
        let marker = Box::new(WorldMarker);
        let publication = NewPublication { session: SESSION, stream: STREAM, key, marker };
        world.node_input(P, NodeInput::Publish(publication));
        world.next_frame = Some(world.now);
        world
    }

    fn node_input(&mut self, host: u8, input: NodeInput) {
        let mut drawn = host;
        let secrets = move |bytes: &mut [u8]| {
            drawn = drawn.wrapping_add(16);
            bytes.fill(drawn);
            true
        };
        let new = || NodeReflection::new(RelayConfig::default(), [host; 32], Box::new(secrets));
        let now = self.now;
        self.nodes.entry(host).or_insert_with(new).handle_input(now, input);
        self.drain(host);
    }

    fn hub_input(&mut self, host: u8, input: HubInput) {
        let now = self.now;
        let new = || HubReflection::new(RelayConfig::default(), [host; 32]);
        self.hubs.entry(host).or_insert_with(new).handle_input(now, input);
    }

    fn deliver_message(&mut self, host: u8, message: ControlMessage) {
        match message {
            ControlMessage::Node(input) => self.node_input(host, input),
            ControlMessage::Hub(input) => self.hub_input(host, input),
        }
    }

    fn send_message(&mut self, host: u8, message: ControlMessage) {
        self.messages.push((self.now + CONTROL, host, message));
    }

    /// A hub's process dies.
    pub(crate) fn kill_hub(&mut self, host: u8) {
        self.hubs.remove(&host);
    }

    pub(crate) fn hub(&self, host: u8) -> &HubReflection {
        &self.hubs[&host]
    }

    fn new_tag(&mut self) -> StreamTag {
        self.tag += 1;
        StreamTag(self.tag)
    }

    /// A request for the stream: the first way is used, and each other one when the way before is lost.
    pub(crate) fn subscribe(&mut self, ticket: Ticket, ways: &[&[u8]]) {
        let host = *ways[0].last().unwrap();
        let ways: VecDeque<Vec<u8>> = ways.iter().map(|way| way.to_vec()).collect();
        self.subscriptions.insert(ticket, KnownSubscription { host, ways, is_member: true });
        self.played.insert(ticket, Played::default());
        let (tag, _) = self.request(ticket);
        let key = self.key.clone();
        self.confirm(ticket, tag, key);
    }

    /// Subscribes with the word of a hub before that of the provider, which comes so much later.
    pub(crate) fn subscribe_foretold(&mut self, ticket: Ticket, way: &[u8], key: AnnouncedKey, later: Duration) {
        let host = *way.last().unwrap();
        let known = KnownSubscription { host, ways: VecDeque::from([way.to_vec()]), is_member: true };
        self.subscriptions.insert(ticket, known);
        self.played.insert(ticket, Played::default());
        let (tag, host) = self.request(ticket);
        let source = self.source();
        self.send_message(host, ControlMessage::Node(NodeInput::Foretell { ticket, source, key }));
        let confirm = NodeInput::Confirm { ticket, tag, source, key: self.key.clone() };
        self.messages.push((self.now + CONTROL + later, host, ControlMessage::Node(confirm)));
    }

    fn source(&self) -> StreamSource {
        StreamSource { stream: STREAM, provider: owner() }
    }

    fn confirm(&mut self, ticket: Ticket, tag: StreamTag, key: AnnouncedKey) {
        let (host, source) = (self.subscriptions[&ticket].host, self.source());
        let confirm = NodeInput::Confirm { ticket, tag, source, key };
        self.send_message(host, ControlMessage::Node(confirm));
    }

    /// The request along the next way leaves a grant at each hub. Returns its tag, and its host.
    fn request(&mut self, ticket: Ticket) -> (StreamTag, u8) {
        let known = self.subscriptions.get_mut(&ticket).unwrap();
        let way = known.ways.pop_front().unwrap();
        let (subscriber, hubs) = way.split_last().unwrap();
        let tag = self.new_tag();
        self.node_input(*subscriber, NodeInput::Expect { ticket, tag, door: None });
        let (mut to, mut their_tag, mut kind) = (*subscriber, tag, DownstreamKind::Subscriber);
        for hub in hubs[1..].iter().rev() {
            let tag = self.new_tag();
            let grant = ReflectionGrant {
                tag,
                to: at(to),
                their_tag,
                kind,
                service: Service::Video,
                cell: None,
                provider: Some(owner()),
                begin: StartCondition::Answered,
            };
            self.send_message(*hub, ControlMessage::Hub(HubInput::Grant(grant)));
            (to, their_tag, kind) = (*hub, tag, DownstreamKind::Reflector);
        }
        let offer = NodeInput::Offer { stream: STREAM, to: at(to), tag: their_tag };
        self.send_message(P, ControlMessage::Node(offer));
        (tag, *subscriber)
    }

    /// A request ends, and the publisher hears of it.
    pub(crate) fn unsubscribe(&mut self, ticket: Ticket) {
        let host = self.subscriptions[&ticket].host;
        self.node_input(host, NodeInput::Release { ticket });
        self.exclude(ticket);
    }

    /// A subscriber may read no further; its host does not know.
    pub(crate) fn exclude(&mut self, ticket: Ticket) {
        self.subscriptions.get_mut(&ticket).unwrap().is_member = false;
        self.send_message(P, ControlMessage::Node(NodeInput::MemberLeft { session: SESSION }));
    }

    pub(crate) fn passes(&mut self, time: Duration) {
        let end = self.now + time;
        loop {
            self.exchange();
            let message = self.messages.iter().map(|(due, ..)| *due).min();
            let due = self.nodes.values().filter_map(NodeReflection::poll_deadline);
            let due = due.chain(self.hubs.values().filter_map(HubReflection::poll_deadline)).min();
            let next = [self.network.next(), self.next_frame, message, due].into_iter().flatten().min();
            let Some(next) = next.filter(|next| *next <= end) else { break };
            self.now = next.max(self.now);
            self.step();
        }
        self.now = end;
    }

    fn step(&mut self) {
        let now = self.now;
        while self.next_frame.is_some_and(|next| next <= now) {
            self.publish_frame();
        }
        while let Some(place) = self.messages.iter().position(|(due, ..)| *due <= now) {
            let (_, host, message) = self.messages.remove(place);
            self.deliver_message(host, message);
        }
        while let Some(flight) = self.network.poll(now) {
            let path = at(flight.from).into();
            if let Some(node) = self.nodes.get_mut(&flight.to) {
                node.handle_datagram(now, path, &flight.datagram);
                self.drain(flight.to);
            } else if let Some(hub) = self.hubs.get_mut(&flight.to) {
                hub.handle_datagram(now, path, &flight.datagram);
            }
        }
        self.hubs.values_mut().for_each(|hub| hub.handle_timeout(now));
        for host in self.nodes.keys().copied().collect::<Vec<_>>() {
            self.nodes.get_mut(&host).into_iter().for_each(|node| node.handle_timeout(now));
            self.drain(host);
        }
    }

    fn publish_frame(&mut self) {
        for _ in 0..PACKETS {
            let mut payload = self.published.to_be_bytes().to_vec();
            payload.resize(1000, 7);
            self.published += 1;
            self.node_input(P, NodeInput::Payload { stream: STREAM, payload: Bytes::from(payload) });
        }
        self.next_frame = self.next_frame.map(|next| next + FRAME);
    }

    pub(crate) fn published(&self) -> u64 {
        self.published
    }

    /// Everything that is to be sent leaves.
    fn exchange(&mut self) {
        let now = self.now;
        let mut sent = Vec::new();
        self.nodes.iter_mut().for_each(|(host, node)| send_all(now, *host, node, &mut sent));
        for (host, hub) in &mut self.hubs {
            send_all(now, *host, hub, &mut sent);
            while hub.poll_output(now).is_some() {}
        }
        for host in self.nodes.keys().copied().collect::<Vec<_>>() {
            self.drain(host);
        }
        sent.into_iter().for_each(|(from, to, packet)| self.network.send(now, (from, to), &packet));
    }

    fn drain(&mut self, host: u8) {
        let now = self.now;
        while let Some(output) = self.nodes.get_mut(&host).and_then(|node| node.poll_output(now)) {
            self.handle_output(host, output);
        }
    }

    fn handle_output(&mut self, host: u8, output: NodeOutput) {
        match output {
            NodeOutput::Payload { ticket, payload, reception } => {
                let played = self.played.get_mut(&ticket).unwrap();
                played.payloads.push((self.now, number_of(&payload)));
                played.reception = reception;
            }
            NodeOutput::Received { ticket, reception } => self.played.get_mut(&ticket).unwrap().reception = reception,
            NodeOutput::SubscriptionFailed { ticket, error } => {
                self.played.get_mut(&ticket).unwrap().failed = Some(error);
            }
            NodeOutput::Command(command) => self.handle_command(host, command),
            NodeOutput::Published { result, .. } => result.unwrap(),
            NodeOutput::KeyFrameWanted { .. } => {}
            other => panic!("{other:?}"),
        }
    }

    /// The control plane acts on a command, as the machines of the core would.
    fn handle_command(&mut self, host: u8, command: NodeCommand) {
        match &command {
            NodeCommand::Rekey { epoch, secret, .. } => {
                self.key = AnnouncedKey { epoch: *epoch, secret: secret.clone() };
                let members = self.subscriptions.iter().filter(|(_, known)| known.is_member);
                let told: Vec<(u8, Ticket)> = members.map(|(ticket, known)| (known.host, *ticket)).collect();
                for (host, ticket) in told {
                    let key = self.key.clone();
                    self.send_message(host, ControlMessage::Node(NodeInput::Key { ticket, key }));
                }
            }
            NodeCommand::Resubscribe { ticket, .. } if !self.subscriptions[ticket].ways.is_empty() => {
                let (ticket, key) = (*ticket, self.key.clone());
                let (tag, _) = self.request(ticket);
                self.confirm(ticket, tag, key);
            }
            _ => {}
        }
        self.commands.push((self.now, host, command));
    }
}

/// Collects the datagrams that a machine sends.
fn send_all<M: ReflectionMachine>(now: Time, host: u8, machine: &mut M, sent: &mut Vec<(u8, u8, Vec<u8>)>) {
    machine.end_batch(now);
    while let Some(transmit) = machine.poll_transmit(now) {
        let to = host_at(transmit.to);
        let before = sent.len();
        sent.extend(transmit.contents.chunks(transmit.segment).map(|packet| (host, to, packet.to_vec())));
        let outcome = SendOutcome { sent: (sent.len() - before) as u32, ..SendOutcome::default() };
        machine.record_outcome(now, &transmit, outcome);
    }
}
