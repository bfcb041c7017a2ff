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
mod tests;
