//! The needs of a run, computed from its numbers and the measured costs.

use super::costs::{BASE_NAMESPACES, BASE_TASKS, Build, DAEMON_FILES, DAEMON_TASKS};
use super::outline::RunOutline;

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Demand {
    /// Processors in use while nodes send requests.
    pub processors: f64,
    pub memory_bytes: u64,
    /// Open files of the emulator's own process.
    pub open_files: u64,
    pub system_files: u64,
    pub tasks: u64,
    pub namespaces: u64,
}

impl Demand {
    pub fn of_run(run: &RunOutline, build: Build) -> Self {
        let costs = build.costs();
        let (daemons, hosts) = (run.daemons() as u64, run.network.hosts as u64);
        let traffic = &run.traffic;
        let processors = daemons as f64 * costs.idle_daemon_s
            + traffic.requests * costs.request_s
            + traffic.delivered * costs.delivered_packet_s
            + traffic.relayed * costs.relayed_packet_s
            + traffic.carried * costs.carried_packet_s;
        // The interfaces beyond the first cost about as much as a host.
        let places = hosts.max(run.network.interfaces as u64);
        Self {
            processors,
            memory_bytes: costs.base_bytes + daemons * costs.daemon_bytes + places * costs.host_bytes,
            open_files: run.network.open_files,
            system_files: run.network.open_files + daemons * DAEMON_FILES,
            tasks: BASE_TASKS + daemons * DAEMON_TASKS,
            namespaces: BASE_NAMESPACES + hosts,
        }
    }
}
