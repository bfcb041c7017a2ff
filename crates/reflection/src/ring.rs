//! The packets of a stream that have come, in order. Targets read them, each at its own place, and joiners and
//! repairs are served from them.
//!
//! Packets are kept in *runs*: packets of equal size, the last possibly
//! shorter, one after the other in memory, so that the system can send a run
//! to a target as one message. A key frame begins a run.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use roost_wire::Time;

use crate::loss_tracker::is_of_first_packets;
use crate::packet::{Flags, Hop};

/// The most packets in a run: what Linux takes in one message (`UDP_MAX_SEGMENTS`, before 6.9).
pub(crate) const RUN_PACKETS: u32 = 64;
/// The most bytes in a run: what fits an IPv4 packet with its headers.
pub(crate) const RUN_BYTES: usize = 65_000;
/// Memory is taken in pieces of this size. A piece goes when the last of its packets does, and
/// has packets of one stream only.
const PIECE_BYTES: usize = 256 * 1024;
/// Pieces that have gone and are written again: what has just been read is warm.
const MAX_SPARE: usize = 4;
/// The most packets with parameter sets kept for joiners: PAT and PMT, or VPS, SPS and PPS, with
/// room for more than one each.
const MAX_PARAMETERS: usize = 8;

/// The limits of the packets that are kept of a stream.
#[derive(Clone, Copy, Debug)]
pub struct RetentionLimits {
    /// The most bytes; by default 16 MiB, four seconds of 30 Mbit/s. If there are more since the
    /// last key frame, joiners wait for the next.
    pub bytes: u64,
    /// The most packets; by default 32 768.
    pub packets: u64,
    /// Packets older than the last key frame are kept for this time, for targets that are behind and for
    /// repairs; by default 500 ms.
    pub age: Duration,
    /// The most bytes of that; by default 4 MiB, 300 ms of 100 Mbit/s. More is cold when it is
    /// written again, which costs a fast stream as much as everything else here.
    pub aged_bytes: u64,
}

impl Default for RetentionLimits {
    fn default() -> Self {
        Self { bytes: 16 << 20, packets: 32_768, age: Duration::from_millis(500), aged_bytes: 4 << 20 }
    }
}

/// The marks of a packet that comes in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mark {
    /// The sender, unless it is this host.
    pub(crate) from: Option<SocketAddr>,
    /// The hops of the packet, with the next one.
    pub(crate) hops: u8,
    /// The first byte from now on, if it changes.
    pub(crate) first_byte: Option<u8>,
    /// The packet's counter, if it has one.
    pub(crate) counter: Option<u64>,
    pub(crate) flags: Flags,
}

/// Packets that leave together: of equal size, but for the last.
#[derive(Clone, Debug)]
pub(crate) struct Run {
    pub(crate) bytes: Bytes,
    /// The size of each packet but the last.
    pub(crate) segment: usize,
    pub(crate) packets: u32,
    pub(crate) from: Option<SocketAddr>,
    pub(crate) hops: u8,
    /// The number of the first; those of the others follow it.
    counter: Option<u64>,
    pub(crate) at: Time,
    /// The amount of the stream before it.
    before: Amount,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Amount {
    pub(crate) bytes: u64,
    pub(crate) packets: u64,
}

#[derive(Debug, Default)]
struct Filling {
    bytes: BytesMut,
    segment: usize,
    packets: u32,
    mark: Option<Mark>,
    /// True once a shorter packet has ended it.
    ended: bool,
    begins_key: bool,
}

/// The latest packets of a stream, within its [`RetentionLimits`].
#[derive(Debug)]
pub(crate) struct Ring {
    keep: RetentionLimits,
    runs: VecDeque<Run>,
    /// The place of the first run; places count all runs there ever were.
    first: u64,
    /// The place of the last key frame.
    key: Option<u64>,
    /// True if there ever was a key frame.
    pub(crate) knows_keys: bool,
    parameters: Vec<Bytes>,
    /// The parameter sets that joiners need before the key frame.
    key_parameters: Vec<Bytes>,
    was_parameters: bool,
    by_counter: BTreeMap<u64, u64>,
    total: Amount,
    filling: Filling,
    spare: Vec<BytesMut>,
}

impl Ring {
    pub(crate) fn new(keep: RetentionLimits) -> Self {
        Self {
            keep,
            runs: VecDeque::new(),
            first: 0,
            key: None,
            knows_keys: false,
            parameters: Vec::new(),
            key_parameters: Vec::new(),
            was_parameters: false,
            by_counter: BTreeMap::new(),
            total: Amount::default(),
            filling: Filling::default(),
            spare: Vec::new(),
        }
    }

