//! The rates of the two directions of each host: its legs.
//!
//! - A leg whose streams lose packets, while it delivers as much as it ever does, has the rate that it delivers.
//! - A small object fits into the first flight of its transport. What its first byte takes beyond the delays of its way is
//!   the time that the object takes at the slower of its two legs, and one packet's at the other.
//! - A leg that has delivered more than this is not that slower leg.
//!
//! Where nothing tells a rate, the leg has none.

use std::collections::BTreeMap;

use crate::delivered::{Delivered, Direction};
use crate::first_bytes::{self, Delays, PACKET_BITS, Work};
use crate::hosts::Hosts;
use crate::leg_rate::{EXCEEDED, HostRates, LegRate, STREAMS};
use crate::requests::ObservedRequest;

/// The most bytes of an object that a transport sends at once: ten segments (RFC 6928).
const FLIGHT_BYTES: u64 = 14_000;
/// Headers of an object's packets, as a part of its bytes.
const HEADERS: f64 = 1.06;
/// The part of a larger object that comes after its first byte, at least.
const AFTER_FIRST: f64 = 0.85;
/// An object that takes less than this, beyond the work of hosts, is no measurement of a rate.
const LEAST_MS: f64 = 3.0;
/// A time within so many spreads of the work of hosts may be chance.
const SPREADS: f64 = 1.5;
/// A stream that loses this part, and so many packets, has met a full queue, or a lossy link.
const LOSSY: f64 = 0.03;
const LOST_PACKETS: u64 = 10;
/// A leg is full if it delivers this part of what it ever does.
const FULL: f64 = 0.9;
/// Rounds in which the packets at faster legs, and those of other messages, are taken off.
const ROUNDS: usize = 6;

/// The least time that small objects took on a way, with their bits and their number.
#[derive(Clone, Copy, Debug)]
struct SmallObjects {
    took_s: f64,
    bits: f64,
    count: usize,
}

pub(crate) fn find(
    hosts: &Hosts,
    requests: &[ObservedRequest],
    delays: &Delays,
    delivered: &Delivered,
) -> Vec<HostRates> {
    let rate = |host| HostRates {
        up: LegRate { reached_bps: delivered.most(host, Direction::Up), ..LegRate::default() },
        down: LegRate { reached_bps: delivered.most(host, Direction::Down), ..LegRate::default() },
    };
    let mut rates: Vec<HostRates> = (0..hosts.hosts.len()).map(rate).collect();
    for request in requests {
        let Some((from, to)) = request.target.map(|target| (target, request.host)) else { continue };
        if let Some(bps) = larger_object(request) {
            rates[from].up.reached(bps);
            rates[to].down.reached(bps);
        }
        match full_leg(request, from, to, delivered) {
            Some(Direction::Up) => rates[from].up.streams += 1,
            Some(Direction::Down) => rates[to].down.streams += 1,
            None => {}
        }
    }
    for ((from, to), way) in &small_objects(hosts, requests, delays, &rates) {
        rates[*from].up.add_way(way.count);
        rates[*to].down.add_way(way.count);
    }
    for _ in 0..ROUNDS {
        let ways = small_objects(hosts, requests, delays, &rates);
        solve(&mut rates, &ways);
    }
    rates.iter_mut().for_each(HostRates::complete);
    rates
}

/// Finds rates that explain the times of small objects: each leg is as fast as its fastest way tells, unless it has
/// delivered more.
fn solve(rates: &mut [HostRates], ways: &BTreeMap<(usize, usize), SmallObjects>) {
    for _ in 0..ROUNDS {
        let mut fastest: Vec<[Option<f64>; 2]> = vec![[None, None]; rates.len()];
        let faster_of = |known: Option<f64>, bps: f64| Some(known.map_or(bps, |known| known.max(bps)));
        for ((from, to), way) in ways {
            let faster = rates[*from].up.known().max(rates[*to].down.known());
            let took = way.took_s - PACKET_BITS / faster;
            let bps = if took * 1e3 < LEAST_MS { f64::INFINITY } else { way.bits / took };
            fastest[*from][0] = faster_of(fastest[*from][0], bps);
            fastest[*to][1] = faster_of(fastest[*to][1], bps);
        }
        for (host, [up, down]) in rates.iter_mut().zip(fastest) {
            for (leg, told) in [(&mut host.up, up), (&mut host.down, down)] {
                let of_objects = told.filter(|bps| bps.is_finite() && leg.reached_bps <= EXCEEDED * bps);
                leg.bps = if leg.streams >= STREAMS { Some(leg.reached_bps) } else { of_objects };
            }
        }
    }
}

