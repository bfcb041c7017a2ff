//! Joining a stream that one's home carries already: it is opened before its
//! provider has accepted, by what that has left with the hubs, and by nothing else.

use roost_wire::reflection::StartCondition;

use crate::reflection::PLACE;
use crate::reflection::THERE;
use crate::reflection::TwoHubScene;
use crate::world::reflect::seal;
use crate::world::reflect::secret;
use crate::*;

/// A round trip between any two hosts.
const ROUND_TRIP: Duration = Duration::from_millis(40);

/// A stream that the first watcher has for a while, so that both hubs carry it.
fn carried(seed: u64, watchers: usize) -> (TwoHubScene, Ticket) {
    let mut two = TwoHubScene::new(seed, watchers);
    let ticket = two.subscribe(0);
    assert!(two.is_watching(0, ticket));
    two.world.run_relays(2 * SECOND);
    (two, ticket)
}

/// Epochs of a request's stream that a watcher could open: after how long, and whether the provider confirmed
/// it.
fn opened(world: &World, host: HostId, ticket: Ticket, asked: Time) -> Vec<(Duration, Epoch, bool)> {
    let one = |(at, event): &(Time, NodeEvent)| match event {
        NodeEvent::Reflected { ticket: of, epoch, is_confirmed, .. } if *of == ticket => {
            Some((at.since(asked), *epoch, *is_confirmed))
        }
        _ => None,
    };
    world.events(host).iter().filter_map(one).collect()
}

fn accepted(world: &World, host: HostId, ticket: Ticket) -> usize {
    let is_it = |event: &NodeEvent| matches!(event, NodeEvent::Accepted { ticket: of, .. } if *of == ticket);
    world.events(host).iter().filter(|(_, event)| is_it(event)).count()
}

#[test]
fn sealed_key_opens_in_one_rtt() {
    let (mut two, _) = carried(1, 2);
    let asked = two.world.now;
    let ticket = two.subscribe(1);
    let opened = opened(&two.world, two.watchers[1], ticket, asked);
    assert_eq!(opened[0], (ROUND_TRIP, Epoch(1), false), "{opened:?}");
    assert!(opened[1].0 >= 2 * ROUND_TRIP && opened[1].2, "the provider's word comes later: {opened:?}");
    assert_eq!((opened.len(), accepted(&two.world, two.watchers[1], ticket)), (2, 1));
    assert!(two.is_watching(1, ticket));
    assert_eq!(two.world.status(two.provider).publications[0].members, 2);
}

#[test]
fn provider_home_opens_in_one_rtt() {
    let (mut two, _) = carried(2, 1);
    let near = two.world.node((1, 1), &[], &[two.hubs[0]]);
    two.world.run_until_attached();
    let asked = two.world.now;
    let ticket = two.world.subscribe(near, Service::Video, THERE);
    two.world.run_relays(SECOND);
    assert_eq!(opened(&two.world, near, ticket, asked)[0], (ROUND_TRIP, Epoch(1), false));
}

#[test]
fn late_joiner_gets_only_current_epoch() {
    let (mut two, first) = carried(3, 3);
    let gone = two.subscribe(1);
    two.world.cancel(two.watchers[1], gone);
    two.world.run_relays(20 * SECOND);
    let asked = two.world.now;
    let late = two.subscribe(2);
    assert_eq!(opened(&two.world, two.watchers[2], late, asked)[0], (ROUND_TRIP, Epoch(2), false));
    assert!(!two.world.hosts[two.watchers[2].0].epochs(late).contains(&Epoch(1)));
    assert!(two.is_watching(2, late) && two.is_watching(0, first));
}

#[test]
fn without_group_secret_nothing_is_provisional() {
    for keyless in [0, 1] {
        let mut two = TwoHubScene::new(4, 2);
        let host = [two.provider, two.watchers[1]][keyless];
        two.world.hosts[host.0].media.keyless = true;
        two.subscribe(0);
        two.world.run_relays(2 * SECOND);
        let asked = two.world.now;
        let ticket = two.subscribe(1);
        let opened = opened(&two.world, two.watchers[1], ticket, asked);
        assert_eq!(opened.len(), 1, "{opened:?}");
        assert!(opened[0].2 && two.is_watching(1, ticket));
    }
}

