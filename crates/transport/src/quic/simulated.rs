//! An end that is a real QUIC connection, driven without its runtime. Messages
//! travel as in `quic://`: a datagram, or a stream for each.

mod streams;

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use aws_lc_rs::{hkdf, hmac};
use bytes::{Bytes, BytesMut};
use quinn_proto::{
    ClientConfig, Connection, ConnectionHandle, ConnectionId, ConnectionIdGenerator, DatagramEvent, Dir, Endpoint,
    EndpointConfig, Event, SendDatagramError, ServerConfig, StreamEvent, StreamId, Transmit,
};
use roost_proto::{Channel, Congestion, Delivery};

use self::streams::Streams;
use super::greeting::{Hello, Welcome};
use super::link::{CLOSE_TIMEOUT, CLOSED};
use super::plain::Plain;
use super::probing::Probing;
use super::sentence;
use super::settings::{DATAGRAM_BUFFER, transport};
use super::state::{DIRECT_AHEAD, as_sent};
use crate::association::{Action, Association, Measured, PathId};
use crate::config::Limits;
use crate::simulated::{End, Happening, Parcel, UDP_BYTES};

/// The only path.
const PATH: PathId = PathId(0);
/// The other end, which is the only one that there is.
const PEER: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)), 7701);

/// Whether a packet is the first of a connection: a long header, type Initial.
pub(crate) const fn begins(first: u8) -> bool {
    first & 0xf0 == 0xc0
}

pub(crate) struct QuicEnd {
    endpoint: Endpoint,
    connection: Option<(ConnectionHandle, Connection)>,
    by_peer: bool,
    phase: Phase,
    /// What the endpoint answers by itself.
    loose: VecDeque<Bytes>,
    happenings: VecDeque<Happening>,
    association: Association,
    probing: Probing,
    streams: Streams,
    buffer: Vec<u8>,
}

#[derive(Debug, PartialEq, Eq)]
enum Phase {
    Greeting { until: Instant },
    Up,
    Draining { reason: String, until: Instant },
    Over,
}

/// Connection ids of the length of quinn's own, which only have to differ.
struct Numbered(u64);

impl ConnectionIdGenerator for Numbered {
    fn generate_cid(&mut self) -> ConnectionId {
        self.0 += 1;
        ConnectionId::new(&self.0.to_be_bytes())
    }

    fn cid_len(&self) -> usize {
        size_of::<u64>()
    }

    fn cid_lifetime(&self) -> Option<Duration> {
        None
    }
}

impl QuicEnd {
    pub(crate) fn dial(now: Instant, congestion: Congestion) -> Self {
        let mut end = Self::new(now, congestion, false);
        let mut config = ClientConfig::new(Arc::new(Plain));
        config.transport_config(transport(Limits::default().packet(), &end.probing, false));
        config.initial_dst_cid_provider(Arc::new(|| ConnectionId::new(&[7; 20])));
        // The address is one, and there are ids left.
        end.connection = end.endpoint.connect(now, config, PEER, "peer").ok();
        end
    }

    pub(crate) fn accept(now: Instant, congestion: Congestion) -> Self {
        Self::new(now, congestion, true)
    }

    fn new(now: Instant, congestion: Congestion, by_peer: bool) -> Self {
        let reset = hmac::Key::new(hmac::HMAC_SHA256, &[u8::from(by_peer); 64]);
        let mut config = EndpointConfig::new(Arc::new(reset));
        // A greased bit would make a packet look like none of QUIC, and tells nothing here.
        config.rng_seed(Some([3; 32])).grease_quic_bit(false).cid_generator(|| Box::new(Numbered(0)));
        let token = hkdf::Salt::new(hkdf::HKDF_SHA256, &[]).extract(&[5; 64]);
        let mut server = ServerConfig::new(Arc::new(Plain), Arc::new(token));
        let probing = Probing::new(congestion);
        server.transport_config(transport(Limits::default().packet(), &probing, false));
        Self {
            endpoint: Endpoint::new(Arc::new(config), by_peer.then(|| Arc::new(server)), false, None),
            connection: None,
            by_peer,
            phase: Phase::Greeting { until: now + Limits::default().handshake_timeout },
            loose: VecDeque::new(),
            happenings: VecDeque::new(),
            association: Association::new(Limits::default().link_queue_bytes),
            probing,
            streams: Streams::default(),
            buffer: Vec::new(),
        }
    }

