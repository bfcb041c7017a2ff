//! A connection that sends without end, and another that sends little.
#![allow(clippy::expect_used, reason = "every test here is a test, its helpers too")]

mod support;

use std::time::Duration;

use bytes::Bytes;
use roost_identity::KeyExchange;
use roost_transport::{Config, Event, Events, Limits, Transport, bind};
use roost_wait::{eventually, unchanged};
use roost_wire::{Address, Channel, ConnectionId, Role, RoleSet, Scheme};
use support::{Node, PATIENCE, TestWorld};

/// Longer than a message is under way between two transports of this host.
const STILL: Duration = Duration::from_millis(150);
/// The time that an owner takes for an event.
const WORK: Duration = Duration::from_millis(5);

/// A hub whose events are consumed only when the test asks for them.
async fn busy_hub(world: &TestWorld, scheme: Scheme) -> (Transport, Events) {
    let identity = world.member("hub", Role::SuperNode);
    let policy = roost_identity::Policy::new(&identity).expect("a policy");
    let listen = vec![format!("{scheme}://127.0.0.1:0").parse().expect("an endpoint")];
    let config = Config {
        identity,
        policy,
        key_exchange: KeyExchange::default(),
        listen,
        admit: RoleSet::ALL,
        limits: Limits::default(),
    };
    bind(config).await.expect("sockets")
}

/// Waits until nothing arrives any more at a hub whose events nobody consumes.
async fn takes_no_more(hub: &Transport) {
    let bytes = || hub.counters().schemes.iter().map(|scheme| scheme.bytes_received).sum::<u64>();
    let mut unchanged = unchanged(STILL);
    eventually(PATIENCE, || unchanged(bytes())).await.expect("an end of it");
}

/// Consumes events until a connection is up.
async fn up(events: &mut Events) -> ConnectionId {
    let mut batch = Vec::new();
    loop {
        events.recv_many(&mut batch, 1).await;
        if let Some(Event::Up { connection, .. }) = batch.pop() {
            return connection;
        }
    }
}

async fn attach(
    world: &TestWorld,
    name: &str,
    hub: &Address,
    events: &mut Events,
) -> (Node, ConnectionId, ConnectionId) {
    let mut node = world.node(name).await;
    node.dial(vec![hub.clone()], RoleSet::ALL);
    let theirs = up(events).await;
    let Event::Up { connection, .. } = node.next().await else { panic!("the dial failed") };
    (node, connection, theirs)
}

/// Counts the other messages that arrive before the first one of `quiet`.
async fn heard_before(events: &mut Events, quiet: ConnectionId) -> usize {
    let (mut batch, mut before) = (Vec::new(), 0);
    loop {
        events.recv_many(&mut batch, 8).await;
        for event in batch.drain(..) {
            match event {
                Event::Message { connection, .. } if connection == quiet => return before,
                Event::Message { .. } => before += 1,
                _ => {}
            }
        }
    }
}

async fn one_is_heard_beside_many(scheme: Scheme, channel: Channel) {
    let world = TestWorld::new();
    let (hub, mut events) = busy_hub(&world, scheme).await;
    let address = hub.local_addresses()[0].clone();
    let (loud, from_loud, _) = attach(&world, "loud", &address, &mut events).await;
    let (quiet, from_quiet, heard) = attach(&world, "quiet", &address, &mut events).await;
    for _ in 0..200 {
        loud.transport.send(from_loud, channel, Bytes::from(vec![7; 1000])).expect("room");
        loud.transport.flush();
    }
    takes_no_more(&hub).await;
    quiet.transport.send(from_quiet, channel, Bytes::from_static(b"here")).expect("room");
    quiet.transport.flush();
    takes_no_more(&hub).await;
    let before = heard_before(&mut events, heard).await;
    assert!(before <= 8, "{scheme} {channel:?}: {before} messages were worked off first");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_node_has_one_lane() {
    for scheme in Scheme::ALL {
        let world = TestWorld::new();
        let (hub, mut events) = busy_hub(&world, scheme).await;
        let address = hub.local_addresses()[0].clone();
        let (mut loud, first, _) = attach(&world, "loud", &address, &mut events).await;
        let mut connections = vec![first];
        // Over UDP a node has one session with an address.
        while scheme != Scheme::Udp && connections.len() < 20 {
            loud.dial(vec![address.clone()], RoleSet::ALL);
            up(&mut events).await;
            let Event::Up { connection, .. } = loud.next().await else { panic!("the dial failed") };
            connections.push(connection);
        }
        let (quiet, from_quiet, heard) = attach(&world, "quiet", &address, &mut events).await;
        for connection in connections.iter().cycle().take(400) {
            loud.transport.send(*connection, Channel::Reliable { flow: 1 }, Bytes::from(vec![7; 100])).expect("room");
        }
        loud.transport.flush();
        takes_no_more(&hub).await;
        quiet.transport.send(from_quiet, Channel::Reliable { flow: 1 }, Bytes::from_static(b"here")).expect("room");
        quiet.transport.flush();
        takes_no_more(&hub).await;
        let before = heard_before(&mut events, heard).await;
        assert!(before <= 8, "{scheme}: {before} messages were worked off first");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn node_events_stay_in_order() {
    for scheme in [Scheme::Tcp, Scheme::Quic] {
        let world = TestWorld::new();
        let (hub, mut events) = busy_hub(&world, scheme).await;
        let address = hub.local_addresses()[0].clone();
        let (mut node, first, at_hub) = attach(&world, "node", &address, &mut events).await;
        for _ in 0..200 {
            node.transport.send(first, Channel::Reliable { flow: 1 }, Bytes::from(vec![7; 100])).expect("room");
        }
        node.transport.close(first, "over".into());
        takes_no_more(&hub).await;
        node.dial(vec![address], RoleSet::ALL);
        let (mut batch, mut is_down) = (Vec::new(), false);
        loop {
            events.recv_many(&mut batch, 1).await;
            match batch.pop() {
                Some(Event::Down { connection, .. }) if connection == at_hub => is_down = true,
                Some(Event::Up { .. }) => break,
                // A slow owner.
                _ => tokio::time::sleep(WORK).await,
            }
        }
        assert!(is_down, "{scheme}: the next link was up before the end of the last was told");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_message_waits_for_no_flood() {
    for scheme in Scheme::ALL {
        for channel in [Channel::Datagram, Channel::Reliable { flow: 1 }] {
            one_is_heard_beside_many(scheme, channel).await;
        }
    }
}
