//! A hub that is killed and starts again at its address: the remotes that had a connection to it learn of it.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may stop where it stands")]

mod support;

use std::sync::Arc;
use std::time::{Duration, Instant};

use roost_identity::Identity;
use roost_transport::{Event, KnownRemote, Limits};
use roost_wire::{Address, Channel, ConnectionId, Role, RoleSet, Scheme};
use support::middle::{Middle, To};
use support::{Node, TestWorld, until};

/// Less than any timeout that would notice the silence.
const SOON: Duration = Duration::from_secs(2);

/// A hub in a runtime of its own. When the runtime is dropped, the hub is gone without a farewell.
async fn hub_at(identity: &Arc<Identity>, endpoint: String) -> (tokio::runtime::Runtime, Node) {
    let identity = Arc::clone(identity);
    let starting = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let hub = runtime.block_on(Node::start(identity, None, &[&endpoint], Limits::default()));
        (runtime, hub)
    });
    tokio::task::spawn_blocking(|| starting.join().unwrap()).await.unwrap()
}

async fn kill(runtime: tokio::runtime::Runtime, hub: Node) {
    tokio::task::spawn_blocking(|| {
        runtime.shutdown_timeout(Duration::from_secs(1));
        drop(hub);
    })
    .await
    .unwrap();
}

/// A node with a connection to a hub that has started again, with the same identity or another.
async fn restarted(scheme: Scheme, is_same: bool) -> (TestWorld, Node, ConnectionId, (tokio::runtime::Runtime, Node)) {
    let world = TestWorld::new();
    let identity = world.member("hub", Role::SuperNode);
    let (runtime, hub) = hub_at(&identity, format!("{scheme}://127.0.0.1:0")).await;
    let at: Address = hub.address();
    let mut node = world.node("uav").await;
    node.dial(vec![at.clone()], RoleSet::ALL);
    let Event::Up { connection, .. } = node.next().await else { panic!("the dial failed") };
    // Once a message is acknowledged, the node has received the hub's reset token.
    node.send(connection, Channel::Reliable { flow: 1 }, vec![1]);
    assert!(node.is_quiet().await);
    kill(runtime, hub).await;
    let identity = if is_same { identity } else { world.member("hub", Role::SuperNode) };
    let again = hub_at(&identity, at.to_string()).await;
    (world, node, connection, again)
}

