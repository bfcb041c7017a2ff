//! Watching an area.

use std::collections::BTreeMap;

use crate::*;

const SQUARE: Area = Area::Rectangle { min: Cell::new(0, 0), max: Cell::new(10, 10) };

/// The picture that a watcher has, from what it was told.
fn picture(world: &World, host: HostId, ticket: Ticket) -> BTreeMap<NodeId, Cell> {
    let mut there = BTreeMap::new();
    for (_, event) in world.events(host) {
        let NodeEvent::Changed { ticket: of, change } = event else { continue };
        if *of == ticket {
            there.extend(change.updated.iter().map(|candidate| (candidate.node, candidate.cell)));
            there.retain(|node, _| !change.removed.contains(node));
        }
    }
    there
}

fn changes(world: &World, host: HostId) -> usize {
    world.events(host).iter().filter(|(_, event)| matches!(event, NodeEvent::Changed { .. })).count()
}

fn watch(world: &mut World, host: HostId) -> Ticket {
    let ticket = world.ticket(host);
    world.command(host, NodeCommand::Watch { ticket, services: ServiceSet::ALL, area: SQUARE, names: false });
    ticket
}

#[test]
fn watch_sees_arrivals_moves_and_departures() {
    let mut world = World::new(1);
    let hub = world.hub(Role::SuperNode);
    let first = world.node((1, 1), &[Service::Track], &[hub]);
    let watcher = world.node((99, 99), &[], &[hub]);
    world.run_until_attached();
    let ticket = watch(&mut world, watcher);
    world.run(50 * MS);
    assert_eq!(picture(&world, watcher, ticket), BTreeMap::from([(node_id(first.0), Cell::new(1, 1))]));
    let second = world.node((2, 2), &[Service::Video], &[hub]);
    world.run_until_attached();
    world.run(50 * MS);
    assert_eq!(picture(&world, watcher, ticket).len(), 2);
    world.command(second, NodeCommand::Move(Cell::new(3, 3).into()));
    world.run(50 * MS);
    assert_eq!(picture(&world, watcher, ticket)[&node_id(second.0)], Cell::new(3, 3));
    world.command(second, NodeCommand::Move(Cell::new(30, 30).into()));
    world.command(first, NodeCommand::Leave);
    world.run(50 * MS);
    assert_eq!(picture(&world, watcher, ticket), BTreeMap::new());
}

#[test]
fn watch_survives_home_without_repeats() {
    let mut world = World::new(2);
    let hubs = world.mesh(2);
    world.run(2 * SECOND);
    let both = [hubs[0], hubs[1]];
    let stays = world.node((1, 1), &[Service::Track], &both);
    let dies = world.node((2, 2), &[Service::Track], &both);
    let watcher = world.node((99, 99), &[], &both);
    world.run_until_attached();
    let ticket = watch(&mut world, watcher);
    world.run(SECOND);
    assert_eq!(picture(&world, watcher, ticket).len(), 2);
    let told = changes(&world, watcher);
    world.kill(hubs[0]);
    world.kill(dies);
    world.run(30 * SECOND);
    assert_eq!(picture(&world, watcher, ticket), BTreeMap::from([(node_id(stays.0), Cell::new(1, 1))]));
    assert_eq!(changes(&world, watcher) - told, 1, "only that one is gone");
    world.command(stays, NodeCommand::Move(Cell::new(4, 4).into()));
    world.run(SECOND);
    assert_eq!(picture(&world, watcher, ticket)[&node_id(stays.0)], Cell::new(4, 4));
}

#[test]
fn watch_sees_nodes_of_other_hubs() {
    let mut world = World::new(3);
    let hubs = world.mesh(2);
    world.run(2 * SECOND);
    let watcher = world.node((99, 99), &[], &[hubs[0]]);
    world.run_until_attached();
    let ticket = watch(&mut world, watcher);
    let node = world.node((5, 5), &[Service::Image], &[hubs[1]]);
    world.run_until_attached();
    world.run(SECOND);
    assert_eq!(picture(&world, watcher, ticket), BTreeMap::from([(node_id(node.0), Cell::new(5, 5))]));
    world.command(node, NodeCommand::Leave);
    world.run(SECOND);
    assert_eq!(picture(&world, watcher, ticket), BTreeMap::new());
}

#[test]
fn watch_converges_despite_loss() {
    for seed in 0..10 {
        let mut world = World::new(seed);
        let hub = world.hub(Role::SuperNode);
        let node = world.node((1, 1), &[Service::Track], &[hub]);
        let watcher = world.node((99, 99), &[], &[hub]);
        world.run_until_attached();
        world.path.loss = 300;
        world.path.duplication = 100;
        world.path.spread = 20 * MS;
        let ticket = watch(&mut world, watcher);
        for step in 0..10 {
            world.command(node, NodeCommand::Move(Cell::new(step, 5).into()));
            world.run(700 * MS);
        }
        world.path = PathConditions::default();
        world.run(45 * SECOND);
        assert_eq!(picture(&world, watcher, ticket), BTreeMap::from([(node_id(node.0), Cell::new(9, 5))]), "{seed}");
    }
}

#[test]
fn a_cancelled_watch_is_over() {
    let mut world = World::new(5);
    let hub = world.hub(Role::SuperNode);
    let node = world.node((1, 1), &[Service::Track], &[hub]);
    let watcher = world.node((99, 99), &[], &[hub]);
    world.run_until_attached();
    let ticket = watch(&mut world, watcher);
    world.run(SECOND);
    world.cancel(watcher, ticket);
    assert!(matches!(world.hosts[watcher.0].ending(ticket), Some(NodeEvent::Failed { .. })));
    let told = changes(&world, watcher);
    let before = world.messages;
    world.command(node, NodeCommand::Move(Cell::new(2, 2).into()));
    world.run(SECOND);
    assert_eq!(changes(&world, watcher), told);
    assert_eq!(world.messages - before, 2, "Publish and Lease");
}
