//! Objects that one node sends to another.

use roost_wire::object::digest;

use crate::*;

const BYTES: usize = 3_000_000;
/// A push may take its time where a tenth of all packets is lost.
const DEADLINE: Duration = Duration::from_secs(20);

/// Two nodes that offer nothing, at hubs of their own.
fn two(seed: u64, role: Role) -> (World, HostId, HostId) {
    let mut world = World::new(seed);
    let hubs = [world.hub(role), world.hub(role)];
    let sender = world.node((27, 92), &[], &hubs[..1]);
    let receiver = world.node((0, 0), &[], &hubs[1..]);
    world.hosts[sender.0].stored = object(BYTES);
    world.run_until_attached();
    (world, sender, receiver)
}

fn push(world: &mut World, sender: HostId, receiver: HostId) -> Ticket {
    push_to(world, sender, receiver, None)
}

fn push_to(world: &mut World, sender: HostId, receiver: HostId, place: Option<(Service, Cell)>) -> Ticket {
    push_as(world, sender, receiver, place, "survey.tif".to_owned())
}

/// Offers as many objects, each under a name of its own.
fn push_many(world: &mut World, sender: HostId, receiver: HostId, count: usize) -> Vec<Ticket> {
    (0..count).map(|number| push_as(world, sender, receiver, None, format!("survey-{number}.tif"))).collect()
}

fn push_as(
    world: &mut World,
    sender: HostId,
    receiver: HostId,
    place: Option<(Service, Cell)>,
    name: String,
) -> Ticket {
    let ticket = world.ticket(sender);
    let to = Provider { node: node_id(receiver.0), addresses: addresses(receiver.0) };
    let (length, digest) = (BYTES as u64, digest(&object(BYTES)));
    world.command(
        sender,
        NodeCommand::Push {
            ticket,
            to,
            published_service: place,
            name,
            length,
            digest,
            deadline: DEADLINE,
            delivery: None,
        },
    );
    ticket
}

/// Pushes that were offered to a host, each once.
fn offered(world: &World, host: HostId) -> Vec<Push> {
    let offer = |event: &NodeEvent| match event {
        NodeEvent::PushOffered { push, .. } => Some(push.clone()),
        _ => None,
    };
    world.events(host).iter().filter_map(|(_, event)| offer(event)).collect()
}

/// Asks for what was offered, from `offset` on.
fn request_pushed(world: &mut World, receiver: HostId, sender: HostId, push: &Push, offset: u64) -> Ticket {
    world.request_with(receiver, Service::Image, ANYWHERE, |wanted| {
        wanted.provider = Some(Provider { node: node_id(sender.0), addresses: push.addresses.clone() });
        wanted.resume = Some(ResumePoint { digest: push.digest, offset });
        wanted.pushed = true;
    })
}

fn receive(world: &mut World, receiver: HostId, sender: HostId, push: &Push, reception: PushState) {
    let from = node_id(sender.0);
    world.command(receiver, NodeCommand::PushEnded { from, id: push.id, state: reception });
}

fn pushed(world: &mut World, sender: HostId, ticket: Ticket) -> PushState {
    match world.outcome(sender, ticket) {
        NodeEvent::Pushed { state: reception, .. } => reception,
        other => panic!("{other:?}"),
    }
}

