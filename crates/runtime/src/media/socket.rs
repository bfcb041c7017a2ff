//! Datagrams in batches, for machines that send to many at once.
//!
//! The system hands over several datagrams at once, those of one sender and size glued together (`UDP_GRO`), and takes
//! a run of packets for a target as one message, which it, or the network card, cuts (`UDP_SEGMENT`). Fan-out is fast
//! because most of the time goes into the way through the system, once for each message. One call for many messages
//! (`sendmmsg`) saves 3 % beside that.

use std::io::{self, IoSliceMut};
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};

use quinn_udp::{BATCH_SIZE, RecvMeta, Transmit as Message, UdpSocketState};
use roost_reflection::{DatagramPath, SendOutcome, Transmit};

/// Room for an IP packet, into which the system glues datagrams. Two KiB more set the slots' first packets apart in a
/// processor's caches, which hold few that are 64 KiB from each other.
const SLOT_BYTES: usize = (64 + 2) * 1024;
/// A batch is sent on after this many packets, before more are received. The last target then waits for less than a
/// millisecond, as each message takes about 10 µs.
const BATCH_PACKETS: usize = 64;
/// The buffer asked of the system for each direction. It grants what it allows; less costs losses under load.
const SOCKET_BUFFER_BYTES: usize = 4 << 20;

/// `EIO`, `EINVAL` and `EMSGSIZE`, with which the system refuses to cut runs: the device computes no checksums, or a
/// packet does not fit it.
const REFUSALS: [i32; 3] = [5, 22, 90];

/// A socket that does not block.
pub struct Socket {
    socket: UdpSocket,
    io: UdpSocketState,
    slots: [Box<[u8]>; BATCH_SIZE],
    metas: [RecvMeta; BATCH_SIZE],
    /// The slots that the next receipt offers, so that it brings about a batch.
    offered: usize,
    /// True while runs may leave as one message.
    offload: bool,
    /// True if the socket listens at all of the host's addresses, so that answers must name the address from which they
    /// leave.
    has_any: bool,
    is_v6: bool,
}

impl Socket {
    /// # Errors
    /// Fails if the address is in use or not this host's.
    pub fn bind(at: SocketAddr) -> io::Result<Self> {
        let socket = UdpSocket::bind(at)?;
        let io = UdpSocketState::new((&socket).into())?;
        // Smaller buffers only cost losses, see [`SOCKET_BUFFER_BYTES`].
        let _ = io.set_recv_buffer_size((&socket).into(), SOCKET_BUFFER_BYTES);
        let _ = io.set_send_buffer_size((&socket).into(), SOCKET_BUFFER_BYTES);
        let slots = std::array::from_fn(|_| vec![0; SLOT_BYTES].into_boxed_slice());
        let metas = [RecvMeta::default(); BATCH_SIZE];
        let offload = io.max_gso_segments() > 1;
        let (has_any, is_v6) = (at.ip().is_unspecified(), at.is_ipv6());
        Ok(Self { socket, io, slots, metas, offered: BATCH_SIZE, offload, has_any, is_v6 })
    }

    /// Lets each packet leave by itself.
    pub fn without_offload(self) -> Self {
        Self { offload: false, ..self }
    }

    /// The bound address.
    ///
    /// # Errors
    /// Fails if the system does not tell it.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// Hands the received datagrams to `take`, about a batch of them, and returns their number.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] if there is none; others as `recvmmsg(2)`.
    pub fn receive(&mut self, mut take: impl FnMut(DatagramPath, &[u8])) -> io::Result<usize> {
        let mut received = 0;
        while received < BATCH_PACKETS {
            let mut buffers = self.slots.each_mut().map(|slot| IoSliceMut::new(slot));
            let buffers = &mut buffers[..self.offered];
            let messages = match self.io.recv((&self.socket).into(), buffers, &mut self.metas) {
                Ok(messages) => messages,
                Err(_) if received > 0 => break,
                Err(error) => return Err(error),
            };
            let mut packets = 0;
            for (slot, meta) in self.slots.iter().zip(&self.metas[..messages]) {
                // An empty datagram counts as well: a sender of many must not keep this loop going.
                let local = meta.dst_ip.filter(|_| self.has_any).map(|ip| ip.to_canonical());
                let path = DatagramPath { local, ..DatagramPath::from(meta.addr) };
                let rest = slot[..meta.len].chunks(meta.stride.max(1));
                for datagram in rest.chain((meta.len == 0).then_some(&[][..])) {
                    take(path, datagram);
                    packets += 1;
                }
            }
            received += packets;
            let is_all = messages < self.offered;
            self.offered = (BATCH_PACKETS * messages / packets.max(1)).clamp(1, BATCH_SIZE);
            if is_all {
                break;
            }
        }
        Ok(received)
    }

