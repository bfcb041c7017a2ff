//! An object over `quic://` with each congestion control, on real sockets.

// Only tests and their helpers are in this file.
#![allow(clippy::expect_used)]

mod support;

use bytes::Bytes;
use roost_transport::Limits;
use roost_wire::{Congestion, Role};
use support::{Node, RELIABLE, TestWorld, send_patiently};

const MESSAGE_BYTES: usize = 60_000;
/// A little more in all (8.4 MB) than a connection may have under way (8 MiB).
const MESSAGES: usize = 140;

#[tokio::test(flavor = "multi_thread")]
async fn object_arrives_with_every_control() {
    let world = TestWorld::new();
    for congestion in Congestion::ALL {
        let at = format!("quic://127.0.0.1:0?cc={congestion}");
        let mut hub = Node::start(world.member("hub", Role::SuperNode), None, &[&at], Limits::default()).await;
        let mut node = Node::start(world.member("uav", Role::Node), None, &[&at], Limits::default()).await;
        let (connection, _) = node.connect(&mut hub).await;
        let transport = node.transport.clone();
        let sender = tokio::spawn(async move {
            for number in 0..MESSAGES {
                let message = Bytes::from(vec![number as u8; MESSAGE_BYTES]);
                send_patiently(&transport, connection, RELIABLE, message).await;
            }
        });
        for number in 0..MESSAGES {
            let (_, message) = hub.message().await;
            assert!(message.len() == MESSAGE_BYTES && message[0] == number as u8, "{congestion}: {number}");
        }
        sender.await.unwrap();
    }
}
