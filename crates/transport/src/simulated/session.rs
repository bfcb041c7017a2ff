//! A simulated end that carries messages by the session of `udp://`.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use bytes::Bytes;
use roost_wire::{Channel, Delivery};

use super::stream::Stream;
use super::wire_sizes::{SEGMENT_BYTES, WireSizes};
use super::{EndEvent, SimPacket, SimulatedEnd};
use crate::config::Limits;
use crate::udp::session::{Packet, Session, write_close};

/// Set in the first byte of a handshake's packets. Those of a session begin with small numbers.
const FLIGHT: u8 = 0x80;
/// The first byte of a UDP datagram that several packets of a session share, each after its length.
const SHARED: u8 = 0x40;
/// The most packets that share a datagram, as over `udp://`.
const MAX_SHARED: usize = 8;
/// The time after which a flight is repeated for the first time, as in DTLS and TCP. It doubles each time.
const REPEAT: Duration = Duration::from_secs(1);
/// The shortest time for which a closed connection answers, and the most answers, in case its farewell was lost.
const LINGER: Duration = Duration::from_secs(3);
const FAREWELLS: u8 = 5;
/// The least time that TCP adds to the round trip before it retransmits. After an idle time this long it also reduces
/// its window.
const MIN_VARIATION: Duration = Duration::from_millis(200);

/// True if a packet is the first of a handshake.
pub(super) const fn is_first_packet(first: u8) -> bool {
    first == FLIGHT
}

#[derive(Debug)]
pub(super) struct SessionEnd {
    sizes: &'static WireSizes,
    session: Session,
    /// The byte stream of TCP. The session carries its segments.
    stream: Option<Box<Stream>>,
    /// The time at which its last segment left.
    last_sent: Instant,
    phase: SessionEndPhase,
    is_incoming: bool,
    out: VecDeque<SimPacket>,
    events: VecDeque<EndEvent>,
    plain: Vec<u8>,
}

#[derive(Debug)]
enum SessionEndPhase {
    Greeting(HandshakeProgress),
    Up,
    Draining { reason: String, until: Instant },
    Closed { farewell: Bytes, left: u8, until: Instant },
    Gone,
}

#[derive(Debug)]
struct HandshakeProgress {
    /// The flight that is expected, and a bit for each of its packets that has arrived.
    expected: u8,
    arrived: u32,
    /// The time at which our last flight left for the first time. An answer may be to that one or to a repetition, so
    /// the round trip is at most the time since.
    sent: Instant,
    /// The time at which it leaves again, and the interval after that.
    repeat_at: Instant,
    wait: Duration,
    until: Instant,
}

impl SessionEnd {
    pub(super) fn dial(attire: &'static WireSizes, now: Instant) -> Self {
        let mut end = Self::new(attire, now, 1);
        end.send_flight(0);
        end
    }

    pub(super) fn accept(attire: &'static WireSizes, now: Instant) -> Self {
        Self::new(attire, now, 0)
    }

    fn new(attire: &'static WireSizes, now: Instant, expected: u8) -> Self {
        let limits = Limits::default();
        let until = now + if expected == 0 { limits.incoming_handshake_timeout() } else { limits.first_answer(None) };
        let greeting =
            HandshakeProgress { expected, arrived: 0, sent: now, repeat_at: now + REPEAT, wait: 2 * REPEAT, until };
        Self {
            sizes: attire,
            session: session(attire, Duration::ZERO),
            stream: attire.is_stream.then(Box::default),
            last_sent: now,
            phase: SessionEndPhase::Greeting(greeting),
            is_incoming: expected == 0,
            out: VecDeque::new(),
            events: VecDeque::new(),
            plain: Vec::new(),
        }
    }

    fn handle_flight(&mut self, now: Instant, flight: u8, part: u8, count: u8) {
        let is_last = part + 1 == count;
        let expected = match &mut self.phase {
            SessionEndPhase::Greeting(greeting) if greeting.expected == flight => {
                greeting.arrived |= 1 << part;
                if greeting.arrived.count_ones() < u32::from(count) {
                    return;
                }
                flight
            }
            // The remote end repeats itself, so our answer was lost.
            SessionEndPhase::Greeting(greeting) if is_last && flight < greeting.expected => {
                let again = greeting.expected.checked_sub(1);
                return again.into_iter().for_each(|again| self.send_flight(again));
            }
            SessionEndPhase::Up if self.is_incoming && is_last => return self.send_flight(self.last_flight()),
            _ => return,
        };
        self.proceed(now, expected);
    }