/// A provider that offers the service no more says no, and draws the next epoch: the
/// hub has let the node open the present one.
#[test]
fn who_is_refused_reads_no_further() {
    let (mut two, first) = carried(5, 2);
    let ticket = two.world.subscribe(two.watchers[1], Service::Video, THERE);
    two.world.run(50 * MS);
    let (services, none) = (Default::default(), two.provider);
    two.world.command(none, NodeCommand::Reconfigure { services, max_streams: 8, uplink_kbps: None });
    assert_eq!(two.world.hosts[two.watchers[1].0].epochs(ticket), [Epoch(1)], "it was let in");
    assert_eq!(failed(&mut two.world, two.watchers[1], ticket), Reason::NotFound);
    two.world.run_relays(2 * SECOND);
    assert!(two.world.hosts[two.watchers[0].0].epochs(first).contains(&Epoch(2)));
    let events = two.world.events(two.watchers[1]).iter();
    assert!(!events.clone().any(|(_, event)| matches!(event, NodeEvent::Key { epoch: Epoch(2), .. })));
}

/// Nobody accepts: neither does it go on.
#[test]
fn silence_ends_what_nobody_has_accepted() {
    let (mut two, _) = carried(6, 2);
    let (provider, home) = (two.provider, two.hubs[0]);
    two.world.mute(home, provider);
    two.world.mute(two.watchers[1], provider);
    let ticket = two.world.subscribe_with(two.watchers[1], Service::Video, THERE, |wanted| {
        wanted.timeout = Some(3 * SECOND);
    });
    two.world.run(SECOND);
    assert_eq!(accepted(&two.world, two.watchers[1], ticket), 1);
    failed(&mut two.world, two.watchers[1], ticket);
}

/// A hub that keeps old packets may say what it likes of the provider.
#[test]
fn unconfirmed_stream_ends_despite_pending() {
    let (mut two, _) = carried(11, 2);
    let (provider, watcher, home) = (two.provider, two.watchers[1], two.hubs[1]);
    two.world.mute(two.hubs[0], provider);
    two.world.mute(watcher, provider);
    two.world.corpus = Some(Vec::new());
    let ticket = two.world.subscribe_with(watcher, Service::Video, THERE, |wanted| wanted.timeout = Some(60 * SECOND));
    two.world.run(25 * MS);
    let id = asked_as(&two.world.corpus.take().unwrap_or_default());
    for _ in 0..9 {
        two.world.run(SECOND);
        two.world.inject(
            home,
            watcher,
            Message::Request(RequestMessage::Pending { id, requester: None, provider: None }).encode(),
        );
    }
    assert_eq!(accepted(&two.world, watcher, ticket), 1);
    let events = two.world.events(watcher).iter();
    let is_over = |event: &NodeEvent| matches!(event, NodeEvent::Failed { ticket: of, .. } if *of == ticket);
    assert!(events.clone().any(|(_, event)| is_over(event)));
}

/// By which number something was asked for last.
fn asked_as(said: &[Bytes]) -> RequestId {
    let id = said.iter().find_map(|message| match Message::decode(message) {
        Ok(Message::Request(RequestMessage::Request(request))) => Some(request.id),
        _ => None,
    });
    let Some(id) = id else { panic!("nothing was asked for") };
    id
}

fn opening(stream: u64, epoch: u32) -> ProvisionalAccept {
    let (stream, epoch) = (StreamId(stream), Epoch(epoch));
    let reflected = StreamKeys { stream, epoch, secret: secret(stream, epoch), next: None };
    ProvisionalAccept { stream_keys: reflected, bits_per_second: 1, format: "old".to_owned(), cell: PLACE }
}

/// A hub says something else while a request is under way, in place of what it has.
fn told(say: impl Fn(&TwoHubScene, RequestId) -> Vec<SealedKeys>) -> (TwoHubScene, Ticket) {
    let mut two = TwoHubScene::new(7, 2);
    let (home, watcher, provider) = (two.hubs[1], two.watchers[1], two.provider);
    // Nothing comes but what is said here.
    two.world.hosts[provider.0].media.keyless = true;
    two.subscribe(0);
    two.world.run_relays(2 * SECOND);
    two.world.corpus = Some(Vec::new());
    let ticket = two.world.subscribe(watcher, Service::Video, THERE);
    two.world.run(25 * MS);
    let said = two.world.corpus.take().unwrap_or_default();
    let id = asked_as(&said);
    for keys in say(&two, id) {
        assert!(two.world.inject(home, watcher, Message::Flow(FlowMessage::SealedKeys(keys)).encode()));
    }
    two.world.run_relays(2 * SECOND);
    (two, ticket)
}

fn keys(id: RequestId, provider: HostId, sealed: Bytes) -> SealedKeys {
    SealedKeys { id: Some(id), service: Service::Video, provider: node_id(provider.0), hops_left: 0, sealed }
}

#[test]
fn invented_sealed_keys_are_harmless() {
    let (two, ticket) = told(|two, id| vec![keys(id, two.provider, Bytes::from(vec![7; MAX_SEALED_BYTES]))]);
    assert!(two.is_watching(1, ticket));
}

