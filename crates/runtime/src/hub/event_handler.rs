//! Writes a hub's events to the log.

use std::io::ErrorKind;
use std::net::UdpSocket;
use std::sync::Arc;
use std::time::Instant;

use roost_core::hub::{Hub, HubEvent};
use roost_reflection::HubInput;
use roost_wire::{Address, NodeId};

use super::media::HubRelayHandler;
use crate::driver::{EventHandler, LoopControl, Mailbox};
use crate::log_dedup::LogDedup;
use crate::log_limiter::LogLimiter;
use crate::media::RelayMailbox;
use crate::naming::NodeNames;
use crate::shared::DaemonContext;

pub(super) struct HubEventHandler {
    shared: Arc<DaemonContext>,
    mailbox: Mailbox<Hub>,
    /// Names of other hubs, also while they are not connected.
    names: NodeNames,
    refused: LogLimiter,
    limits: LogLimiter,
    later: LogLimiter,
    twins: LogLimiter,
    doubles: LogLimiter,
    remote_log: LogLimiter,
    members: LogLimiter,
    unreachable: LogDedup,
    relay: Option<RelayMailbox<HubRelayHandler>>,
}

impl HubEventHandler {
    pub(super) fn new(
        shared: Arc<DaemonContext>,
        mailbox: Mailbox<Hub>,
        relay: Option<RelayMailbox<HubRelayHandler>>,
    ) -> Self {
        Self {
            shared,
            mailbox,
            names: NodeNames::default(),
            refused: LogLimiter::default(),
            limits: LogLimiter::default(),
            later: LogLimiter::default(),
            twins: LogLimiter::default(),
            doubles: LogLimiter::default(),
            remote_log: LogLimiter::default(),
            members: LogLimiter::default(),
            unreachable: LogDedup::default(),
            relay,
        }
    }
}

impl EventHandler<Hub> for HubEventHandler {
    fn handle_event(&mut self, event: HubEvent) -> LoopControl {
        match event {
            HubEvent::Attached { remote, address } => {
                tracing::debug!(node = ?remote.node, name = remote.name, %address, "a node is connected");
                self.names.record_name(remote.node, &remote.name);
                self.shared.audit_joined(&remote, &address);
            }
            HubEvent::Detached { node, reason } => {
                let name = self.name(node);
                tracing::debug!(name, ?node, reason, "a node is no longer connected");
                self.shared.audit_left(node, name.as_deref(), &reason);
            }
            HubEvent::Published { node, cell, services } => {
                tracing::debug!(?node, %cell, ?services, "a record is held")
            }
            HubEvent::Gone { node, cause } => tracing::debug!(?node, cause, "a record is gone"),
            HubEvent::Reflect(grant) => {
                if let Some(relay) = &self.relay {
                    relay.post(HubInput::Grant(grant));
                }
            }
            HubEvent::Denied(denial) => self.shared.audit_denied(&denial),
            HubEvent::Document(received) => self.shared.judge_document(received, &self.mailbox),
            HubEvent::Left => return LoopControl::Stop,
            event => self.log_remote_event(event),
        }
        LoopControl::Continue
    }
}

impl HubEventHandler {
    /// A list of super nodes that is the same on all of them names each itself, too.
    fn log_duplicate_hub(&mut self, hub: &str, address: &Address) {
        let bound = address.primary().map(|at| UdpSocket::bind((at.ip(), 0)));
        let is_elsewhere = matches!(bound, Some(Err(error)) if error.kind() == ErrorKind::AddrNotAvailable);
        if is_elsewhere && let Some(suppressed) = self.doubles.admit() {
            tracing::warn!(%address, suppressed, "a {hub} uses this daemon's identity, unless that address is its own");
            let remedy = "issue an identity for each daemon, unless the address is this daemon's own";
            self.shared.set_last_error(format!("a {hub} at {address} uses this daemon's identity: {remedy}"));
        }
    }

    /// Logs news of other hubs, and of remotes that break rules.
    fn log_remote_event(&mut self, event: HubEvent) {
        // Other hubs are of the same role.
        let hub = self.shared.role().title();
        match event {
            HubEvent::HubUp { remote, address } => {
                self.shared.audit_joined(&remote, &address);
                self.unreachable.clear();
                self.names.record_name(remote.node, &remote.name);
                if let Some(suppressed) = self.remote_log.admit() {
                    tracing::info!(name = remote.name, node = ?remote.node, suppressed, "a {hub} is connected");
                }
            }
            HubEvent::HubDown { node, reason } => {
                self.shared.audit_left(node, self.name(node).as_deref(), &reason);
                if let Some(suppressed) = self.remote_log.admit() {
                    let name = self.name(node);
                    tracing::warn!(name, ?node, reason, suppressed, "a {hub} is no longer connected");
                }
                let who = self.names.who(&self.shared, node);
                self.shared.set_last_error(format!("{hub} {who} is no longer connected: {reason}"));
            }
            HubEvent::HubUnreachable { addresses, reason, retry_in } => {
                if self.unreachable.admit(Instant::now(), &reason) {
                    tracing::warn!(?retry_in, reason, "a {hub} cannot be reached");
                }
                tracing::debug!(?addresses, "the {hub}'s addresses");
                self.shared.set_last_error(format!("a {hub} cannot be reached: {reason}"));
            }
            HubEvent::MemberUp { node, addresses } => {
                if let Some(suppressed) = self.members.admit() {
                    let addresses = addresses.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
                    tracing::info!(name = self.name(node), ?node, addresses, suppressed, "a super node has joined");
                }
            }
            HubEvent::MemberDown { node } => {
                if let Some(suppressed) = self.members.admit() {
                    tracing::info!(name = self.name(node), ?node, suppressed, "a super node has left or died");
                }
            }
            HubEvent::Refused { node, what } => {
                if let Some(suppressed) = self.refused.admit() {
                    tracing::warn!(name = self.name(node), ?node, what = &*what, suppressed, "a remote was refused");
                }
            }
            HubEvent::OverLimit { node, limit } => {
                if let Some(suppressed) = self.limits.admit() {
                    let cause = limit.name();
                    tracing::warn!(name = self.name(node), ?node, cause, suppressed, "a remote has met a limit");
                }
            }
            HubEvent::SameIdentity { address } => self.log_duplicate_hub(hub, &address),
            HubEvent::DuplicateIdentity { node, name } => {
                if let Some(suppressed) = self.twins.admit() {
                    tracing::warn!(?node, name, suppressed, "another daemon uses this identity");
                    self.shared.set_last_error(format!("another daemon uses the identity of {name}"));
                }
            }
            HubEvent::NewerVersion { node, protocol, message } => {
                if let Some(suppressed) = self.later.admit() {
                    tracing::warn!(
                        name = self.name(node),
                        ?node,
                        %protocol,
                        message,
                        suppressed,
                        "the hub skipped a remote's message of a later version: upgrade this hub"
                    );
                }
            }
            // Events of later versions of the machine.
            _ => {}
        }
    }

    /// The name of a node or hub, if it is or was connected.
    fn name(&self, node: NodeId) -> Option<String> {
        self.names.get(&self.shared, node)
    }
}
