use std::io;
use std::net::{IpAddr, SocketAddr};

use quinn::udp::{Transmit, UdpSocketState};
use tokio::io::Interest;
use tokio::net::UdpSocket;

use crate::counters::LiveSchemeCounters;

/// The most bytes that wait for the socket. Datagrams beyond it are dropped.
const MAX_BYTES: usize = 4 << 20;
/// The most refusals of the system that are kept for the dials that they concern.
const MAX_REFUSED: usize = 64;
/// The most records in one datagram. The DTLS library reads sixteen.
const MAX_RECORDS: u8 = 8;
/// The most bytes in one call to the system.
const MAX_RUN_BYTES: usize = 60_000;

/// The destination of a datagram, and our address from which it is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Route {
    pub(super) to: SocketAddr,
    pub(super) from: Option<IpAddr>,
}

/// Sealed datagrams that wait for the socket, in order.
#[derive(Debug, Default)]
pub(super) struct DatagramQueue {
    bytes: Vec<u8>,
    datagrams: Vec<(Route, usize)>,
    /// The number of records in the last datagram, if more may follow; 0 otherwise.
    records: u8,
    /// The datagrams that the system has refused since the last [`Self::take_refused`].
    refused: Vec<Refused>,
}

/// A datagram that the system did not send.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Refused {
    pub(super) to: SocketAddr,
    /// The system's error: the datagram is too large for the interface, there is no route, or a firewall forbids it.
    pub(super) why: String,
}

impl DatagramQueue {
    /// Adds a datagram made of `parts`. Returns false if there is no room for it.
    pub(super) fn push(&mut self, route: Route, parts: &[&[u8]]) -> bool {
        let size: usize = parts.iter().map(|part| part.len()).sum();
        if self.bytes.len() + size > MAX_BYTES {
            return false;
        }
        parts.iter().for_each(|part| self.bytes.extend_from_slice(part));
        self.datagrams.push((route, size));
        self.records = 0;
        true
    }

    /// Adds a sealed record. It shares the last datagram if that has the same route and both together are no longer
    /// than `most`. A receiver can split them, since a record carries its length.
    pub(super) fn pack(&mut self, route: Route, record: &[u8], most: usize) -> bool {
        let is_open = (1..MAX_RECORDS).contains(&self.records) && self.bytes.len() + record.len() <= MAX_BYTES;
        let fits = |(last, size): &&mut (Route, usize)| is_open && *last == route && *size + record.len() <= most;
        if let Some((_, size)) = self.datagrams.last_mut().filter(fits) {
            *size += record.len();
            self.bytes.extend_from_slice(record);
            self.records += 1;
            return true;
        }
        let had_room = self.push(route, &[record]);
        self.records = u8::from(had_room);
        had_room
    }

    pub(super) fn is_empty(&self) -> bool {
        self.datagrams.is_empty()
    }

    /// Hands datagrams to the socket. Those that it does not accept stay in the queue.
    pub(super) fn flush(&mut self, socket: &UdpSocket, io: &UdpSocketState, live: &LiveSchemeCounters) {
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
            match socket.try_io(Interest::WRITABLE, || io.try_send(socket.into(), &transmit)) {
                Ok(()) => {
                    LiveSchemeCounters::add(&live.bytes_sent, run.bytes as u64);
                    LiveSchemeCounters::add(&live.datagrams_sent, run.count as u64);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => {
                    LiveSchemeCounters::add(&live.dropped, run.count as u64);
                    self.note_refused(route.to, size, &error);
                }
            }
            sent += run.count;
            at += run.bytes;
        }
        self.forget(sent, at);
    }

    fn note_refused(&mut self, to: SocketAddr, size: usize, error: &io::Error) {
        tracing::debug!(%to, size, %error, "the system did not send a datagram");
        if self.refused.len() < MAX_REFUSED {
            self.refused.push(Refused { to, why: format!("the system did not send {size} bytes: {error}") });
        }
    }

    pub(super) fn take_refused(&mut self) -> Vec<Refused> {
        std::mem::take(&mut self.refused)
    }

    fn forget(&mut self, sent: usize, bytes: usize) {
        if sent == self.datagrams.len() {
            self.bytes.clear();
            self.datagrams.clear();
            self.records = 0;
        } else {
            self.bytes.drain(..bytes);
            self.datagrams.drain(..sent);
        }
    }

    /// The datagrams from `start` on that one call can carry: of the same route and size, the last one possibly
    /// shorter.
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
    fn run_has_one_route_and_size() {
        let mut outbox = DatagramQueue::default();
        for (port, size) in [(1, 10), (1, 10), (1, 4), (1, 10), (2, 10), (2, 11)] {
            assert!(outbox.push(route(port), &[&vec![0; size]]));
        }
        let count = |start, max| outbox.run_from(start, max).count;
        assert_eq!([count(0, 64), count(0, 2), count(3, 64), count(4, 64), count(5, 64)], [3, 2, 1, 1, 1]);
    }

    #[tokio::test]
    async fn send_failures_are_counted_and_reported() {
        let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let (io, live) = (UdpSocketState::new((&socket).into()).unwrap(), LiveSchemeCounters::default());
        let mut outbox = DatagramQueue::default();
        let to = Route { to: socket.local_addr().unwrap(), from: None };
        // No datagram of IPv4 is that long.
        assert!(outbox.push(to, &[&[0; 65_530]]) && outbox.push(to, &[b"short"]));
        socket.writable().await.unwrap();
        outbox.flush(&socket, &io, &live);
        let counted = live.snapshot();
        assert_eq!((counted.dropped, counted.datagrams_sent, counted.bytes_sent), (1, 1, 5));
        let refused = outbox.take_refused();
        assert_eq!((refused.len(), refused[0].to), (1, to.to));
        assert!(refused[0].why.contains("Message too long"), "{}", refused[0].why);
        assert!(outbox.is_empty() && outbox.take_refused().is_empty());
    }

    #[test]
    fn records_for_one_host_are_packed() {
        let mut outbox = DatagramQueue::default();
        let sizes = |outbox: &DatagramQueue| outbox.datagrams.iter().map(|(_, size)| *size).collect::<Vec<_>>();
        for (port, size) in [(1, 40), (1, 30), (2, 10), (1, 10), (1, 80), (1, 20)] {
            assert!(outbox.pack(route(port), &vec![7; size], 100));
        }
        assert_eq!((sizes(&outbox), outbox.bytes.len()), (vec![70, 10, 90, 20], 190));
        assert!(outbox.push(route(1), &[&[7; 5]]) && outbox.pack(route(1), &[7; 5], 100));
        assert_eq!(sizes(&outbox)[4..], [5, 5], "nothing follows what is no record");
        for _ in 0..MAX_RECORDS {
            assert!(outbox.pack(route(1), &[7], 100));
        }
        assert_eq!(sizes(&outbox)[5..], [5 + usize::from(MAX_RECORDS) - 1, 1]);
        outbox.forget(6, 207);
        assert!(outbox.pack(route(1), &[7; 5], 100) && sizes(&outbox) == [6], "the last one waits");
        outbox.forget(1, 6);
        assert!(outbox.pack(route(1), &[7; 5], 100) && sizes(&outbox) == [5]);
    }

    #[test]
    fn a_full_outbox_takes_nothing() {
        let mut outbox = DatagramQueue::default();
        assert!(outbox.push(route(1), &[&vec![0; MAX_BYTES]]));
        assert!(!outbox.push(route(1), &[b"x"]));
    }
}