    /// Sends packets to a target, as one message if both the system and the path allow. A target that fails does not
    /// affect another.
    pub fn send(&self, transmit: &Transmit) -> SendOutcome {
        let Transmit { to, from, contents, segment, offload, .. } = transmit;
        let path = DatagramPath { remote: *to, local: *from };
        let packets = contents.len().div_ceil((*segment).max(1)) as u32;
        let mut outcome = SendOutcome::default();
        if packets > 1 && *offload && self.offload {
            match self.hand_over(path, contents, Some(*segment)) {
                Ok(()) => return SendOutcome { sent: packets, ..outcome },
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return SendOutcome { is_full: true, ..outcome };
                }
                Err(error) => {
                    outcome.refuses_offload = error.raw_os_error().is_some_and(|code| REFUSALS.contains(&code));
                }
            }
        }
        for packet in contents.chunks((*segment).max(1)) {
            match self.hand_over(path, packet, None) {
                Ok(()) => outcome.sent += 1,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    outcome.is_full = true;
                    break;
                }
                Err(_) => outcome.failed += 1,
            }
        }
        outcome
    }

    fn hand_over(&self, path: DatagramPath, contents: &[u8], segment_size: Option<usize>) -> io::Result<()> {
        let destination = match path.remote {
            SocketAddr::V4(v4) if self.is_v6 => SocketAddr::new(v4.ip().to_ipv6_mapped().into(), v4.port()),
            remote => remote,
        };
        let src_ip = path.local.filter(|_| self.has_any);
        let message = Message { destination, ecn: None, contents, segment_size, src_ip };
        self.io.try_send((&self.socket).into(), &message)
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use roost_reflection::{Fanout, FanoutConfig, StartPoint, TargetOptions};
    use roost_wire::Time;
    use roost_wire::reflection::StreamId;
    use std::time::Duration;

    const LOOPBACK: ([u8; 4], u16) = ([127, 0, 0, 1], 0);

    fn receiver() -> (UdpSocket, SocketAddr) {
        let socket = UdpSocket::bind(SocketAddr::from(LOOPBACK)).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let address = socket.local_addr().unwrap();
        (socket, address)
    }

    /// Sends what came in one batch to two receivers, and returns what they got.
    fn reflect(datagrams: &[Vec<u8>], offload: bool) -> [Vec<Vec<u8>>; 2] {
        let mut socket = Socket::bind(LOOPBACK.into()).unwrap();
        socket.offload &= offload;
        let receivers = [receiver(), receiver()];
        let mut fan = Fanout::new(StreamId(1), FanoutConfig::default());
        for (_, address) in &receivers {
            fan.add_target(Time::ZERO, *address, TargetOptions::SUBSCRIBER, StartPoint::KeyFrame).unwrap();
        }
        let (sender, _) = receiver();
        for datagram in datagrams {
            sender.send_to(datagram, socket.local_addr().unwrap()).unwrap();
        }
        // On loopback what is sent is there.
        let mut received = 0;
        while received < datagrams.len() {
            received += socket.receive(|from, datagram| fan.push_opaque(Time::ZERO, from.remote, datagram)).unwrap();
        }
        fan.close(Time::ZERO);
        while let Some(transmit) = fan.poll_transmit(Time::ZERO) {
            let outcome = socket.send(&transmit);
            assert_eq!((outcome.failed, outcome.is_full), (0, false));
            fan.record_outcome(Time::ZERO, &transmit, outcome);
        }
        receivers.map(|(receiver, _)| {
            let mut buffer = [0; 2000];
            let mut next = || receiver.recv(&mut buffer).map(|length| buffer[..length].to_vec()).unwrap();
            datagrams.iter().map(|_| next()).collect()
        })
    }

    #[test]
    fn targets_get_datagrams_intact_in_order() {
        let sizes = [1440; 70].into_iter().chain([200, 200, 1, 1440, 1472]);
        let datagrams: Vec<Vec<u8>> = sizes.enumerate().map(|(number, size)| vec![number as u8; size]).collect();
        for offload in [true, false] {
            for seen in reflect(&datagrams, offload) {
                assert!(seen == datagrams, "with offload: {offload}");
            }
        }
    }

    #[test]
    fn empty_datagrams_count_in_batch() {
        let mut socket = Socket::bind(LOOPBACK.into()).unwrap();
        let (sender, _) = receiver();
        for _ in 0..BATCH_PACKETS + 8 {
            sender.send_to(&[], socket.local_addr().unwrap()).unwrap();
        }
        let mut taken = 0;
        let received = socket.receive(|_, datagram| taken += usize::from(datagram.is_empty())).unwrap();
        assert!(received == taken && (BATCH_PACKETS..BATCH_PACKETS + BATCH_SIZE).contains(&received), "{received}");
    }

    #[test]
    fn unreachable_target_harms_no_other() {
        let mut fan = Fanout::new(StreamId(1), FanoutConfig::default());
        let (good, address) = receiver();
        // Nothing goes to port 0.
        let bad = SocketAddr::from(([127, 0, 0, 1], 0));
        let targets = [bad, address]
            .map(|target| fan.add_target(Time::ZERO, target, TargetOptions::SUBSCRIBER, StartPoint::KeyFrame).unwrap());
        (0..10).for_each(|number| fan.push_opaque(Time::ZERO, address_of_nobody(), &[number; 100]));
        fan.close(Time::ZERO);
        let socket = Socket::bind(LOOPBACK.into()).unwrap();
        while let Some(transmit) = fan.poll_transmit(Time::ZERO) {
            fan.record_outcome(Time::ZERO, &transmit, socket.send(&transmit));
        }
        let mut buffer = [0; 200];
        for number in 0..10 {
            assert_eq!(good.recv(&mut buffer).unwrap(), 100);
            assert_eq!(buffer[0], number);
        }
        let statistics = targets.map(|target| fan.statistics(target).unwrap());
        assert_eq!(statistics.map(|had| (had.packets, had.failed)), [(0, 10), (10, 0)]);
    }

    #[test]
    fn refused_offload_sends_packet_by_packet() {
        let outcome = {
            let mut fan = Fanout::new(StreamId(1), FanoutConfig::default());
            let bad = SocketAddr::from(([127, 0, 0, 1], 0));
            fan.add_target(Time::ZERO, bad, TargetOptions::SUBSCRIBER, StartPoint::KeyFrame).unwrap();
            (0..2).for_each(|_| fan.push_opaque(Time::ZERO, address_of_nobody(), &[0; 100]));
            fan.close(Time::ZERO);
            let transmit = fan.poll_transmit(Time::ZERO).unwrap();
            Socket::bind(LOOPBACK.into()).unwrap().send(&transmit)
        };
        // EINVAL is what port 0 and a device without offload have in common.
        assert_eq!(outcome, SendOutcome { sent: 0, failed: 2, refuses_offload: true, is_full: false });
    }

    /// Takes in one datagram that a host sends to this address of the socket's, and answers it.
    fn answered(bind: &str, dial: [u8; 4]) -> (DatagramPath, SocketAddr, SocketAddr) {
        let mut socket = Socket::bind(bind.parse().unwrap()).unwrap();
        let dialled = SocketAddr::from((dial, socket.local_addr().unwrap().port()));
        let (sender, address) = receiver();
        sender.send_to(b"here", dialled).unwrap();
        let mut came = None;
        while came.is_none() {
            let _ = socket.receive(|path, _| came = Some(path));
        }
        let path = came.unwrap();
        let word = Transmit::control_packet(path.remote, StreamId(1), bytes::Bytes::from_static(b"yes"));
        let answer = word.leaving(path.local);
        assert_eq!(socket.send(&answer).sent, 1);
        let (_, from) = sender.recv_from(&mut [0; 10]).unwrap();
        assert_eq!(from, dialled, "{bind}: answered from where nobody called");
        (path, address, from)
    }

    #[test]
    fn answers_leave_where_was_dialled() {
        for bind in ["0.0.0.0:0", "[::]:0"] {
            for host in [1, 2] {
                let (path, remote, local) = answered(bind, [127, 0, 0, host]);
                assert_eq!(path, DatagramPath { remote, local: Some(local.ip()) }, "{bind}");
            }
        }
        let (path, remote, _) = answered("127.0.0.1:0", [127, 0, 0, 1]);
        assert_eq!(path, DatagramPath { remote, local: None });
    }

    fn address_of_nobody() -> SocketAddr {
        SocketAddr::from(([192, 0, 2, 1], 1))
    }
}