fn small_objects(
    hosts: &Hosts,
    requests: &[ObservedRequest],
    delays: &Delays,
    rates: &[HostRates],
) -> BTreeMap<(usize, usize), SmallObjects> {
    let Work { usual_ms, spread_ms } = first_bytes::work(hosts, requests, delays, rates);
    let mut ways: BTreeMap<(usize, usize), SmallObjects> = BTreeMap::new();
    for request in requests {
        let Some((bytes, target)) = small_object(request).zip(request.target) else { continue };
        let Some(beyond) = first_bytes::beyond_asking(hosts, request, delays, rates) else { continue };
        let took_ms = Some(beyond - usual_ms).filter(|took| *took >= LEAST_MS.max(SPREADS * spread_ms));
        let (took_s, bits) = (took_ms.unwrap_or(0.0) / 1e3, bytes as f64 * 8.0 * HEADERS);
        let way = ways.entry((target, request.host)).or_insert(SmallObjects { took_s, bits, count: 0 });
        if took_s / bits < way.took_s / way.bits {
            (way.took_s, way.bits) = (took_s, bits);
        }
        way.count += 1;
    }
    ways
}

/// The bytes of an object that fits into a first flight, over a connection that was up.
fn small_object(request: &ObservedRequest) -> Option<u64> {
    let summary = request.ended.as_ref()?.summary.as_ref()?;
    let is_small = !request.began.service.is_stream() && (1_000..=FLIGHT_BYTES).contains(&summary.bytes);
    (request.is_completed() && request.is_warm && !summary.relayed && is_small).then_some(summary.bytes)
}

/// The rate of an object that takes several flights.
fn larger_object(request: &ObservedRequest) -> Option<f64> {
    let ended = request.ended.as_ref()?;
    let summary = ended.summary.as_ref()?;
    let seconds = (ended.elapsed_ms - summary.first_byte_ms?) / 1e3;
    let is_larger = !request.began.service.is_stream() && summary.bytes > 2 * FLIGHT_BYTES && !summary.relayed;
    (request.is_completed() && is_larger && seconds > 0.02)
        .then(|| summary.bytes as f64 * AFTER_FIRST * HEADERS * 8.0 / seconds)
}

/// The leg at which a stream lost packets: the fuller one of its two, if it was full.
fn full_leg(request: &ObservedRequest, from: usize, to: usize, delivered: &Delivered) -> Option<Direction> {
    let ended = request.ended.as_ref()?;
    let summary = ended.summary.as_ref()?;
    let part = summary.lost as f64 / (summary.lost + summary.packets).max(1) as f64;
    if !request.began.service.is_stream() || part < LOSSY || summary.lost < LOST_PACKETS {
        return None;
    }
    let (begin, end) = (request.t + summary.first_byte_ms? / 1e3, request.t + ended.elapsed_ms / 1e3);
    let fullness = |host, direction| {
        let most = delivered.most(host, direction);
        delivered.mean(host, direction, begin, end).map_or(0.0, |mean| mean / most.max(1.0))
    };
    let (up, down) = (fullness(from, Direction::Up), fullness(to, Direction::Down));
    let fuller = if up >= down { Direction::Up } else { Direction::Down };
    let host = if fuller == Direction::Up { from } else { to };
    (up.max(down) >= FULL && delivered.has_plateau(host, fuller)).then_some(fuller)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BITS: f64 = 10_000.0 * 8.0 * HEADERS;

    /// The least times of small objects between hosts whose legs have these rates, both ways.
    fn ways(legs: &[f64]) -> BTreeMap<(usize, usize), SmallObjects> {
        let pairs = (0..legs.len()).flat_map(|a| (0..legs.len()).map(move |b| (a, b))).filter(|(a, b)| a != b);
        let way = |(a, b): (usize, usize)| {
            let (slower, faster) = (legs[a].min(legs[b]), legs[a].max(legs[b]));
            ((a, b), SmallObjects { took_s: BITS / slower + PACKET_BITS / faster, bits: BITS, count: 1 })
        };
        pairs.map(way).collect()
    }

    #[test]
    fn slow_legs_are_found() {
        let mut rates = vec![HostRates::default(); 4];
        solve(&mut rates, &ways(&[1e6, 1e6, 10e6, 1e9]));
        for (host, expected) in [(0, 1e6), (1, 1e6), (2, 10e6)] {
            let found = rates[host].up.bps.unwrap();
            // A fast leg may pass for another slow one, which takes a packet's time off.
            assert!((found / expected - 1.0).abs() < 0.2, "{host}: {found}");
        }
    }

    #[test]
    fn leg_that_delivered_more_is_free() {
        let mut rates = vec![HostRates::default(); 2];
        rates[0].up.reached_bps = 5e6;
        solve(&mut rates, &ways(&[1e6, 1e6]));
        assert_eq!(rates[0].up.bps, None);
        assert!(rates[1].down.bps.is_some());
        rates[0].up.streams = 2;
        solve(&mut rates, &ways(&[1e6, 1e6]));
        assert_eq!(rates[0].up.bps, Some(5e6));
    }
}
