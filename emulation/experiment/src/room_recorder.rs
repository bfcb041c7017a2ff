//! The streams of one member of a room, without a clock: requested of each other member as `roost join-room` does,
//! requested again when they break off, and recorded.
//!
//! The driver reports the lists of members, packets and breaks. It carries out each step of [`RoomRecorder::poll`], and
//! polls again at the deadline and after each list and break.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::time::Duration;

use roost_results::record::RoomStreamRecord;
use roost_wire::messages::{ReflectionPolicy, ServiceRequest};
use roost_wire::{Area, Cell, NodeId, Service, Time};

use super::placement::PlacedNode;
use super::rooms::RoomStay;

/// The pause before a stream that has failed is requested again: twice as long each time, until it comes. Those of
/// `roost join-room`.
const PAUSES: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(30);

/// A member, and a service of it.
pub type RoomStreamKey = (NodeId, Service);

#[derive(Clone, Debug, PartialEq)]
pub enum RoomStep {
    /// Request this stream, and report its packets and its break.
    Request(RoomStreamKey, Box<ServiceRequest>),
    /// Cancel its request: the member has left.
    Cancel(RoomStreamKey),
}

/// A member's stay in a room, with its streams.
#[derive(Debug)]
pub struct RoomRecorder {
    stay: RoomStay,
    entered: Time,
    streams: BTreeMap<RoomStreamKey, RecordedStream>,
}

#[derive(Clone, Debug)]
struct RecordedStream {
    /// The member's index among the nodes.
    provider: usize,
    /// Both are to be in the room from this time on.
    since: Time,
    state: RecordedState,
    cell: Cell,
    pause: Duration,
    requests: u64,
    first: Option<Time>,
    /// The last packet, while the member is in the room.
    last: Option<Time>,
    longest_gap: Duration,
    packets: u64,
    /// Of earlier requests, and of the present one.
    missing: [u64; 2],
    /// The member left at this time, and has not entered again.
    until: Option<Time>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RecordedState {
    /// The member is not in the room.
    Absent,
    Due(Time),
    Requested,
    /// The member has left, and the request is to be cancelled.
    Unwanted,
}

impl RoomRecorder {
    /// Begins a stay when its node enters; `ids` are those of the nodes.
    pub fn new(now: Time, stay: &RoomStay, ids: &[NodeId]) -> Self {
        let keys = |node: usize| stay.services.iter().map(move |service| (ids[node], *service));
        let streams = stay.others.iter().flat_map(|(provider, from)| {
            let stream = RecordedStream::new(*provider, now.max(*from));
            keys(*provider).zip(std::iter::repeat_with(move || stream.clone()))
        });
        Self { stay: stay.clone(), entered: now, streams: streams.collect() }
    }

    /// Takes the list of all other members.
    pub fn set_members(&mut self, now: Time, members: impl Iterator<Item = (NodeId, Cell, Vec<Service>)>) {
        let listed: BTreeMap<RoomStreamKey, Cell> = members
            .flat_map(|(node, cell, services)| services.into_iter().map(move |service| ((node, service), cell)))
            .collect();
        for (key, stream) in &mut self.streams {
            match listed.get(key) {
                Some(cell) => stream.enter(now, *cell),
                None => stream.leave(now),
            }
        }
    }

    /// The next step, or `None` until the deadline.
    pub fn poll(&mut self, now: Time) -> Option<RoomStep> {
        self.streams.iter_mut().find_map(|(key, stream)| match stream.state {
            RecordedState::Due(at) if at <= now => Some(RoomStep::Request(*key, Box::new(stream.request(*key)))),
            RecordedState::Unwanted => {
                stream.state = RecordedState::Absent;
                Some(RoomStep::Cancel(*key))
            }
            _ => None,
        })
    }

    pub fn deadline(&self) -> Option<Time> {
        let due = self.streams.values().filter_map(|stream| match stream.state {
            RecordedState::Due(at) => Some(at),
            _ => None,
        });
        due.min()
    }

    /// Counts a packet, and the packets of the present request that never came, if they are known.
    pub fn count_packet(&mut self, now: Time, key: RoomStreamKey, missing: Option<u64>) {
        let Some(stream) = self.streams.get_mut(&key) else { return };
        stream.end_gap(now);
        stream.first.get_or_insert(now);
        stream.last = Some(now);
        stream.pause = *PAUSES.start();
        stream.packets += 1;
        stream.set_missing(missing);
    }

