//! The cases of a request, one by one.

use roost_wire::random::SplitMix64;

use crate::hub::testing::*;

#[test]
fn request_carries_reply_address() {
    let mut bench = Bench::new();
    let (provider, requester) = (bench.provider(1), bench.requester(2));
    let (connection, forward) = forwarded(&bench.ask(requester, request(7, RequestMode::Forward)));
    assert_eq!(connection, provider);
    assert_eq!((forward.id, forward.requester()), (RequestId(7), node(2)));
    assert_eq!(forward.reply_to(), [address(2)]);
}

#[test]
fn nobody_is_handed_its_own_request() {
    let mut bench = Bench::new();
    let requester = bench.provider(1);
    assert_eq!(refused(&bench.ask(requester, request(1, RequestMode::Forward))), (requester, Reason::NotFound));
}

#[test]
fn repetition_tries_next_and_retries_last() {
    let mut bench = Bench::new();
    let (first, second, requester) = (bench.provider(1), bench.provider(2), bench.requester(3));
    let to = |bench: &mut Bench| {
        bench.wait(Duration::from_millis(100));
        forwarded(&bench.ask(requester, request(1, RequestMode::Forward))).0
    };
    assert_eq!([to(&mut bench), to(&mut bench), to(&mut bench)], [first, second, second]);
    bench.wait(Duration::from_millis(100));
    let sent = bench.ask(requester, request(1, RequestMode::Forward));
    assert_eq!(
        sent[0],
        (second, Message::Probe(ProbeMessage::Ping(0))),
        "who is suspended until it speaks is asked to speak"
    );
    assert_eq!(refused(&sent[1..]), (requester, Reason::Unreachable));
    assert_eq!((bench.hub.counters().suspensions, bench.hub.counters().failures), (1, 2));
}

#[test]
fn pending_provider_is_kept() {
    let mut bench = Bench::new();
    let (provider, requester) = (bench.provider(1), bench.requester(2));
    bench.provider(3);
    for _ in 0..5 {
        let (connection, _) = forwarded(&bench.ask(requester, request(1, RequestMode::Forward)));
        assert_eq!(connection, provider);
        let pending = RequestMessage::Pending { id: RequestId(1), requester: Some(node(2)), provider: None };
        let told = bench.say(provider, pending.clone());
        let at = Some(ProviderAddress { node: node(1), addresses: vec![address(1)] });
        assert_eq!(
            told,
            [(
                requester,
                Message::Request(RequestMessage::Pending { id: RequestId(1), requester: None, provider: at })
            )]
        );
    }
}

#[test]
fn busy_provider_skipped_and_refusal_repeated() {
    let mut bench = Bench::new();
    let (first, second, requester) = (bench.provider(1), bench.provider(2), bench.requester(3));
    let (_, forward) = forwarded(&bench.ask(requester, request(1, RequestMode::Forward)));
    assert_eq!(forwarded(&bench.say(first, decline(&forward, Reason::Busy))).0, second);
    let last = bench.say(second, decline(&forward, Reason::SourceFailed));
    assert_eq!(refused(&last), (requester, Reason::Busy));
    assert_eq!(bench.ask(requester, request(1, RequestMode::Forward)), last);
    assert!(bench.say(second, decline(&forward, Reason::Busy)).is_empty());
    assert_eq!(bench.hub.counters().stray, 1);
}

/// A provider's refusal with the words of its program.
fn saying(forward: &Request, reason: Reason, words: &str) -> Message {
    match decline(forward, reason) {
        Message::Request(RequestMessage::Decline(decline)) => {
            let sentence = Some(words.parse().unwrap());
            Message::Request(RequestMessage::Decline(Decline { sentence, ..decline }))
        }
        other => panic!("{other:?}"),
    }
}

/// The reason and the words of the only message, which is a refusal.
fn told(sent: &[(ConnectionId, Message)]) -> (Reason, Option<&str>) {
    match sent {
        [(_, Message::Request(RequestMessage::Decline(decline)))] => {
            (decline.reason, decline.sentence.as_ref().map(Sentence::as_str))
        }
        other => panic!("expected one decline, not {other:?}"),
    }
}

#[test]
fn last_words_are_told_and_repeated() {
    for mode in [RequestMode::Forward, RequestMode::Relay] {
        let mut bench = Bench::new();
        let (first, second, requester) = (bench.provider(1), bench.provider(2), bench.requester(3));
        let (_, forward) = forwarded(&bench.ask(requester, request(1, mode)));
        let (to, next) = forwarded(&bench.say(first, saying(&forward, Reason::SourceFailed, "ask the second")));
        assert_eq!(to, second);
        let last = bench.say(second, saying(&next, Reason::SourceFailed, "ask the first"));
        assert_eq!(told(&last), (Reason::SourceFailed, Some("ask the first")));
        for number in 0..100 {
            let more = saying(&next, Reason::SourceFailed, &format!("word {number}"));
            assert!(bench.say(second, more).is_empty(), "a provider has one last word");
        }
        assert_eq!(bench.ask(requester, request(1, mode)), last);
    }
}

