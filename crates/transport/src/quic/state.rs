//! The state of a QUIC connection: its multipath state machine, and a QUIC connection for each path.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use bytes::Bytes;
use quinn::Connection;
use roost_wire::{Channel, Delivery, Scheme};
use tokio::sync::mpsc;

use super::address_update::{PathName, path_name};
use super::path::PathCommand;
use super::probing::Probing;
use crate::connection::PathInfo;
use crate::known_remotes::{KnownRemote, WireId};
use crate::multipath::{Action, CopyId, MAX_PATHS, Message, MultipathConnection, PathId, PathMetrics, PathView};

/// The least lifetime of a datagram. With several paths a late datagram is repeated, unlike QUIC's own.
const DATAGRAM_LIFE: Duration = Duration::from_millis(500);
/// Bytes of QUIC's own datagrams that may wait before further ones go through the queue instead.
pub(super) const DIRECT_AHEAD: usize = 4 << 10;

/// The parts of a connection that its tasks share.
pub(super) struct State {
    pub(super) multipath: MultipathConnection,
    pub(super) paths: BTreeMap<PathId, QuicPath>,
    next_path: u32,
    /// The deadline for which the connection's task is waiting.
    pub(super) armed: Option<Instant>,
    pub(super) farewell: Option<String>,
    /// Bytes of the QUIC connections that have ended.
    past: PathTraffic,
}

#[derive(Clone, Copy)]
pub(super) struct LocalEnd {
    /// Our address, if we dialed from one in particular.
    pub(super) from: Option<IpAddr>,
    /// The position of our address among those on which we listen, or else of the remote's address among its own. The
    /// lowest is preferred for the class `Backup`.
    pub(super) rank: u8,
    /// The address and id by which the remote knows the QUIC connection, if it dialed us.
    pub(super) incoming: Option<IncomingId>,
}

/// The address of the socket that a remote dialed, and the first id of the QUIC connection there, under which the
/// remote sends all the time.
#[derive(Clone, Copy)]
pub(super) struct IncomingId {
    pub(super) at: SocketAddr,
    pub(super) wire_id: WireId,
}

pub(super) struct QuicPath {
    pub(super) quinn_connection: Connection,
    from: Option<IpAddr>,
    incoming: Option<IncomingId>,
    probing: Probing,
    commands: mpsc::UnboundedSender<PathCommand>,
    /// Free room for datagrams while none waits.
    idle_space: usize,
}

#[derive(Clone, Copy, Default)]
pub(super) struct PathTraffic {
    pub(super) sent: u64,
    pub(super) received: u64,
    pub(super) packets: u64,
    pub(super) lost: u64,
}

/// The round trip and window of a path. The room for probes is not part of the window.
fn measured(quinn_connection: &Connection, probing: &Probing) -> PathMetrics {
    let path = quinn_connection.stats().path;
    PathMetrics { rtt: path.rtt, window: path.cwnd.saturating_sub(probing.room()) }
}

/// The message to queue for a message of the application. Its sender cannot learn before a round trip that it has
/// arrived, so its lifetime grows by that.
pub(super) fn as_sent(channel: Channel, how: &Delivery, body: Bytes, now: Instant, rtt: Duration) -> Message {
    let life = how.lifetime.map(|life| life + rtt);
    let (flow, life) = match channel {
        Channel::Reliable { flow } => (Some(flow), life),
        Channel::Datagram => (None, life.or(Some(DATAGRAM_LIFE.max(4 * rtt)))),
    };
    Message { body, flow, class: how.class, priority: how.priority, deadline: life.map(|life| now + life) }
}

impl State {
    pub(super) fn new(queue_bytes: usize) -> Self {
        Self {
            multipath: MultipathConnection::new(queue_bytes),
            paths: BTreeMap::new(),
            next_path: 0,
            armed: None,
            farewell: None,
            past: PathTraffic::default(),
        }
    }

    /// Adds a QUIC connection as another path. `None` if there are enough paths.
    pub(super) fn add_path(
        &mut self,
        now: Instant,
        quinn_connection: &Connection,
        probing: Probing,
        here: LocalEnd,
        orders: mpsc::UnboundedSender<PathCommand>,
    ) -> Option<PathId> {
        if self.paths.len() == MAX_PATHS {
            return None;
        }
        let id = PathId(self.next_path);
        self.next_path += 1;
        let (quinn_connection, idle_space) = (quinn_connection.clone(), quinn_connection.datagram_send_buffer_space());
        let measured = measured(&quinn_connection, &probing);
        self.paths.insert(
            id,
            QuicPath {
                quinn_connection,
                from: here.from,
                incoming: here.incoming,
                probing,
                commands: orders,
                idle_space,
            },
        );
        self.multipath.add_path(now, id, here.rank, measured);
        Some(id)
    }

