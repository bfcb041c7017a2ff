//! Urgent messages overtake those that already wait.

// Only tests and their helpers are in this file.
#![allow(clippy::expect_used)]

mod support;

use bytes::Bytes;
use roost_wire::{Channel, Delivery, Scheme, Service};
use support::TestWorld;

/// The test runs on one thread, so that all messages wait before any of them can leave.
#[tokio::test]
async fn control_and_track_overtake_image() {
    for scheme in Scheme::ALL {
        let world = TestWorld::new();
        let (mut hub, _, node, here) = world.pair(scheme).await;
        let send = |flow: u8, delivery: Delivery, bytes: usize| {
            let message = Bytes::from(vec![flow; bytes]);
            let sent = node.transport.send_as(here, Channel::Reliable { flow: flow.into() }, &delivery, message);
            assert_eq!(sent, Ok(()), "{scheme}");
        };
        (0..200).for_each(|_| send(5, Delivery::for_service(Service::Image), 16_384));
        send(2, Delivery::for_service(Service::Track), 300);
        send(0, Delivery::CONTROL, 300);
        let mut order = Vec::new();
        for _ in 0..202 {
            order.push(hub.message().await.1[0]);
        }
        let at = |flow| order.iter().position(|other| *other == flow).expect("it came");
        // Bytes that are in the network already arrive before the urgent messages.
        assert!(at(0).max(at(2)) < 60, "{scheme}: {} and {}", at(0), at(2));
    }
}
