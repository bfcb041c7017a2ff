//! A simulated end with real QUIC connections, one for each path, but without their runtime. Messages travel as in
//! `quic://`: as a datagram of the only path, or in chunks on streams of their own.

mod path;
mod settings;
mod streams;

use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Instant;

use bytes::{Bytes, BytesMut};
use quinn_proto::{
    ConnectionError, DatagramEvent, Dir, Endpoint, Event, SendDatagramError, StreamEvent, StreamId, Transmit, VarInt,
};
use roost_wire::{Channel, Congestion, Delivery};

use self::path::SimulatedPath;
use super::connection::{CLOSED, GIVEN_UP};
use super::failure::sentence;
use super::hello::{Hello, HelloAck};
use super::probing::Probing;
use super::settings::DATAGRAM_BUFFER;
use super::state::{DIRECT_AHEAD, as_sent};
use crate::config::Limits;
use crate::handshake_side::HandshakeSide;
use crate::multipath::{Action, MAX_PATHS, MultipathConnection, PathId};
use crate::simulated::{EndEvent, SimPacket, SimulatedEnd, UDP_BYTES};

/// The path on which a connection begins.
const FIRST: u8 = 0;

/// The address of the remote end for each path.
const fn remote_address(path: u8) -> SocketAddr {
    SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 0, path, 1)), 7701)
}

/// True if a packet is the first of a QUIC connection: a long header of type Initial.
pub(crate) const fn is_first_packet(first: u8) -> bool {
    first & 0xf0 == 0xc0
}

pub(crate) struct QuicEnd {
    endpoint: Endpoint,
    paths: BTreeMap<u8, SimulatedPath>,
    /// The number of paths that the dialing side uses.
    count: u8,
    congestion: Congestion,
    is_incoming: bool,
    phase: QuicEndPhase,
    /// Packets that the endpoint sends by itself, each with its path.
    loose: VecDeque<(u8, Bytes)>,
    events: VecDeque<EndEvent>,
    multipath: MultipathConnection,
    buffer: Vec<u8>,
}

#[derive(Debug, PartialEq, Eq)]
enum QuicEndPhase {
    Greeting { until: Instant },
    Up,
    Draining { reason: String, until: Instant },
    Over,
}

impl QuicEnd {
    /// Dials over `count` paths, at least one and at most [`MAX_PATHS`].
    pub(crate) fn dial(now: Instant, congestion: Congestion, count: u8) -> Self {
        let mut end = Self::new(now, congestion, HandshakeSide::Client, count.clamp(1, MAX_PATHS as u8));
        end.connect(now, FIRST);
        end
    }

    /// Accepts the paths that the dialing side uses; `several` says if there will be more than one.
    pub(crate) fn accept(now: Instant, congestion: Congestion, several: bool) -> Self {
        Self::new(now, congestion, HandshakeSide::Server, 1 + u8::from(several))
    }

    fn new(now: Instant, congestion: Congestion, side: HandshakeSide, count: u8) -> Self {
        let (limits, is_incoming) = (Limits::default(), side == HandshakeSide::Server);
        let until = now + if is_incoming { limits.incoming_handshake_timeout() } else { limits.first_answer(None) };
        Self {
            endpoint: settings::endpoint(is_incoming),
            paths: BTreeMap::new(),
            count,
            congestion,
            is_incoming,
            phase: QuicEndPhase::Greeting { until },
            loose: VecDeque::new(),
            events: VecDeque::new(),
            multipath: MultipathConnection::new(Limits::default().connection_queue_bytes),
            buffer: Vec::new(),
        }
    }

    /// Begins the QUIC connection of a path.
    fn connect(&mut self, now: Instant, path: u8) {
        let probing = Probing::new(self.congestion);
        let config = settings::client(path, &probing, self.count > 1);
        // This cannot fail: the address is valid, and there are connection ids left.
        if let Ok((handle, quinn_connection)) = self.endpoint.connect(now, config, remote_address(path), "peer") {
            self.paths.insert(path, SimulatedPath::new(now, handle, quinn_connection, probing));
        }
    }

