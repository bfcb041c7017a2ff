//! Acts on the machine's events.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use roost_api::State;
use roost_core::node::{Node, NodeCommand, NodeEvent, OutboxEvent, RequestSummary, Ticket};
use roost_reflection::NodeInput;
use roost_reflection::keys::KeySealer;
use roost_runtime::DaemonContext;
use roost_runtime::LogLimiter;
use roost_runtime::driver::{EventHandler, LoopControl};
use roost_runtime::log_dedup::LogDedup;
use roost_runtime::naming::NodeNames;
use roost_wire::messages::Reason;
use roost_wire::{NodeId, RequestId};
use tokio::sync::mpsc;
use tokio::task::AbortHandle;

use crate::inbox::InboxService;
use crate::media::RelayClient;
use crate::metrics::NodeMetrics;
use crate::offers::{Requester, Wanted};
use crate::session::Sessions;
use crate::tickets::{Accepted, Failure, Purpose, Reply};

/// The most files of hubs that are opened at once; a hub brings one after the other.
const MAX_SEALED: usize = 8;

/// Starts sources, answers API calls, counts, logs.
pub(crate) struct NodeEventHandler {
    inbox: InboxService,
    /// Tasks that receive the files that nodes offer; as many as the machine admits at once.
    receptions: BTreeMap<(NodeId, RequestId), AbortHandle>,
    /// Tasks that open the files that hubs bring.
    sealed: Vec<AbortHandle>,
    sessions: Sessions,
    metrics: NodeMetrics,
    shared: Arc<DaemonContext>,
    names: Arc<NodeNames>,
    watching: RelayClient,
    /// Seals stream keys for the group's nodes, if this one has the group's key.
    sealer: Option<KeySealer>,
    /// As many wait as the machine lets begin, and the ends of its objects.
    outbox: mpsc::UnboundedSender<OutboxEvent>,
    /// Suppresses repeated sentences about lost hubs.
    repeats: LogDedup,
    /// Limits the warnings about messages of later versions.
    later: LogLimiter,
    /// The hub at which this node is attached, with its name.
    hub: Option<(NodeId, String)>,
}

impl NodeEventHandler {
    pub(crate) fn new(
        inbox: InboxService,
        sessions: Sessions,
        watching: RelayClient,
        metrics: NodeMetrics,
        sealer: Option<KeySealer>,
        outbox: mpsc::UnboundedSender<OutboxEvent>,
    ) -> Self {
        Self {
            shared: Arc::clone(&inbox.shared),
            names: Arc::clone(&inbox.names),
            inbox,
            receptions: BTreeMap::new(),
            sealed: Vec::new(),
            sessions,
            metrics,
            watching,
            sealer,
            outbox,
            repeats: LogDedup::default(),
            later: LogLimiter::default(),
            hub: None,
        }
    }
}

impl EventHandler<Node> for NodeEventHandler {
    fn handle_event(&mut self, event: NodeEvent) -> LoopControl {
        match event {
            NodeEvent::Attached { hub, address } => {
                tracing::info!(hub = hub.name, node = ?hub.node, role = %hub.role, "attached");
                tracing::debug!(%address, "the hub's address");
                self.repeats.clear();
                self.shared.audit_joined(&hub, &address);
                self.hub = Some((hub.node, hub.name));
                self.shared.set_state(State::Attached);
            }
            NodeEvent::Detached { reason } => {
                if let Some((hub, name)) = self.hub.take() {
                    self.shared.audit_left(hub, Some(&name), &reason);
                }
                self.detached(&reason);
                self.shared.set_state(State::Attaching);
            }
            NodeEvent::IdentityConflict => {
                tracing::warn!("another daemon uses this identity");
                self.shared.set_last_error("another daemon uses this node's identity");
            }
            NodeEvent::LaterVersion { node, protocol, message } => {
                if let Some(suppressed) = self.later.admit() {
                    tracing::warn!(
                        name = self.names.get(&self.shared, node),
                        ?node,
                        %protocol,
                        message,
                        suppressed,
                        "the node skipped a remote's message of a later version: upgrade this node"
                    );
                }
            }
            NodeEvent::OpenSource { session, request, requester, body, reflected } => {
                let name = self.names.get(&self.shared, requester);
                tracing::debug!(session = session.0, service = %request.service, name, ?requester, "serving");
                self.shared.audit_granted(requester, name.as_deref(), request.service);
                let wanted = Wanted { request: *request, requester: Requester { node: requester, name }, body };
                self.sessions.open(session, wanted, reflected);
            }
            NodeEvent::ReadObject { session, pushed: None, offset, length } => {
                self.sessions.read(session, offset, length)
            }
            NodeEvent::ReadObject { session, pushed: Some(ticket), offset, length } => {
                self.inbox.tickets.deliver(ticket, Reply::Read { session, offset, length });
            }
            NodeEvent::PushOffered { from, push } => {
                self.receptions.retain(|_, reception| !reception.is_finished());
                let key = (from, push.id);
                self.receptions.insert(key, tokio::spawn(self.inbox.clone().receive_file(from, push)).abort_handle());
            }
            NodeEvent::SealedFile { hub, file } => {
                self.sealed.retain(|opening| !opening.is_finished());
                // The hub brings it again.
                if self.sealed.len() < MAX_SEALED {
                    self.sealed.push(tokio::spawn(self.inbox.clone().receive_sealed(hub, file)).abort_handle());
                }
            }
            NodeEvent::PushRevoked { from, id } => {
                if let Some(reception) = self.receptions.remove(&(from, id)) {
                    reception.abort();
                }
            }
            NodeEvent::CloseSource { session, bytes, reason } => {
                if let Some(service) = self.sessions.close(session) {
                    tracing::debug!(session = session.0, %service, bytes, ?reason, "served");
                    self.metrics.served(service, bytes, reason);
                }
            }
            NodeEvent::Outbox(event) => {
                // Without an outbox nobody listens, and the machine has nothing to say.
                let _ = self.outbox.send(event);
            }
            NodeEvent::Denied(denial) => self.shared.audit_denied(&denial),
            NodeEvent::Document(received) => self.shared.judge_document(received, &self.inbox.mailbox),
            NodeEvent::Left => return LoopControl::Stop,
            event => self.reflect(event),
        }
        LoopControl::Continue
    }
}

