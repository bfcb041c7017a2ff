//! The requests and lookups of a node, until somebody accepts or there is a final answer.
//!
//! | file | content |
//! |---|---|
//! | `outgoing_request`, `sentences` | one request, and the words for its end |
//! | `ask`, `answers` | the connection to ask over, when to ask again, what hubs say to it |
//! | `multicast_search`, `search_methods`, `discovery_policy` | asking the subnet, and when to |
//! | `direct`, `provider_dialing` | a known provider, and one that does not reach this node |
//! | `accept`, `receive`, `incoming_flow`, `flow_receiver`, `early_data`, `pace` | the acceptance of a request, its data, and its end |
//! | `call_bodies`, `outgoing_body` | the body of a call, for the provider that has it |
//! | `permission` | requests and providers that the group's policy does not allow |
//! | `resume`, `moved_flow` | another provider, or the same one, after an outage, also by way of a hub |
//! | `subscribe`, `subscription`, `provisional` | a reflected stream, its way, and keys that hubs hold |
//! | `trace` | reports on the way of a request |

mod accept;
mod answers;
mod ask;
mod call_bodies;
mod direct;
mod discovery_policy;
mod early_data;
mod flow_receiver;
mod incoming_flow;
mod moved_flow;
mod multicast_search;
mod outgoing_body;
mod outgoing_request;
mod pace;
mod permission;
mod provider_dialing;
mod provisional;
mod receive;
mod resume;
mod search_methods;
mod sentences;
mod subscribe;
mod subscription;
pub(super) mod trace;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use roost_wire::messages::{
    DEFAULT_TIMEOUT, FlowMessage, MAX_CANDIDATES, Reason, ReflectionPolicy, RequestMode, STALL_TIMEOUT, ServiceRequest,
};
use roost_wire::random::SecretRng;
use roost_wire::{Area, Cell, ConnectionId, Nonce, RequestId, Role, Scope, Time};

use self::discovery_policy::DiscoveryPolicy;
use self::early_data::EarlyFlowData;
use self::outgoing_body::OutgoingBody;
use self::outgoing_request::{OutgoingRequest, RequestPhase, SHORT_PAUSE, WithdrawnRequest};
use self::search_methods::SearchMethods;
use self::sentences::sentence;
use self::subscription::SubscriptionState;
use self::trace::Traces;
use super::api::{Discovery, NodeConfig, NodeEvent, Provider, RequestStatus, Ticket};
use super::core::Core;
use super::home::HomeRegistration;
use super::timers::Timer;
use crate::boxed_map::BoxedMap;

/// The most requests and lookups at once. Each stream that is lost may be asked for again beyond that.
pub const MAX_REQUESTS: usize = 256;

/// The longest wait of a lookup for its answer: over three tiers by satellite it takes nine seconds.
pub const LOOKUP_DEADLINE: Duration = Duration::from_secs(20);

/// In how many round trips to the home a request is accepted, if it may take longer than its
/// deadline: one to the hub and on to the provider, four for a handshake of a provider as far
/// away, one of which is lost, one for the acceptance, three for what may be ahead of that where
/// a connection begins slowly, and one more.
const TRIPS: u32 = 10;

/// The longest that a deadline becomes for that.
const LONGEST_DEADLINE: Duration = Duration::from_secs(120);

/// The longest wait if there is no hub at first that could be asked.
const HOMELESS_LOOKUP: Duration = Duration::from_secs(5);

/// A service that the owner wants, of which provider, and the body of a call.
#[derive(Debug)]
pub(super) struct WantedService {
    pub(super) request: ServiceRequest,
    pub(super) provider: Option<Provider>,
    pub(super) body: Bytes,
}

