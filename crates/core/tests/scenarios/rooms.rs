//! Rooms: everybody knows who else is in, and has their streams.

use roost_wire::room::MAX_MEMBERS;
use roost_wire::room::RoomMember;

use crate::tiers::HubTree;
use crate::*;

const ROOM: &str = "ops";

fn enter(world: &mut World, node: HostId) -> Ticket {
    let ticket = world.ticket(node);
    world.command(node, NodeCommand::JoinRoom { ticket, room: RoomId::named(ROOM) });
    ticket
}

/// Members that are in besides a node, as it knows them.
fn members(world: &World, node: HostId, ticket: Ticket) -> Vec<RoomMember> {
    let roster = |(_, event): &(_, NodeEvent)| match event {
        NodeEvent::Roster { ticket: of, members } if *of == ticket => Some(members.clone()),
        _ => None,
    };
    world.events(node).iter().rev().find_map(roster).unwrap_or_default()
}

/// Everybody who is in knows of everybody else, and of nobody who is not.
fn agree(world: &World, inside: &[(HostId, Ticket)]) -> bool {
    agree_but_for(world, inside, &[])
}

/// True if all that are inside know one another, whatever they know of `strangers`.
fn agree_but_for(world: &World, inside: &[(HostId, Ticket)], strangers: &[HostId]) -> bool {
    inside.iter().all(|(node, ticket)| {
        let mut others: Vec<NodeId> = inside.iter().map(|(other, _)| node_id(other.0)).collect();
        others.retain(|other| *other != node_id(node.0));
        others.sort();
        let mut known: Vec<NodeId> = members(world, *node, *ticket).iter().map(|member| member.node).collect();
        known.retain(|node| !strangers.iter().any(|stranger| node_id(stranger.0) == *node));
        known == others
    })
}

/// Three roots and five nodes that know all of them, each with another home first.
fn scene(seed: u64) -> (World, Vec<HostId>, Vec<HostId>) {
    let mut world = World::new(seed);
    world.path.delay = MS * (5 + seed as u32 % 40);
    let hubs = world.mesh(3);
    world.run(2 * SECOND);
    let nodes = (0..5).map(|n| {
        let homes: Vec<HostId> = (0..3).map(|hub| hubs[(n + hub) % 3]).collect();
        world.node((n as i32, 0), &[Service::Video], &homes)
    });
    let nodes = nodes.collect();
    world.run_until_attached();
    world.run(70 * SECOND);
    (world, hubs, nodes)
}

#[test]
fn members_see_each_other_at_once() {
    let (mut world, _, nodes) = scene(1);
    let mut inside: Vec<(HostId, Ticket)> = Vec::new();
    for node in &nodes {
        inside.push((*node, enter(&mut world, *node)));
        world.run(SECOND / 2);
        assert!(agree(&world, &inside), "{} are in", inside.len());
    }
    while let Some((node, ticket)) = inside.pop() {
        world.cancel(node, ticket);
        world.run(SECOND / 2);
        assert!(agree(&world, &inside), "{} are in", inside.len());
    }
    assert_eq!(members(&world, nodes[0], Ticket(1)), []);
}

#[test]
fn everybody_gets_everybody_elses_stream() {
    let (mut world, _, nodes) = scene(2);
    let inside: Vec<(HostId, Ticket)> = nodes.iter().map(|node| (*node, enter(&mut world, *node))).collect();
    world.run(SECOND);
    let mut watched = Vec::new();
    for (node, ticket) in &inside {
        for RoomMember { node: other, cell, .. } in members(&world, *node, *ticket) {
            let ticket = world.subscribe_with(*node, Service::Video, Area::Exact(cell), |wanted| {
                wanted.provider = Some(Provider { node: other, addresses: Vec::new() });
            });
            watched.push((*node, ticket, other));
        }
    }
    world.run_relays(3 * SECOND);
    assert_eq!(watched.len(), 20);
    for (node, ticket, other) in watched {
        let provider = nodes.iter().copied().find(|node| node_id(node.0) == other);
        assert!(provider.is_some_and(|provider| world.receives_stream(node, ticket, provider)), "{node:?} {other:?}");
    }
    for node in &nodes {
        assert_eq!(world.status(*node).publications[0].members, 4);
        assert_eq!(world.hosts[node.0].opened.len(), 1, "one copy for all");
    }
}