impl NodeEventHandler {
    /// Hands events of reflected streams to the relay, and the rest to the API calls that wait.
    fn reflect(&mut self, event: NodeEvent) {
        match event {
            NodeEvent::Seal { session, service, opening } => {
                let mut secrets = |bytes: &mut [u8]| roost_runtime::random_bytes(bytes).is_ok();
                let sealed =
                    self.sealer.as_ref().and_then(|sealer| sealer.seal(unix_s(), &mut secrets, service, &opening));
                let sealed = sealed.map(|sealed| NodeCommand::Sealed { session, sealed });
                sealed.into_iter().for_each(|sealed| self.inbox.mailbox.post(sealed));
            }
            NodeEvent::Unseal { ticket, service, provider, sealed } => {
                match self.sealer.as_ref().and_then(|sealer| sealer.open(unix_s(), provider, service, &sealed)) {
                    Some(opening) => self.inbox.mailbox.post(NodeCommand::Unsealed { ticket, provider, opening }),
                    None => tracing::debug!(?provider, "the stream key from a hub does not open the stream"),
                }
            }
            event => match NodeInput::from_event(&event) {
                Some(input) => self.watching.command(input),
                None => self.reply(event),
            },
        }
    }

    /// The home is lost; or, without a home, another attempt has failed.
    fn detached(&mut self, reason: &str) {
        let what = if self.shared.state() == State::Attaching { "cannot attach" } else { "detached from the hub" };
        let sentence = format!("{what}: {reason}");
        if self.repeats.admit(Instant::now(), &sentence) {
            tracing::warn!("{sentence}");
        } else {
            tracing::debug!("{sentence}");
        }
        self.shared.set_last_error(sentence);
    }

    /// Hands data on, or cancels the transfer if there is no room for it.
    fn data(&self, ticket: Ticket, payload: Bytes) {
        if let Some(Purpose::Request(service, mode)) = self.inbox.tickets.deliver_data(ticket, payload) {
            self.metrics.failed(service, mode, Reason::Busy);
            self.inbox.mailbox.post(NodeCommand::Cancel { ticket });
        }
    }

    /// Hands an answer to the API call that waits for it.
    fn reply(&mut self, event: NodeEvent) {
        let (ticket, reply) = match event {
            NodeEvent::Accepted { ticket, provider, cell, flow, scheme, relayed, reflected } => {
                if !reflected {
                    self.watching.turns_direct(ticket);
                }
                (ticket, Reply::Accepted(Accepted { provider, cell, flow, scheme, relayed, reflected }))
            }
            NodeEvent::Data { ticket, payload } => return self.data(ticket, payload),
            NodeEvent::Finished { ticket, mut summary } => {
                let who = |node| self.names.who(&self.shared, node);
                if let Some((reason, detail)) = self.watching.over(ticket, Some(&mut summary), who) {
                    return self.reply(NodeEvent::failed(ticket, reason, detail));
                }
                let counted = summary.clone();
                if let Some(Purpose::Request(service, mode)) =
                    self.inbox.tickets.deliver(ticket, Reply::Finished(summary))
                {
                    self.metrics.finished(service, mode, &counted);
                    log_finished(service, &counted);
                }
                return;
            }
            NodeEvent::Failed { ticket, reason, detail, retry_after, sentence } => {
                let _ = self.watching.over(ticket, None, |node| self.names.who(&self.shared, node));
                let told = detail.clone();
                let reply = Reply::Failed(Failure { reason, detail, retry_after, sentence });
                if let Some(Purpose::Request(service, mode)) = self.inbox.tickets.deliver(ticket, reply) {
                    self.metrics.failed(service, mode, reason);
                    tracing::debug!(%service, ?reason, detail = told, "a request failed");
                }
                return;
            }
            NodeEvent::Traced { ticket, trace } => (ticket, Reply::Traced(trace)),
            NodeEvent::LookupResult { ticket, found } => (ticket, Reply::Found(found)),
            NodeEvent::Changed { ticket, change } => (ticket, Reply::Changed(change)),
            NodeEvent::Roster { ticket, members } => (ticket, Reply::Roster(members)),
            NodeEvent::Pushed { ticket, state: reception } => (ticket, Reply::Pushed(reception)),
            NodeEvent::Pong { ticket, rtt, address } => (ticket, Reply::Pong { rtt, address }),
            // Events of later versions of the machine.
            _ => return,
        };
        self.inbox.tickets.deliver(ticket, reply);
    }
}

/// The wall clock; 1970 if it is before that.
fn unix_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

fn log_finished(service: roost_wire::Service, summary: &RequestSummary) {
    let RequestSummary { bytes, lost, complete, relayed, .. } = *summary;
    tracing::debug!(%service, bytes, lost, complete, relayed, first_byte = ?summary.first_byte, "a request is over");
}
