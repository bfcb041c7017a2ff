//! Datagrams in virtual time: they are delayed, lost, repeated and reordered, as a seed says.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::net::SocketAddr;

use crate::*;

pub(crate) fn at(host: u8) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, host], 7700))
}

pub(crate) fn host_at(address: SocketAddr) -> u8 {
    match address.ip() {
        std::net::IpAddr::V4(ip) => ip.octets()[3],
        std::net::IpAddr::V6(_) => 0,
    }
}

/// The network's effect on a datagram.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Connection {
    pub(crate) delay: Duration,
    /// Up to so much more, so that datagrams overtake each other.
    pub(crate) jitter: Duration,
    /// Datagrams of a thousand that are lost.
    pub(crate) loss: u64,
    pub(crate) repeats: u64,
}

impl Default for Connection {
    fn default() -> Self {
        Self { delay: Duration::from_millis(10), jitter: Duration::ZERO, loss: 0, repeats: 0 }
    }
}

/// An uplink: datagrams leave one after the other.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Uplink {
    pub(crate) bits_per_second: u64,
    /// A datagram that would wait for longer is lost.
    pub(crate) queue: Duration,
    /// The time until which it is busy.
    free: Time,
    /// All bytes that were to leave, and those of them that were lost.
    pub(crate) offered: u64,
    pub(crate) lost: u64,
}

impl Uplink {
    /// The time at which a datagram has left, unless it is lost.
    fn takes(&mut self, now: Time, bytes: u64) -> Option<Time> {
        self.offered += bytes;
        let begins = self.free.max(now);
        if begins.since(now) > self.queue {
            self.lost += bytes;
            return None;
        }
        self.free = begins + Duration::from_nanos(bytes * 8 * 1_000_000_000 / self.bits_per_second);
        Some(self.free)
    }
}

pub(crate) struct Flight {
    at: Time,
    number: u64,
    pub(crate) from: u8,
    pub(crate) to: u8,
    pub(crate) datagram: Vec<u8>,
}

impl PartialEq for Flight {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
    }
}
impl Eq for Flight {}
impl PartialOrd for Flight {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Flight {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.number).cmp(&(other.at, other.number))
    }
}

pub(crate) struct VirtualNetwork {
    random: SplitMix64,
    pub(crate) connection: Connection,
    connections: BTreeMap<(u8, u8), Connection>,
    pub(crate) uplinks: BTreeMap<u8, Uplink>,
    flights: BinaryHeap<Reverse<Flight>>,
    flown: u64,
}

impl VirtualNetwork {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            random: SplitMix64::new(seed),
            connection: Connection::default(),
            connections: BTreeMap::new(),
            uplinks: BTreeMap::new(),
            flights: BinaryHeap::new(),
            flown: 0,
        }
    }

    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.random.below(limit)
    }

    pub(crate) fn set_one_way(&mut self, from: u8, to: u8, connection: Connection) {
        self.connections.insert((from, to), connection);
    }

    pub(crate) fn set_uplink(&mut self, now: Time, host: u8, bits_per_second: u64, queue: Duration) {
        self.uplinks.insert(host, Uplink { bits_per_second, queue, free: now, offered: 0, lost: 0 });
    }

    pub(crate) fn send(&mut self, now: Time, (from, to): (u8, u8), datagram: &[u8]) {
        let connection = self.connections.get(&(from, to)).copied().unwrap_or(self.connection);
        let left = self.uplinks.get_mut(&from).map(|uplink| uplink.takes(now, datagram.len() as u64));
        let Some(left) = left.unwrap_or(Some(now)) else { return };
        if self.random.below(1000) < connection.loss {
            return;
        }
        let copies = 1 + u64::from(self.random.below(1000) < connection.repeats);
        for _ in 0..copies {
            let jitter = Duration::from_nanos(self.random.below(connection.jitter.as_nanos() as u64 + 1));
            self.flown += 1;
            let (at, number) = (left + connection.delay + jitter, self.flown);
            self.flights.push(Reverse(Flight { at, number, from, to, datagram: datagram.to_vec() }));
        }
    }

    pub(crate) fn next(&self) -> Option<Time> {
        self.flights.peek().map(|Reverse(flight)| flight.at)
    }

    /// The next datagram that has arrived by `now`.
    pub(crate) fn poll(&mut self, now: Time) -> Option<Flight> {
        self.next().filter(|at| *at <= now)?;
        self.flights.pop().map(|Reverse(flight)| flight)
    }
}