    /// Counts the packets of the present request that never came.
    pub fn set_missing(&mut self, key: RoomStreamKey, missing: Option<u64>) {
        self.streams.get_mut(&key).into_iter().for_each(|stream| stream.set_missing(missing));
    }

    /// A stream does not come, or no longer.
    pub fn handle_break(&mut self, now: Time, key: RoomStreamKey) {
        self.streams.get_mut(&key).into_iter().for_each(|stream| stream.handle_break(now));
    }

    /// Ends the stay; `nodes` have the names.
    pub fn leave(mut self, now: Time, nodes: &[PlacedNode]) -> Vec<RoomStreamRecord> {
        self.streams.values_mut().for_each(|stream| stream.leave(now));
        let seconds = |at: Time| at.as_nanos() as f64 / 1e9;
        let ms = |duration: Duration| duration.as_secs_f64() * 1e3;
        let record = |((_, service), stream): (&RoomStreamKey, &RecordedStream)| RoomStreamRecord {
            t: seconds(self.entered),
            room: self.stay.room.clone(),
            node: nodes[self.stay.node].name.clone(),
            provider: nodes[stream.provider].name.clone(),
            service: service.name().to_owned(),
            first_packet_ms: stream.first.map(|first| ms(first.since(stream.since))),
            packets: stream.packets,
            missing: stream.missing.iter().sum(),
            longest_gap_ms: stream.first.map(|_| ms(stream.longest_gap)),
            requests: stream.requests,
            until: seconds(stream.until.unwrap_or(now)),
        };
        let mut records: Vec<(usize, RoomStreamRecord)> =
            self.streams.iter().map(|stream| (stream.1.provider, record(stream))).collect();
        // Ids are in no order that means anything.
        records.sort_by_key(|(provider, _)| *provider);
        records.into_iter().map(|(_, record)| record).collect()
    }
}

impl RecordedStream {
    const fn new(provider: usize, since: Time) -> Self {
        Self {
            provider,
            since,
            state: RecordedState::Absent,
            cell: Cell::new(0, 0),
            pause: *PAUSES.start(),
            requests: 0,
            first: None,
            last: None,
            longest_gap: Duration::ZERO,
            packets: 0,
            missing: [0; 2],
            until: None,
        }
    }

    fn enter(&mut self, now: Time, cell: Cell) {
        (self.cell, self.until) = (cell, None);
        self.state = match self.state {
            RecordedState::Absent => RecordedState::Due(now),
            RecordedState::Unwanted => RecordedState::Requested,
            state => state,
        };
    }

    fn leave(&mut self, now: Time) {
        self.state = match self.state {
            RecordedState::Absent | RecordedState::Unwanted => return,
            RecordedState::Due(_) => RecordedState::Absent,
            RecordedState::Requested => RecordedState::Unwanted,
        };
        self.end_gap(now);
        (self.last, self.until) = (None, Some(now));
    }

    fn request(&mut self, (node, service): RoomStreamKey) -> ServiceRequest {
        self.state = RecordedState::Requested;
        self.requests += 1;
        self.missing = [self.missing.iter().sum(), 0];
        ServiceRequest {
            provider: Some(node.into()),
            reflect: ReflectionPolicy::Always,
            ..ServiceRequest::new(service, Area::Exact(self.cell))
        }
    }

    fn end_gap(&mut self, now: Time) {
        let gap = self.last.map_or(Duration::ZERO, |last| now.since(last));
        self.longest_gap = self.longest_gap.max(gap);
    }

    fn set_missing(&mut self, missing: Option<u64>) {
        self.missing[1] = missing.unwrap_or(0).max(self.missing[1]);
    }

