//! An end that is a real QUIC connection, driven without its runtime. Messages
//! travel as in `quic://`: a datagram, or a stream for each.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use aws_lc_rs::{hkdf, hmac};
use bytes::{Bytes, BytesMut};
use quinn_proto::{
    ClientConfig, Connection, ConnectionHandle, ConnectionId, ConnectionIdGenerator, DatagramEvent, Dir, Endpoint,
    EndpointConfig, Event, SendDatagramError, ServerConfig, StreamEvent, StreamId, Transmit,
};
use roost_proto::Channel;

use super::inbox::Inbox;
use super::link::{CLOSE_TIMEOUT, CLOSED, MESSAGE, READY};
use super::plain::Plain;
use super::sentence;
use super::settings::{STREAM_HEADER, transport};
use crate::config::Limits;
use crate::simulated::{End, Happening, Parcel, UDP_BYTES};

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
    inbox: Inbox,
    /// Streams that have not been read to their end.
    reading: BTreeMap<StreamId, Vec<u8>>,
    outbox: Outbox,
    buffer: Vec<u8>,
}

/// What waits to be written on streams.
#[derive(Default)]
struct Outbox {
    /// Heads of streams and their messages, with the flow; datagrams too large have none.
    messages: VecDeque<(Option<u32>, Bytes)>,
    bytes: usize,
    /// The stream that is being written, and what is left of it.
    writing: Option<(StreamId, Vec<Bytes>)>,
    /// The last stream of each flow.
    flows: HashMap<u32, u64>,
    /// Streams that the peer has not acknowledged.
    unacked: usize,
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
    pub(crate) fn dial(now: Instant) -> Self {
        let mut end = Self::new(now, false);
        let mut config = ClientConfig::new(Arc::new(Plain));
        config.transport_config(transport(Limits::default().packet()));
        config.initial_dst_cid_provider(Arc::new(|| ConnectionId::new(&[7; 20])));
        // The address is one, and there are ids left.
        end.connection = end.endpoint.connect(now, config, PEER, "peer").ok();
        end
    }

    pub(crate) fn accept(now: Instant) -> Self {
        Self::new(now, true)
    }

    fn new(now: Instant, by_peer: bool) -> Self {
        let reset = hmac::Key::new(hmac::HMAC_SHA256, &[u8::from(by_peer); 64]);
        let mut config = EndpointConfig::new(Arc::new(reset));
        // A greased bit would make a packet look like none of QUIC, and tells nothing here.
        config.rng_seed(Some([3; 32])).grease_quic_bit(false).cid_generator(|| Box::new(Numbered(0)));
        let token = hkdf::Salt::new(hkdf::HKDF_SHA256, &[]).extract(&[5; 64]);
        let mut server = ServerConfig::new(Arc::new(Plain), Arc::new(token));
        server.transport_config(transport(Limits::default().packet()));
        Self {
            endpoint: Endpoint::new(Arc::new(config), by_peer.then(|| Arc::new(server)), false, None),
            connection: None,
            by_peer,
            phase: Phase::Greeting { until: now + Limits::default().handshake_timeout },
            loose: VecDeque::new(),
            happenings: VecDeque::new(),
            inbox: Inbox::default(),
            reading: BTreeMap::new(),
            outbox: Outbox::default(),
            buffer: Vec::new(),
        }
    }

    /// Does all that follows from what has just been done.
    fn settle(&mut self, now: Instant) {
        loop {
            self.pass_endpoint_events();
            match self.connection.as_mut().and_then(|(_, connection)| connection.poll()) {
                Some(event) => self.happened(event),
                None => break,
            }
        }
        if let Some((_, connection)) = &mut self.connection {
            while self.outbox.write(connection, self.by_peer) {}
        }
        self.end_if_drained(now);
        self.pass_endpoint_events();
    }

    fn pass_endpoint_events(&mut self) {
        let Some((handle, connection)) = &mut self.connection else { return };
        while let Some(event) = connection.poll_endpoint_events() {
            if let Some(answer) = self.endpoint.handle_event(*handle, event) {
                connection.handle_event(answer);
            }
        }
    }

