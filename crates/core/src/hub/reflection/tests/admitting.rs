//! Admission of one more copy.

use roost_wire::messages::FlowMessage;

use super::*;
use crate::hub::timers::HubTimer;

#[test]
fn full_uplink_refuses_new_copies_only() {
    let mut bench = bench();
    let (_, a, b) = (bench.provider(1), bench.requester(2), bench.requester(3));
    has_left(&mut bench, VIDEO_KBPS + 600);
    forwarded(&bench.ask(a, naming(1, 1)));
    let last = bench.ask(b, naming(1, 1));
    assert_eq!(refused(&last), (b, Reason::Saturated));
    assert!(matches!(
        last[0].1,
        Message::Request(RequestMessage::Decline(Decline { retry_after_ms: Some(5_000), .. }))
    ));
    assert_eq!((bench.hub.counters().grants, bench.hub.counters().saturated), (1, 1));
    forwarded(&bench.ask(a, naming(2, 1)));
    // The measured rate counts, both of what is left and of what a copy takes.
    carries_to(&mut bench, 1, &[2]);
    has_left(&mut bench, 650);
    forwarded(&bench.ask(b, naming(2, 1)));
    forwarded(&bench.ask(b, naming(3, 1)));
    let c = bench.requester(4);
    assert_eq!(refused(&bench.ask(c, naming(1, 1))), (c, Reason::Saturated));
}

#[test]
fn pending_grant_keeps_its_reservation() {
    let mut bench = bench();
    let (_, a, b) = (bench.provider(1), bench.requester(2), bench.requester(3));
    has_left(&mut bench, VIDEO_KBPS + 600);
    forwarded(&bench.ask(a, naming(1, 1)));
    // The relay has nothing of it yet, and tells of all the room that there was.
    has_left(&mut bench, VIDEO_KBPS + 600);
    assert_eq!(refused(&bench.ask(b, naming(1, 1))), (b, Reason::Saturated));
    // The stream has begun, and is not measured yet.
    let begun =
        ReflectedStream { service: Service::Video, cell: Some(HERE), provider: Some(node(1)), kbps: 0, to: Vec::new() };
    bench.command(HubCommand::ReflectedStreams { streams: vec![begun] });
    has_left(&mut bench, 600);
    assert_eq!(refused(&bench.ask(b, naming(2, 1))), (b, Reason::Saturated));
    // The stream has ended.
    bench.command(HubCommand::ReflectedStreams { streams: Vec::new() });
    bench.wait(BEGINNING);
    has_left(&mut bench, VIDEO_KBPS + 600);
    forwarded(&bench.ask(b, naming(3, 1)));
}

#[test]
fn receiver_forgotten_with_its_stream() {
    let mut bench = bench();
    let (_, requester) = (bench.provider(1), bench.requester(2));
    forwarded(&bench.ask(requester, subscribe(1)));
    has_left(&mut bench, 0);
    bench.command(HubCommand::ReflectedStreams { streams: Vec::new() });
    forwarded(&bench.ask(requester, subscribe(2)));
    bench.wait(BEGINNING);
    bench.command(HubCommand::ReflectedStreams { streams: Vec::new() });
    assert_eq!(refused(&bench.ask(requester, subscribe(3))), (requester, Reason::Saturated));
}

#[test]
fn subscriber_count_is_separate_limit() {
    let mut bench = reflecting(1, OverflowPolicy::Count(2));
    let (sibling, _) = (bench.up(100, Role::SuperNode), bench.provider(1));
    has_left(&mut bench, 0);
    let requesters = [2, 3, 4].map(|number| bench.requester(number));
    forwarded(&bench.ask(requesters[0], subscribe(1)));
    forwarded(&bench.ask(requesters[1], subscribe(1)));
    assert_eq!(refused(&bench.ask(requesters[2], subscribe(1))), (requesters[2], Reason::Saturated));
    let carry = Request { copy_target: wanted(1), ..video(1) };
    the_forward(&bench.ask(sibling, carry));
}

#[test]
fn reservation_freed_when_request_ends() {
    let ends: [fn(&mut Bench, ConnectionId, ConnectionId, &Request); 4] = [
        |bench, provider, _, forward| drop(bench.say(provider, decline(forward, Reason::SourceFailed))),
        |bench, _, requester, forward| {
            bench.say(requester, FlowMessage::Stop { id: forward.id, reason: Reason::Cancelled });
        },
        |bench, _, requester, _| drop(bench.down(requester)),
        |bench, _, _, _| drop(bench.wait(BEGINNING)),
    ];
    for end in ends {
        let mut bench = bench();
        let (provider, a, b) = (bench.provider(1), bench.requester(2), bench.requester(3));
        has_left(&mut bench, VIDEO_KBPS);
        let (_, forward) = forwarded(&bench.ask(a, naming(1, 1)));
        assert_eq!(refused(&bench.ask(b, naming(1, 1))), (b, Reason::Saturated));
        end(&mut bench, provider, a, &forward);
        forwarded(&bench.ask(b, naming(2, 1)));
    }
}

