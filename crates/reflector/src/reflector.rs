//! All streams that a super node reflects.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::ops::Bound;

use roost_proto::Time;

use crate::fan::{Config, Fan, Outcome, Refused, Transmit};
use crate::packet::{Header, Hop, StreamId};
use crate::replay::{Known, Window};
use crate::ring::Mark;
use crate::target::{Statistics, Terms};
use crate::words::Said;

/// The most streams.
pub const MAX_STREAMS: usize = 256;
/// The most addresses that a stream is taken from: two ways, each before and after a move.
pub const MAX_SOURCES: usize = 4;

/// What has become of datagrams that came in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Arrivals {
    /// Packets taken, to be sent on.
    pub taken: u64,
    /// Packets that had come already, another way.
    pub duplicate: u64,
    /// Packets so far behind that nobody can tell.
    pub behind: u64,
    /// Packets that have been sent on as often as they may: there is a loop.
    pub looping: u64,
    /// Datagrams that are no packets, of no stream here, or not from its source.
    pub foreign: u64,
}

struct Stream {
    fan: Fan,
    sources: Vec<SocketAddr>,
    window: Window,
}

/// Sends on streams; decides, and does no I/O.
///
/// Who may publish and who may watch is decided elsewhere, and told by
/// [`add_source`](Self::add_source) and [`add_target`](Self::add_target).
/// Nothing is sent to anybody but targets with a lease who have shown that they receive what is sent to
/// their address, and of packets nothing back to where they came from.
///
/// ```text
/// handle_datagram …, end_batch, then: while poll_transmit is something { send it; settle }
/// ```
#[derive(Default)]
pub struct Reflector {
    config: Config,
    streams: BTreeMap<StreamId, Stream>,
    arrivals: Arrivals,
    /// Streams that may have something to send: what the others have costs nothing.
    busy: BTreeSet<StreamId>,
    /// After whose turn it is.
    turn: Option<StreamId>,
}

impl Reflector {
    /// Without streams.
    pub fn new(config: Config) -> Self {
        Self { config, ..Self::default() }
    }

    /// What has become of all datagrams so far.
    pub fn arrivals(&self) -> Arrivals {
        self.arrivals
    }

    /// Takes a stream from this address too. Of more than [`MAX_SOURCES`] the latest count.
    ///
    /// # Errors
    /// [`Refused::TooManyStreams`].
    pub fn add_source(&mut self, stream: StreamId, source: SocketAddr) -> Result<(), Refused> {
        let has_room = self.streams.len() < MAX_STREAMS;
        let config = self.config;
        let entry = match self.streams.entry(stream) {
            std::collections::btree_map::Entry::Vacant(_) if !has_room => return Err(Refused::TooManyStreams),
            entry => entry.or_insert_with(|| Stream {
                fan: Fan::new(stream, config),
                sources: Vec::new(),
                window: Window::default(),
            }),
        };
        if !entry.sources.contains(&source) {
            if entry.sources.len() >= MAX_SOURCES {
                entry.sources.remove(0);
            }
            entry.sources.push(source);
        }
        Ok(())
    }

    /// Takes the stream from this address no more.
    pub fn remove_source(&mut self, stream: StreamId, source: SocketAddr) {
        if let Some(stream) = self.streams.get_mut(&stream) {
            stream.sources.retain(|one| *one != source);
        }
    }

    /// Forgets a stream and all its targets.
    pub fn remove_stream(&mut self, stream: StreamId) {
        self.streams.remove(&stream);
    }

    /// Sends the stream to this address too, or renews its lease.
    ///
    /// # Errors
    /// When there is no such stream, or no room.
    pub fn add_target(&mut self, now: Time, stream: StreamId, to: SocketAddr, terms: Terms) -> Result<(), Refused> {
        self.streams.get_mut(&stream).ok_or(Refused::NoStream)?.fan.add_target(now, to, terms)?;
        self.busy.insert(stream);
        Ok(())
    }

    /// Sends the stream to this address no more; answers whether it did.
    pub fn remove_target(&mut self, stream: StreamId, to: SocketAddr) -> bool {
        self.streams.get_mut(&stream).is_some_and(|stream| stream.fan.remove_target(to))
    }