#[test]
fn moved_member_is_found_again() {
    for_seeds(3, |seed| {
        let mut world = World::new(seed);
        let hubs = world.mesh(6);
        world.run(2 * SECOND);
        // The homes of the one, now and then, know nothing of the other.
        let watcher = world.node((50, 50), &[], &hubs[..2]);
        let provider = world.node((1, 0), &[Service::Video], &hubs[3..5]);
        world.run_until_attached();
        world.run(10 * SECOND);
        let inside: Vec<(HostId, Ticket)> =
            [watcher, provider].iter().map(|node| (*node, enter(&mut world, *node))).collect();
        assert!(world.run_while(20 * SECOND, |world| agree(world, &inside)), "seed {seed}");
        let ticket = world.subscribe_with(watcher, Service::Video, Area::Exact(Cell::new(1, 0)), |wanted| {
            wanted.provider = Some(Provider { node: node_id(provider.0), addresses: Vec::new() });
        });
        world.run_relays(3 * SECOND);
        assert!(world.receives_stream(watcher, ticket, provider), "seed {seed}");
        world.command(provider, NodeCommand::Move(Cell::new(80, 80).into()));
        world.run_relays(90 * SECOND);
        world.kill(hubs[0]);
        world.run_relays(25 * SECOND);
        assert!(world.receives_stream(watcher, ticket, provider), "seed {seed}");
    });
}

#[test]
fn room_survives_loss_and_hub_death() {
    for_seeds(6, |seed| {
        let (mut world, hubs, nodes) = scene(seed);
        world.path.loss = 100;
        world.path.duplication = 50;
        let mut inside: Vec<(HostId, Ticket)> = nodes.iter().map(|node| (*node, enter(&mut world, *node))).collect();
        assert!(world.run_while(60 * SECOND, |world| agree(world, &inside)), "seed {seed}: not all hear of all");
        world.kill(hubs[seed as usize % 3]);
        world.run(70 * SECOND);
        assert!(world.run_while(40 * SECOND, |world| agree(world, &inside)), "seed {seed}: after a hub's death");
        let (gone, _) = inside.remove(seed as usize % 5);
        world.kill(gone);
        assert!(world.run_while(150 * SECOND, |world| agree(world, &inside)), "seed {seed}: after a node's death");
        let told = |world: &World| -> Vec<usize> {
            let count = |node: &HostId| {
                world.events(*node).iter().filter(|(_, e)| matches!(e, NodeEvent::Roster { .. })).count()
            };
            nodes.iter().map(count).collect()
        };
        world.path.loss = 0;
        world.run(130 * SECOND);
        assert!(agree(&world, &inside), "seed {seed}");
        let before = told(&world);
        world.run(120 * SECOND);
        assert_eq!(told(&world), before, "seed {seed}: nothing happens, and nothing is told");
    });
}

#[test]
fn tiers_share_room_until_cut() {
    let mut tree = HubTree::with_layers(1, 1);
    let nodes = tree.providers.clone();
    let inside: Vec<(HostId, Ticket)> = nodes.iter().map(|node| (*node, enter(&mut tree.world, *node))).collect();
    tree.world.run(2 * SECOND);
    assert!(agree(&tree.world, &inside));
    tree.world.command(nodes[3], NodeCommand::Move(Cell::new(77, 7).into()));
    tree.world.run(2 * SECOND);
    let last =
        members(&tree.world, inside[0].0, inside[0].1).into_iter().find(|member| member.node == node_id(nodes[3].0));
    assert_eq!(last.map(|member| member.cell), Some(Cell::new(77, 7)));
    // The first area loses its way up.
    tree.world.kill(tree.areas[0]);
    tree.world.run(150 * SECOND);
    assert!(agree(&tree.world, &inside[2..]), "the others go on");
    for (node, ticket) in &inside[..2] {
        let known = members(&tree.world, *node, *ticket);
        assert!(known.is_empty(), "each home is alone: {known:?}");
    }
}