    /// Handles a complete flight: our next one follows, unless it was the last.
    fn proceed(&mut self, now: Instant, flight: u8) {
        let SessionEndPhase::Greeting(greeting) = &mut self.phase else { return };
        let rtt = if flight > 0 { now.saturating_duration_since(greeting.sent) } else { Duration::ZERO };
        let last = self.sizes.flights.len() as u8 - 1;
        (greeting.expected, greeting.arrived, greeting.sent) = (flight + 2, 0, now);
        (greeting.repeat_at, greeting.wait) = (now + REPEAT, 2 * REPEAT);
        greeting.until = greeting.until.max(now + Limits::default().next_answer(rtt));
        if flight < last {
            self.send_flight(flight + 1);
        }
        if flight + 1 >= last {
            self.establish(rtt);
        }
    }

    fn establish(&mut self, rtt: Duration) {
        self.session = session(self.sizes, rtt);
        self.phase = SessionEndPhase::Up;
        self.events.push_back(EndEvent::Up { rtt });
    }

    fn handle_sealed(&mut self, now: Instant, content: &Bytes) {
        let Some(packet) = Packet::parse(content) else { return };
        // An end that sends messages has accepted us, even if its last flight was lost.
        if let SessionEndPhase::Greeting(greeting) = &self.phase
            && greeting.expected == self.last_flight()
        {
            self.establish(now.saturating_duration_since(greeting.sent));
        }
        match (&mut self.phase, packet) {
            (SessionEndPhase::Up, Packet::Close { reason, .. }) => self.fail(reason.to_owned()),
            (SessionEndPhase::Draining { .. }, Packet::Close { .. }) => self.phase = SessionEndPhase::Gone,
            // The message is a part of the packet, not a copy.
            (SessionEndPhase::Up, Packet::Datagram(message)) => {
                self.events.push_back(EndEvent::Message(content.slice_ref(message)));
            }
            (SessionEndPhase::Up, packet) => {
                let (happenings, stream) = (&mut self.events, &mut self.stream);
                let mut tell = |message| happenings.push_back(EndEvent::Message(message));
                let deliver = |message: Bytes| match stream {
                    Some(stream) => stream.receive(&message, &mut tell),
                    None => tell(message),
                };
                if self.session.handle_packet(now, packet, deliver).is_err() {
                    self.fail("the remote broke the protocol".to_owned());
                }
            }
            (SessionEndPhase::Draining { .. }, packet @ Packet::Ack(_)) => {
                // An acknowledgement delivers nothing and violates nothing.
                let _ = self.session.handle_packet(now, packet, |_| {});
            }
            (SessionEndPhase::Closed { farewell, left, .. }, _) if *left > 0 => {
                *left -= 1;
                let farewell = farewell.clone();
                self.push_sealed(farewell);
            }
            _ => {}
        }
    }

    /// Ends the connection, and reports that unless this side has closed it.
    fn fail(&mut self, reason: String) {
        if matches!(self.phase, SessionEndPhase::Up) {
            self.events.push_back(EndEvent::Down { reason });
        }
        self.phase = SessionEndPhase::Gone;
    }

    /// Sends all packets that may leave now.
    fn pump(&mut self, now: Instant) {
        if !matches!(self.phase, SessionEndPhase::Up | SessionEndPhase::Draining { .. }) {
            return;
        }
        self.emit_packet(now);
        self.cut_segments(now);
        let is_flushed = self.session.is_flushed() && self.stream.as_ref().is_none_or(|stream| stream.is_empty());
        if is_flushed && matches!(self.phase, SessionEndPhase::Draining { .. }) {
            self.farewell(now);
        }
    }

    fn emit_packet(&mut self, now: Instant) {
        while self.session.poll_packet(now, &mut self.plain) {
            self.push_plain();
        }
    }

