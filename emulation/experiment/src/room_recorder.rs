//! The streams of one member of a room, without a clock: requested of each other member as `roost join-room` does,
//! requested again when they break off, and recorded.
//!
//! The driver reports the lists of members, packets and breaks. It carries out each step of [`RoomRecorder::poll`], and
//! polls again at the deadline and after each list and break.

use std::collections::BTreeMap;
use std::time::Duration;

use roost_api::client::STREAM_PAUSES;
use roost_results::record::RoomStreamRecord;
use roost_wire::messages::{ReflectionPolicy, ServiceRequest};
use roost_wire::{Area, Cell, NodeId, Service, Time};

use super::placement::PlacedNode;
use super::rooms::RoomStay;

/// A member, and a service of it.
pub type RoomStreamKey = (NodeId, Service);

/// A request of a stream. The driver may report on one when another has taken its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoomRequestId {
    pub stream: RoomStreamKey,
    /// Counts the requests of the stream, from 1.
    number: u64,
}

#[derive(Clone, Debug, PartialEq)]
pub enum RoomStep {
    /// Send this request, and report its packets and its break.
    Request(RoomRequestId, Box<ServiceRequest>),
    /// Cancel the request: the member has left.
    Cancel(RoomRequestId),
}

/// A member's stay in a room, with its streams.
#[derive(Debug)]
pub struct RoomRecorder {
    stay: RoomStay,
    entered: Time,
    /// True once the node has had a list of the members.
    is_inside: bool,
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
    dropped_by_reader: u64,
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
        Self { stay: stay.clone(), entered: now, is_inside: false, streams: streams.collect() }
    }

    pub(super) const fn is_inside(&self) -> bool {
        self.is_inside
    }

    /// Takes the list of all other members.
    pub fn set_members(&mut self, now: Time, members: impl Iterator<Item = (NodeId, Cell, Vec<Service>)>) {
        self.is_inside = true;
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
            RecordedState::Due(at) if at <= now => {
                let request = Box::new(stream.request(*key));
                Some(RoomStep::Request(stream.request_id(*key), request))
            }
            RecordedState::Unwanted => {
                stream.state = RecordedState::Absent;
                Some(RoomStep::Cancel(stream.request_id(*key)))
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

    /// Counts a packet, and the packets of its request that never came, if they are known.
    pub fn count_packet(&mut self, now: Time, id: RoomRequestId, missing: Option<u64>) {
        let Some(stream) = self.stream_of(id) else { return };
        stream.count_packet(now);
        stream.set_missing(missing);
    }

    /// Counts the packets of a request that never came.
    pub fn set_missing(&mut self, id: RoomRequestId, missing: Option<u64>) {
        self.stream_of(id).into_iter().for_each(|stream| stream.set_missing(missing));
    }

    /// Counts packets of a request that came, and that the emulator was too slow to read.
    pub fn count_dropped_by_reader(&mut self, id: RoomRequestId, packets: u64) {
        self.stream_of(id).into_iter().for_each(|stream| stream.dropped_by_reader += packets);
    }

    /// A stream does not come, or no longer.
    pub fn handle_break(&mut self, now: Time, id: RoomRequestId) {
        self.stream_of(id).into_iter().for_each(|stream| stream.handle_break(now));
    }

    /// The stream of a request, unless a later request has taken its place.
    fn stream_of(&mut self, id: RoomRequestId) -> Option<&mut RecordedStream> {
        self.streams.get_mut(&id.stream).filter(|stream| stream.requests == id.number)
    }

    /// Ends the stay; `nodes` have the names. A member that was to enter later has no record.
    pub(super) fn leave(mut self, now: Time, nodes: &[PlacedNode]) -> Vec<RoomStreamRecord> {
        self.streams.retain(|_, stream| stream.since < now || stream.packets > 0);
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
            dropped_by_reader: stream.dropped_by_reader,
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
            pause: *STREAM_PAUSES.start(),
            requests: 0,
            first: None,
            last: None,
            longest_gap: Duration::ZERO,
            packets: 0,
            missing: [0; 2],
            dropped_by_reader: 0,
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

    const fn request_id(&self, stream: RoomStreamKey) -> RoomRequestId {
        RoomRequestId { stream, number: self.requests }
    }

    fn count_packet(&mut self, now: Time) {
        self.end_gap(now);
        self.first.get_or_insert(now);
        // No gap grows while the member is out of the room.
        if matches!(self.state, RecordedState::Due(_) | RecordedState::Requested) {
            self.last = Some(now);
        }
        self.pause = *STREAM_PAUSES.start();
        self.packets += 1;
    }

    fn end_gap(&mut self, now: Time) {
        let gap = self.last.map_or(Duration::ZERO, |last| now.since(last));
        self.longest_gap = self.longest_gap.max(gap);
    }

    fn set_missing(&mut self, missing: Option<u64>) {
        self.missing[1] = missing.unwrap_or(0).max(self.missing[1]);
    }

    fn handle_break(&mut self, now: Time) {
        match self.state {
            RecordedState::Requested => {
                self.state = RecordedState::Due(now + self.pause);
                self.pause = (self.pause * 2).min(*STREAM_PAUSES.end());
            }
            RecordedState::Unwanted => self.state = RecordedState::Absent,
            RecordedState::Absent | RecordedState::Due(_) => {}
        }
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

    /// The request of this number.
    const fn id(number: u64) -> RoomRequestId {
        RoomRequestId { stream: STREAM, number }
    }

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
            Some(RoomStep::Request(id, request)) if id.stream == STREAM => Some(request.area),
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
            recorder.count_packet(at(ms), id(1), missing);
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
        recorder.count_packet(at(2_500), id(1), None);
        assert_eq!(left(recorder, 9_500).longest_gap_ms, Some(7_000.0));
        let silent = left(entered(), 9_500);
        assert_eq!((silent.packets, silent.first_packet_ms, silent.longest_gap_ms), (0, None, None));
    }

    #[test]
    fn broken_stream_is_requested_again() {
        let mut recorder = entered();
        list(&mut recorder, 2_000, 3);
        recorder.poll(at(2_000));
        recorder.handle_break(at(2_100), id(1));
        assert_eq!((recorder.poll(at(3_000)), recorder.deadline()), (None, Some(at(3_100))));
        // The member has moved.
        list(&mut recorder, 3_050, 4);
        assert_eq!(requested(recorder.poll(at(3_100))), Some(Area::Exact(Cell::new(4, 0))));
        recorder.handle_break(at(3_100), id(2));
        assert_eq!(recorder.deadline(), Some(at(5_100)), "twice the pause");
        recorder.poll(at(5_100));
        recorder.count_packet(at(5_200), id(3), Some(7));
        recorder.handle_break(at(6_000), id(3));
        assert_eq!(recorder.deadline(), Some(at(7_000)), "the first pause, since a packet came");
        recorder.poll(at(7_000));
        recorder.set_missing(id(4), Some(1));
        let record = left(recorder, 8_000);
        assert_eq!((record.requests, record.missing), (4, 8));
    }

    #[test]
    fn stream_ends_with_its_member() {
        let mut recorder = entered();
        list(&mut recorder, 2_000, 3);
        recorder.poll(at(2_000));
        recorder.count_packet(at(2_500), id(1), None);
        recorder.set_members(at(3_000), std::iter::empty());
        assert_eq!(recorder.poll(at(3_000)), Some(RoomStep::Cancel(id(1))));
        assert_eq!((recorder.poll(at(3_000)), recorder.deadline()), (None, None));
        list(&mut recorder, 20_000, 3);
        assert!(requested(recorder.poll(at(20_000))).is_some());
        recorder.count_packet(at(20_500), id(2), None);
        recorder.set_members(at(21_000), std::iter::empty());
        let record = left(recorder, 60_000);
        assert_eq!((record.until, record.longest_gap_ms), (21.0, Some(500.0)));
    }

    #[test]
    fn earlier_request_changes_nothing() {
        let mut recorder = entered();
        list(&mut recorder, 2_000, 3);
        recorder.poll(at(2_000));
        recorder.set_members(at(3_000), std::iter::empty());
        assert_eq!(recorder.poll(at(3_000)), Some(RoomStep::Cancel(id(1))));
        list(&mut recorder, 4_000, 3);
        assert!(requested(recorder.poll(at(4_000))).is_some());
        recorder.set_missing(id(1), Some(9));
        recorder.count_dropped_by_reader(id(1), 9);
        recorder.handle_break(at(4_100), id(1));
        assert_eq!(recorder.deadline(), None, "the second request goes on");
        recorder.count_dropped_by_reader(id(2), 4);
        recorder.handle_break(at(5_000), id(2));
        // A further word of the same break.
        recorder.handle_break(at(5_001), id(2));
        assert_eq!(recorder.deadline(), Some(at(6_000)));
        recorder.poll(at(6_000));
        recorder.handle_break(at(6_100), id(3));
        assert_eq!(recorder.deadline(), Some(at(8_100)), "twice the pause, not four times");
        let record = left(recorder, 8_000);
        assert_eq!((record.requests, record.missing, record.dropped_by_reader), (3, 0, 4));
    }

    #[test]
    fn late_packet_begins_no_gap() {
        let mut recorder = entered();
        list(&mut recorder, 2_000, 3);
        recorder.poll(at(2_000));
        recorder.count_packet(at(2_500), id(1), None);
        recorder.set_members(at(3_000), std::iter::empty());
        // On its way when the member left.
        recorder.count_packet(at(3_001), id(1), None);
        recorder.poll(at(3_001));
        recorder.count_packet(at(3_002), id(1), None);
        list(&mut recorder, 20_000, 3);
        recorder.poll(at(20_000));
        recorder.count_packet(at(20_100), id(2), None);
        let record = left(recorder, 20_200);
        assert_eq!((record.packets, record.longest_gap_ms), (4, Some(500.0)));
    }

    #[test]
    fn member_of_later_has_no_record() {
        assert_eq!(entered().leave(at(2_000), &["a", "b"].map(node)), []);
    }
}