    /// Sends a message; `false` if there is no room for it.
    pub(crate) fn offer(&mut self, now: Instant, channel: Channel, delivery: &Delivery, message: Bytes) -> bool {
        if self.phase != QuicEndPhase::Up {
            return false;
        }
        if channel == Channel::Datagram
            && self.multipath.is_idle()
            && let Some(path) = self.only_path()
        {
            let mut datagrams = path.quinn_connection.datagrams();
            let is_free = DATAGRAM_BUFFER - datagrams.send_buffer_space() <= DIRECT_AHEAD;
            if is_free && !matches!(datagrams.send(message.clone(), true), Err(SendDatagramError::TooLarge)) {
                self.drain_outputs(now);
                return true;
            }
        }
        let rtt = self.multipath.paths().map(|path| path.measured.rtt).max().unwrap_or_default();
        let is_taken = self.multipath.send(now, as_sent(channel, delivery, message, now, rtt));
        self.drain_outputs(now);
        is_taken
    }

    /// The path of a connection that has only one.
    fn only_path(&mut self) -> Option<&mut SimulatedPath> {
        let mut joined = self.paths.values_mut().filter(|path| path.is_joined);
        joined.next().filter(|_| joined.next().is_none())
    }

    /// Handles all events and actions that follow from the last change.
    fn drain_outputs(&mut self, now: Instant) {
        loop {
            self.pass_endpoint_events();
            let event = self.paths.iter_mut().find_map(|(path, it)| Some((*path, it.quinn_connection.poll()?)));
            let Some((path, event)) = event else { break };
            self.handle_event(now, path, event);
        }
        while let Some(message) = self.multipath.poll_message() {
            self.deliver(message);
        }
        // The simulation does not report which paths answer.
        while self.multipath.poll_event().is_some() {}
        while let Some(action) = self.multipath.poll_action() {
            self.apply_action(action);
        }
        self.paths.values_mut().for_each(SimulatedPath::write);
        self.end_if_drained(now);
        self.pass_endpoint_events();
    }

    fn apply_action(&mut self, action: Action) {
        let (Action::Transmit { path, .. } | Action::Cancel { path, .. } | Action::Probe { path, .. }) = action;
        let Some(path) = self.paths.get_mut(&(path.0 as u8)) else { return };
        match action {
            Action::Transmit { copy, content, priority, .. } => {
                path.streams.waiting.push_back((Some(copy), content, priority));
            }
            Action::Cancel { copy, .. } => path.streams.cancel(&mut path.quinn_connection, copy),
            Action::Probe { on, .. } => path.probing.set(on),
        }
    }

    fn pass_endpoint_events(&mut self) {
        for SimulatedPath { handle, quinn_connection, .. } in self.paths.values_mut() {
            while let Some(event) = quinn_connection.poll_endpoint_events() {
                if let Some(answer) = self.endpoint.handle_event(*handle, event) {
                    quinn_connection.handle_event(answer);
                }
            }
        }
    }

    fn handle_event(&mut self, now: Instant, number: u8, event: Event) {
        let Some(path) = self.paths.get_mut(&number) else { return };
        match event {
            // Each side sends a greeting. The dialing side is up when it gets the answer.
            Event::Connected if !self.is_incoming => {
                if let QuicEndPhase::Greeting { until } = &mut self.phase {
                    *until = now + Limits::default().next_answer(path.quinn_connection.rtt());
                }
                path.say(hello(number).write());
            }
            Event::Stream(StreamEvent::Opened { .. }) => self.accept_streams(now, number),
            Event::Stream(StreamEvent::Readable { id }) => self.read(now, number, id),
            Event::Stream(StreamEvent::Finished { id }) => {
                if let Some(copy) = path.streams.sent.remove(&id) {
                    let measured = path.measured();
                    self.multipath.handle_acknowledgement(now, copy, measured);
                }
            }
            Event::DatagramReceived => {
                while let Some(message) =
                    self.paths.get_mut(&number).and_then(|it| it.quinn_connection.datagrams().recv())
                {
                    self.deliver(message);
                }
            }
            Event::ConnectionLost { reason } => self.lose(now, number, &reason),
            _ => {}
        }
    }

