//! What has been read from the socket and not yet worked off. Each node has a lane of its own, and strangers share
//! some, so that a flood delays nobody but its sender.

use std::hash::{BuildHasher, RandomState};
use std::net::{IpAddr, SocketAddr};

use quinn::udp::RecvMeta;
use roost_proto::NodeId;

use super::SEAL_BYTES;
use super::entry::{DtlsPhase, Entry};
use super::hello::{self, COOKIE, DatagramKind, SessionId};
use super::table::EndpointTurn;
use crate::config::MAX_PACKET;
use crate::counters::LiveSchemeCounters;
use crate::fair_queue::FairQueue;
use crate::handshake_limiter::network_of;

/// Buffers for one call to the system.
pub(super) const BATCH: usize = 16;
/// Size of each: what the system may merge into one.
pub(super) const BUFFER: usize = 64 * 1024;
/// Calls to the system in one turn. Reading costs a tenth of what it costs to work off what is read, so the socket is
/// emptied first: what overflows there is anybody's.
const BATCHES: usize = 16;
/// Datagrams that are worked off in one turn if more have come.
const WORKED_OFF: usize = 64;
/// Datagrams that are worked off at once if they are all there is.
const FEW: usize = 16;
/// Datagrams that wait, bytes: as many as the system is asked to keep.
const UNREAD_BYTES: usize = 4 << 20;
/// Bytes that a datagram takes while it waits, besides its own.
const UNREAD_COST: usize = 128;
/// The longest datagram that any session sends, with room for what is in front of it. A longer one would only have
/// each of its records decrypted in vain.
const LONGEST: usize = 8192;
const _: () = assert!(LONGEST >= MAX_PACKET + SEAL_BYTES + 1 + size_of::<SessionId>() + COOKIE);
/// Lanes that strangers share, by a hash of their networks that nobody else can compute.
const STRANGERS: u64 = 16;

/// The sender of a datagram, as far as its address tells.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum DatagramSource {
    Node(NodeId),
    /// A handshake is under way there that a forger of the address could not have begun, or a session ends.
    Address(SocketAddr),
    /// Networks of strangers, whose addresses may be forged.
    Strangers(u64),
}

/// A datagram that waits to be worked off.
struct Datagram {
    bytes: Box<[u8]>,
    from: SocketAddr,
    to: Option<IpAddr>,
}

/// The datagrams that wait, and room to read more.
pub(super) struct UnreadQueue {
    lanes: FairQueue<DatagramSource, Datagram>,
    hasher: RandomState,
    buffers: Vec<u8>,
}

impl UnreadQueue {
    pub(super) fn new() -> Self {
        Self {
            lanes: FairQueue::new(UNREAD_BYTES),
            hasher: RandomState::new(),
            // The system gives memory to what has been used only.
            buffers: vec![0; BATCH * BUFFER],
        }
    }

    /// Adds a datagram to its sender's lane; false if that has too many waiting.
    fn push(&mut self, sender: DatagramSource, datagram: Datagram) -> bool {
        let weight = datagram.bytes.len() + UNREAD_COST;
        let has_room = self.lanes.has_room(sender, weight);
        if has_room {
            self.lanes.push(sender, weight, datagram);
        }
        has_room
    }

    fn strangers(&self, from: SocketAddr) -> DatagramSource {
        DatagramSource::Strangers(self.hasher.hash_one(network_of(from.ip())) % STRANGERS)
    }

    /// The node at an address is known now: what it has sent before goes first in its lane.
    pub(super) fn promote(&mut self, at: SocketAddr, node: NodeId) {
        if self.lanes.is_empty() {
            return;
        }
        for lane in [self.strangers(at), DatagramSource::Address(at)] {
            for (weight, datagram) in self.lanes.extract(lane, |datagram| datagram.from == at) {
                self.lanes.push(DatagramSource::Node(node), weight, datagram);
            }
        }
    }
}

impl EndpointTurn<'_> {
    /// Empties the socket and works off what came, or as much as one turn takes; answers whether there may be more.
    pub(super) fn read(&mut self) -> bool {
        let mut buffers = std::mem::take(&mut self.table.unread.buffers);
        let mut more = true;
        for _ in 0..BATCHES {
            let mut meta = [RecvMeta::default(); BATCH];
            let received = self.endpoint.receive(&mut buffers, &mut meta);
            more = received == BATCH;
            self.sort(&buffers, &meta[..received], !more);
            if !more {
                break;
            }
        }
        self.table.unread.buffers = buffers;
        for _ in 0..WORKED_OFF {
            let Some(Datagram { bytes, from, to }) = self.table.unread.lanes.pop() else { break };
            self.handle(&bytes, from, to);
        }
        more || !self.table.unread.lanes.is_empty()
    }

    /// Puts what was read into the lanes. A few datagrams that are all there is are worked off at once.
    fn sort(&mut self, buffers: &[u8], meta: &[RecvMeta], is_all: bool) {
        let count: usize = meta.iter().map(|meta| meta.len.div_ceil(meta.stride.max(1))).sum();
        LiveSchemeCounters::add(&self.endpoint.live.datagrams_received, count as u64);
        LiveSchemeCounters::add(&self.endpoint.live.bytes_received, meta.iter().map(|meta| meta.len as u64).sum());
        let are_few = is_all && count <= FEW && self.table.unread.lanes.is_empty();
        for (buffer, meta) in buffers.chunks(BUFFER).zip(meta) {
            for datagram in buffer[..meta.len].chunks(meta.stride.max(1)) {
                if datagram.len() > LONGEST {
                    LiveSchemeCounters::add(&self.endpoint.live.malformed, 1);
                } else if are_few {
                    self.handle(datagram, meta.addr, meta.dst_ip);
                } else {
                    self.keep(datagram, meta.addr, meta.dst_ip);
                }
            }
        }
    }

    /// Keeps a datagram until it is its sender's turn.
    fn keep(&mut self, bytes: &[u8], from: SocketAddr, to: Option<IpAddr>) {
        let Some(sender) = self.sender(bytes, from) else {
            return LiveSchemeCounters::add(&self.endpoint.live.malformed, 1);
        };
        if !self.table.unread.push(sender, Datagram { bytes: bytes.into(), from, to }) {
            LiveSchemeCounters::add(&self.endpoint.live.dropped, 1);
        }
    }

    /// The sender of a datagram, or none if it is noise.
    fn sender(&mut self, datagram: &[u8], from: SocketAddr) -> Option<DatagramSource> {
        let known = self.table.established.get(&from).copied();
        let session = match hello::classify(datagram) {
            DatagramKind::Noise => return None,
            DatagramKind::Moved { id, .. } => known.or_else(|| self.table.ids.get(&id).copied()),
            _ => known,
        };
        if let Some(slot) = session {
            let node = self.entry(slot).and_then(|entry| entry.node());
            return Some(node.map_or(DatagramSource::Address(from), DatagramSource::Node));
        }
        let handshake = self.table.handshaking.get(&from).copied();
        let is_begun = |entry: &mut Entry| matches!(&entry.phase, DtlsPhase::Handshake(it) if !it.is_doubtful());
        let is_known = handshake.and_then(|slot| self.entry(slot)).is_some_and(is_begun);
        Some(if is_known { DatagramSource::Address(from) } else { self.table.unread.strangers(from) })
    }
}
