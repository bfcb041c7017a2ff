//! Injected violations: each check must find its own, and the seed must reproduce it.

use bytes::Bytes;
use roost_core::Traffic;
use roost_core::machine::Transmit;
use roost_core::node::{NodeCommand, NodeEvent, Ticket};
use roost_experiment::Prepared;
use roost_wire::messages::{Message, Reason, RegistrationMessage, Renew, ServiceRequest};
use roost_wire::{Area, Channel, Delivery, Service, Time, Version};

use std::path::Path;
use std::time::Duration;

use super::record::Recorder;
use super::run::run_with_hook;
use super::world::SimWorld;
use super::{Detail, SimOutcome};

/// The machines of the plan: a hub, and the nodes on both hosts.
const HUB: usize = 0;
const NODE: usize = 1;
const OTHER: usize = 2;
/// A ticket beyond those of any requester.
const TICKET: Ticket = Ticket(1_000_000);

/// The warm-up is longer than a lease.
const PLAN: &str = "
topology = { star = { nodes = 3, delay = '10ms' } }
architecture = 'super-node'
warm_up = '70s'
duration = '30s'
stream = '1s'
timeout = '5s'
idle = '100ms'
";

/// Runs a seed, with `plant` called when its workload begins.
fn planted(seed: u64, plant: fn(&mut SimWorld<'_>)) -> SimOutcome {
    let text = format!("{PLAN}seed = {seed}\n");
    let prepared = Prepared::from_text(&text, Path::new("p.toml")).unwrap();
    run_with_hook(&prepared, Detail::Packet, &mut Recorder::new(&prepared.topology), plant).unwrap()
}

/// The violations found in a machine that `plant` manipulates. Checks that no other machine has any, and that a
/// repetition finds the same.
fn found(seed: u64, machine: &str, plant: fn(&mut SimWorld<'_>)) -> Vec<String> {
    let first = planted(seed, plant);
    let again = planted(seed, plant);
    assert_eq!((&first.violations, first.trace_hash), (&again.violations, again.trace_hash));
    assert!(first.violations.iter().all(|violation| violation.machine == machine), "{:?}", first.violations);
    first.violations.into_iter().map(|violation| violation.what).collect()
}

fn say(world: &mut SimWorld<'_>, from: usize, to: usize, message: Bytes) {
    let connection = world.connections.between(from, to).unwrap();
    world.transmit(
        from,
        Transmit::Message {
            connection,
            channel: Channel::Datagram,
            delivery: Delivery::CONTROL,
            traffic: Traffic::Join,
            message,
        },
    );
}

#[test]
fn without_a_plant_all_is_well() {
    assert_eq!(found(1, "", |_| {}), [] as [&str; 0]);
}

#[test]
fn unreadable_message_is_found() {
    let what = found(2, "node1", |world| say(world, NODE, HUB, Bytes::from_static(b"nonsense")));
    assert!(what.len() == 1 && what[0].starts_with("it sends a malformed message"), "{what:?}");
}

#[test]
fn node_version_rollback_is_found() {
    let what = found(3, "node1", |world| {
        let version = Version { epoch: 0, sequence: 0 };
        say(
            world,
            NODE,
            HUB,
            Message::Registration(RegistrationMessage::Renew(Renew { version, capacity: None })).encode(),
        );
    });
    assert!(what.len() == 1 && what[0].starts_with("it published Version"), "{what:?}");
}

#[test]
fn hub_version_rollback_is_found() {
    let what = found(4, "node1-hub", |world| {
        let version = Version { epoch: 0, sequence: 0 };
        let lease = Message::Registration(RegistrationMessage::Lease {
            version,
            lease_ms: 60_000,
            siblings: None,
            addresses: None,
            media: None,
        });
        say(world, HUB, NODE, lease.encode());
    });
    assert!(what.len() == 1 && what[0].starts_with("it held Version"), "{what:?}");
}

#[test]
fn hub_naming_dead_node_is_found() {
    // The checks take it for dead from the start; the hub does not know.
    let what = found(5, "node1-hub", |world| world.checks.fell_silent(Time::ZERO, OTHER));
    assert!(!what.is_empty() && what.iter().all(|what| what.contains("dead for more than a lease")), "{what:?}");
}

#[test]
fn double_request_end_is_found() {
    let what = found(6, "node1", |world| {
        let (ticket, reason, detail) = (TICKET, Reason::Busy, String::new());
        world.push_event(NODE, NodeEvent::failed(ticket, reason, detail));
    });
    assert_eq!(what, ["its request 1000000 ended twice"]);
}

#[test]
fn tables_beyond_their_limits_are_found() {
    let what = found(7, "node1-hub", |world| world.checks.limits.nodes = 1);
    assert!(!what.is_empty() && what.iter().all(|what| what == "it holds 2 nodes, and its limit is 1"), "{what:?}");
    let what = found(7, "node1", |world| world.checks.requests[NODE] = 0);
    assert!(!what.is_empty() && what.iter().all(|what| what.ends_with("and its limit is 0")), "{what:?}");
}

#[test]
fn endless_request_is_found() {
    let what = found(8, "node1", |world| {
        let cell = world.prepared.placement.nodes[OTHER - 1].cell;
        let hour = Duration::from_secs(3600);
        let wanted = ServiceRequest {
            duration: Some(hour),
            timeout: Some(2 * hour),
            ..ServiceRequest::new(Service::Track, Area::Exact(cell))
        };
        world.command(
            NODE,
            NodeCommand::Request { ticket: TICKET, request: wanted, provider: None, body: Bytes::new() },
        );
    });
    assert_eq!(what, ["its request 1000000 has not ended with the run"]);
}

#[test]
fn silent_request_is_found() {
    let what = found(9, "node1", |world| world.checks.gave_up(NODE, TICKET));
    assert_eq!(what, ["it never said that its request 1000000 has ended"]);
}