    /// Handles the end of a path's QUIC connection. The connection goes on over the other paths, unless the other end
    /// has closed it.
    fn lose(&mut self, now: Instant, number: u8, reason: &ConnectionError) {
        if let Some(path) = self.paths.get_mut(&number) {
            path.is_joined = false;
        }
        self.multipath.remove_path(now, PathId(number.into()));
        let is_closed = matches!(reason, ConnectionError::ApplicationClosed(close) if close.error_code != GIVEN_UP);
        if self.paths.values().any(|path| path.is_joined) && !is_closed {
            return;
        }
        if self.phase == QuicEndPhase::Up {
            self.events.push_back(EndEvent::Down { reason: sentence(reason) });
        }
        self.phase = QuicEndPhase::Over;
        self.paths.values_mut().for_each(|path| path.quinn_connection.close(now, CLOSED, Bytes::new()));
    }

    /// Adds a path that is ready. With the first one the connection is up.
    fn join(&mut self, now: Instant, number: u8) {
        if !matches!(self.phase, QuicEndPhase::Greeting { .. } | QuicEndPhase::Up) {
            return;
        }
        let Some(path) = self.paths.get_mut(&number).filter(|path| !path.is_joined) else { return };
        path.is_joined = true;
        let measured = path.measured();
        self.multipath.add_path(now, PathId(number.into()), number, measured);
        if let QuicEndPhase::Greeting { .. } = &self.phase {
            self.events.push_back(EndEvent::Up { rtt: measured.rtt });
            self.phase = QuicEndPhase::Up;
            if !self.is_incoming {
                (FIRST + 1..self.count).for_each(|other| self.connect(now, other));
            }
        }
    }

    fn deliver(&mut self, message: Bytes) {
        if self.phase == QuicEndPhase::Up {
            self.events.push_back(EndEvent::Message(message));
        }
    }

    fn accept_streams(&mut self, now: Instant, number: u8) {
        while let Some(path) = self.paths.get_mut(&number)
            && let Some(id) = path.quinn_connection.streams().accept(Dir::Uni)
        {
            if let Some(most) = path.allowance.note_opened(now, path.quinn_connection.rtt()) {
                path.quinn_connection.set_max_concurrent_streams(Dir::Uni, VarInt::from_u32(most));
            }
            path.streams.reading.insert(id, Vec::new());
            self.read(now, number, id);
        }
    }

    /// Reads the available bytes of a stream, and handles its content once it is complete.
    fn read(&mut self, now: Instant, number: u8, id: StreamId) {
        let Some(path) = self.paths.get_mut(&number) else { return };
        let Some(body) = path.streams.read(&mut path.quinn_connection, id) else { return };
        if id.index() == 0 {
            if self.is_incoming {
                path.say(HelloAck { connection: 1, hosts: Vec::new() }.write());
            }
            return self.join(now, number);
        }
        // The remote end runs the same code and keeps to the protocol.
        let _ = self.multipath.handle_chunk(&body.into());
    }

    /// Closes the QUIC connections once the other end has received everything.
    fn end_if_drained(&mut self, now: Instant) {
        let QuicEndPhase::Draining { reason, until } = &self.phase else { return };
        if self.multipath.is_idle() || *until <= now {
            let reason = Bytes::copy_from_slice(reason.as_bytes());
            self.paths.values_mut().for_each(|path| path.quinn_connection.close(now, CLOSED, reason.clone()));
            self.phase = QuicEndPhase::Over;
        }
    }

    /// Gives a packet to its QUIC connection, or begins one with it. Returns the packet that the endpoint sends by
    /// itself.
    fn dispatch(&mut self, now: Instant, number: u8, content: &[u8]) -> Option<Transmit> {
        self.buffer.clear();
        match self.endpoint.handle(
            now,
            remote_address(number),
            None,
            None,
            BytesMut::from(content),
            &mut self.buffer,
        )? {
            DatagramEvent::ConnectionEvent(handle, event) => {
                let path = self.paths.values_mut().find(|path| path.handle == handle)?;
                path.quinn_connection.handle_event(event);
                None
            }
            DatagramEvent::NewConnection(incoming) => {
                let probing = Probing::new(self.congestion);
                let config = settings::server_of(&probing, self.count > 1);
                match self.endpoint.accept(incoming, now, &mut self.buffer, Some(config)) {
                    Ok((handle, quinn_connection)) => {
                        self.paths.insert(number, SimulatedPath::new(now, handle, quinn_connection, probing));
                        None
                    }
                    Err(error) => error.response,
                }
            }
            DatagramEvent::Response(transmit) => Some(transmit),
        }
    }
}

