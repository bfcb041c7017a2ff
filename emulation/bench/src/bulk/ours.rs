//! An endless object by `quic://`, in reliable messages of one flow.

use std::io;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use roost_identity::{Identity, Policy};
use roost_transport::{Config, Event, Events, Limits, SendError, Transport, bind};
use roost_wire::{Address, Channel, Congestion, ConnectionId, DialId, Endpoint, RoleSet, Scheme};
use tokio::runtime::Runtime;

use super::BulkFlow;
use super::arrivals::ByteArrivals;

/// In bytes.
const MESSAGE: usize = 60_000;
/// The largest packet on plain Ethernet, inside IPv6 and UDP.
const PACKET_BYTES: usize = 1452;
/// The interval at which a full sender checks for room.
const NO_ROOM: Duration = Duration::from_millis(1);
const BATCH: usize = 64;

struct BulkEndpoint {
    transport: Transport,
    events: Events,
    batch: Vec<Event>,
}

fn runtime() -> io::Result<Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()
}

impl BulkEndpoint {
    async fn open(identity: &Arc<Identity>, at: Ipv4Addr, port: u16, congestion: Congestion) -> io::Result<Self> {
        let hosts = vec![at.to_string()];
        let config = Config {
            identity: Arc::clone(identity),
            policy: Policy::new(identity).map_err(io::Error::other)?,
            listen: vec![Endpoint { scheme: Scheme::Quic, hosts, port, congestion: Some(congestion) }],
            admit: RoleSet::ALL,
            limits: Limits { packet_bytes: PACKET_BYTES, ..Limits::default() },
        };
        let (transport, events) = bind(config).await.map_err(io::Error::other)?;
        Ok(Self { transport, events, batch: Vec::new() })
    }

    /// Waits for events, for at most `wait`.
    async fn events(&mut self, wait: Duration) -> std::vec::Drain<'_, Event> {
        // Events that come later are returned by the next call.
        let _ = tokio::time::timeout(wait, self.events.recv_many(&mut self.batch, BATCH)).await;
        self.batch.drain(..)
    }
}

pub(super) fn send(
    flow: &BulkFlow<'_>,
    identity: &Arc<Identity>,
    (from, to): (Ipv4Addr, Ipv4Addr),
    congestion: Congestion,
) -> io::Result<()> {
    runtime()?.block_on(async {
        let mut end = BulkEndpoint::open(identity, from, flow.port, congestion).await?;
        let mut connection = None;
        let message = Bytes::from(vec![7; MESSAGE]);
        let mut dialled = None;
        while !flow.is_over() {
            if connection.is_none() && dialled.is_none_or(|at: Instant| at.elapsed() > Duration::from_secs(2)) {
                let address = Address { scheme: Scheme::Quic, port: flow.port, hosts: vec![to.into()] };
                end.transport.dial(DialId(1), vec![address], RoleSet::ALL, None);
                dialled = Some(Instant::now());
            }
            for event in end.events(NO_ROOM).await {
                match event {
                    Event::Up { connection: up, .. } => connection = Some(up),
                    Event::Down { reason, .. } => return Err(io::Error::other(reason)),
                    // The receiver does not listen yet.
                    Event::DialFailed { .. } => dialled = None,
                    Event::Message { .. } | Event::Multicast { .. } | Event::Moved { .. } | Event::Presence { .. } => {}
                }
            }
            while let Some(connection) = connection
                && has_room(&end.transport, connection, &message)?
            {}
        }
        Ok(())
    })
}

/// Sends a message if there is room for it.
fn has_room(transport: &Transport, connection: ConnectionId, message: &Bytes) -> io::Result<bool> {
    match transport.send(connection, Channel::Reliable { flow: 1 }, message.clone()) {
        Ok(()) => Ok(true),
        Err(SendError::Full(_)) => Ok(false),
        Err(error) => Err(io::Error::other(error)),
    }
}

pub(super) fn receive(
    flow: &BulkFlow<'_>,
    identity: &Arc<Identity>,
    at: Ipv4Addr,
    congestion: Congestion,
    arrivals: &ByteArrivals,
) -> io::Result<()> {
    runtime()?.block_on(async {
        let mut end = BulkEndpoint::open(identity, at, flow.port, congestion).await?;
        let mut bytes = 0;
        while !flow.is_over() {
            for event in end.events(super::LOOK).await {
                match event {
                    Event::Message { message, .. } => bytes += message.len() as u64,
                    Event::Down { reason, .. } if !flow.is_over() => return Err(io::Error::other(reason)),
                    _ => {}
                }
            }
            arrivals.record_bytes(bytes);
        }
        Ok(())
    })
}
