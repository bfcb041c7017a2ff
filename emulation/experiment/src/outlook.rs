//! A run as people see it before it starts: its network, its workload, and the longest time that it takes.

use std::collections::BTreeMap;
use std::time::Duration;

use roost_topology::trace;
use roost_topology::units::format_duration;

use super::plan::{Architecture, Plan};
use super::prepare::Prepared;

/// The approximate time before the first request, for the network, its test, and the daemons.
pub(super) const SET_UP: Duration = Duration::from_secs(10);

/// The most hosts of hubs that are listed for people.
const MAX_NAMED: usize = 12;

impl Prepared {
    /// Describes the run for people, as pairs of a title and a value.
    pub fn describe(&self) -> Vec<(&'static str, String)> {
        let Self { plan, placement, network, .. } = self;
        let mut hubs: Vec<&str> = placement.hubs.iter().map(|hub| network.hosts[hub.host].name.as_str()).collect();
        let more = hubs.split_off(hubs.len().min(MAX_NAMED)).len();
        let more = if more == 0 { String::new() } else { format!(" and {more} more") };
        let has_tiers = plan.architecture != Architecture::ClientServerCaching && placement.tiers() > 1;
        let tiers = if has_tiers { format!(" in {} tiers", placement.tiers()) } else { String::new() };
        let mut rows = vec![
            ("plan", plan.name.clone()),
            (
                "network",
                format!("{}, {} hosts, {} links and LANs", network.name, network.hosts.len(), network.nets.len()),
            ),
            (
                "architecture",
                if hubs.is_empty() {
                    plan.architecture.name().to_owned()
                } else {
                    format!("{}{tiers} on {}{more}", plan.architecture.name(), hubs.join(", "))
                },
            ),
            ("programs", self.topology.programs.len().to_string()),
        ];
        rows.extend(self.describe_workload());
        rows.extend([
            ("seed", plan.seed.to_string()),
            ("traces", trace::digests(network).len().to_string()),
            ("happenings", self.script.left().to_string()),
        ]);
        rows
    }

    fn describe_workload(&self) -> Vec<(&'static str, String)> {
        let Self { plan, placement, .. } = self;
        if !plan.architecture.has_daemons() {
            return vec![("runs for", format!("at most {}", format_duration(plan.duration)))];
        }
        let mut classes: BTreeMap<&str, usize> = BTreeMap::new();
        for node in &placement.nodes {
            *classes.entry(&node.class).or_default() += 1;
        }
        let classes: Vec<String> = classes.iter().map(|(class, count)| format!("{count} {class}")).collect();
        vec![
            ("nodes", format!("{} ({})", placement.nodes.len(), classes.join(", "))),
            ("transport", plan.transport.name().to_owned()),
            ("warm-up", format_duration(plan.warm_up)),
            (
                "nodes ask for",
                format!("{}, then at most {} to end", format_duration(plan.duration), format_duration(plan.drain)),
            ),
        ]
    }

    /// The longest total time of the run. Requests of a warm-up end before the run begins.
    pub fn longest(&self) -> Duration {
        let Plan { warm_up, timeout, stream, duration, drain, .. } = self.plan;
        if !self.plan.architecture.has_daemons() {
            return SET_UP + duration;
        }
        let before = if warm_up.is_zero() { warm_up } else { warm_up + timeout + stream };
        SET_UP + before + duration + drain
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    const PLAN: &str = "topology = { star = { nodes = 4 } }\narchitecture = 'programs'\nduration = '60s'\n\
        [[program]]\nname = 'p'\nhost = 'node1'\ncommand = 'true'\n";

    #[test]
    fn programs_alone_have_no_drain() {
        let prepared = Prepared::from_text(PLAN, Path::new("p.toml")).unwrap();
        assert_eq!(prepared.longest(), SET_UP + Duration::from_secs(60));
        let described = prepared.describe();
        let told = |title| described.iter().find(|(known, _)| *known == title).map(|(_, told)| told.as_str());
        assert_eq!((told("runs for"), told("nodes")), (Some("at most 60s"), None));
    }
}
