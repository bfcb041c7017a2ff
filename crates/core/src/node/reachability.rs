//! Connections that come and go, dials that lead somewhere or nowhere, and the parts that depend on them.

use std::time::Duration;

use roost_wire::messages::Hello;
use roost_wire::{Address, Channel, ConnectionId, DialId, NodeId, RemoteIdentity as Remote, Role};

use super::Node;
use super::api::NodeEvent;
use super::connections::{ConnectionLoss, MAX_CONNECTIONS, NodeConnection, NodeDialPurpose};
use super::outbox::OutboxEvent;
use super::timers::Timer;
use crate::connections::Rtt;

impl Node {
    pub(super) fn on_connection_up(
        &mut self,
        connection: ConnectionId,
        dial: Option<DialId>,
        remote: Remote,
        address: Address,
        rtt: Duration,
    ) {
        let purpose = dial.and_then(|dial| self.core.dials.end(dial));
        while let Some(quiet) = self.core.connections.quietest(self.core.now) {
            self.give_up(quiet, "quiet, and others came");
        }
        if !self.is_welcome(&remote, purpose) {
            self.core.close(connection, "not admitted");
            return self.on_unreached(purpose, ConnectionLoss::new("the connection is not admitted"));
        }
        let (node, role, now) = (remote.node, remote.role, self.core.now);
        let is_relabelled = self.core.connections.relabel(&remote);
        self.core.connections.insert(connection, NodeConnection::up(now, &remote, address, Rtt::new(rtt), None));
        if is_relabelled {
            self.judge_again();
        }
        if role != Role::Node {
            self.core.greet(connection, Channel::Reliable { flow: 0 });
        }
        if let Some(spare) = self.core.connections.spare(node, connection) {
            self.give_up(spare, "one connection too many");
        }
        match purpose {
            Some(purpose) => self.on_dial_reached(purpose, node, connection),
            None if dial.is_some() => self.core.close(connection, "no longer needed"),
            None if role == Role::Node => {
                self.provide.on_node_up(&mut self.core, node, connection);
                self.pushes.on_node_up(&mut self.core, node);
            }
            None => {}
        }
        if role == Role::Node {
            self.outbox.on_node_up(now, node, Some(&remote.name));
            self.core.emit(NodeEvent::Outbox(OutboxEvent::Met { node }));
            self.drain_outbox();
        }
    }

    fn on_dial_reached(&mut self, purpose: NodeDialPurpose, node: NodeId, connection: ConnectionId) {
        match purpose {
            NodeDialPurpose::Home => self.attach.on_connection_up(&mut self.core, connection),
            NodeDialPurpose::Standby => self.attach.on_standby_up(&mut self.core, connection),
            NodeDialPurpose::Redirect => self.attach.on_redirected(&mut self.core, connection),
            NodeDialPurpose::Hub(way) => self.requests.on_hub_reached(&mut self.core, &self.attach, way, connection),
            NodeDialPurpose::Node(way) => {
                self.core.on_dial_reached(way);
                self.core.mind_idleness(connection);
                self.provide.on_requester_reached(&mut self.core, way, connection);
                self.requests.on_provider_reached(&mut self.core, way, connection);
                self.pushes.on_node_up(&mut self.core, node);
            }
        }
    }

    fn is_welcome(&self, remote: &Remote, purpose: Option<NodeDialPurpose>) -> bool {
        let fits = remote.role == Role::Node || remote.role == self.core.hub_role;
        // Nobody's connections can keep the node from its home.
        let room = self.core.connections.len() < MAX_CONNECTIONS || purpose == Some(NodeDialPurpose::Home);
        !self.left && fits && room && remote.node != self.core.node
    }

    pub(super) fn on_dial_failed(&mut self, dial: DialId, loss: ConnectionLoss<'_>) {
        let purpose = self.core.dials.end(dial);
        self.on_unreached(purpose, loss);
    }

    fn on_unreached(&mut self, purpose: Option<NodeDialPurpose>, loss: ConnectionLoss<'_>) {
        match purpose {
            Some(NodeDialPurpose::Home) => self.attach.on_dial_failed(&mut self.core, loss.reason),
            Some(NodeDialPurpose::Standby) => self.attach.on_standby_unreachable(&mut self.core),
            Some(NodeDialPurpose::Redirect) => self.attach.on_redirect_failed(&mut self.core),
            Some(NodeDialPurpose::Hub(way)) => self.requests.on_hub_unreachable(&mut self.core, &self.attach, way),
            Some(NodeDialPurpose::Node(way)) => {
                self.core.on_dial_failed(way);
                self.provide.on_requester_unreachable(&mut self.core, way, loss);
                self.requests.on_provider_unreachable(&mut self.core, way, loss);
                self.pushes.on_unreachable(&mut self.core, way, loss);
                self.pushes.calls.on_unreachable(&mut self.core, way);
            }
            None => {}
        }
    }

    pub(super) fn on_connection_down(&mut self, connection: ConnectionId, loss: ConnectionLoss<'_>) {
        if self.core.connections.remove(connection).is_none() {
            return;
        }
        self.core.timers.clear(Timer::Idle(connection));
        self.attach.on_connection_down(&mut self.core, connection, loss.reason);
        self.on_connection_gone(connection, loss);
    }

    /// All that depended on a connection looks for another way.
    pub(super) fn on_connection_gone(&mut self, connection: ConnectionId, loss: ConnectionLoss<'_>) {
        for way in self.core.connections.ways(|way| way.connection == connection) {
            self.on_tunnel_gone(way, loss);
        }
        self.requests.on_connection_down(&mut self.core, &self.attach, connection, loss);
        self.provide.on_connection_down(&mut self.core, connection, loss);
        self.pings.on_connection_down(&mut self.core, connection);
    }

    /// Closes a direct connection that has carried nothing for a while.
    pub(super) fn on_idle_timer(&mut self, connection: ConnectionId) {
        let Some(entry) = self.core.connections.get(connection) else { return };
        let idle_at = entry.own.used + entry.idle_limit();
        if self.core.now < idle_at {
            return self.core.timers.set(Timer::Idle(connection), idle_at);
        }
        self.give_up(connection, "idle");
    }

    /// Closes a connection, and what depended on it looks for another way.
    fn give_up(&mut self, connection: ConnectionId, why: &str) {
        self.core.close(connection, why);
        self.on_connection_gone(connection, ConnectionLoss::new(why));
    }

    /// The remote has said its version.
    pub(super) fn on_hello(&mut self, connection: ConnectionId, hello: Hello) {
        let now = self.core.now;
        let remote = self.core.connections.get(connection).filter(|entry| entry.own.tunnel.is_none());
        if let Some((node, role)) = remote.map(|entry| (entry.node, entry.role)) {
            self.core.documents.greeted(now, node, role.is_hub(), &hello);
        }
        let datum = self.core.datum;
        let entry = self.core.connections.get_mut(connection);
        let refusal = entry.and_then(|entry| entry.record_hello(now, hello, datum));
        if let Some(why) = refusal {
            self.core.request_close(connection, &why);
            self.on_connection_down(connection, ConnectionLoss { reason: &why, refused: true });
        }
    }

    /// A way through hubs is none any more.
    pub(super) fn on_tunnel_gone(&mut self, way: ConnectionId, loss: ConnectionLoss<'_>) {
        if self.core.connections.remove(way).is_some() {
            self.on_connection_gone(way, loss);
        }
    }
}
