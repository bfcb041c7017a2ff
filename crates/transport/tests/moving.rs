//! Connections over `udp://` while the address of one side changes.

// Only tests and their helpers are in this file.
#![allow(clippy::expect_used)]

mod support;

use std::time::Duration;

use bytes::Bytes;
use roost_transport::Event;
use roost_wait::repeat_until;
use roost_wire::{Channel, ConnectionId, RoleSet, Scheme};
use support::middle::{HANDSHAKE, MOVED, Middle, NatCommand, RECORD, To, UNKNOWN, towards};
use support::{Node, PATIENCE, RELIABLE, TestWorld, send_patiently};

/// A question that arrives sooner after the last one is not answered.
const PAUSE: Duration = Duration::from_millis(60);

/// A hub and a node, the NAT between them, and the numbers of their connection.
struct Scene {
    hub: Node,
    at_hub: ConnectionId,
    node: Node,
    at_node: ConnectionId,
    middle: Middle,
}

impl Scene {
    async fn new() -> Self {
        Self::over(Scheme::Udp).await
    }

    async fn over(scheme: Scheme) -> Self {
        let world = TestWorld::new();
        let (mut hub, mut node) = (world.hub(scheme).await, world.node("uav").await);
        let middle = Middle::before(&hub).await;
        node.dial(vec![middle.at.clone()], RoleSet::ALL);
        let Event::Up { connection: at_node, .. } = node.next().await else { panic!("the dial failed") };
        let Event::Up { connection: at_hub, .. } = hub.next().await else { panic!("no connection came up") };
        let mut scene = Self { hub, at_hub, node, at_node, middle };
        scene.exchange(0).await;
        scene.middle.forget();
        scene
    }

    async fn say_to_hub(&mut self, message: u8) {
        self.node.send(self.at_node, RELIABLE, vec![message; 100]);
        assert_eq!(self.hub.message().await, (self.at_hub, vec![message; 100].into()));
    }

    async fn say_to_node(&mut self, message: u8) {
        self.hub.send(self.at_hub, RELIABLE, vec![message; 100]);
        assert_eq!(self.node.message().await, (self.at_node, vec![message; 100].into()));
    }

    async fn exchange(&mut self, message: u8) {
        self.say_to_hub(message).await;
        self.say_to_node(message).await;
    }

    /// The datagram that the node seals in answer to this question. The node ignores questions that arrive soon after
    /// the last one, so the question is repeated.
    async fn confirmation_of(&self, question: &[u8]) -> Vec<u8> {
        let answer = async || {
            self.middle.forge(To::Node, question.to_vec()).await;
            let passed = self.middle.passed(To::Hub).into_iter();
            passed.filter(|datagram| datagram[0] == MOVED).find(|answer| answer[9..25] == question[1..])
        };
        repeat_until(PATIENCE, answer).await.expect("it is confirmed")
    }

