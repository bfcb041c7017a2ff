//! The passage of a stream through a host: each packet once, however many ways it comes.

use std::net::SocketAddr;
use std::time::Duration;

use roost_wire::Time;

use crate::fanout::{Fanout, FanoutConfig};
use crate::packet::{Header, Hop, ReadPacket, StreamId};
use crate::replay::{FilterOutcome, ReplayFilter};
use crate::ring::Mark;

/// Counts of the packets that came in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ArrivalCounts {
    /// Packets taken, to be sent on.
    pub taken: u64,
    /// Packets that had come already, another way.
    pub duplicate: u64,
    /// Packets that have been sent on as often as they may: there is a loop.
    pub looping: u64,
    /// Datagrams that are no packets of the stream.
    pub foreign: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DropReason {
    /// The datagram is no packet of the stream.
    #[error("no packet of this stream")]
    Foreign,
    /// The packet has reached its limit of hops.
    #[error("a packet that has been sent on too often")]
    Looping,
    /// The packet has come before, over any way.
    #[error("a packet that was taken already")]
    Duplicate,
}

/// Takes the packets of one stream, and has a [`Fanout`] send them on.
///
/// From whom it takes them, and to whom they go, is decided by its owner.
#[derive(Debug)]
pub struct StreamReflector {
    stream: StreamId,
    max_hops: u8,
    /// True if it is kept for targets, or only looked at.
    pub(crate) sends_on: bool,
    fan: Fanout,
    tracks: ReplayFilter,
    arrivals: ArrivalCounts,
    last: Time,
    rate: Rate,
}

impl StreamReflector {
    /// A stream of which nothing has come yet.
    pub fn new(stream: StreamId, config: FanoutConfig) -> Self {
        Self {
            stream,
            max_hops: config.max_hops,
            sends_on: true,
            fan: Fanout::new(stream, config),
            tracks: ReplayFilter::default(),
            arrivals: ArrivalCounts::default(),
            last: Time::ZERO,
            rate: Rate::default(),
        }
    }

    /// The counts of all packets so far.
    pub fn arrivals(&self) -> ArrivalCounts {
        self.arrivals
    }

    /// The rate of the stream, bits per second: of the last whole second, or the one before if that was more.
    pub fn bits_per_second(&self) -> u64 {
        self.rate.last.max(self.rate.before)
    }

    /// The counter after the greatest that has come; 0 if none has. One far from the others does not count.
    pub fn next(&self) -> u64 {
        self.tracks.next()
    }

    /// True if a packet is not far from the others.
    pub(crate) fn leads(&self, counter: u64) -> bool {
        self.tracks.leads(counter)
    }

    pub(crate) fn last(&self) -> Time {
        self.last
    }

    pub fn fanout(&mut self) -> &mut Fanout {
        &mut self.fan
    }

    pub fn targets(&self) -> &Fanout {
        &self.fan
    }

    /// Takes a packet from another host.
    ///
    /// # Errors
    /// See [`DropReason`]; each is counted.
    pub fn receive_packet(
        &mut self,
        now: Time,
        from: SocketAddr,
        datagram: &[u8],
    ) -> Result<(Hop, Header), DropReason> {
        let decoded = Header::decode(datagram).map_err(|_| DropReason::Foreign);
        let taken = decoded.and_then(|(hop, header)| self.try_take(now, Some(from), hop, &header, datagram));
        self.count(taken.err());
        decoded.and_then(|decoded| taken.map(|_| decoded))
    }

    /// Takes a packet that has been read already.
    pub(crate) fn take_read(
        &mut self,
        now: Time,
        from: SocketAddr,
        packet: ReadPacket<'_>,
    ) -> Result<FilterOutcome, DropReason> {
        let ReadPacket { hop, header, datagram } = packet;
        let taken = self.try_take(now, Some(from), hop, header, datagram);
        self.count(taken.err());
        taken
    }

    /// Takes a packet of this host's own publisher; returns its counter.
    ///
    /// # Errors
    /// As [`receive_packet`](Self::receive_packet).
    pub fn publish(&mut self, now: Time, packet: &[u8]) -> Result<u64, DropReason> {
        let (hop, header) = Header::decode(packet).map_err(|_| DropReason::Foreign)?;
        self.try_take(now, None, hop, &header, packet)?;
        Ok(header.counter)
    }

    fn count(&mut self, dropped: Option<DropReason>) {
        *match dropped {
            None => &mut self.arrivals.taken,
            Some(DropReason::Foreign) => &mut self.arrivals.foreign,
            Some(DropReason::Looping) => &mut self.arrivals.looping,
            Some(DropReason::Duplicate) => &mut self.arrivals.duplicate,
        } += 1;
    }

    fn try_take(
        &mut self,
        now: Time,
        from: Option<SocketAddr>,
        hop: Hop,
        header: &Header,
        datagram: &[u8],
    ) -> Result<FilterOutcome, DropReason> {
        if header.stream != self.stream {
            return Err(DropReason::Foreign);
        }
        // A host that only subscribes takes packets that nobody would send on.
        if from.is_some() && self.sends_on && hop.hops >= self.max_hops {
            return Err(DropReason::Looping);
        }
        let next = self.next();
        let course =
            self.tracks.classify_packet(header.counter, hop.catch_up, header.flags).ok_or(DropReason::Duplicate)?;
        self.last = now;
        self.rate.record_bytes(now, datagram.len());
        if self.sends_on {
            // A repaired packet goes on as if it had only been late: further on it was not lost.
            let is_cached = hop.catch_up && (header.counter >= next || course != FilterOutcome::InSequence);
            let hops = hop.hops + u8::from(from.is_some());
            let first_byte = Some(Hop { hops, catch_up: is_cached }.byte());
            let counter = Some(header.counter);
            self.fan.push(now, datagram, Mark { from, hops, first_byte, counter, flags: header.flags });
        }
        Ok(course)
    }
}

/// The bytes of each second, counted from the first packet on.
#[derive(Debug, Default)]
struct Rate {
    began: Option<Time>,
    bytes: u64,
    last: u64,
    before: u64,
}

impl Rate {
    fn record_bytes(&mut self, now: Time, bytes: usize) {
        let passed = now.since(*self.began.get_or_insert(now));
        if passed >= Duration::from_secs(1) {
            (self.before, self.last) = (self.last, (self.bytes as f64 * 8.0 / passed.as_secs_f64()) as u64);
            (self.began, self.bytes) = (Some(now), 0);
        }
        self.bytes += bytes as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rate_counts_from_first_packet() {
        let mut rate = Rate::default();
        // 800 kbit/s, on a clock that is hardly older than the stream.
        let sent = (0..30).map(|packet| Time::ZERO + Duration::from_millis(500 + 100 * packet));
        let seen = sent.map(|now| {
            rate.record_bytes(now, 10_000);
            rate.last
        });
        let seen: Vec<u64> = seen.filter(|measured| *measured != 0).collect();
        assert!(!seen.is_empty() && seen.iter().all(|measured| *measured == 800_000), "{seen:?}");
    }
}