    /// The place of the next run: where the live edge is.
    pub(crate) fn head(&self) -> u64 {
        self.first + self.runs.len() as u64
    }

    /// The place of the oldest run that is still there.
    pub(crate) fn tail(&self) -> u64 {
        self.first
    }

    pub(crate) fn get(&self, place: u64) -> Option<&Run> {
        self.runs.get(usize::try_from(place.checked_sub(self.first)?).ok()?)
    }

    /// The place of the last key frame, if all since is still there.
    pub(crate) fn key(&self) -> Option<u64> {
        self.key
    }

    #[cfg(test)]
    pub(crate) fn forget_key(&mut self) {
        self.key = None;
    }

    /// The place of the oldest run, if that is of the beginning of a stream, and recent.
    pub(crate) fn beginning(&self, now: Time) -> Option<u64> {
        let (counter, _) = self.by_counter.first_key_value()?;
        let is_recent = self.runs.front().is_some_and(|oldest| now.since(oldest.at) <= self.keep.age);
        (is_recent && is_of_first_packets(*counter)).then_some(self.first)
    }

    /// The parameter sets that came before the last key frame.
    pub(crate) fn key_parameters(&self) -> &[Bytes] {
        &self.key_parameters
    }

    /// The amount between a place, or the oldest run if that is gone, and the live edge.
    pub(crate) fn behind(&self, place: u64) -> Amount {
        let before = self.get(place.max(self.first)).map_or(self.total, |run| run.before);
        Amount { bytes: self.total.bytes - before.bytes, packets: self.total.packets - before.packets }
    }

    /// The number of packets from one place to another.
    pub(crate) fn packets_between(&self, from: u64, to: u64) -> u64 {
        self.behind(from).packets.saturating_sub(self.behind(to).packets)
    }

    /// Adds a packet; it is there for targets when its run is [closed](Self::close).
    pub(crate) fn push(&mut self, now: Time, datagram: &[u8], mark: Mark) {
        if datagram.is_empty() {
            return;
        }
        let begins_key = mark.flags.has(Flags::KEY_FRAME);
        if begins_key || !self.filling.takes(datagram.len(), &mark) {
            self.close(now);
        }
        self.note_parameters(datagram, &mark);
        let filling = &mut self.filling;
        if filling.packets == 0 {
            filling.segment = datagram.len();
            filling.begins_key = begins_key;
        }
        if filling.bytes.capacity() - filling.bytes.len() < datagram.len() {
            // The packets of the run move along.
            let mut piece = self.spare.pop().unwrap_or_else(|| BytesMut::with_capacity(PIECE_BYTES));
            piece.extend_from_slice(&filling.bytes);
            filling.bytes = piece;
        }
        let start = filling.bytes.len();
        filling.bytes.extend_from_slice(datagram);
        if let Some(byte) = mark.first_byte {
            filling.bytes[start] = byte;
        }
        filling.ended = datagram.len() < filling.segment;
        filling.packets += 1;
        let first = filling.mark.map_or(mark.counter, |first| first.counter);
        filling.mark = Some(Mark { counter: first, ..mark });
    }

    /// Parameter sets in a row belong together; those after other packets replace them.
    fn note_parameters(&mut self, datagram: &[u8], mark: &Mark) {
        let has = mark.flags.has(Flags::PARAMETERS);
        if mark.flags.has(Flags::KEY_FRAME) {
            self.key_parameters.clone_from(&self.parameters);
            if has {
                // The key frame has its own; earlier ones come with parts of frames that a joiner cannot
                // decode.
                self.key_parameters.clear();
            }
        }
        if has && !mark.flags.has(Flags::KEY_FRAME) {
            if !self.was_parameters {
                self.parameters.clear();
            }
            if self.parameters.len() < MAX_PARAMETERS {
                let mut packet = BytesMut::from(datagram);
                packet[0] = mark.first_byte.unwrap_or(packet[0]);
                self.parameters.push(caught_up(&packet, packet.len()));
            }
        }
        self.was_parameters = has;
    }

    /// Ends the run that is being filled, and forgets what need not be kept.
    pub(crate) fn close(&mut self, now: Time) {
        let Some(mark) = self.filling.mark.take() else { return };
        let place = self.head();
        let run = Run {
            bytes: self.filling.bytes.split().freeze(),
            segment: self.filling.segment,
            packets: std::mem::take(&mut self.filling.packets),
            from: mark.from,
            hops: mark.hops,
            counter: mark.counter,
            at: now,
            before: self.total,
        };
        self.total.bytes += run.bytes.len() as u64;
        self.total.packets += u64::from(run.packets);
        if std::mem::take(&mut self.filling.begins_key) {
            self.key = Some(place);
            self.knows_keys = true;
        }
        if let Some(counter) = run.counter {
            self.by_counter.insert(counter, place);
        }
        self.runs.push_back(run);
        self.trim(now);
    }

