//! Marks of providers, and traces of requests.

use std::collections::BTreeMap;
use std::time::Duration;

use proptest::prelude::*;
use roost_wire::messages::{
    Hop, HopAction, HopReport, MAX_TRACED_HOPS, Message, ProbeMessage, Reason, RegistrationMessage, Renew,
    ReplicationMessage, Request, RequestMessage, RequestMode,
};
use roost_wire::{Area, Capacity, Cell, ConnectionId, NodeId, Record, Role, Service, Time};

use crate::directory::LONGEST_HOLD;
use crate::hub::testing::{Bench, EditRequest, copies, decline, node, record, request};

const MS: Duration = Duration::from_millis(1);

fn traced(id: u32, mode: RequestMode) -> Request {
    request(id, mode).with(|spec| spec.trace = true)
}

/// The reports among what was sent, and to whom they went.
fn reports(sent: &[(ConnectionId, Message)]) -> Vec<(ConnectionId, Hop)> {
    let report = |(connection, message): &(ConnectionId, Message)| match message {
        Message::Request(RequestMessage::HopReport(traced)) => Some((*connection, traced.hop.clone())),
        _ => None,
    };
    sent.iter().filter_map(report).collect()
}

fn steps(sent: &[(ConnectionId, Message)]) -> Vec<(HopAction, Option<NodeId>, Option<Reason>, u32)> {
    reports(sent).into_iter().map(|(_, hop)| (hop.step, hop.other, hop.reason, hop.elapsed_us / 1_000)).collect()
}

fn handed(sent: &[(ConnectionId, Message)]) -> Option<(ConnectionId, Request)> {
    sent.iter().find_map(|(connection, message)| match message {
        Message::Request(RequestMessage::Request(forward)) if forward.hop().is_none() => {
            Some((*connection, forward.clone()))
        }
        _ => None,
    })
}

#[test]
fn only_traced_requests_are_reported() {
    let mut bench = Bench::new();
    let (first, second, requester) = (bench.provider(1), bench.provider(2), bench.requester(3));
    let sent = bench.ask(requester, traced(1, RequestMode::Forward));
    assert_eq!(steps(&sent), [(HopAction::HandedToProvider, Some(node(1)), None, 0)]);
    let (to, hop) = &reports(&sent)[0];
    assert_eq!((*to, hop.node, hop.index, hop.name.as_deref()), (requester, node(200), 1, Some("n1")));
    let (_, forward) = handed(&sent).unwrap();
    bench.wait(30 * MS);
    let sent = bench.say(first, decline(&forward, Reason::SourceFailed));
    assert_eq!(
        steps(&sent),
        [
            (HopAction::Declined, Some(node(1)), Some(Reason::SourceFailed), 30),
            (HopAction::HandedToProvider, Some(node(2)), None, 30)
        ]
    );
    let sent = bench.say(second, decline(&forward, Reason::Busy));
    assert_eq!(
        steps(&sent),
        [
            (HopAction::Declined, Some(node(2)), Some(Reason::Busy), 30),
            (HopAction::Exhausted, None, Some(Reason::Busy), 30)
        ]
    );
    let sent = bench.ask(requester, request(2, RequestMode::Forward));
    assert!(handed(&sent).is_some() && reports(&sent).is_empty());
}

#[test]
fn a_silent_provider_is_told_of() {
    let mut bench = Bench::new();
    let (_, _, requester) = (bench.provider(1), bench.provider(2), bench.requester(3));
    let mut last = Vec::new();
    for _ in 0..2 {
        bench.wait(100 * MS);
        last = bench.ask(requester, traced(1, RequestMode::Forward));
    }
    assert_eq!(
        steps(&last),
        [
            (HopAction::TimedOut, Some(node(1)), Some(Reason::Unreachable), 100),
            (HopAction::HandedToProvider, Some(node(2)), None, 100)
        ]
    );
}