async fn is_told(scheme: Scheme, channel: Channel) {
    let (_world, mut node, connection, again) = restarted(scheme, true).await;
    let sent = Instant::now();
    node.send(connection, channel, vec![2; 10]);
    let (down, reason) = node.down().await;
    assert_eq!((down, reason.as_str()), (connection, "the remote no longer knows the connection"));
    assert!(sent.elapsed() < SOON, "{:?}", sent.elapsed());
    kill(again.0, again.1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_forgotten_udp_connection_ends_soon() {
    for channel in [Channel::Datagram, Channel::Reliable { flow: 1 }] {
        is_told(Scheme::Udp, channel).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_forgotten_quic_connection_ends_soon() {
    for channel in [Channel::Datagram, Channel::Reliable { flow: 1 }] {
        is_told(Scheme::Quic, channel).await;
    }
}

/// Neither another member at the hub's address nor a sender that forges the address ends a connection.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_else_ends_a_connection() {
    for scheme in [Scheme::Udp, Scheme::Quic] {
        let (_world, mut node, connection, again) = restarted(scheme, false).await;
        for _ in 0..5 {
            node.send(connection, Channel::Datagram, vec![2; 10]);
            assert!(node.is_quiet().await, "{scheme}: another identity has ended it");
        }
        kill(again.0, again.1).await;
    }
}

/// A live session is never reset, and a wrong token with the remote's address ends nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_forged_token_ends_nothing() {
    let world = TestWorld::new();
    let mut hub = world.hub(Scheme::Udp).await;
    let (mut node, middle) = (world.node("uav").await, Middle::before(&hub).await);
    node.dial(vec![middle.at.clone()], RoleSet::ALL);
    let Event::Up { connection, .. } = node.next().await else { panic!("the dial failed") };
    let Event::Up { connection: there, .. } = hub.next().await else { panic!("no connection came up") };
    // After a message each way, the node has received the hub's reset token.
    for _ in 0..2 {
        node.send(connection, Channel::Reliable { flow: 1 }, vec![3]);
        assert_eq!(hub.message().await.0, there);
        hub.send(there, Channel::Reliable { flow: 1 }, vec![3]);
        assert_eq!(node.message().await.0, connection);
    }
    for byte in 0..=255 {
        for to in [To::Node, To::Hub] {
            middle.forge(to, [&[5][..], &[byte; 16]].concat()).await;
        }
    }
    node.send(connection, Channel::Reliable { flow: 1 }, vec![3]);
    assert_eq!(hub.message().await.0, there);
    assert!(node.is_quiet().await && hub.is_quiet().await);
}

/// Addresses at which a hub may listen, and at which it is then dialed.
const PLACES: [(&str, &str); 5] = [
    ("127.0.0.1", "127.0.0.1"),
    ("[::1]", "[::1]"),
    ("0.0.0.0", "127.0.0.1"),
    ("[::]", "[::1]"),
    ("[::]", "127.0.0.1"),
];

/// An idle node with a connection to a hub that has started again and resets the connections of its last run.
async fn told_by_the_next_run(
    scheme: Scheme,
    (at, dialled): (&str, &str),
    is_same: bool,
) -> (TestWorld, Node, ConnectionId) {
    let world = TestWorld::new();
    let identity = world.member("hub", Role::SuperNode);
    let (runtime, hub) = hub_at(&identity, format!("{scheme}://{at}:0")).await;
    let port = hub.address().port;
    let mut node = world.node("uav").await;
    let to = format!("{dialled}:{port}").parse().unwrap();
    node.dial(vec![Address::single(scheme, to)], RoleSet::ALL);
    let Event::Up { connection, .. } = node.next().await else { panic!("the dial failed") };
    node.send(connection, Channel::Reliable { flow: 1 }, vec![1]);
    assert!(node.is_quiet().await);
    let known: Vec<String> = hub.transport.known_remotes().iter().map(ToString::to_string).collect();
    assert_eq!(known.len(), 1, "{known:?}");
    kill(runtime, hub).await;
    let identity = if is_same { identity } else { world.member("hub", Role::SuperNode) };
    let (runtime, hub) = hub_at(&identity, format!("{scheme}://{at}:{port}")).await;
    let known: KnownRemote = known[0].parse().unwrap();
    until("the reset is sent", || hub.transport.send_reset(&known)).await;
    // The hub listens as long as the node waits for its reset.
    std::mem::forget((runtime, hub));
    (world, node, connection)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn idle_remote_is_told() {
    for (scheme, place) in [Scheme::Udp, Scheme::Quic].into_iter().flat_map(|s| PLACES.map(|place| (s, place))) {
        let (_world, mut node, connection) = told_by_the_next_run(scheme, place, true).await;
        let told = tokio::time::timeout(SOON, node.down()).await;
        let (down, reason) = told.unwrap_or_else(|_| panic!("{scheme} at {place:?}: nothing was heard"));
        assert_eq!(
            (down, reason.as_str()),
            (connection, "the remote no longer knows the connection"),
            "{scheme} at {place:?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_identity_tells_nobody() {
    for scheme in [Scheme::Udp, Scheme::Quic] {
        let (_world, mut node, _) = told_by_the_next_run(scheme, PLACES[0], false).await;
        assert!(node.is_quiet().await, "{scheme}");
    }
}

/// Remotes that an end dialed, and those over `tcp://`, are not kept: the end dials again, or the system tells the
/// remote.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_those_who_dialled_are_kept() {
    let world = TestWorld::new();
    for (scheme, kept) in [(Scheme::Udp, 1), (Scheme::Quic, 1), (Scheme::Tcp, 0)] {
        let (hub, there, node, _) = world.pair(scheme).await;
        assert_eq!((hub.transport.known_remotes().len(), node.transport.known_remotes().len()), (kept, 0), "{scheme}");
        let changes = hub.transport.changes();
        hub.transport.close(there, String::new());
        assert_eq!(hub.transport.known_remotes(), [], "{scheme}");
        assert!(hub.transport.changes() > changes, "{scheme}");
    }
}
