//! Datagrams on their way to the socket.

use std::io;
use std::net::{IpAddr, SocketAddr};

use quinn::udp::{Transmit, UdpSocketState};
use tokio::io::Interest;
use tokio::net::UdpSocket;

use crate::counters::Live;

/// The most bytes that wait for the socket. Beyond, datagrams are dropped.
const MAX_BYTES: usize = 4 << 20;
/// The most bytes in one call to the system.
const MAX_RUN_BYTES: usize = 60_000;

/// Where a datagram goes, and from which of our addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Route {
    pub(super) to: SocketAddr,
    pub(super) from: Option<IpAddr>,
}

/// Sealed datagrams, in order.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    bytes: Vec<u8>,
    datagrams: Vec<(Route, usize)>,
}

impl Outbox {
    /// Adds a datagram made of `parts`; answers whether there was room for it.
    pub(super) fn push(&mut self, route: Route, parts: &[&[u8]]) -> bool {
        let size: usize = parts.iter().map(|part| part.len()).sum();
        if self.bytes.len() + size > MAX_BYTES {
            return false;
        }
        parts.iter().for_each(|part| self.bytes.extend_from_slice(part));
        self.datagrams.push((route, size));
        true
    }

    pub(super) fn is_empty(&self) -> bool {
        self.datagrams.is_empty()
    }

    /// Hands over what the socket takes; what it does not take stays.
    pub(super) fn flush(&mut self, socket: &UdpSocket, io: &UdpSocketState, live: &Live) {
        let (mut sent, mut at) = (0, 0);
        while sent < self.datagrams.len() {
            let run = self.run_from(sent, io.max_gso_segments());
            let (route, size) = self.datagrams[sent];
            let transmit = Transmit {
                destination: route.to,
                ecn: None,
                contents: &self.bytes[at..at + run.bytes],
                segment_size: (run.count > 1).then_some(size),
                src_ip: route.from,
            };
            let result = socket.try_io(Interest::WRITABLE, || io.send(socket.into(), &transmit));
            if matches!(&result, Err(error) if error.kind() == io::ErrorKind::WouldBlock) {
                break;
            }
            Live::add(&live.bytes_sent, run.bytes as u64);
            Live::add(&live.datagrams_sent, run.count as u64);
            sent += run.count;
            at += run.bytes;
        }
        self.forget(sent, at);
    }

    fn forget(&mut self, sent: usize, bytes: usize) {
        if sent == self.datagrams.len() {
            self.bytes.clear();
            self.datagrams.clear();
        } else {
            self.bytes.drain(..bytes);
            self.datagrams.drain(..sent);
        }
    }

    /// The datagrams from `start` on that one call can carry: the same route
    /// and size, the last one possibly shorter.
    fn run_from(&self, start: usize, max_count: usize) -> Run {
        let (route, size) = self.datagrams[start];
        let mut run = Run { count: 1, bytes: size };
        for (next, length) in &self.datagrams[start + 1..] {
            let fits = run.count < max_count && run.bytes + length <= MAX_RUN_BYTES;
            if *next != route || *length > size || !fits {
                break;
            }
            run.count += 1;
            run.bytes += length;
            if *length < size {
                break;
            }
        }
        run
    }
}

struct Run {
    count: usize,
    bytes: usize,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn route(port: u16) -> Route {
        Route { to: SocketAddr::from(([127, 0, 0, 1], port)), from: None }
    }

    #[test]
    fn a_run_ends_at_another_route_or_after_a_shorter_datagram() {
        let mut outbox = Outbox::default();
        for (port, size) in [(1, 10), (1, 10), (1, 4), (1, 10), (2, 10), (2, 11)] {
            assert!(outbox.push(route(port), &[&vec![0; size]]));
        }
        let count = |start, max| outbox.run_from(start, max).count;
        assert_eq!([count(0, 64), count(0, 2), count(3, 64), count(4, 64), count(5, 64)], [3, 2, 1, 1, 1]);
    }

    #[test]
    fn a_full_outbox_takes_nothing() {
        let mut outbox = Outbox::default();
        assert!(outbox.push(route(1), &[&vec![0; MAX_BYTES]]));
        assert!(!outbox.push(route(1), &[b"x"]));
    }
}