    /// The targets of a stream; see [`Fan::targets`].
    pub fn targets(&self, stream: StreamId) -> impl Iterator<Item = (SocketAddr, bool, Statistics)> {
        self.streams.get(&stream).into_iter().flat_map(|stream| stream.fan.targets())
    }

    /// Takes a datagram.
    pub fn handle_datagram(&mut self, now: Time, from: SocketAddr, datagram: &[u8]) {
        if Said::is(datagram) {
            let said = Said::decode(datagram).ok();
            let known = said.and_then(|(id, said)| Some((id, self.streams.get_mut(&id)?, said)));
            match known {
                Some((id, stream, said)) => {
                    stream.fan.hear(now, from, &said);
                    self.busy.insert(id);
                }
                None => self.arrivals.foreign += 1,
            }
            return;
        }
        let count = match self.take(now, from, datagram) {
            Ok(()) => &mut self.arrivals.taken,
            Err(Drop::Foreign) => &mut self.arrivals.foreign,
            Err(Drop::Looping) => &mut self.arrivals.looping,
            Err(Drop::Duplicate) => &mut self.arrivals.duplicate,
            Err(Drop::Behind) => &mut self.arrivals.behind,
        };
        *count += 1;
    }

    fn take(&mut self, now: Time, from: SocketAddr, datagram: &[u8]) -> Result<(), Drop> {
        let (hop, header) = Header::decode(datagram).map_err(|_| Drop::Foreign)?;
        let stream = self.streams.get_mut(&header.stream).ok_or(Drop::Foreign)?;
        if !stream.sources.contains(&from) {
            return Err(Drop::Foreign);
        }
        if hop.hops >= self.config.max_hops {
            return Err(Drop::Looping);
        }
        match stream.window.look(header.counter) {
            Known::New => stream.window.take(header.counter),
            Known::Taken => return Err(Drop::Duplicate),
            Known::Behind => return Err(Drop::Behind),
        }
        let next = Hop { hops: hop.hops + 1, ..hop };
        let (first_byte, counter) = (Some(next.byte()), Some(header.counter));
        let mark = Mark { from, hops: next.hops, first_byte, counter, flags: header.flags };
        stream.fan.push(now, datagram, mark);
        self.busy.insert(header.stream);
        Ok(())
    }

    /// What has come may be sent. To be called once nothing more is there, or after some ten
    /// packets, and before anything is polled: it is what makes runs of them.
    pub fn end_batch(&mut self, now: Time) {
        for id in &self.busy {
            if let Some(stream) = self.streams.get_mut(id) {
                stream.fan.close(now);
            }
        }
    }

    /// What is to be sent now; to be [settled](Self::settle) before anything else is called.
    pub fn poll_transmit(&mut self, now: Time) -> Option<(StreamId, Transmit)> {
        loop {
            let after = self.turn.map_or(Bound::Unbounded, Bound::Excluded);
            let mut next = self.busy.range((after, Bound::Unbounded));
            let id = *next.next().or_else(|| self.busy.first())?;
            self.turn = Some(id);
            match self.streams.get_mut(&id).and_then(|stream| stream.fan.poll_transmit(now)) {
                Some(transmit) => return Some((id, transmit)),
                None => drop(self.busy.remove(&id)),
            }
        }
    }

    /// Tells what has become of a [`Transmit`]. What did not fit is next again.
    pub fn settle(&mut self, now: Time, stream: StreamId, transmit: &Transmit, outcome: Outcome) {
        if let Some(stream) = self.streams.get_mut(&stream) {
            stream.fan.settle(now, transmit, outcome);
        }
    }

    /// When there is something to do without anything coming in.
    pub fn poll_deadline(&self) -> Option<Time> {
        self.streams.values().filter_map(|stream| stream.fan.poll_deadline()).min()
    }

    /// The time of [`poll_deadline`](Self::poll_deadline) has come: there may be something to send,
    /// and targets whose lease is over are forgotten.
    pub fn handle_timeout(&mut self, now: Time) {
        for (id, stream) in &mut self.streams {
            if stream.fan.poll_deadline().is_some_and(|due| due <= now) {
                stream.fan.handle_timeout(now);
                self.busy.insert(*id);
            }
        }
    }
}

/// Why a datagram is not sent on.
enum Drop {
    Foreign,
    Looping,
    Duplicate,
    Behind,
}