    /// Sends a message; `false` if there is no room for it.
    pub(crate) fn offer(&mut self, now: Instant, channel: Channel, delivery: &Delivery, message: Bytes) -> bool {
        let (Phase::Up, Some((_, connection))) = (&self.phase, &mut self.connection) else { return false };
        if channel == Channel::Datagram && self.association.is_idle() {
            let mut datagrams = connection.datagrams();
            let is_free = DATAGRAM_BUFFER - datagrams.send_buffer_space() <= DIRECT_AHEAD;
            if is_free && !matches!(datagrams.send(message.clone(), true), Err(SendDatagramError::TooLarge)) {
                self.settle(now);
                return true;
            }
        }
        let rtt = self.measured().rtt;
        let is_taken = self.association.send(now, as_sent(channel, delivery, message, now, rtt));
        self.settle(now);
        is_taken
    }

    /// Does all that follows from what has just been done.
    fn settle(&mut self, now: Instant) {
        loop {
            self.pass_endpoint_events();
            match self.connection.as_mut().and_then(|(_, connection)| connection.poll()) {
                Some(event) => self.happened(now, event),
                None => break,
            }
        }
        while let Some(message) = self.association.poll_message() {
            self.deliver(message);
        }
        // There is one path, and nobody to tell.
        while self.association.poll_event().is_some() {}
        while let Some(action) = self.association.poll_action() {
            self.carry_out(action);
        }
        if let Some((_, connection)) = &mut self.connection {
            self.streams.write(connection);
        }
        self.end_if_drained(now);
        self.pass_endpoint_events();
    }

    fn carry_out(&mut self, action: Action) {
        match action {
            Action::Transmit { copy, content, priority, .. } => {
                self.streams.waiting.push_back((Some(copy), content, priority));
            }
            Action::Cancel { copy, .. } => {
                if let Some((_, connection)) = &mut self.connection {
                    self.streams.cancel(connection, copy);
                }
            }
            Action::Probe { on, .. } => self.probing.set(on),
        }
    }

    fn pass_endpoint_events(&mut self) {
        let Some((handle, connection)) = &mut self.connection else { return };
        while let Some(event) = connection.poll_endpoint_events() {
            if let Some(answer) = self.endpoint.handle_event(*handle, event) {
                connection.handle_event(answer);
            }
        }
    }

    fn happened(&mut self, now: Instant, event: Event) {
        match event {
            // Each side greets; who dials is up when it has been answered.
            Event::Connected if !self.by_peer => self.say(Hello::Link.write()),
            Event::Stream(StreamEvent::Opened { .. }) => self.accept_streams(now),
            Event::Stream(StreamEvent::Readable { id }) => self.read(now, id),
            Event::Stream(StreamEvent::Finished { id }) => {
                if let Some(copy) = self.streams.sent.remove(&id) {
                    let measured = self.measured();
                    self.association.acknowledged(now, copy, measured);
                }
            }
            Event::DatagramReceived => {
                while let Some(message) = self.connection.as_mut().and_then(|(_, it)| it.datagrams().recv()) {
                    self.deliver(message);
                }
            }
            Event::ConnectionLost { reason } => {
                if self.phase == Phase::Up {
                    self.happenings.push_back(Happening::Down { reason: sentence(&reason) });
                }
                self.phase = Phase::Over;
            }
            _ => {}
        }
    }

    fn say(&mut self, greeting: Vec<u8>) {
        self.streams.waiting.push_front((None, [greeting.into(), Bytes::new()], 0));
    }

    fn measured(&self) -> Measured {
        let path = self.connection.as_ref().map(|(_, connection)| connection.stats().path).unwrap_or_default();
        Measured { rtt: path.rtt, window: path.cwnd }
    }

    fn go_up(&mut self, now: Instant) {
        if let Phase::Greeting { .. } = &self.phase {
            let measured = self.measured();
            self.association.add_path(now, PATH, 0, measured);
            self.happenings.push_back(Happening::Up { rtt: measured.rtt });
            self.phase = Phase::Up;
        }
    }

    fn deliver(&mut self, message: Bytes) {
        if self.phase == Phase::Up {
            self.happenings.push_back(Happening::Message(message));
        }
    }

    fn accept_streams(&mut self, now: Instant) {
        while let Some(id) = self.connection.as_mut().and_then(|(_, it)| it.streams().accept(Dir::Uni)) {
            self.streams.reading.insert(id, Vec::new());
            self.read(now, id);
        }
    }

