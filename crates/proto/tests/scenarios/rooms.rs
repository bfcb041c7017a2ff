//! Rooms: everybody knows who else is in, and has their streams.

use roost_proto::peer::{Command, Event, Provider, Ticket};
use roost_proto::room::Member;
use roost_proto::{Area, Cell, NodeId, Room, Service};

use crate::tiers::Tree;
use crate::world::seeds::for_seeds;
use crate::world::{HostId, MS, SECOND, World, node_id};

const ROOM: &str = "ops";

fn enter(world: &mut World, node: HostId) -> Ticket {
    let ticket = world.ticket(node);
    world.command(node, Command::Enter { ticket, room: Room::named(ROOM) });
    ticket
}

/// Who else is in, as a node knows it.
fn members(world: &World, node: HostId, ticket: Ticket) -> Vec<Member> {
    let roster = |(_, event): &(_, Event)| match event {
        Event::Roster { ticket: of, members } if *of == ticket => Some(members.clone()),
        _ => None,
    };
    world.events(node).iter().rev().find_map(roster).unwrap_or_default()
}

/// Everybody who is in knows of everybody else, and of nobody who is not.
fn agree(world: &World, inside: &[(HostId, Ticket)]) -> bool {
    inside.iter().all(|(node, ticket)| {
        let mut others: Vec<NodeId> = inside.iter().map(|(other, _)| node_id(other.0)).collect();
        others.retain(|other| *other != node_id(node.0));
        others.sort();
        members(world, *node, *ticket).iter().map(|member| member.node).collect::<Vec<_>>() == others
    })
}

/// Three tops and five nodes that know all of them, each with another home first.
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
    world.settle();
    world.run(70 * SECOND);
    (world, hubs, nodes)
}

#[test]
fn everybody_knows_who_else_is_in_at_once() {
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
        for Member { node: other, cell, .. } in members(&world, *node, *ticket) {
            let ticket = world.subscribe_with(*node, Service::Video, Area::At(cell), |wanted| {
                wanted.provider = Some(Provider { node: other, addresses: Vec::new() });
            });
            watched.push((*node, ticket, other));
        }
    }
    world.run_relays(3 * SECOND);
    assert_eq!(watched.len(), 20);
    for (node, ticket, other) in watched {
        let provider = nodes.iter().copied().find(|node| node_id(node.0) == other);
        assert!(provider.is_some_and(|provider| world.is_watching(node, ticket, provider)), "{node:?} {other:?}");
    }
    for node in &nodes {
        assert_eq!(world.status(*node).publications[0].members, 4);
        assert_eq!(world.hosts[node.0].opened.len(), 1, "one copy for all");
    }
}

#[test]
fn a_room_outlives_losses_and_the_death_of_any_hub() {
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
            let count =
                |node: &HostId| world.events(*node).iter().filter(|(_, e)| matches!(e, Event::Roster { .. })).count();
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
fn three_tiers_are_one_room_and_a_cut_makes_two() {
    let mut tree = Tree::with_layers(1, 1);
    let nodes = tree.providers.clone();
    let inside: Vec<(HostId, Ticket)> = nodes.iter().map(|node| (*node, enter(&mut tree.world, *node))).collect();
    tree.world.run(2 * SECOND);
    assert!(agree(&tree.world, &inside));
    tree.world.command(nodes[3], Command::Move { cell: Cell::new(77, 7) });
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
    world.command(nodes[0], Command::Leave);
    world.run(SECOND);
    assert!(world.hosts[nodes[0].0].ending(first).is_some());
}