#[test]
fn push_completes_over_lossy_paths() {
    for_seeds(10, |seed| {
        let (mut world, sender, receiver) = two(seed, Role::SuperNode);
        world.path.loss = 100;
        let ticket = push(&mut world, sender, receiver);
        let mut offers = offered(&world, receiver);
        for _ in 0..DEADLINE.as_secs() {
            if offers.is_empty() {
                world.run(SECOND);
                offers = offered(&world, receiver);
            }
        }
        let names: Vec<&str> = offers.iter().map(|offer| offer.name.as_str()).collect();
        assert_eq!(names, ["survey.tif"], "seed {seed}");
        let got = request_pushed(&mut world, receiver, sender, &offers[0], 0);
        if seed % 2 == 0 {
            world.run(300 * MS);
            world.break_connections(sender, receiver);
        }
        let summary = finished(&mut world, receiver, got);
        assert!(summary.complete && summary.digest_ok == Some(true), "seed {seed}: {summary:?}");
        assert!(world.delivered(receiver, got) == object(BYTES), "seed {seed}");
        assert!(world.hosts[sender.0].ending(ticket).is_none(), "it is not yet stored");
        receive(&mut world, receiver, sender, &offers[0], PushState::Stored);
        assert_eq!(pushed(&mut world, sender, ticket), PushState::Stored, "seed {seed}");
        world.run(2 * SECOND);
        assert_eq!(offered(&world, receiver).len(), 1, "seed {seed}");
    });
}

#[test]
fn partial_object_gets_the_rest() {
    let (mut world, sender, receiver) = two(1, Role::SuperNode);
    push(&mut world, sender, receiver);
    world.run(SECOND);
    let offer = offered(&world, receiver)[0].clone();
    for offset in [1_000_000, BYTES as u64] {
        let got = request_pushed(&mut world, receiver, sender, &offer, offset);
        assert_eq!(finished(&mut world, receiver, got).bytes, BYTES as u64 - offset);
    }
}

#[test]
fn refused_or_unanswered_push_ends() {
    let (mut world, sender, receiver) = two(2, Role::SuperNode);
    let ticket = push(&mut world, sender, receiver);
    world.run(SECOND);
    let offer = offered(&world, receiver)[0].clone();
    receive(&mut world, receiver, sender, &offer, PushState::NoInbox);
    assert_eq!(pushed(&mut world, sender, ticket), PushState::NoInbox);
    world.freeze(receiver);
    let ticket = push(&mut world, sender, receiver);
    assert_eq!(failed(&mut world, sender, ticket), Reason::TimedOut);
    // A push that was taken on and is not heard of any more ends, too.
    world.thaw(receiver);
    let ticket = push(&mut world, sender, receiver);
    world.run(2 * SECOND);
    world.kill(receiver);
    assert_eq!(pushed(&mut world, sender, ticket), PushState::Interrupted);
}

/// The transfer that was begun goes on, and takes the place of what the sender offers again.
#[test]
fn restarted_sender_sends_object_once() {
    for_seeds(6, |seed| {
        let (mut world, sender, receiver) = two(seed, Role::SuperNode);
        push(&mut world, sender, receiver);
        world.run(2 * SECOND);
        let offer = offered(&world, receiver)[0].clone();
        let got = request_pushed(&mut world, receiver, sender, &offer, 0);
        let has_some = |world: &World| world.hosts[receiver.0].payloads(got).count() > 30;
        assert!(world.run_while(5 * SECOND, has_some), "seed {seed}");
        let restart = if seed % 2 == 0 { World::restart_node } else { World::restart_silently };
        restart(&mut world, sender, &[HostId(0)], 2_000);
        world.hosts[sender.0].stored = object(BYTES);
        world.run_until_attached();
        let ticket = push(&mut world, sender, receiver);
        let summary = finished(&mut world, receiver, got);
        assert!(summary.complete && summary.digest_ok == Some(true), "seed {seed}: {summary:?}");
        assert_eq!(offered(&world, receiver).len(), 1, "seed {seed}");
        receive(&mut world, receiver, sender, &offer, PushState::Stored);
        assert_eq!(pushed(&mut world, sender, ticket), PushState::Stored, "seed {seed}");
    });
}

#[test]
fn silently_restarted_receiver_is_redialed() {
    let (mut world, sender, receiver) = two(6, Role::SuperNode);
    push(&mut world, sender, receiver);
    world.run(2 * SECOND);
    world.restart_silently(receiver, &[HostId(1)], 2_000);
    world.run(10 * SECOND);
    let offers = offered(&world, receiver);
    assert_eq!(offers.len(), 1, "{offers:?}");
}

