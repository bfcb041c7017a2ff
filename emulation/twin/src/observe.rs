//! Recordings of several hosts, merged: their hosts, paths, rates and requests.

use std::collections::BTreeMap;

use roost_recording::{Recording, RecordingLine};
use roost_statistics::quantile;
use roost_wire::Role;

use crate::align::Aligned;
use crate::delivered::Delivered;
use crate::first_bytes::{self, Delays};
use crate::hosts::Hosts;
use crate::leg_rate::HostRates;
use crate::legs::{self, Distances, StarFit};
use crate::rates;
use crate::requests::{self, FoundRequests, LeftOut, ObservedRequest};
use crate::round_trips::{self, Paths};

/// The most hosts whose distances are no star: each pair of them gets a link.
const MAX_MESH: usize = 128;
/// The part of latencies beyond delays that is worth a remark.
const WORK: f64 = 0.1;
const MAX_STAR: usize = 1024;

#[derive(Debug)]
pub struct Observed {
    pub(crate) hosts: Hosts,
    pub(crate) paths: Paths,
    pub(crate) star: Option<StarFit>,
    pub(crate) delays: Delays,
    pub(crate) rates: Vec<HostRates>,
    pub(crate) requests: Vec<ObservedRequest>,
    pub(crate) left_out: LeftOut,
    /// Connections of nodes with nodes at the beginning.
    pub(crate) warm: Vec<WarmConnection>,
    pub(crate) length: f64,
    pub(crate) remarks: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct WarmConnection {
    pub(crate) from: usize,
    pub(crate) to: usize,
    pub(crate) is_tcp: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TwinError {
    #[error("there is no recording: give the files that `roost record` wrote")]
    Nothing,
    #[error("the recordings have {0} nodes, and a twin needs two: record for longer, or at more hosts")]
    Nodes(usize),
    #[error("no hub was seen: a twin needs a super node or a server; record while nodes are attached")]
    NoHub,
    #[error(
        "{0} hosts whose distances are no star are more than the {MAX_MESH} that are possible: give the recordings of fewer hosts"
    )]
    TooMany(usize),
    #[error("nothing was measured between {0} and other hosts: record for longer, or leave its recording out")]
    Alone(String),
    #[error("the recording of {0} overlaps no other one: set the clock of its host, or leave it out")]
    Apart(String),
    #[error("{0} is in two recordings of the same time: give only one of them")]
    Twice(String),
    #[error(
        "the recordings take {days} days from that of {first} to that of {last}, and a twin has a week: leave out those \
         whose clock was not set, or give fewer"
    )]
    TooLong { days: u64, first: String, last: String },
}

/// Merges recordings.
///
/// # Errors
/// Fails when they tell no network.
pub fn observe(recordings: &[Recording]) -> Result<Observed, TwinError> {
    if recordings.is_empty() {
        return Err(TwinError::Nothing);
    }
    let aligned = Aligned::new(recordings);
    aligned.check()?;
    let mut hosts = Hosts::find(&aligned);
    let count = hosts.hosts.len();
    let nodes = hosts.hosts.iter().filter(|host| host.node.is_some()).count();
    if nodes < 2 {
        return Err(TwinError::Nodes(nodes));
    }
    if hosts.hosts.iter().all(|host| host.hub.is_none()) {
        return Err(TwinError::NoHub);
    }
    let paths = round_trips::find(&aligned, &hosts);
    let distances: Distances = paths.iter().filter_map(|(pair, path)| Some((*pair, path.least_ms()? / 2.0))).collect();
    let star = legs::fit(count, &distances);
    if count > MAX_STAR || star.is_none() && count > MAX_MESH {
        return Err(TwinError::TooMany(count));
    }
    let delays = match &star {
        Some(StarFit { legs, .. }) => {
            let sum = |a: usize, b: usize| distances.get(&(a.min(b), a.max(b))).copied().unwrap_or(legs[a] + legs[b]);
            (0..count).map(|a| (0..count).map(|b| Some(if a == b { 0.0 } else { sum(a, b) })).collect()).collect()
        }
        None => legs::fill(count, &distances),
    };
    let is_alone = |host: &usize| distances.keys().all(|(a, b)| a != host && b != host);
    if let Some(alone) = (0..count).find(is_alone) {
        return Err(TwinError::Alone(hosts.hosts[alone].name.clone()));
    }
    let FoundRequests { requests, left_out, cells } = requests::find(&aligned, &hosts);
    cells.into_iter().for_each(|(node, cell)| hosts.learn_cell(node, cell));
    let rates = rates::find(&hosts, &requests, &delays, &Delivered::find(&aligned, &hosts));
    let warm = warm_connections(&aligned, &hosts);
    let mut remarks = remarks(&aligned, &hosts);
    remarks.extend(work(&first_bytes::beyond_streams(&hosts, &requests, &delays, &rates), &requests));
    remarks.extend(star.as_ref().and_then(|fit| untold_legs(fit, &hosts)));
    let length = aligned.length;
    Ok(Observed { hosts, paths, star, delays, rates, requests, left_out, warm, length, remarks })
}