#[test]
fn forwarded_trace_reports_are_bounded() {
    let mut bench = Bench::new();
    let (sibling, requester) = (bench.up(100, Role::SuperNode), bench.requester(2));
    bench.say(sibling, ReplicationMessage::ReplicaUpdate(copies(vec![record(1)])));
    let sent = bench.ask(requester, traced(1, RequestMode::Relay));
    assert_eq!(steps(&sent), [(HopAction::PassedToHub, Some(node(100)), None, 0)]);
    let carried = sent.iter().find_map(|(_, message)| match message {
        Message::Request(RequestMessage::Request(carry)) if carry.hop().is_some() => Some(carry.id),
        _ => None,
    });
    let id = carried.unwrap();
    bench.say(sibling, RequestMessage::RequestAck { id, requester: None, provider: None });
    bench.wait(50 * MS);
    let hop =
        |number| Hop { node: node(9), index: number, elapsed_us: 10_000, tier: None, ..reports(&sent)[0].1.clone() };
    let say = |bench: &mut Bench, number| {
        let report = HopReport { id, requester: None, hop: hop(number) };
        reports(&bench.say(sibling, RequestMessage::HopReport(report)))
    };
    let passed = say(&mut bench, 1);
    let [(to, hop)] = &passed[..] else { panic!("{passed:?}") };
    // The certificate names who says it, and the round trip is the hub's own measure.
    assert_eq!((*to, hop.node, hop.index, hop.round_trip_us), (requester, node(100), 2, Some(40_000)));
    assert!(say(&mut bench, MAX_TRACED_HOPS).is_empty());
    let all: usize = (0..100).map(|_| say(&mut bench, 2).len()).sum();
    assert_eq!(all, 30, "with the two before it");
    let stray = HopReport { id, requester: Some(node(2)), hop: hop.clone() };
    assert!(bench.say(sibling, RequestMessage::HopReport(stray)).is_empty());
}

#[test]
fn faster_equal_provider_comes_first() {
    let mut bench = Bench::new();
    let (slow, _, requester) = (bench.provider(1), bench.provider(2), bench.requester(3));
    let image = |id| request(id, RequestMode::Forward).with(|spec| spec.service = Service::Image);
    for id in 0..4 {
        let (to, forward) = handed(&bench.ask(requester, image(id))).unwrap();
        if to == slow {
            bench.wait(900 * MS);
            bench.say(slow, decline(&forward, Reason::Busy));
        }
    }
    let (to, _) = handed(&bench.ask(requester, image(9))).unwrap();
    assert_ne!(to, slow);
}

#[derive(Clone, Debug)]
enum SelectionEvent {
    Ask,
    /// The provider that was asked last gives nothing.
    Fail,
    Busy,
    /// The provider is silent, and the requester asks again.
    Silent,
    /// A provider says what it has left.
    Renew(u8, u16, u32),
    Wait(u64),
}

fn event() -> impl Strategy<Value = SelectionEvent> {
    let uplink = prop::sample::select(vec![0, 699, 700, 1_400, u32::MAX]);
    prop_oneof![
        6 => Just(SelectionEvent::Ask),
        3 => Just(SelectionEvent::Fail),
        1 => Just(SelectionEvent::Busy),
        2 => Just(SelectionEvent::Silent),
        2 => (1..7u8, 0..3u16, uplink).prop_map(|(who, streams, kbps)| SelectionEvent::Renew(who, streams, kbps)),
        2 => (1..40_000u64).prop_map(SelectionEvent::Wait),
    ]
}

/// Six providers of video at different distances, and what a hub should know of them.
struct SelectionFixture {
    bench: Bench,
    providers: BTreeMap<NodeId, ConnectionId>,
    requester: ConnectionId,
    asked: u32,
    last: Option<(Request, ConnectionId, Request)>,
    failed: BTreeMap<NodeId, Time>,
}

impl SelectionFixture {
    fn new(places: &[i32]) -> Self {
        let mut bench = Bench::new();
        let mut providers = BTreeMap::new();
        for (number, place) in (1..).zip(places) {
            let connection = bench.up(number, Role::Node);
            bench
                .say(connection, RegistrationMessage::Publish(Record { cell: Cell::new(*place, 0), ..record(number) }));
            providers.insert(node(number), connection);
        }
        let requester = bench.requester(100);
        Self { bench, providers, requester, asked: 0, last: None, failed: BTreeMap::new() }
    }