#[test]
fn one_room_is_entered_once() {
    let (mut world, _, nodes) = scene(3);
    let first = enter(&mut world, nodes[0]);
    let second = enter(&mut world, nodes[0]);
    world.run(SECOND);
    assert!(world.hosts[nodes[0].0].ending(second).is_some() && world.hosts[nodes[0].0].ending(first).is_none());
    world.command(nodes[0], NodeCommand::Leave);
    world.run(SECOND);
    assert!(world.hosts[nodes[0].0].ending(first).is_some());
}

#[test]
fn full_room_refuses_one_more() {
    let mut world = World::new(4);
    let hubs = world.mesh(3);
    world.run(2 * SECOND);
    let nodes: Vec<HostId> = (0..MAX_MEMBERS + 2).map(|n| world.node((0, 0), &[], &[hubs[n % 3]])).collect();
    world.run_until_attached();
    world.run(10 * SECOND);
    let mut inside: Vec<(HostId, Ticket)> = Vec::new();
    for node in &nodes[..MAX_MEMBERS] {
        inside.push((*node, enter(&mut world, *node)));
    }
    world.run(SECOND);
    assert!(agree(&world, &inside), "as many as may be");
    for node in &nodes[MAX_MEMBERS..] {
        let ticket = enter(&mut world, *node);
        world.run(SECOND);
        let ending = world.hosts[node.0].ending(ticket);
        let Some(NodeEvent::Failed { reason, detail, .. }) = ending else { panic!("{ending:?}") };
        assert_eq!(*reason, Reason::TooMany);
        assert!(detail.starts_with("the room is full, 64 are in: "), "{detail}");
    }
    world.run(30 * SECOND);
    assert!(agree(&world, &inside), "nobody has lost its place");
    let (gone, ticket) = inside.remove(7);
    world.cancel(gone, ticket);
    world.run(SECOND / 2);
    let late = nodes[MAX_MEMBERS];
    inside.push((late, enter(&mut world, late)));
    world.run(SECOND);
    assert!(agree(&world, &inside), "a place was free");
}

#[test]
fn hubs_forget_leavers_under_loss() {
    for_seeds(10, |seed| {
        let (mut world, hubs, nodes) = scene(seed);
        let mut inside: Vec<(HostId, Ticket)> = nodes.iter().map(|node| (*node, enter(&mut world, *node))).collect();
        assert!(world.run_while(20 * SECOND, |world| agree(world, &inside)), "seed {seed}");
        world.path.loss = 300;
        while inside.len() > 1 {
            let (node, ticket) = inside.remove(seed as usize % inside.len());
            world.cancel(node, ticket);
            world.run(5 * SECOND);
            let held = |world: &World| -> Vec<usize> {
                hubs.iter().map(|hub| world.hub_at(*hub).status(world.now).room_members).collect()
            };
            // A member that has no home at the moment can tell nobody: it is out like a dead one, and not only
            // when it has been silent for a minute.
            let is_forgotten = |world: &World| held(world).iter().all(|held| *held <= inside.len());
            let are_forgotten = world.run_while(5 * SECOND, is_forgotten);
            assert!(are_forgotten, "seed {seed}: {:?}, {} are in", held(&world), inside.len());
        }
    });
}

#[test]
fn dead_leave_room_movers_stay() {
    for_seeds(10, |seed| {
        let (mut world, hubs, nodes) = scene(seed);
        let mut inside: Vec<(HostId, Ticket)> = nodes.iter().map(|node| (*node, enter(&mut world, *node))).collect();
        assert!(world.run_while(20 * SECOND, |world| agree(world, &inside)), "seed {seed}");
        let (dead, _) = inside.remove(seed as usize % 5);
        world.kill(dead);
        assert!(world.run_while(8 * SECOND, |world| agree(world, &inside)), "seed {seed}: one has died");
        world.run(2 * SECOND);
        let told = |world: &World| world.events(inside[0].0).len();
        let (moving, before) = (inside[1].0, told(&world));
        let home = world.home(moving).unwrap_or(hubs[0]);
        world.break_connections(moving, home);
        world.run(15 * SECOND);
        assert!(world.is_attached(moving) && agree(&world, &inside), "seed {seed}");
        let rosters = world.events(inside[0].0)[before..].iter().filter(|(_, e)| matches!(e, NodeEvent::Roster { .. }));
        assert_eq!(rosters.count(), 0, "seed {seed}: nobody has seemed to leave");
    });
}