    /// Cuts segments from the stream only when they can leave, so that they are full.
    fn cut_segments(&mut self, now: Instant) {
        let Some(mut stream) = self.stream.take() else { return };
        if self.session.is_flushed() && !stream.is_empty() {
            let idle = now.saturating_duration_since(self.last_sent).as_nanos();
            let times = idle / (self.session.rtt() + MIN_VARIATION).as_nanos();
            self.session.decay(u32::try_from(times).unwrap_or(u32::MAX));
        }
        while self.session.has_room()
            && let Some(segment) = stream.segment(now, SEGMENT_BYTES)
        {
            // This cannot fail, since there is room.
            let _ = self.session.send_reliable(now, 0, &Delivery::default(), segment);
            self.last_sent = now;
            self.emit_packet(now);
        }
        self.stream = Some(stream);
    }

    fn farewell(&mut self, now: Instant) {
        if let SessionEndPhase::Draining { reason, .. } = &self.phase {
            let mut written = Vec::new();
            write_close(&mut written, 0, reason);
            let farewell = Bytes::from(written);
            self.push_sealed(farewell.clone());
            self.phase =
                SessionEndPhase::Closed { farewell, left: FAREWELLS, until: now + LINGER.max(2 * self.session.rtt()) };
        }
    }

    fn last_flight(&self) -> u8 {
        self.sizes.flights.len() as u8 - 1
    }

    fn send_flight(&mut self, flight: u8) {
        let Some(parts) = self.sizes.flights.get(usize::from(flight)) else { return };
        for (part, size) in parts.iter().enumerate() {
            // Only the length of the packet matters, not its content.
            let content = Bytes::copy_from_slice(&[FLIGHT | flight, part as u8, parts.len() as u8]);
            self.out.push_back(SimPacket { path: 0, content, bytes: u32::from(*size) + self.sizes.bare });
        }
    }

    /// Sends the packet in `plain`, which is then empty: ends hold no buffers while they are idle.
    fn push_plain(&mut self) {
        let content = Bytes::from(std::mem::take(&mut self.plain));
        self.push_sealed(content);
    }

    fn push_sealed(&mut self, content: Bytes) {
        if let Some(last) = self.out.back_mut()
            && let Some(more) = self.sizes.longer_by(last.bytes, &content)
            && let Some(shared) = share(&last.content, &content)
        {
            (last.content, last.bytes) = (shared, last.bytes + more);
            return;
        }
        let bytes = self.sizes.packet_length(&content);
        self.out.push_back(SimPacket { path: 0, content, bytes });
    }
}

/// Adds a packet to a datagram that several share; `None` if no more may follow.
fn share(datagram: &[u8], packet: &[u8]) -> Option<Bytes> {
    let framed = |packet: &[u8]| [&u16::try_from(packet.len()).unwrap_or(u16::MAX).to_be_bytes(), packet].concat();
    match datagram.first()? {
        &SHARED if packets(&datagram[1..]).count() < MAX_SHARED => Some([datagram, &framed(packet)].concat().into()),
        &SHARED => None,
        head if head & FLIGHT != 0 => None,
        _ => Some([&[SHARED][..], &framed(datagram), &framed(packet)].concat().into()),
    }
}

/// The packets that share a datagram.
fn packets(mut framed: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let (length, rest) = framed.split_first_chunk()?;
        let (packet, rest) = rest.split_at_checked(u16::from_be_bytes(*length).into())?;
        framed = rest;
        Some(packet)
    })
}

impl SimulatedEnd for SessionEnd {
    fn send(&mut self, now: Instant, channel: Channel, delivery: &Delivery, message: Bytes) {
        if !matches!(self.phase, SessionEndPhase::Up) {
            return;
        }
        match (&mut self.stream, channel) {
            // Messages that are queued at the same time share segments, so nothing leaves before the next packets.
            (Some(stream), _) => return stream.push(now, channel, delivery, message),
            // A message that does not fit into the queue is lost.
            (None, Channel::Reliable { flow }) => drop(self.session.send_reliable(now, flow, delivery, message)),
            (None, Channel::Datagram) => {
                let mut packets = self.session.datagram_packets(message.len());
                while packets.write_next(&message, &mut self.plain) {
                    self.push_plain();
                }
                return;
            }
        }
        self.pump(now);
    }

    fn close(&mut self, now: Instant, reason: &str) {
        match self.phase {
            SessionEndPhase::Up => {
                let until = now + Limits::default().next_answer(self.session.rtt());
                self.phase = SessionEndPhase::Draining { reason: reason.to_owned(), until };
            }
            SessionEndPhase::Greeting(_) => self.phase = SessionEndPhase::Gone,
            _ => {}
        }
        self.pump(now);
    }