#[test]
fn keys_sealed_for_others_open_nothing() {
    let (two, ticket) = told(|two, id| {
        let [own, other] = [two.provider, two.watchers[0]].map(|node| node_id(node.0));
        let wrong = [seal(own, Service::Track, &opening(9, 1)), seal(other, Service::Video, &opening(9, 1))];
        wrong.map(|sealed| keys(id, two.provider, sealed)).into()
    });
    assert!(two.is_watching(1, ticket));
    let streams = two.world.events(two.watchers[1]).iter();
    assert!(!streams.clone().any(|(_, event)| matches!(event, NodeEvent::Reflected { stream: StreamId(9), .. })));
}

#[test]
fn provider_keys_replace_stale_ones() {
    let (two, ticket) = told(|two, id| {
        let provider = node_id(two.provider.0);
        let old = [opening(9, 1), opening(10, 1)].map(|opening| seal(provider, Service::Video, &opening));
        old.map(|sealed| keys(id, two.provider, sealed)).into()
    });
    assert!(two.is_watching(1, ticket));
    let confirmed = two.world.events(two.watchers[1]).iter().rev().find_map(|(_, event)| match event {
        NodeEvent::Reflected { ticket: of, stream, is_confirmed, .. } if *of == ticket => {
            Some((*stream, *is_confirmed))
        }
        _ => None,
    });
    assert_eq!(confirmed.map(|(stream, is_confirmed)| (stream.0 > 10, is_confirmed)), Some((true, true)));
}

#[test]
fn sealed_key_flood_is_limited() {
    let (two, ticket) = told(|two, id| {
        let sealed = |n: u32| Bytes::from(n.to_be_bytes().to_vec());
        (0..10_000).map(|n| keys(id, two.provider, sealed(n))).collect()
    });
    assert!(two.is_watching(1, ticket));
    let looked = two.world.events(two.watchers[1]).iter();
    let looked = looked.filter(|(_, event)| matches!(event, NodeEvent::Unseal { .. })).count();
    assert!(looked <= 4, "{looked}");
}

/// Only who was asked may say it: not a node, nor a hub that has nothing to do with it.
#[test]
fn nobody_else_is_listened_to() {
    let (mut two, _) = carried(8, 3);
    let (watcher, other) = (two.watchers[1], two.watchers[2]);
    two.world.corpus = Some(Vec::new());
    let ticket = two.world.subscribe(watcher, Service::Video, THERE);
    two.world.run(MS);
    let _ = two.world.corpus.take();
    let before = two.world.status(watcher).counters.stale;
    for request in 0..100 {
        let said = keys(RequestId(request), two.provider, Bytes::from_static(b"said"));
        two.world.inject(two.hubs[0], watcher, Message::Flow(FlowMessage::SealedKeys(said.clone())).encode());
        two.world.inject(other, watcher, Message::Flow(FlowMessage::SealedKeys(said)).encode());
    }
    two.world.run_relays(2 * SECOND);
    assert!(two.is_watching(1, ticket));
    assert!(two.world.status(watcher).counters.stale >= before + 100);
}

#[test]
fn resubscription_is_not_sent_backlog() {
    for (lost, begin) in [(false, StartCondition::Resumed), (true, StartCondition::Offered)] {
        let (mut two, ticket) = carried(9, 1);
        two.world.command(two.watchers[0], NodeCommand::Resubscribe { ticket, lost });
        two.world.run_relays(SECOND);
        assert!(two.is_watching(0, ticket));
        let granted = two.world.hosts[two.hubs[1].0].media.grants.last();
        assert_eq!(granted.map(|grant| grant.begin), Some(begin), "lost: {lost}");
    }
}

/// The home relays for those: what it carries is a stream of the requester's own, and the
/// reflected one is none of its business any more.
#[test]
fn unreachable_subscriber_gets_relayed_stream() {
    let (mut two, first) = carried(10, 2);
    let (watcher, provider) = (two.watchers[1], two.provider);
    two.world.bar(watcher, provider);
    two.world.bar(provider, watcher);
    let ticket = two.world.subscribe_with(watcher, Service::Video, THERE, |wanted| wanted.duration = Some(2 * SECOND));
    two.world.run_relays(10 * SECOND);
    let relayed = two.world.events(watcher).iter().filter_map(|(_, event)| match event {
        NodeEvent::Accepted { ticket: of, relayed, reflected, .. } if *of == ticket => Some((*relayed, *reflected)),
        _ => None,
    });
    assert_eq!(relayed.collect::<Vec<_>>(), [(false, true), (true, false)]);
    assert!(two.world.hosts[watcher.0].payloads(ticket).next().is_some());
    assert!(two.world.hosts[two.watchers[0].0].epochs(first).contains(&Epoch(2)));
    let told = two.world.events(watcher).iter();
    assert!(!told.clone().any(|(_, event)| matches!(event, NodeEvent::Key { epoch: Epoch(2), .. })));
}
