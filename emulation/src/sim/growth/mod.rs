//! How everything grows with the number of nodes: one forest in several sizes,
//! in virtual time, at message level.
//!
//! A size is brought up, left alone until all is known everywhere, then looked
//! at while its nodes move and ask for nothing, and last while nodes look for
//! what is at their home, one tier up, and across the top, and request it. What a super node
//! holds is measured apart from that, in [`hub_memory`].

pub mod hub_memory;
mod population;

use std::time::{Duration, Instant};

use roost_proto::Traffic;
use serde::Serialize;

use super::world::SimWorld;
use super::{Detail, SimulateError};
use crate::experiment::Prepared;
use population::{Population, TargetDistance};

/// How often each node moves to the cell beside it.
pub const MOVE_EVERY: Duration = Duration::from_secs(60);
/// How long hubs are left alone when every node has a home: a lease, after
/// which what was there at the start has been told everywhere.
const SETTLE: Duration = Duration::from_secs(70);

/// How a size is measured.
#[derive(Clone, Debug)]
pub struct GrowthSettings {
    /// Of the moves and of the lookups.
    pub seed: u64,
    /// How long nodes move and ask for nothing.
    pub quiet: Duration,
    /// How many lookups are made at each distance, and how many pairs of nodes
    /// request there.
    pub lookups: usize,
}

impl Default for GrowthSettings {
    fn default() -> Self {
        Self { seed: 1, quiet: Duration::from_secs(120), lookups: 500 }
    }
}

/// What was measured of one size.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct GrowthResult {
    /// Nodes.
    pub nodes: usize,
    /// Super nodes of each tier: homes, middles, tops.
    pub hubs: [usize; 3],
    /// From the first node's start until all had a home, seconds; one starts
    /// every millisecond.
    pub joined_s: f64,
    /// Control traffic on uplinks while nodes move: of homes, of middles, and
    /// of tops on the link of all tops.
    pub uplinks: [Uplink; 3],
    /// Lookups of what is at the same home, one tier up, across the top; none
    /// where the network is too small for it.
    pub lookups: [Option<Lookups>; 3],
    /// Requests for the same.
    pub requests: [Option<Requests>; 3],
    /// What a hub of each tier holds at most.
    pub holds: [HubContents; 3],
    /// Things that happened.
    pub steps: u64,
    /// How long it took to compute them, seconds.
    pub wall_s: f64,
    /// Rules that were broken.
    pub violations: usize,
    /// Packets that the simulated network had no memory for.
    pub overflows: u64,
}

/// What crossed the uplinks of the hubs of one tier, bits per second.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Uplink {
    /// What hubs of the tier themselves said to other hubs, by kind of traffic,
    /// messages without headers, for the mean hub.
    pub sent: Vec<(&'static str, f64)>,
    /// The sum of these.
    pub mean: f64,
    /// The sum for the hub that sent most.
    pub most: f64,
    /// All that crossed the leg upward, headers and what nodes behind it sent
    /// included, for the mean hub.
    pub leg_up: f64,
    /// The same downward.
    pub leg_down: f64,
}

/// What lookups took.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Lookups {
    /// How many were made.
    pub asked: usize,
    /// How many found what they were for.
    pub found: usize,
    /// Median, milliseconds.
    pub p50_ms: f64,
    /// 99th percentile, milliseconds.
    pub p99_ms: f64,
    /// The fastest, milliseconds.
    pub least_ms: f64,
    /// The round trips of the shortest way's hops, milliseconds: what a lookup
    /// takes if nothing but distance takes time.
    pub hops_ms: f64,
    /// Messages for one lookup, all hops together.
    pub messages: f64,
    /// Bytes of these messages, without headers.
    pub bytes: f64,
}

/// How long requests take until they are accepted.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Requests {
    /// How many pairs of nodes there were; each asked twice.
    pub asked: usize,
    /// How many were accepted.
    pub accepted: u64,
    /// How many were accepted when asked for again.
    pub accepted_again: u64,
    /// Median of those between nodes that have nothing to do with one another,
    /// milliseconds: the handshake of their association included.
    pub first_ms: f64,
    /// Median when asked again, milliseconds.
    pub p50_ms: f64,
    /// 99th percentile of these, milliseconds.
    pub p99_ms: f64,
    /// There through the hubs and back, milliseconds, if nothing but distance
    /// takes time.
    pub hops_ms: f64,
}

/// What a hub holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct HubContents {
    /// Nodes whose home it is.
    pub nodes: usize,
    /// Nodes of other homes for which it stands by.
    pub replicas: usize,
    /// Patches known of other hubs.
    pub block_services: usize,
    /// Associations.
    pub links: usize,
}

/// Builds, runs and measures one size.
///
/// # Errors
/// When a forest of that size cannot be made, or does not come up.
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

/// The plan of a size; nobody follows its mixes.
fn forest(nodes: usize, seed: u64) -> Result<Prepared, SimulateError> {
    let text = format!(
        "name = 'growth'\ntopology = {{ forest = {{ nodes = {nodes} }} }}\narchitecture = 'super-node'\n\
         transport = 'udp'\nduration = '1s'\nseed = {seed}\n"
    );
    Ok(Prepared::from_text(&text, std::path::Path::new("growth.toml"))?)
}

/// What crosses the uplinks of each tier while nodes move.
fn quiet(crowd: &mut Population<'_>, length: Duration) -> [Uplink; 3] {
    crowd.moves(true);
    // One round of moves goes by unseen, so that all move when it is measured.
    crowd.go_on(MOVE_EVERY);
    crowd.world.between_hubs.clear();
    let before = crowd.legs();
    crowd.go_on(length);
    let after = crowd.legs();
    crowd.moves(false);
    let rate = |bytes: u64| bytes as f64 * 8.0 / length.as_secs_f64();
    [0, 1, 2].map(|tier| {
        let hubs = crowd.hubs(tier);
        // One top has nobody beside it.
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