/// Requests and lookups under way.
#[derive(Debug)]
pub(super) struct OutgoingRequests {
    asked: BoxedMap<RequestId, OutgoingRequest>,
    /// By the request whose flow came again.
    withdrawn: BoxedMap<RequestId, WithdrawnRequest>,
    tickets: BTreeMap<Ticket, RequestId>,
    early: EarlyFlowData,
    pub(super) traces: Traces,
    pub(super) multicast: bool,
    pub(super) discovery: Discovery,
    judge: DiscoveryPolicy,
    /// The address for reflected streams.
    media: Option<SocketAddr>,
    tags: SecretRng,
    nonces: SecretRng,
}

impl OutgoingRequests {
    pub(super) fn new(config: &NodeConfig) -> Self {
        Self {
            asked: BoxedMap::default(),
            withdrawn: BoxedMap::default(),
            tickets: BTreeMap::new(),
            early: EarlyFlowData::default(),
            traces: Traces::default(),
            multicast: config.multicast,
            discovery: config.discovery,
            judge: DiscoveryPolicy::default(),
            media: config.media,
            tags: SecretRng::new(config.secret, "leg"),
            nonces: SecretRng::new(config.secret, "nonce"),
        }
    }

    pub(super) fn request(
        &mut self,
        core: &mut Core,
        attach: &HomeRegistration,
        ticket: Ticket,
        wanted: WantedService,
    ) {
        let WantedService { mut request, provider, body } = wanted;
        let body = OutgoingBody::new(body);
        request.body = body.name();
        let refusal = if let Some(objection) = body.objection(&request) {
            Some((Reason::NotAllowed, objection))
        } else if request.mode == RequestMode::Lookup || request.check().is_err() {
            Some((Reason::NotAllowed, "the request is malformed"))
        } else if let Some(objection) = objection_to_provider(core, &request, provider.as_ref()) {
            Some((Reason::NotAllowed, objection))
        } else if let Some(objection) = self.not_reflected(core, &request, provider.as_ref()) {
            Some((Reason::NotAllowed, objection))
        } else if let Some(objection) = self.out_of_scope(&request) {
            Some((Reason::NotAllowed, objection))
        } else if self.asked.len() >= MAX_REQUESTS {
            Some((Reason::TooMany, "this node has too many requests under way"))
        } else if request.trace && !self.traces.begin(core.now, ticket) {
            Some((Reason::TooMany, "this node traces too many requests already"))
        } else {
            None
        };
        if let Some((reason, detail)) = refusal {
            return core.emit(NodeEvent::failed(ticket, reason, detail));
        }
        request.area = narrowed(request.scope, request.area, attach.record().cell);
        if let Some(home) = attach.home() {
            request.timeout.get_or_insert_with(|| prolonged(core, home, DEFAULT_TIMEOUT));
            request.patience.get_or_insert_with(|| core.scaled_timeout(home, STALL_TIMEOUT));
        }
        let id = self.insert(core, ticket, request, provider);
        if let Some(asked) = self.asked.get_mut(&id) {
            asked.body = body;
        }
        self.begin_search(core, attach, id);
    }

    /// Puts a lookup, of which `wanted` says what, where, how many and whose names.
    pub(super) fn lookup(
        &mut self,
        core: &mut Core,
        attach: &HomeRegistration,
        ticket: Ticket,
        request: ServiceRequest,
    ) {
        if self.asked.len() >= MAX_REQUESTS || !request.area.is_valid() {
            let (reason, detail) = (Reason::TooMany, "the lookup is malformed or one too many".to_owned());
            return core.emit(NodeEvent::failed(ticket, reason, detail));
        }
        let count = request.count.min(MAX_CANDIDATES as u8);
        let deadline = match attach.home() {
            Some(home) => prolonged(core, home, LOOKUP_DEADLINE),
            None => HOMELESS_LOOKUP,
        };
        let request = ServiceRequest { count, timeout: Some(deadline), ..request };
        let id = self.insert(core, ticket, request, None);
        self.begin_search(core, attach, id);
    }

