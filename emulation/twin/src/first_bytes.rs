//! The time of first bytes beyond the delays of their ways: packets at legs, queues, and the work of hosts.

use roost_statistics::quantile;

use crate::hosts::Hosts;
use crate::leg_rate::HostRates;
use crate::requests::ObservedRequest;

/// Half of the least round trip between hosts, milliseconds, where it is known.
pub(crate) type Delays = Vec<Vec<Option<f64>>>;

/// A full packet on the wire.
pub(crate) const PACKET_BITS: f64 = 1_514.0 * 8.0;
/// A request on the wire, and an acceptance, with all headers.
const REQUEST_BITS: f64 = 250.0 * 8.0;
const ACCEPTANCE_BITS: f64 = 220.0 * 8.0;
/// The headers of a stream's packet.
const PACKET_HEADER_BITS: f64 = 90.0 * 8.0;
/// The most work of hosts on a request's way, milliseconds: more is the network's.
const MOST_WORK_MS: f64 = 8.0;

/// The work of hosts on the way of a request.
pub(crate) struct Work {
    pub(crate) usual_ms: f64,
    pub(crate) spread_ms: f64,
}

/// The work of hosts, from what the first bytes of streams take beyond all delays and packets: the least are those without
/// a queue, and the others tell how much is chance.
pub(crate) fn work(hosts: &Hosts, requests: &[ObservedRequest], delays: &Delays, rates: &[HostRates]) -> Work {
    let beyond = beyond_streams(hosts, requests, delays, rates);
    let part = |part: f64| quantile(&beyond, part).unwrap_or(0.0).max(0.0);
    Work { usual_ms: part(0.1).min(MOST_WORK_MS), spread_ms: part(0.5) - part(0.1) }
}

/// The times of the first bytes of streams beyond the delays and packets of their ways, milliseconds, the least first:
/// queues, and the work of hosts.
pub(crate) fn beyond_streams(
    hosts: &Hosts,
    requests: &[ObservedRequest],
    delays: &Delays,
    rates: &[HostRates],
) -> Vec<f64> {
    let streams = requests.iter().filter(|request| request.is_warm && request.began.service.is_stream());
    let beyond = |request| Some(beyond_asking(hosts, request, delays, rates)? - first_packet_ms(request, rates)?);
    let mut beyond: Vec<f64> = streams.filter_map(beyond).collect();
    beyond.sort_by(f64::total_cmp);
    beyond
}

/// The time of the first byte beyond the delays of its way and the packets of its request, milliseconds. A request goes to
/// the requester's home and from there to the provider, if both have the same home.
pub(crate) fn beyond_asking(
    hosts: &Hosts,
    request: &ObservedRequest,
    delays: &Delays,
    rates: &[HostRates],
) -> Option<f64> {
    let (own, provider) = (request.host, request.target?);
    let hub = match request.began.provider {
        Some(_) => provider,
        None => hosts.common_home(own, provider)?,
    };
    let hop = |from: usize, to: usize| {
        let packet = REQUEST_BITS / rates[from].up.known() + REQUEST_BITS / rates[to].down.known();
        if from == to { Some(0.0) } else { Some(delays[from][to]? + packet * 1e3) }
    };
    Some(request.first_byte_ms()? - hop(own, hub)? - hop(hub, provider)? - delays[provider][own]?)
}

/// The time that the acceptance of a stream and its first packet take at the two legs of their way, milliseconds.
fn first_packet_ms(request: &ObservedRequest, rates: &[HostRates]) -> Option<f64> {
    let summary = request.ended.as_ref()?.summary.as_ref()?;
    let payload_bits = summary.bytes as f64 * 8.0 / summary.packets.max(1) as f64;
    let packet = (payload_bits + PACKET_HEADER_BITS).min(PACKET_BITS);
    let legs = [rates[request.target?].up.known(), rates[request.host].down.known()];
    let (slower, faster) = (legs[0].min(legs[1]), legs[0].max(legs[1]));
    Some((ACCEPTANCE_BITS + packet) / slower * 1e3 + packet / faster * 1e3)
}