/// Something that no honest member or hub would say.
fn lie(random: &mut SplitMix64, liar: NodeId, others: &[NodeId]) -> Message {
    let way = [None, Some(RouteDirection::Up), Some(RouteDirection::Down), Some(RouteDirection::Overflow)]
        [random.below(4) as usize];
    let room = if random.below(3) == 0 { RoomId::named(ROOM) } else { RoomId(random.below(5_000)) };
    let whose = if random.below(3) == 0 { others[random.below(others.len() as u64) as usize] } else { liar };
    let cell = Cell::new(random.below(100) as i32, random.below(100) as i32);
    let member = RoomMember { node: whose, cell, services: ServiceSet::ALL };
    match random.below(8) {
        0 => Message::Room(RoomMessage::LeaveRoom(LeaveRoom { room, node: whose, direction: way })),
        1 => {
            let refused = (random.below(2) == 0).then_some(Reason::TooMany);
            Message::Room(RoomMessage::Roster(Roster {
                room,
                owner: liar,
                members: vec![member],
                to: Some(whose),
                refused,
            }))
        }
        _ => Message::Room(RoomMessage::JoinRoom(JoinRoom { room, member, direction: way })),
    }
}

#[test]
fn hostile_members_take_nothing_from_others() {
    for_seeds(6, |seed| {
        let (mut world, hubs, nodes) = scene(seed);
        let mut random = SplitMix64::new(seed);
        let hostile: Vec<HostId> =
            (0..2).map(|n| world.node((50, 50), &[Service::Video], &[hubs[n], hubs[2]])).collect();
        world.run_until_attached();
        let honest: Vec<NodeId> = nodes.iter().map(|node| node_id(node.0)).collect();
        let mut inside = Vec::new();
        for node in &nodes {
            inside.push((*node, enter(&mut world, *node)));
            for _ in 0..1_000 {
                let liar = hostile[random.below(2) as usize];
                let message = lie(&mut random, node_id(liar.0), &honest).encode();
                world.inject(liar, hubs[random.below(3) as usize], message.clone());
                world.inject(liar, nodes[random.below(5) as usize], message);
                // A hub that was told to pose as one of another rank.
                let hub = random.below(3) as usize;
                let posing = lie(&mut random, node_id(liar.0), &honest).encode();
                if !matches!(Message::decode(&posing), Ok(Message::Room(RoomMessage::Roster(_)))) {
                    world.inject(hubs[hub], hubs[(hub + 1) % 3], posing);
                }
                world.run(2 * MS);
            }
            for hub in &hubs {
                let status = world.hub_at(*hub).status(world.now);
                assert!(status.rooms <= 65 && status.room_members <= 71, "seed {seed}: {status:?}");
            }
            let all_know = |world: &World| agree_but_for(world, &inside, &hostile);
            assert!(world.run_while(21 * SECOND, all_know), "seed {seed}: {} are in", inside.len());
        }
        // Both owners of the room, or one and the third.
        let (first, second) = (seed as usize % 3, (seed as usize + 1) % 3);
        world.kill(hubs[first]);
        world.run(Duration::from_millis(random.below(30_000)));
        world.kill(hubs[second]);
        assert!(world.run_while(180 * SECOND, |world| agree(world, &inside)), "seed {seed}: after two deaths");
        assert!(inside.iter().all(|(node, ticket)| world.hosts[node.0].ending(*ticket).is_none()), "seed {seed}");
        world.run(62 * SECOND);
        assert!(agree(&world, &inside), "seed {seed}");
        let left = world.hub_at(hubs[3 - first - second]).status(world.now);
        assert_eq!((left.rooms, left.room_members), (1, 5), "seed {seed}");
    });
}
