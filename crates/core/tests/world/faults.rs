//! Faults of a world: hosts die, freeze, start again; connections break or fall silent; remotes lie.

use std::time::Duration;

use roost_core::hub;
use roost_core::node::{NodeCommand, NodeConfig};
use roost_wire::Service;

use super::host::{Host, HostId, MachineInput};
use super::network::{ConnectionEnd, Nat};
use super::{Action, World};

impl World {
    /// A hub starts again, with an empty memory.
    pub fn revive_hub(&mut self, hub: HostId) {
        let role = self.hosts[hub.0].role;
        let machine = self.hub_machine(hub.0, role, &[]);
        self.hosts[hub.0] = Host::hub(hub.0, role, machine);
        self.schedule(Duration::ZERO, Action::Wake { host: hub });
    }

    /// A node dies and starts again at once, in another epoch.
    pub fn restart_node(&mut self, node: HostId, hubs: &[HostId], epoch: u32) {
        self.kill(node);
        self.start_again(node, hubs, epoch);
    }

    /// A node starts again in another epoch, and no remote notices.
    pub fn restart_silently(&mut self, node: HostId, hubs: &[HostId], epoch: u32) {
        self.freeze(node);
        self.start_again(node, hubs, epoch);
    }

    fn start_again(&mut self, node: HostId, hubs: &[HostId], epoch: u32) {
        self.connections.retain(|_, connection| connection.host != node);
        // The node stays at its cell.
        let cell = self.status(node).cell;
        let config = NodeConfig { epoch, cell, ..self.config(node.0, hubs) };
        self.hosts[node.0] = Host::node(node.0, config);
        self.schedule(Duration::ZERO, Action::Wake { host: node });
    }

    /// A node that has started again offers every service.
    pub fn offer_everything(&mut self, node: HostId) {
        let services = Service::ALL.into_iter().collect();
        self.command(node, NodeCommand::Reconfigure { services, max_streams: 8, uplink_kbps: None });
    }

    /// The host's process dies; its remotes notice, after a path's delay.
    pub fn kill(&mut self, host: HostId) {
        self.hosts[host.0].alive = false;
        let ends: Vec<_> =
            self.connections.iter().filter(|(_, connection)| connection.host == host).map(|(id, _)| *id).collect();
        for end in ends {
            self.hang_up(end);
        }
    }

    /// The host stops, silently: nothing comes from it, nothing reaches it.
    pub fn freeze(&mut self, host: HostId) {
        self.hosts[host.0].alive = false;
    }

    /// The host goes on where it stopped; what was sent to it meanwhile is lost.
    pub fn thaw(&mut self, host: HostId) {
        self.hosts[host.0].alive = true;
        self.schedule(Duration::ZERO, Action::Wake { host });
    }

    /// The host's clock jumps ahead.
    pub fn jump(&mut self, host: HostId, ahead: Duration) {
        self.hosts[host.0].ahead += ahead;
        self.schedule(Duration::ZERO, Action::Wake { host });
    }

    /// The host stood still for so long, and has just noticed.
    pub fn suspend(&mut self, host: HostId, slept: Duration) {
        self.jump(host, slept);
        self.feed(host, MachineInput::Slept);
    }

    /// The host's wall clock shows this time since the Unix epoch.
    pub fn tell_wall_clock(&mut self, host: HostId, unix: Duration) {
        self.feed(host, MachineInput::WallClock(unix));
    }

    /// The hosts get translators that let in only whom they have called lately.
    pub fn close(&mut self, hosts: &[HostId]) {
        self.nats = hosts.iter().map(|host| (*host, Nat::PortFilter)).collect();
    }

    /// Messages of `from` do not get to `to` any more; the other way they do.
    pub fn mute(&mut self, from: HostId, to: HostId) {
        self.muted.push((from, to));
    }

    /// The path from one host to another loses everything; the other way it works. Handshakes fail.
    pub fn deafen(&mut self, from: HostId, to: HostId) {
        self.mute(from, to);
        self.deaf.push((from, to));
    }

    /// A hub is told to leave.
    pub fn leave_hub(&mut self, hub: HostId) {
        self.command_hub(hub, hub::HubCommand::Leave);
    }

    /// Two hosts cannot reach one another any more; connections stay up, silent.
    pub fn cut(&mut self, a: HostId, b: HostId) {
        self.cut.push((a, b));
    }

    /// `a` does not admit `b` any more, and ends what connections there are.
    pub fn bar(&mut self, a: HostId, b: HostId) {
        self.barred.push((a, b));
        let between = |connection: &ConnectionEnd| connection.host == a && connection.far_host == b;
        let ends: Vec<_> =
            self.connections.iter().filter(|(_, connection)| between(connection)).map(|(id, _)| *id).collect();
        for end in ends {
            self.hang_up(end);
            self.take_down(end);
        }
    }

    /// Everybody can reach everybody again.
    pub fn heal(&mut self) {
        self.cut.clear();
        self.muted.clear();
        self.deaf.clear();
        for (end, channel, message) in std::mem::take(&mut self.delayed) {
            self.send(end, channel, message);
        }
    }

    /// All connections between two hosts break, and both notice.
    pub fn break_connections(&mut self, a: HostId, b: HostId) {
        let between = |connection: &ConnectionEnd| connection.host == a && connection.far_host == b;
        let ends: Vec<_> =
            self.connections.iter().filter(|(_, connection)| between(connection)).map(|(id, _)| *id).collect();
        for end in ends {
            self.schedule(Duration::ZERO, Action::Down { connection: end });
            self.hang_up(end);
        }
    }

    /// A remote says something that its machine would not. Returns false
    /// if there is no connection.
    pub fn inject(&mut self, from: HostId, to: HostId, message: bytes::Bytes) -> bool {
        let between =
            |connection: &ConnectionEnd| connection.up && connection.host == to && connection.far_host == from;
        let Some(connection) = self.connections.iter().find(|(_, connection)| between(connection)).map(|(id, _)| *id)
        else {
            return false;
        };
        self.feed(to, MachineInput::Message { connection, message });
        true
    }

    /// A member of the group says something by multicast that its machine would not.
    pub fn inject_multicast(&mut self, from: HostId, to: HostId, message: bytes::Bytes) {
        self.deliver_multicast(to, from, message);
    }
}