    fn happened(&mut self, event: Event) {
        match event {
            Event::Connected if self.by_peer => {
                // The listener greets; who dials waits for it.
                self.outbox.messages.push_front((None, Bytes::new()));
                self.go_up();
            }
            Event::Stream(StreamEvent::Opened { .. }) => self.accept_streams(),
            Event::Stream(StreamEvent::Readable { id }) => self.read(id),
            Event::Stream(StreamEvent::Finished { .. }) => {
                self.outbox.unacked = self.outbox.unacked.saturating_sub(1);
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

    fn go_up(&mut self) {
        if let (Phase::Greeting { .. }, Some((_, connection))) = (&self.phase, &self.connection) {
            self.happenings.push_back(Happening::Up { rtt: connection.rtt() });
            self.phase = Phase::Up;
        }
    }

    fn deliver(&mut self, message: Bytes) {
        if self.phase == Phase::Up {
            self.happenings.push_back(Happening::Message(message));
        }
    }

    fn accept_streams(&mut self) {
        while self.inbox.has_room() {
            let accepted = self.connection.as_mut().and_then(|(_, it)| it.streams().accept(Dir::Uni));
            let Some(id) = accepted else { return };
            self.inbox.opened(id.index());
            self.reading.insert(id, Vec::new());
            self.read(id);
        }
    }

    /// Reads what there is of a stream, and delivers what is whole.
    fn read(&mut self, id: StreamId) {
        let (Some((_, connection)), Some(body)) = (&mut self.connection, self.reading.get_mut(&id)) else { return };
        let mut stream = connection.recv_stream(id);
        let Ok(mut chunks) = stream.read(true) else { return };
        let is_whole = loop {
            match chunks.next(usize::MAX) {
                Ok(Some(chunk)) => body.extend_from_slice(&chunk.bytes),
                Ok(None) => break true,
                // Nothing more for now; nobody resets a stream.
                Err(_) => break false,
            }
        };
        // Whatever it has to tell the other end leaves with the next packets.
        let _ = chunks.finalize();
        if is_whole && let Some(body) = self.reading.remove(&id) {
            self.complete(id.index(), Bytes::from(body));
            self.accept_streams();
        }
    }

    /// Takes what a stream carried.
    fn complete(&mut self, number: u64, body: Bytes) {
        let mut ready = Vec::new();
        // The other end is like this one: no two of its messages follow the same.
        let _ = match body.split_first_chunk() {
            Some((&[MESSAGE, a, b, c, d], _)) => {
                let distance = u32::from_be_bytes([a, b, c, d]);
                self.inbox.complete(number, distance, body.slice(STREAM_HEADER..), |message| ready.push(message))
            }
            _ => self.inbox.complete(number, 0, Bytes::new(), |_| {}),
        };
        if body[..] == [READY] {
            self.go_up();
        }
        ready.into_iter().for_each(|message| self.deliver(message));
    }

    /// Says farewell once the other end has everything.
    fn end_if_drained(&mut self, now: Instant) {
        let Phase::Draining { reason, until } = &self.phase else { return };
        if let Some((_, connection)) = &mut self.connection
            && (self.outbox.is_idle() || *until <= now)
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

impl Outbox {
    /// Begins a stream or goes on with one; `false` when no more can be written for now.
    fn write(&mut self, connection: &mut Connection, by_peer: bool) -> bool {
        if self.writing.is_none() && !self.begin(connection, by_peer) {
            return false;
        }
        let Some((id, chunks)) = &mut self.writing else { return false };
        let mut stream = connection.send_stream(*id);
        let Ok(written) = stream.write_chunks(chunks) else { return false };
        chunks.drain(..written.chunks);
        if chunks.iter().all(Bytes::is_empty) {
            // It is open, for it was just written to.
            let _ = stream.finish();
            self.writing = None;
        }
        true
    }

    /// Opens a stream for the next message; `false` if there is none, or the
    /// other end allows no more streams.
    fn begin(&mut self, connection: &mut Connection, by_peer: bool) -> bool {
        if self.messages.is_empty() {
            return false;
        }
        let Some(id) = connection.streams().open(Dir::Uni) else { return false };
        let Some((flow, message)) = self.messages.pop_front() else { return false };
        self.bytes -= message.len();
        self.unacked += 1;
        let number = id.index();
        let before = flow.and_then(|flow| self.flows.insert(flow, number));
        let distance = before.and_then(|before| u32::try_from(number - before).ok()).unwrap_or(0);
        let mut header = [MESSAGE; STREAM_HEADER];
        header[1..].copy_from_slice(&distance.to_be_bytes());
        let is_greeting = by_peer && number == 0;
        let header = if is_greeting { Bytes::from_static(&[READY]) } else { Bytes::copy_from_slice(&header) };
        self.writing = Some((id, vec![header, message]));
        true
    }

    fn is_idle(&self) -> bool {
        self.messages.is_empty() && self.writing.is_none() && self.unacked == 0
    }
}

impl End for QuicEnd {
    fn send(&mut self, now: Instant, channel: Channel, message: Bytes) {
        let (Phase::Up, Some((_, connection))) = (&self.phase, &mut self.connection) else { return };
        let flow = match channel {
            Channel::Reliable { flow } => Some(flow),
            Channel::Datagram => {
                let mut datagrams = connection.datagrams();
                if datagrams.send_buffer_space() < message.len() {
                    return;
                }
                match datagrams.send(message.clone(), true) {
                    // On a stream of its own, then.
                    Err(SendDatagramError::TooLarge) => None,
                    _ => return self.settle(now),
                }
            }
        };
        if self.outbox.bytes + message.len() <= Limits::default().link_queue_bytes {
            self.outbox.bytes += message.len();
            self.outbox.messages.push_back((flow, message));
        }
        self.settle(now);
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
        [until, own].into_iter().flatten().min()
    }

    fn is_over(&self) -> bool {
        let is_drained = self.connection.as_ref().is_none_or(|(_, connection)| connection.is_drained());
        self.phase == Phase::Over && is_drained && self.loose.is_empty() && self.happenings.is_empty()
    }
}