    /// Removes a path whose QUIC connection is over. Returns true if it was the last.
    pub(super) fn remove_path(&mut self, now: Instant, id: PathId) -> bool {
        if let Some(path) = self.paths.remove(&id) {
            self.past = self.past.plus(&path.quinn_connection);
        }
        self.multipath.remove_path(now, id);
        self.paths.is_empty()
    }

    /// The paths that the remote dialed, for [`crate::Transport::known_remotes`].
    pub(super) fn known_remotes(&self) -> Vec<KnownRemote> {
        let known = self.paths.values().filter_map(|path| {
            let IncomingId { at, wire_id: name } = path.incoming?;
            let (from, to) = (path.quinn_connection.local_ip(), path.quinn_connection.remote_address());
            let from = from.filter(|_| at.ip().is_unspecified());
            Some(KnownRemote { scheme: Scheme::Quic, at, from, to, wire_id: name })
        });
        known.collect()
    }

    /// The paths at one of our addresses.
    pub(super) fn at(&self, ip: IpAddr) -> Vec<PathId> {
        let local =
            |path: &QuicPath| path.from.or_else(|| path.quinn_connection.local_ip()).map(|ip| ip.to_canonical());
        self.paths.iter().filter(|(_, path)| local(path) == Some(ip)).map(|(id, _)| *id).collect()
    }

    /// The path with this name, which is the same on both sides.
    pub(super) fn named(&self, name: PathName) -> Option<PathId> {
        self.paths.iter().find(|(_, path)| path_name(&path.quinn_connection) == Some(name)).map(|(id, _)| *id)
    }

    /// The QUIC connection on which a datagram may leave at once as one of QUIC's own: there is one path, and nothing
    /// waits. QUIC's datagrams keep no order with the connection's messages, have no priority and are never given up.
    pub(super) fn direct(&self) -> Option<&Connection> {
        let path = self.paths.values().next().filter(|_| self.paths.len() == 1)?;
        let ahead = path.idle_space.saturating_sub(path.quinn_connection.datagram_send_buffer_space());
        (ahead <= DIRECT_AHEAD && self.multipath.is_idle()).then_some(&path.quinn_connection)
    }

    /// The traffic of all QUIC connections of this connection so far.
    pub(super) fn traffic(&self) -> PathTraffic {
        self.paths.values().fold(self.past, |sum, path| sum.plus(&path.quinn_connection))
    }

    /// Notes that the remote has received all of a chunk.
    pub(super) fn acknowledged(&mut self, now: Instant, path: PathId, copy: CopyId) {
        if let Some(path) = self.paths.get(&path) {
            self.multipath.handle_acknowledgement(now, copy, measured(&path.quinn_connection, &path.probing));
        }
    }

    pub(super) fn carry_out(&self, action: Action) {
        let (path, order) = match action {
            Action::Transmit { path, copy, content, priority } => {
                (path, PathCommand::Transmit { copy, content, priority })
            }
            Action::Cancel { path, copy } => (path, PathCommand::Cancel(copy)),
            Action::Probe { path, on } => {
                return if let Some(path) = self.paths.get(&path) {
                    path.probing.set(on);
                };
            }
        };
        if let Some(path) = self.paths.get(&path) {
            // A receiver that is gone is about to lose its path.
            let _ = path.commands.send(order);
        }
    }

    /// True if messages are not acknowledged and still can be.
    pub(super) fn has_unsent(&self) -> bool {
        let has_datagrams = |path: &QuicPath| path.quinn_connection.datagram_send_buffer_space() < path.idle_space;
        !self.paths.is_empty() && (!self.multipath.is_idle() || self.paths.values().any(has_datagrams))
    }

    pub(super) fn longest_rtt(&self) -> Duration {
        self.multipath.paths().map(|path| path.measured.rtt).max().unwrap_or_default()
    }

    pub(super) fn describe(&self, view: &PathView) -> Option<PathInfo> {
        let path = self.paths.get(&view.path)?;
        let quinn_connection = &path.quinn_connection;
        let stats = quinn_connection.stats();
        Some(PathInfo {
            local: path.from.or_else(|| quinn_connection.local_ip()),
            remote: quinn_connection.remote_address(),
            answers: view.answers,
            rtt: view.measured.rtt,
            rate: view.rate,
            outstanding: view.outstanding as u64,
            bytes_sent: stats.udp_tx.bytes,
            bytes_received: stats.udp_rx.bytes,
            packets_sent: stats.path.sent_packets,
            retransmissions: stats.path.lost_packets,
            repeated: view.counts.repeated,
            losses: view.counts.losses,
        })
    }
}

impl PathTraffic {
    fn plus(self, quinn_connection: &Connection) -> Self {
        let stats = quinn_connection.stats();
        Self {
            sent: self.sent + stats.udp_tx.bytes,
            received: self.received + stats.udp_rx.bytes,
            packets: self.packets + stats.path.sent_packets,
            lost: self.lost + stats.path.lost_packets,
        }
    }
}