    fn insert(
        &mut self,
        core: &mut Core,
        ticket: Ticket,
        request: ServiceRequest,
        provider: Option<Provider>,
    ) -> RequestId {
        let subscription = SubscriptionState {
            able: self.can_take(core, &request, provider.as_ref()),
            is_requested: request.reflect == ReflectionPolicy::Always && request.mode != RequestMode::Lookup,
            ..SubscriptionState::default()
        };
        let deadline = request.timeout();
        self.number(
            core,
            OutgoingRequest { subscription, ..OutgoingRequest::new(ticket, request, provider, core.now, deadline) },
        )
    }

    /// Enters a request under a new number, with a new secret unless it continues a flow.
    fn number(&mut self, core: &mut Core, mut asked: OutgoingRequest) -> RequestId {
        let id = core.next_request();
        asked.nonce = asked.flow_nonce.unwrap_or_else(|| Nonce::from_u64(self.nonces.next_u64()));
        asked.tries = 0;
        asked.hedge = None;
        asked.numbers += 1;
        asked.phase = RequestPhase::NoHub;
        core.timers.set(Timer::Deadline(id), asked.due());
        self.draw_copy_target(core, &mut asked);
        if asked.subscription.replaces.is_none() {
            self.tickets.insert(asked.ticket, id);
        }
        self.asked.insert(id, asked);
        core.under_way = self.asked.len();
        id
    }

    pub(super) fn on_deadline(&mut self, core: &mut Core, id: RequestId) {
        let Some(asked) = self.asked.get(&id) else { return };
        let reason = match (asked.last, asked.tries) {
            (Some(reason), _) => reason,
            (None, 0) if asked.ways.is_multicast_only() => Reason::TimedOut,
            (None, 0) => Reason::Unreachable,
            (None, _) => Reason::TimedOut,
        };
        self.fail(core, id, reason);
    }

    /// Asks once more for what a provider has failed to give: at once the first
    /// time, then not too often, as it may be the same provider again.
    fn ask_anew(&mut self, core: &mut Core, attach: &HomeRegistration, id: RequestId) {
        let id = self.renumber(core, id);
        let Some(asked) = self.asked.get_mut(&id) else { return };
        asked.ways = SearchMethods::default();
        if asked.numbers > 2 {
            return core.set(Timer::Ask(id), SHORT_PAUSE);
        }
        self.begin_search(core, attach, id);
    }

    /// Gives a request a new number, so that late answers to the old one do not count.
    fn renumber(&mut self, core: &mut Core, id: RequestId) -> RequestId {
        match self.remove(core, id) {
            Some(asked) => self.number(core, asked),
            None => id,
        }
    }

    /// The owner no longer wants it. Returns false if the ticket is not here.
    pub(super) fn cancel(&mut self, core: &mut Core, ticket: Ticket) -> bool {
        let Some(id) = self.tickets.get(&ticket).copied() else { return false };
        self.stop_provider(core, id, Reason::Cancelled);
        self.fail(core, id, Reason::Cancelled);
        true
    }

    /// The owner has enough of it.
    pub(super) fn end(&mut self, core: &mut Core, ticket: Ticket) {
        let id = self.tickets.get(&ticket).copied();
        match id.filter(|id| self.asked.get(id).is_some_and(OutgoingRequest::is_subscribed)) {
            Some(id) => self.end_subscription(core, id),
            None => drop(self.cancel(core, ticket)),
        }
    }

    /// Ends everything.
    pub(super) fn leave(&mut self, core: &mut Core) {
        for id in self.asked.keys().copied().collect::<Vec<_>>() {
            self.stop_provider(core, id, Reason::Leaving);
            self.fail(core, id, Reason::Leaving);
        }
    }

    /// The owner has taken so many bytes more of an object.
    pub(super) fn taken(&mut self, core: &mut Core, ticket: Ticket, bytes: u64) {
        let Some(id) = self.tickets.get(&ticket).copied() else { return };
        if let Some(OutgoingRequest { phase: RequestPhase::Receiving(receiving), .. }) = self.asked.get_mut(&id) {
            receiving.record_read(core, id, bytes);
        }
    }

