//! Our own transports, as in the daemons: one thread, one event loop.

use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;
use roost_identity::group::Group;
use roost_identity::{Identity, KeyExchange, Policy};
use roost_transport::{Config, Event, Events, Limits, SendError, bind};
use roost_wire::{Address, Channel, ConnectionId, Delivery, DeliveryClass, DialId, Endpoint, Role, RoleSet, Scheme};
use tokio::runtime::Runtime;
use tokio::time::timeout_at;

use super::end::{FrameEndpoint, PATIENCE};
use super::{BenchTransport, PORT};

/// All frames belong to one flow, which keeps their order.
const CHANNEL: Channel = Channel::Reliable { flow: 1 };
/// The largest packet on plain Ethernet: of QUIC inside IPv6 and UDP, of DTLS inside its records as well.
const QUIC_PACKET_BYTES: usize = 1452;
const PACKET_BYTES: usize = 1400;
/// The interval at which a full sender checks for room.
const NO_ROOM: Duration = Duration::from_millis(1);
const BATCH: usize = 256;

pub(crate) struct Members {
    pub(crate) sender: Arc<Identity>,
    pub(crate) receiver: Arc<Identity>,
}

impl Members {
    pub(crate) fn new() -> io::Result<Self> {
        let folder = tempfile::tempdir()?;
        let group = Group::init(&folder.path().join("group"), "bench").map_err(io::Error::other)?;
        let member = |name: &str, role| group.issue_in_memory(name, role).map(Arc::new).map_err(io::Error::other);
        Ok(Self { sender: member("sender", Role::Node)?, receiver: member("receiver", Role::SuperNode)? })
    }
}

/// An end of a connection of ours.
pub(crate) struct OverlayEndpoint {
    runtime: Runtime,
    transport: roost_transport::Transport,
    events: Events,
    batch: Vec<Event>,
    pub(crate) frames: VecDeque<Bytes>,
    connection: Option<ConnectionId>,
    over: Option<String>,
    delivery: Delivery,
}