#[test]
fn words_go_with_their_reason() {
    let outcome = |words: [Option<&str>; 2], reasons: [Reason; 2]| {
        let mut bench = Bench::new();
        let (providers, requester) = ([bench.provider(1), bench.provider(2)], bench.requester(3));
        let mut sent = bench.ask(requester, request(1, RequestMode::Forward));
        for ((provider, words), reason) in providers.into_iter().zip(words).zip(reasons) {
            let (_, forward) = forwarded(&sent);
            let message = words.map_or(decline(&forward, reason), |words| saying(&forward, reason, words));
            sent = bench.say(provider, message);
        }
        let (reason, words) = told(&sent);
        (reason, words.map(str::to_owned))
    };
    let (failed, busy) = (Reason::SourceFailed, Reason::Busy);
    assert_eq!(outcome([Some("mine"), None], [failed, failed]), (failed, Some("mine".to_owned())));
    assert_eq!(outcome([None, Some("mine")], [Reason::TooSlow, failed]).1, None, "the reason of the first is told");
    assert_eq!(outcome([Some("mine"), None], [failed, busy]), (busy, None));
    assert_eq!(outcome([Some("mine"), Some("mine")], [busy, busy]), (busy, None), "no program is busy in words");
}

#[test]
fn two_requesters_may_count_alike() {
    let mut bench = Bench::new();
    let (provider, a, b) = (bench.provider(1), bench.requester(2), bench.requester(3));
    bench.ask(a, request(1, RequestMode::Forward));
    let (_, forward) = forwarded(&bench.ask(b, request(1, RequestMode::Forward)));
    assert_eq!(refused(&bench.say(provider, decline(&forward, Reason::SourceFailed))), (b, Reason::SourceFailed));
}

#[test]
fn unreachable_requester_is_answered_by_relay() {
    let mut bench = Bench::new();
    let (provider, requester) = (bench.provider(1), bench.requester(2));
    let (_, forward) = forwarded(&bench.ask(requester, request(1, RequestMode::Forward)));
    let (connection, again) = forwarded(&bench.say(provider, decline(&forward, Reason::Unreachable)));
    assert_eq!(connection, provider);
    assert!(again.reply_to().is_empty() && again.id.is_of_hub());
    let last = bench.say(provider, decline(&again, Reason::Unreachable));
    assert_eq!(refused(&last), (requester, Reason::Unreachable));
}

#[test]
fn young_hub_holds_unmatched_request() {
    let mut bench = Bench::young(HubConfig::new(node(200), HubKind::SuperNode, 1));
    let requester = bench.requester(2);
    let sent = bench.ask(requester, request(1, RequestMode::Forward));
    assert!(matches!(sent[..], [(_, Message::Request(RequestMessage::Pending { .. }))]), "{sent:?}");
    // The request has been held as long as it may: the requester need not wait before it asks again.
    let sent = bench.wait(Duration::from_secs(3));
    assert!(
        matches!(
            sent[..],
            [(
                _,
                Message::Request(RequestMessage::Decline(Decline {
                    reason: Reason::NotYetKnown,
                    retry_after_ms: Some(0),
                    ..
                }))
            )]
        ),
        "{sent:?}"
    );
    bench.wait(Duration::from_secs(56));
    bench.say(requester, ProbeMessage::Ping(0));
    bench.wait(Duration::from_secs(2));
    assert_eq!(refused(&bench.ask(requester, request(2, RequestMode::Forward))), (requester, Reason::NotFound));
}

#[test]
fn equal_providers_alternate_before_full_ones() {
    let mut bench = Bench::new();
    let (a, b, requester) = (bench.provider(1), bench.provider(2), bench.requester(3));
    let full = Record { capacity: Capacity { streams: 0, uplink_kbps: 0 }, ..record(4) };
    let c = bench.up(4, Role::Node);
    bench.say(c, RegistrationMessage::Publish(full));
    let connections: Vec<ConnectionId> =
        (1..=9).map(|id| forwarded(&bench.ask(requester, request(id, RequestMode::Forward))).0).collect();
    assert_eq!(connections, [a, b, a, b, a, b, a, b, a]);
}

