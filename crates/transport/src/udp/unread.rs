//! Datagrams that have been read from the socket and not handled yet. Each node has a lane of its own, and strangers
//! share some, so that a flood delays only its sender.

use std::hash::{BuildHasher, RandomState};
use std::net::{IpAddr, SocketAddr};

use quinn::udp::RecvMeta;
use roost_wire::NodeId;

use super::SEAL_BYTES;
use super::entry::{DtlsPhase, Entry};
use super::hello::{self, COOKIE, DatagramKind, UdpSessionId};
use super::table::EndpointTurn;
use crate::config::MAX_PACKET;
use crate::counters::LiveSchemeCounters;
use crate::fair_queue::FairQueue;
use crate::handshake_limiter::network_of;

/// Buffers for one call to the system.
pub(super) const BATCH: usize = 16;
/// The size of each buffer: the most that the system may merge into one.
pub(super) const BUFFER: usize = 64 * 1024;
/// Calls to the system in one turn. Reading costs a tenth of handling, so the socket is emptied first: if its buffer
/// overflowed, datagrams of every sender would be lost.
const BATCHES: usize = 16;
/// Datagrams that are handled in one turn if more have arrived.
const WORKED_OFF: usize = 64;
/// Datagrams that are handled at once if there are no others.
const FEW: usize = 16;
/// Bytes of waiting datagrams: as many as the system is asked to keep.
const UNREAD_BYTES: usize = 4 << 20;
/// Bytes that a waiting datagram counts besides its content.
const UNREAD_COST: usize = 128;
/// The longest datagram that any session sends, with the bytes before it. A longer one would only cause vain decryption
/// of each of its records.
const LONGEST: usize = 8192;
const _: () = assert!(LONGEST >= MAX_PACKET + SEAL_BYTES + 1 + size_of::<UdpSessionId>() + COOKIE);
/// The lanes that strangers share, by a hash of their networks that no other host can compute.
const STRANGERS: u64 = 16;

/// The sender of a datagram, as far as its address shows.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum DatagramSource {
    Node(NodeId),
    /// An address at which a session ends, or at which there is a handshake that a forger of the address could not have
    /// begun.
    Address(SocketAddr),
    /// A group of networks of strangers, whose addresses may be forged.
    Strangers(u64),
}

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
            // The system provides memory only for pages that were used.
            buffers: vec![0; BATCH * BUFFER],
        }
    }

    /// Adds a datagram to its sender's lane; false if too many wait there.
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

    /// Moves the waiting datagrams of an address to the lane of its node, which is known now. Later ones come after
    /// them.
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
    /// Empties the socket and handles the datagrams, or as many as one turn takes. Returns true if there may be more.
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

    /// Sorts datagrams into the lanes. If there are only a few, they are handled at once.
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

    /// Queues a datagram in the lane of its sender.
    fn keep(&mut self, bytes: &[u8], from: SocketAddr, to: Option<IpAddr>) {
        let Some(sender) = self.sender(bytes, from) else {
            return LiveSchemeCounters::add(&self.endpoint.live.malformed, 1);
        };
        if !self.table.unread.push(sender, Datagram { bytes: bytes.into(), from, to }) {
            LiveSchemeCounters::add(&self.endpoint.live.dropped, 1);
        }
    }

    /// The sender of a datagram; `None` if it is noise.
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