/// The connections between nodes that were there before time 0, as the dialing or the dialed end tells.
fn warm_connections(aligned: &Aligned<'_>, hosts: &Hosts) -> Vec<WarmConnection> {
    let mut warm = Vec::new();
    for (recording, t, line) in aligned.lines() {
        let RecordingLine::Connection(row) = &line.line else { continue };
        let ends = hosts.of_node_daemon(recording, row.daemon).zip(hosts.host_of(row.node));
        let Some((from, to)) = ends.filter(|(from, to)| row.role == Role::Node && from != to) else { continue };
        // The wall clock may have moved by some milliseconds.
        if t - row.since_s < -0.1 {
            let is_tcp = row.transport == roost_wire::Scheme::Tcp;
            warm.push(WarmConnection { from: from.min(to), to: from.max(to), is_tcp });
        }
    }
    warm.sort();
    warm.dedup();
    warm
}

/// The most seconds by which a clock is ahead of another one. Of each connection the least counts: a late message makes
/// the difference greater.
fn clocks_ahead(aligned: &Aligned<'_>) -> u64 {
    let mut least: BTreeMap<_, u64> = BTreeMap::new();
    for (recording, _, line) in aligned.lines() {
        let RecordingLine::Connection(row) = &line.line else { continue };
        let Some(ahead) = row.clock_ahead_s.map(i64::unsigned_abs) else { continue };
        least.entry((recording, row.daemon, row.node)).and_modify(|known| *known = ahead.min(*known)).or_insert(ahead);
    }
    least.into_values().max().unwrap_or(0)
}

/// Names the hosts whose legs are assumed.
fn untold_legs(fit: &StarFit, hosts: &Hosts) -> Option<String> {
    let untold = hosts.hosts.iter().zip(&fit.is_told).filter(|(_, is_told)| !**is_told);
    let names: Vec<&str> = untold.map(|(host, _)| host.name.as_str()).collect();
    (!names.is_empty()).then(|| {
        format!(
            "legs of {} are assumed, since only sums of two legs were measured: record at more hosts, so that three \
             measure each other",
            names.join(", ")
        )
    })
}

/// Says how much of a latency was no network's, if that is a tenth.
fn work(beyond: &[f64], requests: &[ObservedRequest]) -> Option<String> {
    let mut latencies: Vec<f64> = requests.iter().filter_map(ObservedRequest::latency_ms).collect();
    latencies.sort_by(f64::total_cmp);
    let (work, latency) = (quantile(beyond, 0.5)?, quantile(&latencies, 0.5)?);
    (work > WORK * latency).then(|| {
        format!(
            "of a latency of {latency:.0} ms in the median, {work:.0} ms are queues and the work of busy hosts: a twin has \
             the queues, and its hosts take no time"
        )
    })
}

fn remarks(aligned: &Aligned<'_>, hosts: &Hosts) -> Vec<String> {
    let mut remarks: Vec<String> =
        aligned.recordings.iter().flat_map(|(_, recording)| recording.remarks.iter().cloned()).collect();
    if aligned.recordings.len() > 1 {
        remarks.push("the recordings are aligned by the wall clocks of their hosts".to_owned());
    }
    let ahead = clocks_ahead(aligned);
    // Clocks are told in whole seconds, and a message takes its time.
    if ahead > 1 {
        let remark = format!("clocks of hosts differ by up to {ahead} s, and so do the times of their requests");
        remarks.push(remark);
    }
    let seen = hosts.hosts.iter().filter(|host| {
        let members = [host.node, host.hub].into_iter().flatten();
        members.filter_map(|id| hosts.members.get(&id)).all(|member| !member.has_recorded)
    });
    let seen: Vec<&str> = seen.map(|host| host.name.as_str()).collect();
    let hubs = hosts.members.values().filter(|member| member.role != Role::Node);
    let unknown: Vec<&str> = hubs.filter(|hub| !hub.has_recorded).map(|hub| hub.name.as_str()).collect();
    if !unknown.is_empty() {
        remarks.push(format!("of {} the tier is not known, and is 0 here: record at hubs, too", unknown.join(", ")));
    }
    if !seen.is_empty() {
        remarks.push(format!(
            "of {} nothing was recorded but what others saw: their requests are missing",
            seen.join(", ")
        ));
    }
    let moved = hosts.hosts.iter().filter(|host| {
        let node = host.node.and_then(|node| hosts.members.get(&node));
        node.is_some_and(|node| node.cells.len() > 1)
    });
    let moved: Vec<&str> = moved.map(|host| host.name.as_str()).collect();
    if !moved.is_empty() {
        remarks.push(format!(
            "{} moved: links keep one delay, rate and loss here, so doubt the twin where a link changed as its host moved",
            moved.join(", ")
        ));
    }
    remarks
}