#[test]
fn only_offered_receiver_gets_object() {
    let (mut world, sender, receiver) = two(3, Role::SuperNode);
    let stranger = world.node((1, 1), &[], &[HostId(0)]);
    world.run_until_attached();
    let ticket = push(&mut world, sender, receiver);
    world.run(SECOND);
    let offer = offered(&world, receiver)[0].clone();
    let refused = request_pushed(&mut world, stranger, sender, &offer, 0);
    assert_eq!(failed(&mut world, stranger, refused), Reason::NotFound);
    let got = request_pushed(&mut world, receiver, sender, &offer, 0);
    world.run(60 * MS);
    world.cancel(sender, ticket);
    assert_eq!(failed(&mut world, sender, ticket), Reason::Cancelled);
    let summary = finished(&mut world, receiver, got);
    assert_eq!((summary.complete, summary.reason), (false, Some(Reason::Cancelled)));
    let late = request_pushed(&mut world, receiver, sender, &offer, 0);
    assert_eq!(failed(&mut world, receiver, late), Reason::NotFound);
}

#[test]
fn one_sender_gets_few_places() {
    let (mut world, sender, receiver) = two(4, Role::SuperNode);
    let tickets = push_many(&mut world, sender, receiver, MAX_RECEPTIONS_FROM_ONE + 1);
    world.run(3 * SECOND);
    let ended =
        |world: &World| tickets.iter().filter(|ticket| world.hosts[sender.0].ending(**ticket).is_some()).count();
    let offers = offered(&world, receiver);
    assert_eq!((ended(&world), offers.len()), (0, MAX_RECEPTIONS_FROM_ONE), "the fifth waits for its turn");
    receive(&mut world, receiver, sender, &offers[0], PushState::Stored);
    world.run(2 * SECOND);
    assert_eq!((ended(&world), offered(&world, receiver).len()), (1, MAX_RECEPTIONS_FROM_ONE + 1));
    for _ in 0..DEADLINE.as_secs() {
        world.run(SECOND);
    }
    assert_eq!(ended(&world), 1, "those that are taken do not end");
}

#[test]
fn who_waits_in_vain_is_told() {
    let (mut world, sender, receiver) = two(4, Role::SuperNode);
    let tickets = push_many(&mut world, sender, receiver, MAX_RECEPTIONS_FROM_ONE + 1);
    for _ in 0..DEADLINE.as_secs() + 2 {
        world.run(SECOND);
    }
    assert_eq!(pushed(&mut world, sender, tickets[MAX_RECEPTIONS_FROM_ONE]), PushState::Busy);
}

/// The first offer of a node.
fn first_of(world: &World, receiver: HostId, node: NodeId) -> Option<RequestId> {
    let of_node = |event: &NodeEvent| match event {
        NodeEvent::PushOffered { from, push } if *from == node => Some(push.id),
        _ => None,
    };
    world.events(receiver).iter().find_map(|(_, event)| of_node(event))
}

/// A receiver whose places four members have, and one who is to get one.
struct FullReceiver {
    world: World,
    members: Vec<HostId>,
    receiver: HostId,
    honest: HostId,
}

impl FullReceiver {
    fn new() -> Self {
        let mut world = World::new(7);
        let hub = world.hub(Role::SuperNode);
        let nodes: Vec<HostId> = (0..6).map(|number| world.node((number, 0), &[], &[hub])).collect();
        nodes.iter().for_each(|node| world.hosts[node.0].stored = object(BYTES));
        world.run_until_attached();
        let (members, receiver, honest) = (nodes[..4].to_vec(), nodes[4], nodes[5]);
        for member in &members {
            push_many(&mut world, *member, receiver, MAX_RECEPTIONS_FROM_ONE);
        }
        world.run(3 * SECOND);
        let full = Self { world, members, receiver, honest };
        assert_eq!(offered(&full.world, receiver).len(), MAX_RECEPTIONS);
        full
    }

