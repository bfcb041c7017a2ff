//! Ports for daemons that a test starts later, or again.

use std::net::{Ipv4Addr, TcpListener, UdpSocket};
use std::process;
use std::sync::atomic::{AtomicU32, Ordering};

/// The system gives sockets without a port of their own one from 32768 on: a port below stays free until its test binds
/// it.
const FIRST: u16 = 20_000;
const PAIRS: u32 = 6_000;
/// Pairs that a test program may take before it meets those of the program with the next process id.
const PER_PROGRAM: u32 = 64;

/// A port that this program has not taken before and nothing on this host has bound. The next one is free, too, as RTP
/// wants it.
///
/// # Panics
/// Panics if all are in use.
pub fn free_port() -> u16 {
    static TAKEN: AtomicU32 = AtomicU32::new(0);
    let start = process::id().wrapping_mul(PER_PROGRAM) % PAIRS;
    let is_free = |port: &u16| [*port, *port + 1].into_iter().all(is_unbound);
    let next = || FIRST + 2 * ((start + TAKEN.fetch_add(1, Ordering::Relaxed)) % PAIRS) as u16;
    (0..PAIRS).map(|_| next()).find(is_free).expect("a free port")
}

fn is_unbound(port: u16) -> bool {
    let everywhere = (Ipv4Addr::UNSPECIFIED, port);
    UdpSocket::bind(everywhere).is_ok() && TcpListener::bind(everywhere).is_ok()
}
