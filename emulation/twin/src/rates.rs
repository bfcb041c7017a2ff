//! The rates of the two directions of each host, from the time that small objects take.
//!
//! A small object fits into the first flight of its transport. What its first byte takes beyond the delays of its way is
//! then the time that the object takes at the slowest leg. A larger object, and what a host received in some seconds,
//! tell rates that were reached, and hence are not above the leg's.

use std::collections::BTreeMap;

use roost_recording::RecordingLine;
use roost_statistics::quantile;

use crate::align::Aligned;
use crate::hosts::Hosts;
use crate::requests::ObservedRequest;
use crate::source::Certainty;

/// The most bytes of an object that a transport sends at once: ten segments (RFC 6928).
const FLIGHT_BYTES: u64 = 14_000;
/// Headers of an object's packets, as a part of its bytes.
const HEADERS: f64 = 1.06;
/// Headers of a datagram: Ethernet, IP and UDP.
const DATAGRAM_HEADERS: u64 = 42;
/// The part of a larger object that comes after its first byte, at least.
const AFTER_FIRST: f64 = 0.85;
/// The most work of hosts on a request's way, milliseconds: more is the network's.
const MOST_WORK_MS: f64 = 8.0;
/// An object that takes less than this is no measurement of a rate.
const LEAST_MS: f64 = 1.5;
/// Seconds over which received bytes make a rate.
const WINDOW_S: f64 = 3.0;
/// The measurements that make a rate sure.
const SURE: usize = 3;

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct LegRate {
    /// Bits per second; `None` where nothing limits that was seen.
    pub(crate) bps: Option<f64>,
    /// The greatest rate that was reached.
    pub(crate) reached_bps: f64,
    /// Small objects that told it.
    pub(crate) objects: usize,
    /// True if the rate is that of the other direction.
    pub(crate) is_mirrored: bool,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct HostRates {
    pub(crate) up: LegRate,
    pub(crate) down: LegRate,
}

/// One-way delays in milliseconds between hosts.
pub(crate) type Delays = Vec<Vec<Option<f64>>>;

pub(crate) fn find(aligned: &Aligned<'_>, hosts: &Hosts, requests: &[ObservedRequest], delays: &Delays) -> Vec<HostRates> {
    let mut rates = vec![HostRates::default(); hosts.hosts.len()];
    let work = work_ms(hosts, requests, delays);
    let mut least: BTreeMap<(usize, usize), (f64, usize)> = BTreeMap::new();
    for request in requests {
        let Some((from, to)) = request.target.map(|target| (target, request.host)) else { continue };
        if let Some(bps) = larger_object(request) {
            rates[from].up.reached(bps);
            rates[to].down.reached(bps);
        }
        let Some((bytes, beyond)) = small_object(request).zip(beyond_delays(hosts, request, delays)) else { continue };
        let took = (beyond - work).max(0.0);
        let bps = if took < LEAST_MS { f64::INFINITY } else { bytes as f64 * 8.0 * HEADERS / (took / 1e3) };
        let (fastest, count) = least.entry((from, to)).or_insert((0.0, 0));
        *fastest = fastest.max(bps);
        *count += 1;
    }
    for ((from, to), (bps, count)) in least {
        rates[from].up.told(bps, count);
        rates[to].down.told(bps, count);
    }
    received(aligned, hosts, &mut rates);
    rates.iter_mut().for_each(HostRates::complete);
    rates
}

impl LegRate {
    pub(crate) fn certainty(&self) -> Certainty {
        match self.bps {
            None if self.objects == 0 => Certainty::Assumed,
            _ if self.is_mirrored => Certainty::Assumed,
            _ if self.objects >= SURE => Certainty::Measured,
            _ => Certainty::Estimated,
        }
    }

    pub(crate) fn source(&self) -> String {
        let reached = format!("{:.2} Mbit/s were reached", self.reached_bps / 1e6);
        match (self.bps, self.objects) {
            (Some(_), _) if self.is_mirrored => "that of the other direction".to_owned(),
            (Some(_), count) => format!("time of {count} small objects; {reached}"),
            (None, 0) => format!("no small object went there; {reached}"),
            (None, count) => format!("{count} small objects took no time; {reached}"),
        }
    }

    /// Takes a rate that small objects tell: a leg is at least as fast as each way over it.
    fn told(&mut self, bps: f64, objects: usize) {
        self.objects += objects;
        self.bps = Some(self.bps.map_or(bps, |known| known.max(bps)));
    }

    const fn reached(&mut self, bps: f64) {
        self.reached_bps = self.reached_bps.max(bps);
    }

    fn finish(&mut self) {
        self.bps = self.bps.filter(|bps| bps.is_finite()).map(|bps| bps.max(self.reached_bps));
    }
}

impl HostRates {
    /// A direction that nothing measured has the rate of the other one.
    fn complete(&mut self) {
        let Self { up, down } = self;
        up.finish();
        down.finish();
        let measured = [up.bps, down.bps];
        for (own, other) in [(up, measured[1]), (down, measured[0])] {
            if own.objects == 0 && other.is_some() {
                own.bps = other.map(|bps| bps.max(own.reached_bps));
                own.is_mirrored = true;
            }
        }
    }
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

/// What the first byte took beyond the delays of its way, milliseconds. A request goes to the requester's home and from
/// there to the provider, if both have the same home.
fn beyond_delays(hosts: &Hosts, request: &ObservedRequest, delays: &Delays) -> Option<f64> {
    let (own, provider) = (request.host, request.target?);
    let delay = |a: usize, b: usize| if a == b { Some(0.0) } else { delays[a][b] };
    let there = match request.began.provider {
        Some(_) => delay(own, provider)?,
        None => {
            let hub = hosts.common_home(own, provider)?;
            delay(own, hub)? + delay(hub, provider)?
        }
    };
    Some(request.first_byte_ms()? - there - delay(provider, own)?)
}

/// The work of hosts on the way of a request: what the first bytes of streams take beyond all delays, of which the least
/// are those without a queue.
fn work_ms(hosts: &Hosts, requests: &[ObservedRequest], delays: &Delays) -> f64 {
    let streams = requests.iter().filter(|request| request.is_warm && request.began.service.is_stream());
    let mut beyond: Vec<f64> = streams.filter_map(|request| beyond_delays(hosts, request, delays)).collect();
    beyond.sort_by(f64::total_cmp);
    quantile(&beyond, 0.1).unwrap_or(0.0).clamp(0.0, MOST_WORK_MS)
}

/// Takes the greatest rate at which each host has received.
fn received(aligned: &Aligned<'_>, hosts: &Hosts, rates: &mut [HostRates]) {
    let mut windows: BTreeMap<(usize, u32), (f64, u64)> = BTreeMap::new();
    for (recording, t, line) in aligned.lines() {
        let RecordingLine::Traffic(row) = &line.line else { continue };
        let Some(host) = hosts.of_daemon(recording, row.daemon) else { continue };
        let tcp = row.tcp_received_bytes / 16;
        let bytes = row.received_bytes.saturating_add(DATAGRAM_HEADERS.saturating_mul(row.received_datagrams)) + tcp;
        let (since, before) = *windows.entry((recording, row.daemon)).or_insert((t, bytes));
        if bytes < before {
            windows.insert((recording, row.daemon), (t, bytes));
        } else if t - since >= WINDOW_S {
            rates[host].down.reached((bytes - before) as f64 * 8.0 / (t - since));
            windows.insert((recording, row.daemon), (t, bytes));
        }
    }
}