#[test]
fn nearest_first_with_requester_as_origin() {
    let mut bench = Bench::new();
    let far = bench.up(1, Role::Node);
    bench.say(far, RegistrationMessage::Publish(Record { cell: Cell::new(500, 500), ..record(1) }));
    let (near, requester) = (bench.provider(2), bench.requester(3));
    for (id, area, to) in [(1, Area::Anywhere, near), (2, Area::Nearest(Cell::new(499, 499)), far)] {
        let asked = request(id, RequestMode::Forward).with(|spec| spec.area = area);
        assert_eq!(forwarded(&bench.ask(requester, asked)).0, to);
    }
}

#[test]
fn limit_counts_only_unhanded_requests() {
    let mut bench = Bench::configured(|config| config.limits.requests_per_node = 3);
    bench.up(100, Role::SuperNode);
    let (_, requester) = (bench.provider(1), bench.requester(2));
    for id in 0..10 {
        forwarded(&bench.ask(requester, request(id, RequestMode::Forward).with(|spec| spec.service = Service::Sensor)));
    }
    assert_eq!(bench.hub.status(bench.now).requests, 3);
    let away = |id| request(id, RequestMode::Forward).with(|spec| spec.area = Area::Exact(Cell::new(1, 1)));
    for id in 10..13 {
        bench.ask(requester, away(id));
    }
    assert_eq!(refused(&bench.ask(requester, away(13))), (requester, Reason::TooMany));
}

#[test]
fn requester_cannot_use_hub_ids() {
    let mut bench = Bench::new();
    let requester = bench.requester(2);
    let asked = request(RequestId::FIRST_OF_HUB, RequestMode::Forward);
    assert_eq!(refused(&bench.ask(requester, asked)), (requester, Reason::Protocol));
}

#[test]
fn handed_request_forgotten_at_deadline() {
    let mut bench = Bench::new();
    let (_, requester) = (bench.provider(1), bench.requester(2));
    bench.ask(requester, request(1, RequestMode::Forward));
    assert!(bench.wait(Duration::from_secs(6)).is_empty());
    assert_eq!(bench.hub.status(bench.now).requests, 0);
}

#[test]
fn silence_counts_after_two_round_trips() {
    let mut bench = Bench::new();
    let (_, requester) = (bench.provider(1), bench.requester(2));
    bench.provider(3);
    // A network that repeats, or a requester that wants a provider put aside.
    for _ in 0..10 {
        bench.ask(requester, request(1, RequestMode::Forward));
    }
    assert_eq!((bench.hub.counters().suspensions, bench.hub.counters().forwards), (0, 1));
    assert_eq!(bench.hub.counters().repeats, 1, "one repetition is passed on, the others say nothing new");
}

#[test]
fn provider_refusal_is_not_hub_refusal() {
    let mut bench = Bench::new();
    let (provider, requester) = (bench.provider(1), bench.requester(2));
    for (id, said, heard) in [(1, Reason::Leaving, Reason::NotFound), (2, Reason::TooMany, Reason::Busy)] {
        let (_, forward) = forwarded(&bench.ask(requester, request(id, RequestMode::Forward)));
        assert_eq!(refused(&bench.say(provider, decline(&forward, said))), (requester, heard));
    }
}