    fn stop_provider(&mut self, core: &mut Core, id: RequestId, reason: Reason) {
        if let Some(OutgoingRequest { phase: RequestPhase::Receiving(receiving), .. }) = self.asked.get(&id) {
            core.send_reliably(receiving.connection, id, FlowMessage::Stop { id, reason });
        }
    }

    fn fail(&mut self, core: &mut Core, id: RequestId, reason: Reason) {
        if let Some(asked) = self.asked.get(&id) {
            let detail = sentence(reason, asked, core);
            self.fail_because(core, id, reason, detail);
        }
    }

    fn fail_because(&mut self, core: &mut Core, id: RequestId, reason: Reason, detail: String) {
        if let Some(asked) = self.remove(core, id) {
            if let Some(old) = asked.subscription.replaces {
                return self.found_no_other_way(core, old, reason, asked.retry_after);
            }
            self.drop_replacement(core, id);
            let retry_after =
                asked.retry_after.filter(|_| matches!(reason, Reason::Busy | Reason::TooMany | Reason::Saturated));
            let (ticket, sentence) = (asked.ticket, asked.sentence.filter(|_| reason == Reason::SourceFailed));
            self.traces.conclude(core, ticket, NodeEvent::Failed { ticket, reason, detail, retry_after, sentence });
        }
    }

    fn remove(&mut self, core: &mut Core, id: RequestId) -> Option<OutgoingRequest> {
        let mut asked = self.asked.remove(&id)?;
        if !matches!(asked.phase, RequestPhase::Receiving(_)) {
            asked.stop_runs(core, id, None);
        }
        core.under_way = self.asked.len();
        if self.tickets.get(&asked.ticket) == Some(&id) {
            self.tickets.remove(&asked.ticket);
        }
        self.early.take_messages(id);
        self.forget_withdrawn(id);
        for timer in [
            Timer::Ask,
            Timer::Meet,
            Timer::MulticastSearch,
            Timer::Deadline,
            Timer::Report,
            Timer::Receive,
            Timer::Resubscribe,
        ] {
            core.timers.clear(timer(id));
        }
        Some(asked)
    }

    pub(super) fn status(&self, now: Time) -> Vec<RequestStatus> {
        let one = |asked: &OutgoingRequest| {
            let receiving = match &asked.phase {
                RequestPhase::Receiving(receiving) => Some(receiving),
                _ => None,
            };
            RequestStatus {
                ticket: asked.ticket,
                service: asked.request.service,
                provider: receiving.map(|receiving| receiving.provider),
                cell: receiving.map(|receiving| receiving.cell()),
                bytes: receiving.map_or(0, |receiving| receiving.bytes()),
                subscribed: asked.is_subscribed(),
                age: now.since(asked.commanded),
            }
        };
        self.asked.values().filter(|asked| asked.subscription.replaces.is_none()).map(one).collect()
    }
}

/// Longest wait, over so long a path, for what usually takes no longer than `usual`.
fn prolonged(core: &Core, home: ConnectionId, usual: Duration) -> Duration {
    let trip = core.connections.get(home).map_or(Duration::ZERO, |connection| connection.rtt.smoothed());
    usual.max((trip * TRIPS).min(LONGEST_DEADLINE))
}

/// Why a request cannot name its provider; `None` if it can, or does not.
fn objection_to_provider(core: &Core, request: &ServiceRequest, provider: Option<&Provider>) -> Option<&'static str> {
    let provider = provider.filter(|_| request.reflect != ReflectionPolicy::Always)?;
    if core.hub_role == Role::Server {
        return Some("with a server every request goes through it, so the provider cannot be asked directly");
    }
    if request.mode != RequestMode::Forward {
        return Some("a provider that is asked directly cannot answer through a hub");
    }
    (provider.node == core.node).then_some("a node does not ask itself")
}

/// The area that a request of this scope asks for, from `here`.
fn narrowed(scope: Scope, area: Area, here: Cell) -> Area {
    match scope {
        Scope::Cell => Area::Exact(area.center().unwrap_or(here)),
        _ => area,
    }
}
