//! Growth with the number of nodes: one forest in several sizes, in virtual time, at message level.
//!
//! A size is brought up and left alone until all summaries are known everywhere. It is measured first while its
//! nodes move without requests, and then while nodes look up and request services at their home, one tier up,
//! and across the roots. The state of a super node is measured separately, in [`hub_memory`].

pub mod hub_memory;
mod population;

use std::time::{Duration, Instant};

use roost_core::Traffic;
use roost_experiment::Prepared;
use serde::Serialize;

use super::world::SimWorld;
use super::{Detail, SimulateError};
use population::{Population, TargetDistance};

/// The interval at which each node moves to an adjacent cell.
pub const MOVE_EVERY: Duration = Duration::from_secs(60);
/// The time after which hubs are settled once every node has a home: a lease, after which the initial state is
/// known everywhere.
pub(super) const SETTLE: Duration = Duration::from_secs(70);

#[derive(Clone, Debug)]
pub struct GrowthSettings {
    /// The seed of the moves and of the lookups.
    pub seed: u64,
    /// The time for which nodes move without requests.
    pub quiet: Duration,
    /// The number of lookups at each distance, and of pairs of nodes that request there.
    pub lookups: usize,
}

impl Default for GrowthSettings {
    fn default() -> Self {
        Self { seed: 1, quiet: Duration::from_secs(120), lookups: 500 }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct GrowthResult {
    pub nodes: usize,
    /// Super nodes of each tier: homes, middles, roots.
    pub hubs: [usize; 3],
    /// Seconds from the first node's start until all had a home; one starts every millisecond.
    pub joined_s: f64,
    /// Control traffic on uplinks while nodes move: of homes, of middles, and of roots on their common LAN.
    pub uplinks: [Uplink; 3],
    /// Lookups of services at the same home, one tier up, and across the roots; `None` where the network is too
    /// small.
    pub lookups: [Option<Lookups>; 3],
    pub requests: [Option<Requests>; 3],
    /// The largest state of a hub of each tier.
    pub holds: [HubContents; 3],
    pub steps: u64,
    /// Real time of the computation, seconds.
    pub wall_s: f64,
    pub violations: usize,
    /// Packets dropped at a limit of the simulated network.
    pub overflows: u64,
}

/// Traffic on the uplinks of one tier's hubs, bits per second.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Uplink {
    /// Messages of the tier's own hubs to other hubs, by kind of traffic, without headers, for the mean hub.
    pub sent: Vec<(&'static str, f64)>,
    pub mean: f64,
    /// The sum for the hub that sent most.
    pub most: f64,
    /// All traffic up the leg of the mean hub, with headers, including that of the nodes below it.
    pub leg_up: f64,
    /// All traffic down that leg.
    pub leg_down: f64,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Lookups {
    pub asked: usize,
    /// Lookups that found their target.
    pub found: usize,
    /// Median, milliseconds.
    pub p50_ms: f64,
    /// 99th percentile, milliseconds.
    pub p99_ms: f64,
    /// The fastest, milliseconds.
    pub least_ms: f64,
    /// Round trips of the shortest path's hops, milliseconds: the time of a lookup if nothing but distance
    /// takes time.
    pub hops_ms: f64,
    /// Messages of one lookup, over all hops.
    pub messages: f64,
    /// Bytes of these messages, without headers.
    pub bytes: f64,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Requests {
    /// Pairs of nodes, each of which requests twice.
    pub asked: usize,
    /// Accepted first requests.
    pub accepted: u64,
    /// Accepted second requests.
    pub accepted_again: u64,
    /// Median between nodes without a connection, milliseconds: it includes the handshake.
    pub first_ms: f64,
    /// Median of second requests, milliseconds.
    pub p50_ms: f64,
    /// 99th percentile of these, milliseconds.
    pub p99_ms: f64,
    /// The path through the hubs and back, milliseconds, if nothing but distance takes time.
    pub hops_ms: f64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct HubContents {
    pub nodes: usize,
    /// Nodes of other homes for which it is the standby.
    pub replicas: usize,
    /// Summaries known of other hubs.
    pub block_services: usize,
    pub links: usize,
}

/// Builds, runs and measures one size.
///
/// # Errors
/// Fails when a forest of that size cannot be made, or does not come up.
pub fn measure(nodes: usize, settings: &GrowthSettings) -> Result<GrowthResult, SimulateError> {
    let started = Instant::now();
    let prepared = forest(nodes, settings.seed)?;
    let mut crowd = Population::new(&prepared, SimWorld::new(&prepared, Detail::Message)?, settings.seed);
    let joined = crowd.join()?;
    crowd.go_on(SETTLE);
    let uplinks = quiet(&mut crowd, settings.quiet);
    let groups = [TargetDistance::Home, TargetDistance::Middle, TargetDistance::Across];
    let lookups = groups.map(|group| crowd.look_up(group, settings.lookups));
    let requests = groups.map(|group| crowd.request(group, settings.lookups));
    let holds = [0, 1, 2].map(|tier| crowd.holds(tier));
    let count = |tier: u8| prepared.placement.hubs.iter().filter(|hub| hub.tier == tier).count();
    let world = &mut crowd.world;
    Ok(GrowthResult {
        nodes,
        hubs: [0, 1, 2].map(count),
        joined_s: joined.as_secs_f64(),
        uplinks,
        lookups,
        requests,
        holds,
        steps: world.steps,
        violations: world.checks.found().len(),
        overflows: world.connections.wire().overflows(),
        wall_s: started.elapsed().as_secs_f64(),
    })
}

/// The plan of a size; its mixes are unused.
pub(super) fn forest(nodes: usize, seed: u64) -> Result<Prepared, SimulateError> {
    let text = format!(
        "name = 'growth'\ntopology = {{ forest = {{ nodes = {nodes} }} }}\narchitecture = 'super-node'\n\
         transport = 'udp'\nduration = '1s'\nseed = {seed}\n"
    );
    Ok(Prepared::from_text(&text, std::path::Path::new("growth.toml"))?)
}

/// The traffic on the uplinks of each tier while nodes move.
fn quiet(crowd: &mut Population<'_>, length: Duration) -> [Uplink; 3] {
    crowd.moves(true);
    // A round of moves passes first, so that all nodes move during the measurement.
    crowd.go_on(MOVE_EVERY);
    crowd.world.between_hubs.clear();
    let before = crowd.legs();
    crowd.go_on(length);
    let after = crowd.legs();
    crowd.moves(false);
    let rate = |bytes: u64| bytes as f64 * 8.0 / length.as_secs_f64();
    [0, 1, 2].map(|tier| {
        let hubs = crowd.hubs(tier);
        // A single root has no sibling.
        if tier == 2 && hubs.len() < 2 {
            return Uplink::default();
        }
        let sent: Vec<[u64; Traffic::ALL.len()]> = hubs.iter().map(|hub| crowd.sent_to_hubs(*hub)).collect();
        let mean = |bytes: u64| rate(bytes) / hubs.len() as f64;
        let sum = |sent: &[u64; Traffic::ALL.len()]| sent.iter().sum::<u64>();
        let of = |traffic: Traffic| (traffic.name(), mean(sent.iter().map(|sent| sent[traffic as usize]).sum()));
        let leg = |way: usize| mean(hubs.iter().map(|hub| after[hub][way] - before[hub][way]).sum());
        Uplink {
            sent: Traffic::ALL.into_iter().map(of).filter(|(_, rate)| *rate > 0.0).collect(),
            mean: mean(sent.iter().map(sum).sum()),
            most: sent.iter().map(sum).map(rate).fold(0.0, f64::max),
            leg_up: leg(0),
            leg_down: leg(1),
        }
    })
}

#[cfg(test)]
mod tests;