/// A copy of a stream of node 1 at a port of its own.
fn at_port(id: u32, port: u16) -> Request {
    let mut asked = naming(id, 1);
    if let Some(reflect) = &mut asked.copy_target {
        reflect.to.set_port(port);
    }
    asked
}

#[test]
fn single_node_cannot_reserve_everything() {
    for (policy, residual_kbps) in [(OverflowPolicy::Residual, 8 * VIDEO_KBPS), (OverflowPolicy::Count(8), 0)] {
        let mut bench = reflecting(1, policy);
        let (_, greedy, other) = (bench.provider(1), bench.requester(2), bench.requester(3));
        has_left(&mut bench, residual_kbps);
        let granted = (1..100).filter(|id| is_forward(&bench.ask(greedy, at_port(*id, *id as u16))[0].1));
        assert_eq!(granted.count(), 4, "{policy:?}");
        the_forward(&bench.ask(other, naming(1, 1)));
    }
    let mut bench = bench();
    let (_, greedy) = (bench.provider(1), bench.requester(2));
    for id in 1..200 {
        bench.ask(greedy, at_port(id, id as u16));
    }
    assert_eq!(bench.hub.counters().grants, reservations::MAX_RESERVATIONS_EACH as u64);
}

#[test]
fn unused_grant_expires_on_idle_hub() {
    let mut bench = bench();
    let (_, requester) = (bench.provider(1), bench.requester(2));
    forwarded(&bench.ask(requester, naming(1, 1)));
    bench.wait(BEGINNING);
    has_left(&mut bench, 0);
    assert_eq!(refused(&bench.ask(requester, naming(2, 1))), (requester, Reason::Saturated));
    assert!(!bench.hub.core.timers.is_set(HubTimer::Reservation));
}

/// The owner's word about copies of node 1's stream that one node is sent, and of what is left.
fn is_sent(bench: &mut Bench, to: &[(u8, u16)], left: u32) {
    let to = to.iter().map(|(host, port)| ([10, 0, 0, *host], *port).into()).collect();
    let (cell, provider, kbps) = (Some(HERE), Some(node(1)), VIDEO_KBPS);
    let stream = ReflectedStream { service: Service::Video, cell, provider, kbps, to };
    bench.command(HubCommand::ReflectedStreams { streams: vec![stream] });
    has_left(bench, left);
}

#[test]
fn heavy_node_leaves_last_eighth() {
    const ALL: u16 = 16;
    let mut bench = bench();
    let (_, greedy, other) = (bench.provider(1), bench.requester(2), bench.requester(3));
    has_left(&mut bench, u32::from(ALL) * VIDEO_KBPS);
    let mut begun = Vec::new();
    for port in 1..=2 * ALL {
        if is_forward(&bench.ask(greedy, at_port(port.into(), port))[0].1) {
            begun.push((2, port));
        }
        is_sent(&mut bench, &begun, u32::from(ALL - begun.len() as u16) * VIDEO_KBPS);
    }
    assert_eq!(begun.len(), 14, "each copy has begun before the next one is asked for");
    let last = bench.ask(greedy, at_port(99, 99));
    assert_eq!(refused(&last), (greedy, Reason::Saturated));
    forwarded(&bench.ask(other, naming(1, 1)));
    // A node need not leave the copy that it has again.
    forwarded(&bench.ask(greedy, at_port(100, 1)));
    // A copy that it is not sent any more does not count.
    is_sent(&mut bench, &[(2, 1)], u32::from(ALL - 1) * VIDEO_KBPS);
    bench.wait(Duration::from_secs(20));
    is_sent(&mut bench, &[(2, 1)], u32::from(ALL - 1) * VIDEO_KBPS);
    forwarded(&bench.ask(greedy, at_port(101, 101)));
}

#[test]
fn copies_per_node_are_limited() {
    let mut bench = bench();
    let (_, greedy, other) = (bench.provider(1), bench.requester(2), bench.requester(3));
    let mut begun = Vec::new();
    for port in 1..=2 * subscriber_copies::MAX_COPIES_EACH as u16 {
        if bench.ask(greedy, at_port(port.into(), port)).first().is_some_and(|(_, message)| is_forward(message)) {
            begun.push((2, port));
        }
        is_sent(&mut bench, &begun, u32::MAX);
        bench.wait(Duration::from_millis(20));
    }
    assert_eq!(begun.len(), subscriber_copies::MAX_COPIES_EACH);
    forwarded(&bench.ask(other, naming(1, 1)));
}