/// The greeting on a path. The code proves nothing, since the simulation has no secrets.
fn hello(path: u8) -> Hello {
    if path == FIRST { Hello::Connection } else { Hello::Path { connection: 1, code: vec![0; 32] } }
}

impl SimulatedEnd for QuicEnd {
    fn send(&mut self, now: Instant, channel: Channel, delivery: &Delivery, message: Bytes) {
        self.offer(now, channel, delivery, message);
    }

    fn close(&mut self, now: Instant, reason: &str) {
        self.phase = match self.phase {
            QuicEndPhase::Up => {
                let rtt = self.multipath.paths().map(|path| path.measured.rtt).max().unwrap_or_default();
                QuicEndPhase::Draining { reason: reason.to_owned(), until: now + Limits::default().next_answer(rtt) }
            }
            QuicEndPhase::Greeting { .. } => {
                self.paths.clear();
                QuicEndPhase::Over
            }
            _ => return,
        };
        self.drain_outputs(now);
    }

    fn abort(&mut self, now: Instant, reason: &str) {
        if self.phase == QuicEndPhase::Up {
            self.phase = QuicEndPhase::Draining { reason: reason.to_owned(), until: now };
            self.drain_outputs(now);
        }
    }

    fn handle_packet(&mut self, now: Instant, path: u8, content: &Bytes) {
        if let Some(transmit) = self.dispatch(now, path, content) {
            self.loose.push_back((path, Bytes::copy_from_slice(&self.buffer[..transmit.size])));
        }
        self.drain_outputs(now);
    }

    fn handle_timeout(&mut self, now: Instant) {
        if matches!(self.phase, QuicEndPhase::Greeting { until } if until <= now) {
            self.phase = QuicEndPhase::Over;
            self.paths.clear();
        }
        for SimulatedPath { quinn_connection, .. } in self.paths.values_mut() {
            if quinn_connection.poll_timeout().is_some_and(|at| at <= now) {
                quinn_connection.handle_timeout(now);
            }
        }
        if self.multipath.deadline().is_some_and(|at| at <= now) {
            self.multipath.handle_timeout(now);
        }
        self.drain_outputs(now);
    }

    fn poll_packet(&mut self, now: Instant) -> Option<SimPacket> {
        let packet = self.loose.pop_front().or_else(|| {
            self.paths.iter_mut().find_map(|(path, it)| {
                self.buffer.clear();
                let transmit = it.quinn_connection.poll_transmit(now, 1, &mut self.buffer)?;
                Some((*path, Bytes::copy_from_slice(&self.buffer[..transmit.size])))
            })
        });
        self.pass_endpoint_events();
        packet.map(|(path, content)| SimPacket { path, bytes: content.len() as u32 + UDP_BYTES, content })
    }

    fn poll_event(&mut self) -> Option<EndEvent> {
        self.events.pop_front()
    }

    fn deadline(&mut self) -> Option<Instant> {
        let until = match &self.phase {
            QuicEndPhase::Greeting { until } | QuicEndPhase::Draining { until, .. } => Some(*until),
            QuicEndPhase::Up | QuicEndPhase::Over => None,
        };
        let own = self.paths.values_mut().filter_map(|path| path.quinn_connection.poll_timeout()).min();
        [until, own, self.multipath.deadline()].into_iter().flatten().min()
    }

    fn is_over(&self) -> bool {
        let is_drained = self.paths.values().all(|path| path.quinn_connection.is_drained());
        self.phase == QuicEndPhase::Over && is_drained && self.loose.is_empty() && self.events.is_empty()
    }
}
