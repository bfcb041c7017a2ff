//! What is urgent goes before what waits already.

// Every test here is a test, its helpers too.
#![allow(clippy::expect_used)]

mod support;

use bytes::Bytes;
use roost_proto::{Channel, Delivery, Scheme, Service};
use support::TestWorld;

/// On one thread, so that all of it waits before any of it can leave.
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
        // What is in the network already goes before.
        assert!(at(0).max(at(2)) < 60, "{scheme}: {} and {}", at(0), at(2));
    }
}