#[test]
fn provider_traces_only_its_own_hop() {
    let mut bench = Bench::new();
    let (provider, requester) = (bench.provider(1), bench.requester(2));
    let sent = bench.ask(requester, request(1, RequestMode::Forward).with(|spec| spec.trace = true));
    let id = sent.iter().find_map(|(_, message)| match message {
        Message::Request(RequestMessage::Request(forward)) if forward.hop().is_none() => Some(forward.id),
        _ => None,
    });
    let hop = |number, step| Hop {
        node: node(77),
        index: number,
        tier: None,
        step,
        reason: None,
        elapsed_us: 1,
        other: None,
        name: None,
        round_trip_us: None,
        connected_us: None,
    };
    let mut said = |hop| {
        bench.say(provider, RequestMessage::HopReport(HopReport { id: id.unwrap(), requester: Some(node(2)), hop }))
    };
    assert!(said(hop(2, HopAction::ReusedConnection)).is_empty(), "that of another hub");
    assert!(said(hop(1, HopAction::Exhausted)).is_empty(), "that of a hub");
    match &said(hop(1, HopAction::ReusedConnection))[..] {
        [(to, Message::Request(RequestMessage::HopReport(traced)))] => {
            assert_eq!((*to, traced.hop.node), (requester, node(1)))
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn finished_requests_make_room() {
    let mut bench = Bench::configured(|config| config.limits.requests = 4);
    let provider = bench.provider(1);
    for number in 2..20 {
        let requester = bench.requester(number);
        assert_eq!(forwarded(&bench.ask(requester, request(1, RequestMode::Forward))).0, provider, "{number}");
        assert!(bench.hub.status(bench.now).requests <= 4);
    }
}

#[test]
fn active_requests_fill_the_table() {
    let mut bench = Bench::configured(|config| config.limits.requests = 4);
    bench.up(100, Role::SuperNode);
    let requester = bench.requester(2);
    let near = |id| request(id, RequestMode::Forward).with(|spec| spec.area = Area::Nearest(Cell::new(0, 0)));
    (0..4).for_each(|id| drop(bench.ask(requester, near(id))));
    assert_eq!(refused(&bench.ask(requester, near(4))), (requester, Reason::TooMany));
}

#[test]
fn looped_request_is_declined() {
    let mut bench = Bench::new();
    let (requester, other) = (bench.up(100, Role::SuperNode), bench.up(101, Role::SuperNode));
    bench.say(other, ReplicationMessage::ReplicaUpdate(copies(vec![record(1)])));
    let asked = RequestMessage::Request(carried(1).with_hop(|hop| hop.provider = None));
    let to_other = |sent: &[(ConnectionId, Message)]| {
        sent.iter().any(|(connection, message)| *connection == other && is_carry(message))
    };
    assert!(to_other(&bench.say(requester, asked.clone())));
    bench.say(other, RequestMessage::RequestAck { id: RequestId(1), requester: Some(node(50)), provider: None });
    for _ in 0..2 {
        bench.wait(Duration::from_millis(300));
        assert_eq!(refused(&bench.say(other, asked.clone())), (other, Reason::NotFound));
        assert!(to_other(&bench.say(requester, asked.clone())), "the requester's repetition goes the same way");
        bench.say(other, RequestMessage::RequestAck { id: RequestId(1), requester: Some(node(50)), provider: None });
    }
    let last = Decline { requester: Some(node(50)), ..Decline::new(RequestId(1), Reason::Unreachable) };
    assert_eq!(refused(&bench.say(other, RequestMessage::Decline(last))), (requester, Reason::Unreachable));
}

#[test]
fn hubs_in_turn_take_little_room() {
    for seed in 0..4 {
        let mut random = SplitMix64::new(seed);
        let mut bench = Bench::configured(|config| config.limits.requests_per_node = 4);
        let hubs = [100, 101, 102].map(|hub| bench.up(hub, Role::SuperNode));
        bench.provider(1);
        for _ in 0..5_000 {
            let hub = hubs[random.below(3) as usize];
            bench.ask(hub, carried(random.below(60) as u32));
            bench.wait(Duration::from_millis(random.below(3)));
            let room = |hub| bench.hub.core.remotes.get(node(hub)).map_or(0, |hub| hub.requests.len());
            assert!([100, 101, 102].into_iter().all(|hub| room(hub) <= 4 * 16), "seed {seed}");
        }
        // Others are served as before.
        let (other, requester) = (bench.provider(3), bench.requester(2));
        assert_eq!(forwarded(&bench.ask(requester, request(7, RequestMode::Forward))).0, other);
    }
}

/// A node that publishes at a young hub is compared with the requests that wait, not with all.
#[test]
fn only_who_waits_is_looked_at() {
    let mut bench = Bench::young(HubConfig::new(node(200), HubKind::SuperNode, 1));
    let requester = bench.requester(2);
    let held = |bench: &Bench| bench.hub.requests.table.held.len();
    for id in 1..=3 {
        bench.ask(requester, request(id, RequestMode::Forward));
    }
    assert_eq!(held(&bench), 3);
    let provider = bench.up(1, Role::Node);
    let sent = bench.say(provider, RegistrationMessage::Publish(record(1)));
    assert_eq!((sent.iter().filter(|(_, message)| is_forward(message)).count(), held(&bench)), (3, 0));
    for id in 4..=6 {
        bench.ask(requester, request(id, RequestMode::Forward));
    }
    assert_eq!((held(&bench), bench.hub.requests.table.early.len()), (0, 6));
    bench.wait(Duration::from_secs(60));
    assert_eq!((held(&bench), bench.hub.requests.table.early.len()), (0, 0));
}

/// The hub adds addresses to each, so that ten times as much goes on.
#[test]
fn pending_messages_are_few() {
    let mut bench = Bench::new();
    let (provider, requester) = (bench.provider(1), bench.requester(2));
    forwarded(&bench.ask(requester, request(1, RequestMode::Forward)));
    let pending = RequestMessage::Pending { id: RequestId(1), requester: Some(node(2)), provider: None };
    let told = (0..1_000).map(|_| bench.say(provider, pending.clone()).len()).sum::<usize>();
    assert!((1..=10).contains(&told), "{told}");
    bench.wait(Duration::from_secs(1));
    assert_eq!(bench.say(provider, pending.clone()).len(), 1);
}