    fn apply(&mut self, event: &SelectionEvent) {
        match event {
            SelectionEvent::Ask => self.ask(),
            SelectionEvent::Fail => self.refuse(Reason::SourceFailed),
            SelectionEvent::Busy => self.refuse(Reason::Busy),
            SelectionEvent::Silent => self.fall_silent(),
            SelectionEvent::Renew(number, streams, uplink_kbps) => {
                let capacity = Some(Capacity { streams: *streams, uplink_kbps: *uplink_kbps });
                let renew = Renew { version: crate::hub::testing::version(1), capacity };
                self.bench.say(self.providers[&node(*number)], RegistrationMessage::Renew(renew));
            }
            SelectionEvent::Wait(millis) => {
                self.bench.wait(MS * *millis as u32);
                // Everybody lives, and says so.
                for connection in self.providers.values().chain([&self.requester]) {
                    self.bench.say(*connection, ProbeMessage::Ping(1));
                }
            }
        }
    }

    fn ask(&mut self) {
        self.asked += 1;
        let area = Area::Nearest(Cell::new(0, 0));
        let asked = request(self.asked, RequestMode::Forward).with(|spec| {
            spec.service = Service::Video;
            spec.area = area
        });
        let before = self.bench.hub.index(self.bench.now, None, 100);
        let sent = self.bench.ask(self.requester, asked.clone());
        let Some((connection, forward)) = handed(&sent) else { return };
        let able = |entry: &crate::hub::IndexEntry| {
            let left = entry.capacity;
            !entry.suspended && left.streams > 0 && left.uplink_kbps >= 700 && self.providers.contains_key(&entry.node)
        };
        let healthy = |node| {
            let failed: Option<&Time> = self.failed.get(&node);
            failed.is_none_or(|at| self.bench.now.since(*at) >= LONGEST_HOLD)
        };
        let chosen = before.iter().find(|entry| self.providers.get(&entry.node) == Some(&connection)).unwrap();
        assert!(able(chosen) || !before.iter().any(able), "one that is full goes before one that is not");
        let sound = before.iter().filter(|entry| able(entry) && healthy(entry.node));
        if let Some(nearest) = sound.map(|entry| entry.cell.x).min() {
            assert!(chosen.cell.x <= nearest, "a sound one at {nearest} loses to one at {}", chosen.cell.x);
        }
        self.last = Some((asked, connection, forward));
    }

    fn asked_last(&self) -> Option<(Request, ConnectionId, Request, NodeId)> {
        let (request, connection, forward) = self.last.clone()?;
        let node = self.providers.iter().find(|(_, other)| **other == connection)?.0;
        Some((request, connection, forward, *node))
    }

    fn refuse(&mut self, reason: Reason) {
        let Some((_, connection, forward, node)) = self.asked_last() else { return };
        self.bench.say(connection, decline(&forward, reason));
        self.last = None;
        if reason == Reason::SourceFailed {
            self.failed.insert(node, self.bench.now);
        }
    }

    fn fall_silent(&mut self) {
        let Some((request, connection, _, node)) = self.asked_last() else { return };
        // At the first repetition another one is asked, if there is one.
        for _ in 0..2 {
            self.bench.wait(150 * MS);
            let sent = self.bench.ask(self.requester, request.clone());
            if handed(&sent).is_none_or(|(to, _)| to != connection) {
                break;
            }
        }
        self.last = None;
        self.failed.insert(node, self.bench.now);
    }
}

proptest! {
    #[test]
    fn selection_matches_model_after_failures(
        places in prop::collection::vec(0..5i32, 6),
        events in prop::collection::vec(event(), 1..60),
    ) {
        let mut scene = SelectionFixture::new(&places);
        for event in &events {
            scene.apply(event);
        }
    }
}