    fn unoffered(&self) -> Vec<(NodeId, RequestId)> {
        let unoffered = |event: &NodeEvent| match event {
            NodeEvent::PushRevoked { from, id } => Some((*from, *id)),
            _ => None,
        };
        self.world.events(self.receiver).iter().filter_map(|(_, event)| unoffered(event)).collect()
    }

    /// The honest member's object finds a place, and is taken.
    fn is_fair(&mut self) -> bool {
        let ticket = push(&mut self.world, self.honest, self.receiver);
        self.world.run(2 * SECOND);
        let from = node_id(self.honest.0);
        let Some(id) = first_of(&self.world, self.receiver, from) else { return false };
        self.world.command(self.receiver, NodeCommand::PushEnded { from, id, state: PushState::Stored });
        !self.unoffered().contains(&(from, id)) && pushed(&mut self.world, self.honest, ticket) == PushState::Stored
    }
}

/// Four members offer what they never send: they have all places. One who sends gets one.
#[test]
fn what_is_not_sent_gives_way() {
    let mut full = FullReceiver::new();
    // A member begins to send, and keeps its place: there are others.
    let from = node_id(full.members[0].0);
    let id = first_of(&full.world, full.receiver, from).unwrap();
    full.world.command(full.receiver, NodeCommand::PushStarted { from, id });
    assert!(full.is_fair());
    assert!(!full.unoffered().is_empty() && !full.unoffered().contains(&(from, id)), "{:?}", full.unoffered());
}

/// Four members have all places by a byte of each object. Each keeps as many as anybody who comes.
#[test]
fn trickling_senders_keep_fair_share() {
    let mut full = FullReceiver::new();
    for offer in full.world.events(full.receiver).to_vec() {
        if let (_, NodeEvent::PushOffered { from, push }) = offer {
            full.world.command(full.receiver, NodeCommand::PushStarted { from, id: push.id });
        }
    }
    assert!(full.is_fair());
    assert_eq!(full.unoffered().len(), 1, "{:?}", full.unoffered());
}

#[test]
fn the_baseline_sends_to_no_node() {
    let (mut world, sender, receiver) = two(5, Role::Server);
    let ticket = push(&mut world, sender, receiver);
    assert_eq!(failed(&mut world, sender, ticket), Reason::NotAllowed);
}

/// A sender and a receiver that offers a sensor, at hubs of their own which know one another.
fn strangers(seed: u64, schemes: SchemeSet) -> (World, HostId, HostId) {
    strangers_with(seed, schemes, &[Service::Sensor])
}

fn strangers_with(seed: u64, schemes: SchemeSet, services: &[Service]) -> (World, HostId, HostId) {
    let mut world = World::new(seed);
    let hubs = world.mesh(2);
    let sender = world.node((27, 92), &[], &hubs[..1]);
    let receiver = world.node((0, 0), services, &hubs[1..]);
    world.hosts.iter_mut().for_each(|host| host.schemes = schemes);
    world.hosts[sender.0].stored = object(BYTES);
    world.run_until_attached();
    world.run(SECOND);
    (world, sender, receiver)
}