    fn trim(&mut self, now: Time) {
        while let Some(oldest) = self.runs.front() {
            let Amount { bytes, packets } = self.behind(self.first);
            let over = bytes > self.keep.bytes || packets > self.keep.packets;
            let is_recent = now.since(oldest.at) <= self.keep.age && bytes <= self.keep.aged_bytes;
            let needed = self.key.is_some_and(|key| self.first >= key) || is_recent;
            if !over && needed {
                break;
            }
            if let Some(counter) = oldest.counter {
                self.by_counter.remove(&counter);
            }
            if let Some(gone) = self.runs.pop_front() {
                self.recycle(gone.bytes);
            }
            self.first += 1;
            // The rest of the key frame cannot be decoded from its beginning.
            self.key = self.key.filter(|key| *key >= self.first);
        }
    }

    /// Keeps the piece that these bytes were the last of.
    fn recycle(&mut self, bytes: Bytes) {
        if self.spare.len() >= MAX_SPARE {
            return;
        }
        if let Ok(mut piece) = bytes.try_into_mut() {
            piece.clear();
            if piece.try_reclaim(PIECE_BYTES) {
                self.spare.push(piece);
            }
        }
    }

    /// The packet with this number, if it is still there, with the place and the time of its run.
    pub(crate) fn packet(&self, counter: u64) -> Option<(Bytes, u64, Time)> {
        let (first, place) = self.by_counter.range(..=counter).next_back()?;
        let run = self.get(*place)?;
        let number = usize::try_from(counter - first).ok()?;
        if counter - first >= u64::from(run.packets) {
            return None;
        }
        let start = number * run.segment;
        let packet = run.bytes.slice(start..run.bytes.len().min(start + run.segment));
        Some((packet, *place, run.at))
    }

    /// The time at which the packet with this number came, or the oldest one that is left if that packet is
    /// gone; none if it has not come.
    pub(crate) fn time_of(&self, counter: u64) -> Option<Time> {
        let (oldest, _) = self.by_counter.first_key_value()?;
        let (first, place) = self.by_counter.range(..=counter.max(*oldest)).next_back()?;
        let run = self.get(*place)?;
        (counter < first.saturating_add(run.packets.into())).then_some(run.at)
    }

    /// The place of the packet with this number, or of the first after it, and the number of packets before it
    /// in its run; none if it may have gone.
    pub(crate) fn place_of(&self, counter: u64) -> Option<(u64, u32)> {
        let (oldest, _) = self.by_counter.first_key_value()?;
        if counter < *oldest {
            return None;
        }
        let (first, place) = self.by_counter.range(..=counter).next_back()?;
        let part = u32::try_from(counter - first).unwrap_or(u32::MAX);
        if self.get(*place).is_some_and(|run| part < run.packets) {
            return Some((*place, part));
        }
        let next = self.by_counter.range(counter..).next();
        Some((next.map_or(self.head(), |(_, place)| *place), 0))
    }
}

impl Run {
    /// The run without its first packets, which have left.
    pub(crate) fn without(&self, packets: u32) -> Self {
        let start = self.bytes.len().min(packets as usize * self.segment);
        Self { bytes: self.bytes.slice(start..), packets: self.packets.saturating_sub(packets), ..self.clone() }
    }
}

/// A run of packets, marked as not live.
pub(crate) fn caught_up(bytes: &[u8], segment: usize) -> Bytes {
    let mut copy = bytes.to_vec();
    for packet in copy.chunks_mut(segment) {
        // Packets of an opaque stream have no hop's byte, but neither a cache to catch up from.
        if let Some(hop) = Hop::from_byte(packet[0]) {
            packet[0] = Hop { catch_up: true, ..hop }.byte();
        }
    }
    copy.into()
}

impl Filling {
    /// True if the packet can be one more of the run.
    fn takes(&self, length: usize, mark: &Mark) -> bool {
        let Some(last) = &self.mark else { return true };
        let follows = last.counter.and_then(|first| first.checked_add(self.packets.into())) == mark.counter;
        !self.ended
            && length <= self.segment
            && self.packets < RUN_PACKETS
            && self.bytes.len() + length <= RUN_BYTES
            && (follows && last.from == mark.from && last.hops == mark.hops)
    }
}

#[cfg(test)]
mod tests;
