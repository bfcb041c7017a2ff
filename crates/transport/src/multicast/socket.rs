//! Multicast sockets: how one is opened, and the task that reads it.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use socket2::{Domain, InterfaceIndexOrAddress, Protocol, Socket, Type};
use tokio::net::UdpSocket;

use super::interfaces::Interface;
use super::seal::{self, Fault, MAX_MULTICAST_BYTES, Opener};
use super::{LiveMulticastCounters, add, now};
use crate::event::{Event, EventQueue, EventSource};
use crate::transport::Context;

/// The pause before a socket that fails is read again.
const PAUSE: Duration = Duration::from_secs(1);

/// Opens a socket that is bound to the interface and has joined the group there.
pub(super) fn open(interface: &Interface, group: SocketAddr) -> io::Result<UdpSocket> {
    let socket = Socket::new(Domain::for_address(group), Type::DGRAM, Some(Protocol::UDP))?;
    socket.set_nonblocking(true)?;
    // Several daemons of one host may take part.
    socket.set_reuse_address(true)?;
    socket.bind_device(Some(interface.name.as_bytes()))?;
    let at = match group {
        SocketAddr::V4(v4) => {
            socket.join_multicast_v4_n(v4.ip(), &InterfaceIndexOrAddress::Index(interface.index))?;
            socket.set_multicast_ttl_v4(1)?;
            socket.set_multicast_loop_v4(true)?;
            group
        }
        SocketAddr::V6(mut v6) => {
            socket.set_only_v6(true)?;
            socket.join_multicast_v6(v6.ip(), interface.index)?;
            socket.set_multicast_hops_v6(1)?;
            socket.set_multicast_if_v6(interface.index)?;
            socket.set_multicast_loop_v6(true)?;
            v6.set_scope_id(interface.index);
            v6.into()
        }
    };
    socket.bind(&at.into())?;
    UdpSocket::from_std(socket.into())
}

pub(super) struct Reader {
    pub(super) socket: Arc<UdpSocket>,
    pub(super) opener: Arc<Mutex<Opener>>,
    pub(super) live: Arc<LiveMulticastCounters>,
    pub(super) context: Arc<Context>,
    pub(super) loopback: bool,
}

impl Reader {
    pub(super) async fn run(self) {
        let mut buffer = [0; MAX_MULTICAST_BYTES + seal::OVERHEAD + 1];
        loop {
            match self.socket.recv_from(&mut buffer).await {
                Ok((length, from)) => self.handle_packet(&mut buffer[..length], from.ip()),
                // An interface that goes down gives one error, and no packets after it.
                Err(error) => {
                    tracing::debug!(%error, "multicast was not received");
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    }

    fn handle_packet(&self, packet: &mut [u8], from: IpAddr) {
        let length = packet.len();
        // A packet over the loopback may have any other address of this host.
        let from = if self.loopback { IpAddr::V4(Ipv4Addr::LOCALHOST) } else { from };
        let mut opener = self.opener.lock().unwrap_or_else(PoisonError::into_inner);
        let opened = opener.open(now(), packet).map(Bytes::copy_from_slice);
        hand_on(opened, length, from, &self.context.queue, &self.live);
    }
}

/// Delivers a packet's message to the event queue, and counts the packet once.
fn hand_on(
    opened: Result<Bytes, Fault>,
    length: usize,
    from: IpAddr,
    queue: &EventQueue,
    live: &LiveMulticastCounters,
) {
    let outcome = match opened {
        Ok(message) => {
            if queue.push_if_room(EventSource::Multicast, Event::Multicast { from, message }) {
                add(&live.received_bytes, length as u64);
                &live.received
            } else {
                &live.dropped
            }
        }
        Err(Fault::Own) => return,
        Err(Fault::Forged) => &live.forged,
        Err(Fault::Late) => &live.late,
        Err(Fault::Replayed) => &live.replayed,
        Err(Fault::OverUnknownLimit) => &live.over_unknown_limit,
        Err(Fault::OverSenderLimit) => &live.over_sender_limit,
    };
    add(outcome, 1);
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use super::*;

    #[test]
    fn each_packet_counts_one_outcome() {
        let (queue, live) = (EventQueue::new(1), LiveMulticastCounters::default());
        let (length, from) = (80, IpAddr::V4(Ipv4Addr::LOCALHOST));
        for opened in
            [Ok(()), Ok(()), Ok(()), Err(Fault::OverUnknownLimit), Err(Fault::OverSenderLimit), Err(Fault::Own)]
        {
            hand_on(opened.map(|()| Bytes::from_static(b"hello")), length, from, &queue, &live);
        }
        let counts =
            [&live.received, &live.dropped, &live.over_unknown_limit, &live.over_sender_limit, &live.received_bytes];
        assert_eq!(counts.map(|count| count.load(Ordering::Relaxed)), [1, 2, 1, 1, 80]);
    }
}