    fn abort(&mut self, now: Instant, reason: &str) {
        if matches!(self.phase, SessionEndPhase::Up) {
            self.phase = SessionEndPhase::Draining { reason: reason.to_owned(), until: now };
            self.farewell(now);
        }
    }

    fn handle_packet(&mut self, now: Instant, _path: u8, content: &Bytes) {
        match content.as_ref() {
            [head, part, count, ..] if head & FLIGHT != 0 => self.handle_flight(now, head & !FLIGHT, *part, *count),
            [SHARED, framed @ ..] => {
                packets(framed).for_each(|packet| self.handle_sealed(now, &content.slice_ref(packet)))
            }
            _ => self.handle_sealed(now, content),
        }
        self.pump(now);
    }

    fn handle_timeout(&mut self, now: Instant) {
        match &mut self.phase {
            SessionEndPhase::Greeting(greeting) if greeting.until <= now => self.phase = SessionEndPhase::Gone,
            SessionEndPhase::Greeting(greeting) if greeting.repeat_at <= now => {
                (greeting.repeat_at, greeting.wait) = (now + greeting.wait, 2 * greeting.wait);
                let again = greeting.expected.checked_sub(1);
                again.into_iter().for_each(|again| self.send_flight(again));
            }
            SessionEndPhase::Closed { until, .. } if *until <= now => self.phase = SessionEndPhase::Gone,
            SessionEndPhase::Draining { until, .. } if *until <= now => self.farewell(now),
            SessionEndPhase::Up | SessionEndPhase::Draining { .. } if self.session.handle_timeout(now).is_err() => {
                self.fail("the remote has not been heard for too long".to_owned());
            }
            _ => {}
        }
        self.pump(now);
    }

    fn poll_packet(&mut self, now: Instant) -> Option<SimPacket> {
        self.pump(now);
        self.out.pop_front()
    }

    fn poll_event(&mut self) -> Option<EndEvent> {
        self.events.pop_front()
    }

    fn deadline(&mut self) -> Option<Instant> {
        match &self.phase {
            SessionEndPhase::Greeting(greeting) => Some(greeting.repeat_at.min(greeting.until)),
            SessionEndPhase::Up => self.session.deadline(),
            SessionEndPhase::Draining { until, .. } => {
                Some(self.session.deadline().map_or(*until, |at| at.min(*until)))
            }
            SessionEndPhase::Closed { until, .. } => Some(*until),
            SessionEndPhase::Gone => None,
        }
    }

    fn is_over(&self) -> bool {
        matches!(self.phase, SessionEndPhase::Gone) && self.out.is_empty() && self.events.is_empty()
    }
}

fn session(attire: &WireSizes, rtt: Duration) -> Session {
    let session = Session::new((attire.packet_bytes)(), Limits::default().connection_queue_bytes, rtt);
    if attire.is_stream { session.unpaced() } else { session }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn eight_packets_share_a_datagram() {
        let packet = |number: u8| [1, number, number];
        let mut datagram = Bytes::copy_from_slice(&packet(0));
        for number in 1..MAX_SHARED as u8 {
            datagram = share(&datagram, &packet(number)).unwrap();
        }
        assert_eq!(share(&datagram, &packet(8)), None);
        let read: Vec<&[u8]> = packets(&datagram[1..]).collect();
        assert_eq!(read, (0..MAX_SHARED as u8).map(packet).collect::<Vec<_>>());
        assert_eq!(share(&[FLIGHT | 2, 0, 1], &packet(1)), None, "a handshake's packets stay alone");
    }

    #[test]
    fn a_datagram_takes_what_fits() {
        let attire = WireSizes::for_scheme(roost_wire::Scheme::Udp);
        let mut end = SessionEnd::new(attire, Instant::now(), 0);
        let largest = (attire.packet_bytes)();
        for length in [100, largest - 200, 100, 100] {
            end.push_sealed(Bytes::from(vec![1; length]));
        }
        let sent: Vec<u32> = end.out.iter().map(|parcel| parcel.bytes).collect();
        let (alone, shared) = (attire.packet_length(&[]), attire.shared.unwrap());
        assert_eq!(sent, [alone + shared + largest as u32 - 100, alone + shared + 200]);
        let tcp = WireSizes::for_scheme(roost_wire::Scheme::Tcp);
        assert_eq!(tcp.longer_by(100, &[1]), None, "segments are filled before");
    }
}
