//! Searches in areas under churn: the hierarchy of super nodes and a geographic DHT, with the same nodes on the
//! same network, the same comings and goings, and the same searches.
//!
//! All nodes of a forest join and are left alone for a while. Then nodes, and super nodes if the settings say so,
//! are killed without a word and started again. After a warm-up nodes search for all that is inside of circles.
//!
//! | file | its part |
//! |---|---|
//! | `scenario` | who dies and starts at which time, and who searches |
//! | `tally` | who is there, and what searches found of it |
//! | `course` | a scenario, step by step, with either system |
//! | `hierarchy` | nodes and super nodes |
//! | `geographic` | the nodes of the DHT |

mod course;
mod geographic;
mod hierarchy;
mod scenario;
mod tally;
#[cfg(test)]
mod tests;

use std::time::{Duration, Instant};

use roost_dht::DhtSettings;
use serde::Serialize;

use super::SimulateError;
use super::growth::forest;
use course::Course;
use geographic::GeographicNetwork;
use hierarchy::Hierarchy;
use scenario::{Scenario, ScenarioShape};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AreaSystem {
    Dht(DhtSettings),
    /// Nodes come and go, and super nodes stay.
    SuperNodes,
    /// Super nodes come and go as nodes do.
    ChurningSuperNodes,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AreaSettings {
    pub system: AreaSystem,
    pub nodes: usize,
    pub radius: u32,
    /// The mean time from a start to a death. A third of it passes on average until the next start.
    pub session: Duration,
    pub length: Duration,
    pub seed: u64,
}

/// The figures of a run. Searches count if another node is in their area from their begin to their end, and
/// their own node lives.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AreaFigures {
    pub searches: u64,
    /// The part of searches that found a node that is there.
    pub success: f64,
    /// The part of the nodes in the area that a search found, on average.
    pub recall: f64,
    /// The part of searches that found every node in the area.
    pub whole: f64,
    /// The part of what was found that is gone.
    pub stale: f64,
    /// The nodes in the area of a search, on average.
    pub inside: f64,
    /// Milliseconds until the answer, of searches that found something.
    pub mean_ms: f64,
    pub p50_ms: f64,
    pub p95_ms: f64,
    /// Messages of a search, over all hops.
    pub messages: f64,
    pub bytes: f64,
    /// Bytes that all machines send in a second, with all headers, for each node that is there.
    pub node_bytes_s: f64,
    /// Bytes that the busiest machine sends and receives in a second.
    pub busiest_bytes_s: f64,
    pub online: f64,
    pub steps: u64,
    pub wall_s: f64,
    pub violations: usize,
    /// Packets dropped at a limit of the simulated network.
    pub overflows: u64,
}

/// Builds the network, lets nodes come and go, and measures searches.
///
/// # Errors
/// Fails when a forest of that size cannot be made, or does not come up.
pub fn measure(settings: &AreaSettings) -> Result<AreaFigures, SimulateError> {
    let started = Instant::now();
    let prepared = forest(settings.nodes, settings.seed)?;
    let cells: Vec<_> = prepared.placement.nodes.iter().map(|node| node.cell).collect();
    let shape = ScenarioShape {
        churning_hubs: match settings.system {
            AreaSystem::ChurningSuperNodes => prepared.placement.hubs.len(),
            AreaSystem::Dht(_) | AreaSystem::SuperNodes => 0,
        },
        radius: settings.radius,
        session: settings.session,
        length: settings.length,
        seed: settings.seed,
    };
    let scenario = Scenario::draw(&cells, &shape);
    let figures = match settings.system {
        AreaSystem::Dht(dht) => {
            Course::new(&scenario, &cells, GeographicNetwork::grown(&prepared, dht, settings.seed)?).run()
        }
        AreaSystem::SuperNodes | AreaSystem::ChurningSuperNodes => {
            Course::new(&scenario, &cells, Hierarchy::grown(&prepared)?).run()
        }
    };
    Ok(AreaFigures { wall_s: started.elapsed().as_secs_f64(), ..figures })
}