    /// Reads what there is of a stream, and takes what is whole.
    fn read(&mut self, now: Instant, id: StreamId) {
        let Some((_, connection)) = &mut self.connection else { return };
        let Some(body) = self.streams.read(connection, id) else { return };
        if id.index() == 0 {
            if self.by_peer {
                self.say(Welcome { link: 1, hosts: Vec::new() }.write());
            }
            return self.go_up(now);
        }
        // The other end is like this one, and keeps to the protocol.
        let _ = self.association.received(&body.into());
    }

    /// Says farewell once the other end has everything.
    fn end_if_drained(&mut self, now: Instant) {
        let Phase::Draining { reason, until } = &self.phase else { return };
        if let Some((_, connection)) = &mut self.connection
            && (self.association.is_idle() || *until <= now)
        {
            connection.close(now, CLOSED, Bytes::copy_from_slice(reason.as_bytes()));
            self.phase = Phase::Over;
        }
    }

    /// Hands a packet to the connection, or begins one with it; what the
    /// endpoint answers by itself.
    fn dispatch(&mut self, now: Instant, content: &[u8]) -> Option<Transmit> {
        self.buffer.clear();
        match self.endpoint.handle(now, PEER, None, None, BytesMut::from(content), &mut self.buffer)? {
            DatagramEvent::ConnectionEvent(_, event) => {
                let (_, connection) = self.connection.as_mut()?;
                connection.handle_event(event);
                None
            }
            DatagramEvent::NewConnection(incoming) => {
                match self.endpoint.accept(incoming, now, &mut self.buffer, None) {
                    Ok(accepted) => {
                        self.connection = Some(accepted);
                        None
                    }
                    Err(error) => error.response,
                }
            }
            DatagramEvent::Response(transmit) => Some(transmit),
        }
    }
}

impl End for QuicEnd {
    fn send(&mut self, now: Instant, channel: Channel, delivery: &Delivery, message: Bytes) {
        self.offer(now, channel, delivery, message);
    }

    fn close(&mut self, now: Instant, reason: &str) {
        self.phase = match self.phase {
            Phase::Up => Phase::Draining { reason: reason.to_owned(), until: now + CLOSE_TIMEOUT },
            Phase::Greeting { .. } => {
                self.connection = None;
                Phase::Over
            }
            _ => return,
        };
        self.settle(now);
    }

    fn abort(&mut self, now: Instant, reason: &str) {
        if self.phase == Phase::Up {
            self.phase = Phase::Draining { reason: reason.to_owned(), until: now };
            self.settle(now);
        }
    }

    fn handle_packet(&mut self, now: Instant, content: &[u8]) {
        if let Some(transmit) = self.dispatch(now, content) {
            self.loose.push_back(Bytes::copy_from_slice(&self.buffer[..transmit.size]));
        }
        self.settle(now);
    }

    fn handle_timeout(&mut self, now: Instant) {
        if matches!(self.phase, Phase::Greeting { until } if until <= now) {
            self.phase = Phase::Over;
            self.connection = None;
        }
        if let Some((_, connection)) = &mut self.connection
            && connection.poll_timeout().is_some_and(|at| at <= now)
        {
            connection.handle_timeout(now);
        }
        if self.association.deadline().is_some_and(|at| at <= now) {
            self.association.handle_timeout(now);
        }
        self.settle(now);
    }

    fn poll_packet(&mut self, now: Instant) -> Option<Parcel> {
        let content = self.loose.pop_front().or_else(|| {
            let (_, connection) = self.connection.as_mut()?;
            self.buffer.clear();
            let transmit = connection.poll_transmit(now, 1, &mut self.buffer)?;
            Some(Bytes::copy_from_slice(&self.buffer[..transmit.size]))
        });
        self.pass_endpoint_events();
        content.map(|content| Parcel { bytes: content.len() as u32 + UDP_BYTES, content })
    }

    fn poll_happening(&mut self) -> Option<Happening> {
        self.happenings.pop_front()
    }

    fn deadline(&mut self) -> Option<Instant> {
        let until = match &self.phase {
            Phase::Greeting { until } | Phase::Draining { until, .. } => Some(*until),
            Phase::Up | Phase::Over => None,
        };
        let own = self.connection.as_mut().and_then(|(_, connection)| connection.poll_timeout());
        [until, own, self.association.deadline()].into_iter().flatten().min()
    }

    fn is_over(&self) -> bool {
        let is_drained = self.connection.as_ref().is_none_or(|(_, connection)| connection.is_drained());
        self.phase == Phase::Over && is_drained && self.loose.is_empty() && self.happenings.is_empty()
    }
}
