//! Objects that one node sends to another.

use std::time::Duration;

use roost_proto::flow::digest;
use roost_proto::peer::{Command, Event, MAX_RECEPTIONS, Provider, Ticket};
use roost_proto::wire::{Push, Reason, Reception, Resume};
use roost_proto::{Role, Service};

use crate::world::seeds::for_seeds;
use crate::world::{HostId, MS, SECOND, World, addresses, node_id, object};
use crate::{ANYWHERE, failed, finished};

const BYTES: usize = 3_000_000;
/// Where a tenth is lost the way to the other node may take its time.
const DEADLINE: Duration = Duration::from_secs(20);

/// Two nodes that offer nothing, at hubs of their own.
fn two(seed: u64, role: Role) -> (World, HostId, HostId) {
    let mut world = World::new(seed);
    let hubs = [world.hub(role), world.hub(role)];
    let sender = world.node((27, 92), &[], &hubs[..1]);
    let receiver = world.node((0, 0), &[], &hubs[1..]);
    world.hosts[sender.0].stored = object(BYTES);
    world.settle();
    (world, sender, receiver)
}

fn push(world: &mut World, sender: HostId, receiver: HostId) -> Ticket {
    let ticket = world.ticket(sender);
    let to = Provider { node: node_id(receiver.0), addresses: addresses(receiver.0) };
    let (length, digest, name) = (BYTES as u64, digest(&object(BYTES)), "survey.tif".to_owned());
    world.command(sender, Command::Push { ticket, to, name, length, digest, deadline: DEADLINE });
    ticket
}

/// What was offered to a host, each once.
fn offered(world: &World, host: HostId) -> Vec<Push> {
    let offer = |event: &Event| match event {
        Event::Offered { push, .. } => Some(push.clone()),
        _ => None,
    };
    world.events(host).iter().filter_map(|(_, event)| offer(event)).collect()
}

/// Asks for what was offered, from `offset` on.
fn take(world: &mut World, receiver: HostId, sender: HostId, push: &Push, offset: u64) -> Ticket {
    world.request_with(receiver, Service::Image, ANYWHERE, |wanted| {
        wanted.provider = Some(Provider { node: node_id(sender.0), addresses: push.addresses.clone() });
        wanted.resume = Some(Resume { digest: push.digest, offset });
        wanted.pushed = true;
    })
}

fn receive(world: &mut World, receiver: HostId, sender: HostId, push: &Push, reception: Reception) {
    let from = node_id(sender.0);
    world.command(receiver, Command::Received { from, id: push.id, reception });
}

fn pushed(world: &mut World, sender: HostId, ticket: Ticket) -> Reception {
    match world.outcome(sender, ticket) {
        Event::Pushed { reception, .. } => reception,
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_object_is_offered_asked_for_and_stored_over_paths_that_lose() {
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
        let got = take(&mut world, receiver, sender, &offers[0], 0);
        if seed % 2 == 0 {
            world.run(300 * MS);
            world.break_links(sender, receiver);
        }
        let summary = finished(&mut world, receiver, got);
        assert!(summary.complete && summary.digest_ok == Some(true), "seed {seed}: {summary:?}");
        assert!(world.delivered(receiver, got) == object(BYTES), "seed {seed}");
        assert!(world.hosts[sender.0].ending(ticket).is_none(), "it is not yet stored");
        receive(&mut world, receiver, sender, &offers[0], Reception::Stored);
        assert_eq!(pushed(&mut world, sender, ticket), Reception::Stored, "seed {seed}");
        world.run(2 * SECOND);
        assert_eq!(offered(&world, receiver).len(), 1, "seed {seed}");
    });
}

#[test]
fn who_has_a_part_gets_the_rest() {
    let (mut world, sender, receiver) = two(1, Role::SuperNode);
    push(&mut world, sender, receiver);
    world.run(SECOND);
    let offer = offered(&world, receiver)[0].clone();
    for offset in [1_000_000, BYTES as u64] {
        let got = take(&mut world, receiver, sender, &offer, offset);
        assert_eq!(finished(&mut world, receiver, got).bytes, BYTES as u64 - offset);
    }
}

#[test]
fn a_refusal_is_told_and_an_offer_without_an_answer_ends() {
    let (mut world, sender, receiver) = two(2, Role::SuperNode);
    let ticket = push(&mut world, sender, receiver);
    world.run(SECOND);
    let offer = offered(&world, receiver)[0].clone();
    receive(&mut world, receiver, sender, &offer, Reception::NoInbox);
    assert_eq!(pushed(&mut world, sender, ticket), Reception::NoInbox);
    world.freeze(receiver);
    let ticket = push(&mut world, sender, receiver);
    assert_eq!(failed(&mut world, sender, ticket), Reason::TimedOut);
    // One that was taken on and is not heard of any more ends, too.
    world.thaw(receiver);
    let ticket = push(&mut world, sender, receiver);
    world.run(2 * SECOND);
    world.kill(receiver);
    assert_eq!(failed(&mut world, sender, ticket), Reason::TimedOut);
}

#[test]
fn a_receiver_that_restarts_in_silence_is_dialled_anew() {
    let (mut world, sender, receiver) = two(6, Role::SuperNode);
    push(&mut world, sender, receiver);
    world.run(2 * SECOND);
    world.restart_silently(receiver, &[HostId(1)], 2_000);
    world.run(10 * SECOND);
    let offers = offered(&world, receiver);
    assert_eq!(offers.len(), 1, "{offers:?}");
}

#[test]
fn only_who_was_offered_an_object_gets_it_and_only_while_it_is() {
    let (mut world, sender, receiver) = two(3, Role::SuperNode);
    let stranger = world.node((1, 1), &[], &[HostId(0)]);
    world.settle();
    let ticket = push(&mut world, sender, receiver);
    world.run(SECOND);
    let offer = offered(&world, receiver)[0].clone();
    let refused = take(&mut world, stranger, sender, &offer, 0);
    assert_eq!(failed(&mut world, stranger, refused), Reason::NotFound);
    let got = take(&mut world, receiver, sender, &offer, 0);
    world.run(60 * MS);
    world.cancel(sender, ticket);
    assert_eq!(failed(&mut world, sender, ticket), Reason::Cancelled);
    let summary = finished(&mut world, receiver, got);
    assert_eq!((summary.complete, summary.reason), (false, Some(Reason::Cancelled)));
    let late = take(&mut world, receiver, sender, &offer, 0);
    assert_eq!(failed(&mut world, receiver, late), Reason::NotFound);
}

#[test]
fn a_node_takes_so_many_at_once_and_in_the_baseline_none() {
    let (mut world, sender, receiver) = two(4, Role::SuperNode);
    let tickets: Vec<_> = (0..=MAX_RECEPTIONS).map(|_| push(&mut world, sender, receiver)).collect();
    world.run(Duration::from_millis(900));
    let busy = tickets.iter().filter(|ticket| world.hosts[sender.0].ending(**ticket).is_some()).count();
    assert_eq!((busy, offered(&world, receiver).len()), (1, MAX_RECEPTIONS));
    let (mut world, sender, receiver) = two(5, Role::Server);
    let ticket = push(&mut world, sender, receiver);
    assert_eq!(failed(&mut world, sender, ticket), Reason::NotAllowed);
}
