//! Connections in virtual time, compared with the transports that they represent.
#![cfg(feature = "simulated")]
// Only tests and their helpers are in this file.
#![allow(clippy::expect_used)]

mod support;

use std::time::Duration;

use roost_transport::SchemeCounters;
use roost_transport::simulated::{ConnectionEnd, Detail};
use roost_wire::{Scheme, Time};
use support::TestWorld;

/// Headers of IPv4 and UDP.
const UDP_BYTES: u64 = 28;
/// Headers of IPv4 and TCP, with time stamps; a SYN has 8 bytes more.
const TCP_BYTES: u64 = 52;
/// An acknowledgement with the header of its Ethernet frame.
const ACK_BYTES: u64 = 14 + TCP_BYTES;
/// Signatures and serial numbers differ by some bytes.
const TOLERANCE: u64 = 16;

/// The number of handshakes of each transport. On a busy host an end repeats or acknowledges a flight, which only adds
/// bytes. So the least of several is the handshake itself.
const HANDSHAKES: usize = 8;

#[tokio::test]
async fn simulated_handshake_has_real_size() {
    for scheme in Scheme::ALL {
        let mut real = [u64::MAX; 2];
        for _ in 0..HANDSHAKES {
            let seen = real_handshake(scheme).await;
            real = [0, 1].map(|end| real[end].min(seen[end]));
        }
        // Over QUIC the number of packets with acknowledgements varies.
        let tolerance = if scheme == Scheme::Quic { 200 } else { TOLERANCE };
        for (real, simulated) in real.into_iter().zip(simulated(scheme)) {
            assert!(real.abs_diff(simulated) <= tolerance, "{scheme}: {real} {simulated}");
        }
    }
}

/// Bytes that the dialing side and the listener have sent, with all headers.
async fn real_handshake(scheme: Scheme) -> [u64; 2] {
    let world = TestWorld::new();
    let (hub, _, node, _) = world.pair(scheme).await;
    let ends = [&node, &hub].map(|end| end.transport.counters().for_scheme(scheme).clone());
    [0, 1].map(|end| on_the_wire(scheme, end, &ends[end]))
}

/// The bytes that an end has sent in its handshake, with the headers of IP and above. The dialing side acknowledges the
/// SYN and the listener's certificate by separate segments, and the listener the ClientHello. The listener writes its
/// hybrid ServerHello and certificate at once, which takes two segments.
fn on_the_wire(scheme: Scheme, end: usize, sent: &SchemeCounters) -> u64 {
    let acknowledgements = [2, 1][end] * ACK_BYTES + [0, 1][end] * TCP_BYTES;
    match scheme {
        Scheme::Tcp => TCP_BYTES + 8 + sent.bytes_sent + sent.datagrams_sent * TCP_BYTES + acknowledgements,
        Scheme::Udp | Scheme::Quic => sent.bytes_sent + sent.datagrams_sent * UDP_BYTES,
    }
}

fn simulated(scheme: Scheme) -> [u64; 2] {
    let now = Time::ZERO + Duration::from_secs(1);
    let mut ends =
        [ConnectionEnd::dial(scheme, Detail::Message, now), ConnectionEnd::accept(scheme, Detail::Message, now)];
    let mut sent = [0; 2];
    let mut quiet = 0;
    for end in [0, 1].into_iter().cycle() {
        let before = sent[end];
        while let Some(parcel) = ends[end].poll_packet(now) {
            sent[end] += u64::from(parcel.bytes);
            ends[1 - end].handle_packet(now, parcel.path, &parcel.content);
        }
        quiet = if sent[end] == before { quiet + 1 } else { 0 };
        if quiet == 2 {
            break;
        }
    }
    sent
}
