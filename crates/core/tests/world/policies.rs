//! Policies in a world: members with names and labels, and who has heard of which policy.

use std::sync::Arc;

use roost_core::hub::HubCommand;
use roost_core::node::NodeCommand;
use roost_policy::Policy;
use roost_wire::{Cell, Labels, Role, Service};

use super::{HostId, World};

impl World {
    /// A node with this name, and perhaps a team, in its certificate.
    pub fn member(
        &mut self,
        name: &str,
        team: Option<&str>,
        cell: (i32, i32),
        services: &[Service],
        hubs: &[HostId],
    ) -> HostId {
        let labels = Labels::parse_all(team.map(|team| format!("team={team}")).as_deref()).unwrap();
        let host = self.node_with(hubs, |config| {
            (config.name, config.labels) = (name.to_owned(), labels.clone());
            config.cell = Cell::new(cell.0, cell.1);
            config.services = services.iter().copied().collect();
        });
        let remote = &mut self.hosts[host.0].remote;
        (remote.name, remote.labels) = (name.to_owned(), labels);
        host
    }

    pub fn set_policy(&mut self, host: HostId, text: &str) {
        let policy = Arc::new(text.parse::<Policy>().unwrap());
        match self.hosts[host.0].role {
            Role::Node => self.command(host, NodeCommand::Policy(Some(policy))),
            Role::SuperNode | Role::Server => self.command_hub(host, HubCommand::Policy(Some(policy))),
        }
    }

    pub fn set_labels(&mut self, host: HostId, text: &str) {
        let labels: Labels = text.parse().unwrap();
        self.hosts[host.0].remote.labels = labels.clone();
        match self.hosts[host.0].role {
            Role::Node => self.command(host, NodeCommand::Labels(labels)),
            Role::SuperNode | Role::Server => self.command_hub(host, HubCommand::Labels(labels)),
        }
    }

    pub fn set_policy_everywhere(&mut self, text: &str) {
        (0..self.hosts.len()).map(HostId).for_each(|host| self.set_policy(host, text));
    }
}