    fn handle_break(&mut self, now: Time) {
        self.state = match self.state {
            RecordedState::Requested => RecordedState::Due(now + self.pause),
            RecordedState::Unwanted => RecordedState::Absent,
            state => state,
        };
        self.pause = (self.pause * 2).min(*PAUSES.end());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::placement::Targets;
    use crate::plan::Mix;

    const A: NodeId = NodeId::from_bytes([1; 16]);
    const B: NodeId = NodeId::from_bytes([2; 16]);
    const STREAM: RoomStreamKey = (B, Service::Video);

    const fn at(ms: u64) -> Time {
        Time::from_nanos(ms * 1_000_000)
    }

    fn node(name: &str) -> PlacedNode {
        let (name, class, targets) = (name.to_owned(), String::new(), Targets::from_iter([]));
        PlacedNode { host: 0, name, class, cell: Cell::new(0, 0), mix: Mix::IDLE, targets, hubs: Vec::new() }
    }

    /// Node a enters at 1 s, and b is to enter at 2 s.
    fn entered() -> RoomRecorder {
        let (room, services) = ("ops".to_owned(), vec![Service::Video]);
        let others = vec![(1, at(2_000))];
        let stay = RoomStay { room, node: 0, services, from: at(1_000), until: at(60_000), others };
        RoomRecorder::new(at(1_000), &stay, &[A, B])
    }

    fn list(recorder: &mut RoomRecorder, ms: u64, x: i32) {
        recorder.set_members(at(ms), std::iter::once((B, Cell::new(x, 0), Service::ALL.to_vec())));
    }

    fn requested(step: Option<RoomStep>) -> Option<Area> {
        match step {
            Some(RoomStep::Request(STREAM, request)) => Some(request.area),
            _ => None,
        }
    }

    fn left(recorder: RoomRecorder, ms: u64) -> RoomStreamRecord {
        let records = recorder.leave(at(ms), &["a", "b"].map(node));
        let [record] = <[RoomStreamRecord; 1]>::try_from(records).unwrap();
        record
    }

    #[test]
    fn gaps_and_losses_are_recorded() {
        let mut recorder = entered();
        assert_eq!((recorder.poll(at(1_500)), recorder.deadline()), (None, None));
        list(&mut recorder, 2_100, 3);
        assert_eq!(requested(recorder.poll(at(2_100))), Some(Area::Exact(Cell::new(3, 0))));
        for (ms, missing) in [(2_300, None), (2_400, Some(2)), (4_000, Some(1))] {
            recorder.count_packet(at(ms), STREAM, missing);
        }
        let record = left(recorder, 5_000);
        assert_eq!((record.node.as_str(), record.provider.as_str(), record.t, record.until), ("a", "b", 1.0, 5.0));
        assert_eq!((record.first_packet_ms, record.longest_gap_ms), (Some(300.0), Some(1_600.0)));
        assert_eq!((record.packets, record.missing, record.requests), (3, 2, 1));
    }

    #[test]
    fn silence_until_the_end_is_a_gap() {
        let mut recorder = entered();
        list(&mut recorder, 2_000, 3);
        recorder.poll(at(2_000));
        recorder.count_packet(at(2_500), STREAM, None);
        assert_eq!(left(recorder, 9_500).longest_gap_ms, Some(7_000.0));
        let silent = left(entered(), 9_500);
        assert_eq!((silent.packets, silent.first_packet_ms, silent.longest_gap_ms), (0, None, None));
    }

    #[test]
    fn broken_stream_is_requested_again() {
        let mut recorder = entered();
        list(&mut recorder, 2_000, 3);
        recorder.poll(at(2_000));
        recorder.handle_break(at(2_100), STREAM);
        assert_eq!((recorder.poll(at(3_000)), recorder.deadline()), (None, Some(at(3_100))));
        // The member has moved.
        list(&mut recorder, 3_050, 4);
        assert_eq!(requested(recorder.poll(at(3_100))), Some(Area::Exact(Cell::new(4, 0))));
        recorder.handle_break(at(3_100), STREAM);
        assert_eq!(recorder.deadline(), Some(at(5_100)), "twice the pause");
        recorder.poll(at(5_100));
        recorder.count_packet(at(5_200), STREAM, Some(7));
        recorder.handle_break(at(6_000), STREAM);
        assert_eq!(recorder.deadline(), Some(at(7_000)), "the first pause, since a packet came");
        recorder.poll(at(7_000));
        recorder.set_missing(STREAM, Some(1));
        let record = left(recorder, 8_000);
        assert_eq!((record.requests, record.missing), (4, 8));
    }

    #[test]
    fn stream_ends_with_its_member() {
        let mut recorder = entered();
        list(&mut recorder, 2_000, 3);
        recorder.poll(at(2_000));
        recorder.count_packet(at(2_500), STREAM, None);
        recorder.set_members(at(3_000), std::iter::empty());
        assert_eq!(recorder.poll(at(3_000)), Some(RoomStep::Cancel(STREAM)));
        assert_eq!((recorder.poll(at(3_000)), recorder.deadline()), (None, None));
        list(&mut recorder, 20_000, 3);
        assert!(requested(recorder.poll(at(20_000))).is_some());
        recorder.count_packet(at(20_500), STREAM, None);
        recorder.set_members(at(21_000), std::iter::empty());
        let record = left(recorder, 60_000);
        assert_eq!((record.until, record.longest_gap_ms), (21.0, Some(500.0)));
    }
}