/// Sends to who cannot be dialled, until it is stored.
fn deliver(seed: u64, mut world: World, (sender, receiver): (HostId, HostId)) {
    let place = Some((Service::Sensor, Cell::new(0, 0)));
    let ticket = push_to(&mut world, sender, receiver, place);
    let offered_soon = world.run_while(8 * SECOND, |world| !offered(world, receiver).is_empty());
    assert!(offered_soon, "seed {seed}: {:?}", world.events(sender));
    let offer = offered(&world, receiver)[0].clone();
    let got = request_pushed(&mut world, receiver, sender, &offer, 0);
    let summary = finished(&mut world, receiver, got);
    assert!(summary.complete && summary.digest_ok == Some(true), "seed {seed}: {summary:?}");
    assert!(world.delivered(receiver, got) == object(BYTES), "seed {seed}");
    receive(&mut world, receiver, sender, &offer, PushState::Stored);
    assert_eq!(pushed(&mut world, sender, ticket), PushState::Stored, "seed {seed}");
    world.run(2 * SECOND);
    for host in [sender, receiver] {
        assert!(world.status(host).sessions.is_empty() && world.status(host).requests.is_empty(), "seed {seed}");
    }
}

#[test]
fn a_closed_receiver_dials_the_sender() {
    for_seeds(4, |seed| {
        let (mut world, sender, receiver) = strangers(seed, SchemeSet::only(Scheme::Tcp));
        world.close(&[receiver]);
        world.path.loss = 20 * (seed as u32 % 2);
        deliver(seed, world, (sender, receiver));
    });
}

#[test]
fn closed_hosts_push_through_hubs() {
    for_seeds(6, |seed| {
        // The receiver may offer nothing.
        let services: &[Service] = if seed % 2 == 0 { &[Service::Sensor] } else { &[] };
        let (mut world, sender, receiver) = strangers_with(seed, SchemeSet::only(Scheme::Tcp), services);
        world.close(&[sender, receiver]);
        // Nothing is lost over TCP.
        deliver(seed, world, (sender, receiver));
    });
}

/// The connection of the two is up and silent, as a transport may leave it for long.
#[test]
fn files_sent_out_of_sight() {
    for_seeds(6, |seed| {
        let scheme = Scheme::ALL[seed as usize % 3];
        let (mut world, sender, receiver) = strangers(seed, SchemeSet::only(scheme));
        world.offer_everything(sender);
        world.run(SECOND);
        for is_relayed in [false, true] {
            let ticket = world.request(receiver, Service::Sensor, Area::Exact(Cell::new(27, 92)));
            let summary = finished(&mut world, receiver, ticket);
            assert_eq!(summary.relayed, is_relayed, "seed {seed}: {summary:?}");
            world.cut(sender, receiver);
        }
        // The reading was what it offered last.
        world.hosts[sender.0].stored = object(BYTES);
        deliver(seed, world, (sender, receiver));
    });
}

#[test]
fn only_files_go_through_hubs() {
    let (mut world, sender, receiver) = strangers(1, SchemeSet::only(Scheme::Tcp));
    world.close(&[sender, receiver]);
    push_to(&mut world, sender, receiver, Some((Service::Sensor, Cell::new(0, 0))));
    world.corpus = Some(Vec::new());
    assert!(world.run_while(8 * SECOND, |world| !offered(world, receiver).is_empty()));
    let said = world.corpus.take().unwrap_or_default();
    let through = said.iter().filter_map(|message| match Message::decode(message) {
        Ok(Message::Request(RequestMessage::Tunneled { id, .. })) if id.is_of_hub() => Some(id),
        _ => None,
    });
    let id = through.last().unwrap();
    let spec = ServiceRequest::new(Service::Sensor, ANYWHERE);
    let request =
        Message::Request(RequestMessage::Request(Request::new(RequestId(7), Nonce::from_u64(1), spec, 5_000)));
    let refused = world.status(receiver).counters.refused;
    for message in [
        request,
        Message::Registration(RegistrationMessage::Handover),
        Message::Request(RequestMessage::Tunneled {
            id,
            message: Message::Registration(RegistrationMessage::UnknownVersion).encode(),
        }),
    ] {
        let through = Message::Request(RequestMessage::Tunneled { id, message: message.encode() });
        assert!(world.inject(HostId(1), receiver, through.encode()));
    }
    let status = world.status(receiver);
    assert_eq!((status.counters.refused, status.sessions.len()), (refused + 3, 0));
}