impl OverlayEndpoint {
    /// Opens the transport at addresses of this host.
    pub(crate) fn open(identity: &Arc<Identity>, listen: Endpoint) -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let packet_bytes = if listen.scheme == Scheme::Quic { QUIC_PACKET_BYTES } else { PACKET_BYTES };
        let config = Config {
            identity: Arc::clone(identity),
            policy: Policy::new(identity).map_err(io::Error::other)?,
            key_exchange: KeyExchange::default(),
            listen: vec![listen],
            admit: RoleSet::ALL,
            limits: Limits { packet_bytes, ..Limits::default() },
        };
        let (transport, events) = runtime.block_on(bind(config)).map_err(io::Error::other)?;
        let (batch, frames) = (Vec::with_capacity(BATCH), VecDeque::new());
        let (connection, over, delivery) = (None, None, Delivery::default());
        Ok(Self { runtime, transport, events, batch, frames, connection, over, delivery })
    }

    fn open_for(transport: BenchTransport, identity: &Arc<Identity>, hosts: &[Ipv4Addr]) -> io::Result<Self> {
        let hosts = hosts.iter().map(ToString::to_string).collect();
        let listen = Endpoint { scheme: scheme(transport), hosts, port: PORT, congestion: None };
        let mut end = Self::open(identity, listen)?;
        if transport == BenchTransport::QuicDuplicate {
            end.delivery.class = DeliveryClass::Duplicate;
        }
        Ok(end)
    }

    /// Listens; `ready` is called once the other end may dial.
    pub(super) fn accept(
        transport: BenchTransport,
        identity: &Arc<Identity>,
        hosts: &[Ipv4Addr],
        ready: impl FnOnce(),
    ) -> io::Result<Self> {
        let mut end = Self::open_for(transport, identity, hosts)?;
        ready();
        end.await_connection()?;
        Ok(end)
    }

    pub(super) fn dial(
        transport: BenchTransport,
        identity: &Arc<Identity>,
        hosts: &[Ipv4Addr],
        remote: &[Ipv4Addr],
    ) -> io::Result<Self> {
        let mut end = Self::open_for(transport, identity, hosts)?;
        let hosts = remote.iter().map(|host| IpAddr::V4(*host)).collect();
        let address = Address { scheme: scheme(transport), port: PORT, hosts };
        end.start_dial(address);
        let connection = end.await_connection()?;
        let due = Instant::now() + PATIENCE;
        let has_all =
            |end: &Self| end.transport.connection(connection).is_some_and(|info| info.paths.len() >= remote.len());
        while scheme(transport) == Scheme::Quic && !has_all(&end) {
            if Instant::now() > due {
                return Err(io::Error::other("not all paths came up"));
            }
            end.take_events(Instant::now() + NO_ROOM)?;
        }
        Ok(end)
    }

    /// Begins to connect; a failure shows when events are taken.
    pub(crate) fn start_dial(&mut self, address: Address) {
        self.over = None;
        self.runtime.block_on(async { self.transport.dial(DialId(1), vec![address], RoleSet::ALL, None) });
    }

    pub(crate) const fn is_connected(&self) -> bool {
        self.connection.is_some()
    }

    /// Sends a frame; false if there is no room for it.
    pub(crate) fn try_send(&self, frame: &Bytes) -> io::Result<bool> {
        let connection = self.connection.ok_or(io::ErrorKind::NotConnected)?;
        match self.transport.send_as(connection, CHANNEL, &self.delivery, frame.clone()) {
            Ok(()) => Ok(true),
            Err(SendError::Full(_)) => Ok(false),
            Err(error) => Err(io::Error::other(error)),
        }
    }

    fn await_connection(&mut self) -> io::Result<ConnectionId> {
        let due = Instant::now() + PATIENCE;
        loop {
            if let Some(connection) = self.connection {
                return Ok(connection);
            }
            if Instant::now() > due {
                return Err(io::Error::other("no connection came up"));
            }
            self.take_events(due)?;
        }
    }

    /// Waits for events until then, while the transport works.
    pub(crate) fn take_events(&mut self, until: Instant) -> io::Result<()> {
        if let Some(reason) = &self.over {
            return Err(io::Error::other(reason.clone()));
        }
        let Self { runtime, events, batch, .. } = self;
        // Events that come later are returned by the next call.
        let _ = runtime.block_on(async { timeout_at(until.into(), events.recv_many(batch, BATCH)).await });
        self.sort_events();
        Ok(())
    }

    fn sort_events(&mut self) {
        for event in self.batch.drain(..) {
            match event {
                Event::Up { connection, .. } => self.connection = Some(connection),
                Event::Message { message, .. } => self.frames.push_back(message),
                // Frames before it are still to be read.
                Event::Down { reason, .. } | Event::DialFailed { reason, .. } => self.over = Some(reason),
                Event::Moved { .. } | Event::Presence { .. } | Event::Multicast { .. } => {}
            }
        }
    }

    /// Closes the connection once the other end has everything.
    pub(super) fn finish(self) {
        let Self { runtime, transport, mut events, .. } = self;
        runtime.block_on(async {
            let mut rest = Vec::new();
            let drive = async {
                loop {
                    events.recv_many(&mut rest, BATCH).await;
                    rest.clear();
                }
            };
            tokio::select! {
                () = transport.shutdown(PATIENCE) => {}
                () = drive => {}
            }
        });
    }
}

const fn scheme(transport: BenchTransport) -> Scheme {
    match transport {
        BenchTransport::Udp => Scheme::Udp,
        BenchTransport::Tcp => Scheme::Tcp,
        _ => Scheme::Quic,
    }
}

impl FrameEndpoint for OverlayEndpoint {
    fn send(&mut self, frame: Bytes) -> io::Result<()> {
        while !self.try_send(&frame)? {
            self.take_events(Instant::now() + NO_ROOM)?;
        }
        self.transport.flush();
        Ok(())
    }

    fn receive(&mut self, until: Instant) -> io::Result<Option<Bytes>> {
        loop {
            let frame = self.frames.pop_front();
            if frame.is_some() || Instant::now() >= until {
                return Ok(frame);
            }
            self.take_events(until)?;
        }
    }

    fn wait(&mut self, until: Instant) -> io::Result<()> {
        let Self { runtime, events, batch, .. } = self;
        // A thread sleeps exactly; the runtime's timers count whole milliseconds, which would be a tenth of a
        // period.
        let mut sleep = runtime.spawn_blocking(move || {
            thread::sleep(until.saturating_duration_since(Instant::now()));
        });
        runtime.block_on(async {
            loop {
                tokio::select! {
                    slept = &mut sleep => return slept.map_err(io::Error::other),
                    _ = events.recv_many(batch, BATCH) => {}
                }
            }
        })?;
        self.sort_events();
        Ok(())
    }
}