    /// Checks that only the session has moved: no unexpected message arrived, and no handshake began.
    async fn was_only_moved(&mut self) {
        assert!(self.hub.is_quiet().await && self.node.is_quiet().await);
        assert_eq!(self.middle.handshakes(), 0);
        for side in [&self.hub, &self.node] {
            assert_eq!(side.transport.counters().for_scheme(Scheme::Udp).handshakes, 1);
            assert_eq!(side.transport.connections().len(), 1);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn node_port_change_costs_one_rtt() {
    let mut scene = Scene::new().await;
    for turn in 1..4 {
        tokio::time::sleep(PAUSE).await;
        scene.middle.order(NatCommand::MoveNode).await;
        scene.say_to_hub(turn).await;
        // The question is the first datagram that the node receives, and its message follows the answer.
        let asked = scene.middle.passed(To::Node);
        assert_eq!((asked[0][0], asked[0].len()), (UNKNOWN, 17));
        assert!(scene.middle.count(To::Hub, MOVED) > 0);
        scene.say_to_node(turn).await;
    }
    scene.was_only_moved().await;
    let moves = &scene.hub.moves;
    assert_eq!(moves.len(), 3);
    let seen_at = scene.hub.transport.connection(scene.at_hub).expect("a link").address;
    assert_eq!(moves.last(), Some(&(scene.at_hub, seen_at)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn late_datagram_does_not_move_back() {
    let mut scene = Scene::new().await;
    scene.middle.order(NatCommand::HoldNode).await;
    for message in 1..4 {
        scene.node.send(scene.at_node, RELIABLE, vec![message; 100]);
    }
    scene.middle.until(To::Hub, RECORD).await;
    scene.middle.order(NatCommand::MoveNode).await;
    // None of the messages has arrived, so they are repeated from the new port.
    for message in 1..4 {
        assert_eq!(scene.hub.message().await, (scene.at_hub, vec![message; 100].into()));
    }
    scene.exchange(4).await;
    scene.middle.order(NatCommand::Release).await;
    for message in 5..8 {
        scene.exchange(message).await;
    }
    assert_eq!(scene.hub.moves.len(), 1);
    // The hub only asked at the node's former address, where nobody is any more, so the question did not reach the
    // node.
    assert_eq!(scene.middle.count(To::Node, UNKNOWN), 0);
    scene.was_only_moved().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn quic_node_port_change_is_followed() {
    let mut scene = Scene::over(Scheme::Quic).await;
    for turn in 1..4 {
        scene.middle.order(NatCommand::MoveNode).await;
        scene.exchange(turn).await;
    }
    assert!(scene.hub.is_quiet().await && scene.node.is_quiet().await);
    assert_eq!(scene.hub.transport.counters().for_scheme(Scheme::Quic).handshakes, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hub_port_change_costs_one_rtt() {
    let mut scene = Scene::new().await;
    for turn in 1..4 {
        tokio::time::sleep(PAUSE).await;
        scene.middle.order(NatCommand::MoveHub).await;
        scene.say_to_node(turn).await;
        assert!(scene.middle.count(To::Hub, UNKNOWN) > 0 && scene.middle.count(To::Node, MOVED) > 0);
        scene.say_to_hub(turn).await;
    }
    scene.was_only_moved().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn datagram_announces_new_address() {
    let mut scene = Scene::new().await;
    scene.middle.order(NatCommand::MoveNode).await;
    scene.node.send(scene.at_node, Channel::Datagram, vec![1; 10]);
    // The datagram itself is lost, as datagrams may be.
    scene.middle.until(To::Hub, MOVED).await;
    scene.say_to_node(1).await;
    scene.was_only_moved().await;
}

/// Sends numbered messages as fast as there is room.
fn pour(from: &Node, connection: ConnectionId, count: u32) -> tokio::task::JoinHandle<()> {
    let transport = from.transport.clone();
    tokio::spawn(async move {
        for index in 0..count {
            let mut message = vec![0; 8000];
            message[..4].copy_from_slice(&index.to_be_bytes());
            let message = Bytes::from(message);
            send_patiently(&transport, connection, RELIABLE, message).await;
            transport.flush();
        }
    })
}

/// Checks that the next numbered message is this one.
async fn expect_number(at: &mut Node, connection: ConnectionId, index: u32) {
    let (from, message) = at.message().await;
    assert_eq!((from, &message[..4]), (connection, &index.to_be_bytes()[..]));
}

const POURED: u32 = 2000;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn upload_continues_when_node_moves() {
    let mut scene = Scene::new().await;
    let pouring = pour(&scene.node, scene.at_node, POURED);
    for index in 0..POURED {
        if index % 500 == 250 {
            scene.middle.order(NatCommand::MoveNode).await;
        }
        expect_number(&mut scene.hub, scene.at_hub, index).await;
    }
    pouring.await.expect("no panic");
    scene.was_only_moved().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn download_resumes_after_node_sends() {
    let mut scene = Scene::new().await;
    let pouring = pour(&scene.hub, scene.at_hub, POURED);
    // A NAT lets no datagram in before one has gone out.
    let (transport, connection) = (scene.node.transport.clone(), scene.at_node);
    let speaking = tokio::spawn(async move {
        let mut beats = tokio::time::interval(Duration::from_millis(50));
        loop {
            beats.tick().await;
            let _ = transport.send(connection, Channel::Datagram, Bytes::new());
            transport.flush();
        }
    });
    let mut index = 0;
    while index < POURED {
        if index % 500 == 250 {
            scene.middle.order(NatCommand::MoveNode).await;
        }
        expect_number(&mut scene.node, scene.at_node, index).await;
        index += 1;
    }
    speaking.abort();
    pouring.await.expect("no panic");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn missing_fragment_reveals_moved_listener() {
    let mut scene = Scene::new().await;
    scene.middle.order(NatCommand::MoveNodeAfter(20)).await;
    let message = Bytes::from(vec![7; 65_536]);
    scene.hub.send(scene.at_hub, RELIABLE, message.clone());
    assert_eq!(scene.node.message().await, (scene.at_node, message));
    assert!(scene.middle.count(To::Hub, MOVED) > 0);
    scene.was_only_moved().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn download_continues_when_hub_moves() {
    let mut scene = Scene::new().await;
    let pouring = pour(&scene.hub, scene.at_hub, POURED);
    for index in 0..POURED {
        if index % 500 == 250 {
            scene.middle.order(NatCommand::MoveHub).await;
        }
        expect_number(&mut scene.node, scene.at_node, index).await;
    }
    pouring.await.expect("no panic");
    scene.was_only_moved().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn forged_challenges_change_nothing() {
    let mut scene = Scene::new().await;
    let started = std::time::Instant::now();
    for mark in 0..200 {
        scene.middle.forge(To::Node, [&[UNKNOWN][..], &[mark; 16]].concat()).await;
    }
    scene.exchange(1).await;
    let pauses = started.elapsed().as_millis() / 50;
    let answers = scene.middle.count(To::Hub, MOVED);
    assert!(answers >= 1 && answers as u128 <= pauses + 1, "{answers} in {pauses} pauses");
    scene.was_only_moved().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn challenges_are_small_and_never_answered() {
    let scene = Scene::new().await;
    let stranger = towards(&scene.hub.address()).await;
    let mut answer = [0; 2000];
    stranger.send(&[&[RECORD][..], &[7; 40]].concat()).await.expect("room");
    assert_eq!(stranger.recv(&mut answer).await.expect("a question"), 17);
    assert_eq!(answer[0], UNKNOWN);
    for silent in [vec![RECORD; 16], answer[..17].to_vec(), [&[HANDSHAKE][..], &[7; 40]].concat(), vec![MOVED; 60]] {
        stranger.send(&silent).await.expect("room");
    }
    let more = tokio::time::timeout(Duration::from_millis(300), stranger.recv(&mut answer)).await;
    assert!(more.is_err(), "{:?}", &answer[..20]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn forging_observer_does_not_keep_connection() {
    let mut scene = Scene::new().await;
    for turn in 1..5 {
        let thief = towards(&scene.hub.address()).await;
        // The thief gets a cookie from the hub, has the node seal it, and sends the result to the hub.
        let mut cookie = [0; 2000];
        thief.send(&[&[RECORD][..], &[7; 40]].concat()).await.expect("room");
        assert_eq!(thief.recv(&mut cookie).await.expect("a question"), 17);
        let sealed = scene.confirmation_of(&cookie[..17]).await;
        thief.send(&sealed).await.expect("room");
        thief.send(&[&sealed[..9], &cookie[1..17], &[RECORD; 60]].concat()).await.expect("room");
        // The node's first message, or the hub's second, moves the session back to the node.
        match turn % 2 {
            0 => scene.say_to_node(turn).await,
            _ => scene.say_to_hub(turn).await,
        }
        scene.exchange(turn).await;
        tokio::time::sleep(PAUSE).await;
    }
    assert!(scene.hub.is_quiet().await && scene.node.is_quiet().await);
    assert_eq!(scene.hub.transport.connections().len(), 1);
    assert_eq!(scene.hub.transport.counters().for_scheme(Scheme::Udp).handshakes, 1);
}
