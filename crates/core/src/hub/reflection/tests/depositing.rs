//! Sealed keys of streams: whom the hub believes it of, and to whom it hands it.

use super::*;
use crate::hub::testing::*;

fn keys(provider: u8, sealed: &'static [u8]) -> SealedKeys {
    let (service, provider, sealed) = (Service::Video, node(provider), Bytes::from_static(sealed));
    SealedKeys { id: None, service, provider, hops_left: 8, sealed }
}

fn handed(sent: &[(ConnectionId, Message)]) -> Vec<(ConnectionId, SealedKeys)> {
    let keys = |(connection, message): &(ConnectionId, Message)| match message {
        Message::Flow(FlowMessage::SealedKeys(keys)) => Some((*connection, keys.clone())),
        _ => None,
    };
    sent.iter().filter_map(keys).collect()
}

fn carry(id: u32) -> Message {
    Message::Request(RequestMessage::Request(Request { copy_target: wanted(1), ..video(id) }))
}

#[test]
fn granted_subscriber_gets_sealed_keys() {
    let mut bench = bench();
    let (provider, first, second) = (bench.provider(1), bench.requester(2), bench.requester(3));
    assert_eq!(handed(&bench.ask(first, subscribe(1))), []);
    let sent = bench.say(provider, FlowMessage::SealedKeys(keys(1, b"one")));
    let to = |connection, id, sealed| (connection, SealedKeys { id: Some(RequestId(id)), ..keys(1, sealed) });
    assert_eq!(handed(&sent), [to(first, 1, b"one")]);
    let sent = bench.say(provider, FlowMessage::SealedKeys(keys(1, b"two")));
    assert_eq!(handed(&sent), [to(first, 1, b"two")], "the one before may be stale");
    carries_to(&mut bench, 1, &[2]);
    assert_eq!(handed(&bench.ask(second, subscribe(9))), [to(second, 9, b"two")]);
    // A stream of one's own is another one.
    let own = Request { copy_target: None, ..subscribe(10) };
    assert_eq!(handed(&bench.ask(second, own)), []);
    let counters = bench.hub.counters();
    assert_eq!((counters.keys_stored, counters.keys_handed, counters.keys_expired), (2, 3, 0));
}

/// A provider's keys go to subscribers that still have its stream, and another provider cannot speak for that
/// stream.
#[test]
fn declining_provider_cannot_replace_keys() {
    let mut bench = bench();
    let (one, four, moved) = (bench.provider(1), bench.provider(4), bench.requester(2));
    let (provider, forward) = forwarded(&bench.ask(moved, subscribe(1)));
    let (number, other) = if provider == one { (1, four) } else { (4, one) };
    let sent = bench.say(provider, decline(&forward, Reason::NotFound));
    assert_eq!(forwarded(&sent).0, other);
    let (first, second) = (bench.requester(3), bench.requester(5));
    bench.ask(first, naming(7, number));
    let to = |connection, id| (connection, SealedKeys { id: Some(RequestId(id)), ..keys(number, b"one") });
    assert_eq!(handed(&bench.say(provider, FlowMessage::SealedKeys(keys(number, b"one")))), [to(first, 7)]);
    assert_eq!(handed(&bench.say(other, FlowMessage::SealedKeys(keys(number, b"false")))), []);
    assert_eq!(handed(&bench.ask(second, naming(8, number))), [to(second, 8)]);
}

#[test]
fn refused_subscriber_gets_no_keys() {
    let mut bench = bench();
    let (provider, first, second) = (bench.provider(1), bench.requester(2), bench.requester(3));
    bench.ask(first, subscribe(1));
    bench.say(provider, FlowMessage::SealedKeys(keys(1, b"one")));
    has_left(&mut bench, 0);
    assert_eq!(handed(&bench.ask(second, subscribe(9))), []);
}

#[test]
fn requesting_hubs_get_every_epoch() {
    let mut bench = bench();
    let (provider, hub) = (bench.provider(1), bench.up(100, Role::SuperNode));
    let other = bench.up(101, Role::SuperNode);
    bench.say(hub, carry(5));
    for sealed in [&b"one"[..], b"two"] {
        let told = SealedKeys { hops_left: 7, ..keys(1, sealed) };
        assert_eq!(handed(&bench.say(provider, FlowMessage::SealedKeys(keys(1, sealed)))), [(hub, told)]);
        assert_eq!(handed(&bench.say(provider, FlowMessage::SealedKeys(keys(1, sealed)))), [], "it knows that");
    }
    let sent = bench.say(other, carry(6));
    assert_eq!(
        handed(&sent).iter().map(|(connection, keys)| (*connection, keys.id)).collect::<Vec<_>>(),
        [(other, None)]
    );
    let last = SealedKeys { hops_left: 0, ..keys(1, b"three") };
    assert_eq!(handed(&bench.say(provider, FlowMessage::SealedKeys(last))), [], "it has gone as far as it may");
}

#[test]
fn hub_gets_keys_reliably_per_request() {
    let mut bench = bench();
    let (provider, hub) = (bench.provider(1), bench.up(100, Role::SuperNode));
    bench.say(hub, carry(5));
    bench.say(provider, FlowMessage::SealedKeys(keys(1, b"one")));
    for id in [6, 7] {
        let sent = bench.channels(Input::Message { connection: hub, message: carry(id).encode() });
        let handed =
            sent.into_iter().filter(|(_, _, message)| matches!(message, Message::Flow(FlowMessage::SealedKeys(_))));
        let ways: Vec<_> = handed.map(|(connection, channel, _)| (connection, channel)).collect();
        assert_eq!(ways, [(hub, Channel::Reliable { flow: 0 })]);
    }
}

#[test]
fn keys_accepted_from_requested_source_only() {
    let mut bench = bench();
    let (_, other, first, second) = (bench.provider(1), bench.requester(4), bench.requester(2), bench.requester(3));
    let hub = bench.up(100, Role::SuperNode);
    bench.ask(first, subscribe(1));
    for stranger in [other, hub, first] {
        assert_eq!(handed(&bench.say(stranger, FlowMessage::SealedKeys(keys(1, b"false")))), []);
    }
    assert_eq!(handed(&bench.ask(second, subscribe(2))), []);
    // A node speaks for itself, and for what somebody has asked for.
    assert_eq!(handed(&bench.say(other, FlowMessage::SealedKeys(keys(4, b"unasked")))), []);
    assert_eq!(bench.hub.counters().stray, 4);
}

#[test]
fn key_flood_is_rate_limited() {
    let mut bench = bench();
    let (provider, hub) = (bench.provider(1), bench.up(100, Role::SuperNode));
    bench.say(hub, carry(5));
    let mut passed = 0;
    for number in 0..10_000_u32 {
        let sealed = Bytes::from(number.to_be_bytes().to_vec());
        passed += handed(&bench.say(provider, FlowMessage::SealedKeys(SealedKeys { sealed, ..keys(1, b"") }))).len();
    }
    assert!(passed <= 100, "{passed}");
    assert!(bench.hub.counters().over_limit(HubLimit::WorkRate) >= 9_900);
}

#[test]
fn it_goes_with_the_stream() {
    let mut bench = bench();
    let (provider, first, second) = (bench.provider(1), bench.requester(2), bench.requester(3));
    bench.ask(first, subscribe(1));
    bench.say(provider, FlowMessage::SealedKeys(keys(1, b"one")));
    carries_to(&mut bench, 1, &[2]);
    bench.wait(Duration::from_secs(20));
    bench.command(HubCommand::ReflectedStreams { streams: Vec::new() });
    assert_eq!(handed(&bench.ask(second, subscribe(9))), []);
}
