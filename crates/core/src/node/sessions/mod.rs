//! The requests that a node provides for, from their coming to their end.
//!
//! | file | content |
//! |---|---|
//! | `serve_request`, `load`, `shares` | what is asked, how much to take on, and whose place is lost when there are too few |
//! | `requester_dialing`, `unreachable` | the way to the requester, and requesters to whom there was none |
//! | `out_of_sight` | requesters that are out of sight, whom a hub reaches |
//! | `permission` | requesters that the group's policy does not allow |
//! | `call_bodies`, `body_reception` | the body of a call, before its source |
//! | `session`, `progress`, `serve`, `object_scheduler` | the acceptance, the data, and how much of objects at once |
//! | `publish`, `publications`, `sealed_keys` | a reflected stream: one source, any number of members, and what opens it |

mod body_reception;
mod call_bodies;
mod load;
mod object_scheduler;
mod out_of_sight;
mod permission;
mod progress;
pub(super) mod publications;
pub(super) mod publish;
mod requester_dialing;
mod sealed_keys;
mod serve;
pub(super) mod serve_request;
mod session;
mod shares;
pub(super) mod unreachable;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use roost_policy::Action;
use roost_wire::messages::{
    CopyTarget, Decline, Reason, Request, RequestMessage, RequestMode, Route, Sentence, ServiceRequest,
};
use roost_wire::{Cell, ConnectionId, DeliveryClasses, FlowKind, Offer, RequestId, Role, ServiceSet, Time};

use self::publications::Publications;
use self::serve_request::{PushedObject, ServeRequest, SessionFlowKey};
use self::session::{Session, SessionPhase};
use self::unreachable::UnreachableNodes;
use super::api::{NodeConfig, SessionId, SessionStatus};
use super::core::Core;
use super::timers::Timer;
use crate::address_filter;
use crate::boxed_map::BoxedMap;
use crate::flow::MAX_STREAM_DURATION;

/// The most objects that are sent at once; streams have [`NodeConfig::max_streams`]. One
/// requester may have them all until another one asks.
pub const MAX_OBJECT_SESSIONS: usize = 64;

/// The most sessions that are over and kept until their request's deadline,
/// so that a repeated request is not served twice.
pub const MAX_ANSWERS: usize = 1024;

/// The bounds of when a requester is told to try again.
const SHORTEST_RETRY: Duration = Duration::from_millis(250);
/// See [`SHORTEST_RETRY`]: streams may be stopped early.
const LONGEST_RETRY: Duration = Duration::from_secs(60);

/// The longest that a request's deadline is believed.
const MAX_DEADLINE: Duration = Duration::from_secs(600);

/// The node's sessions.
#[derive(Debug)]
pub(super) struct ProviderSessions {
    sessions: BoxedMap<SessionId, Session>,
    /// The sessions under way.
    live: BTreeSet<SessionId>,
    /// The sessions that are over.
    done: BTreeSet<SessionId>,
    index: BTreeMap<SessionFlowKey, SessionId>,
    pub(super) unreached: UnreachableNodes,
    publications: Publications,
    next: u64,
    services: ServiceSet,
    max_streams: u16,
    uplink_kbps: Option<u32>,
    stream_duration: Duration,
    classes: DeliveryClasses,
    pub(super) cell: Cell,
}

impl ProviderSessions {
    pub(super) fn new(config: &NodeConfig) -> Self {
        Self {
            sessions: BoxedMap::default(),
            live: BTreeSet::new(),
            done: BTreeSet::new(),
            index: BTreeMap::new(),
            unreached: UnreachableNodes::default(),
            publications: Publications::new(config.media.is_some()),
            next: 0,
            services: config.services.clone(),
            max_streams: config.max_streams,
            uplink_kbps: config.uplink_kbps,
            stream_duration: config.stream_duration,
            classes: config.classes,
            cell: config.cell,
        }
    }

    /// A hub hands over a request.
    pub(super) fn on_routed_request(
        &mut self,
        core: &mut Core,
        connection: ConnectionId,
        request: Request,
        route: Route,
    ) {
        let Some(entry) = core.connections.get(connection).filter(|entry| entry.role == core.hub_role) else {
            core.counters.refused += 1;
            return;
        };
        let relayed = route.reply_to.is_empty();
        let request = Request { copy_target: request.copy_target.filter(|_| !relayed), ..request };
        let reflect = self.publications.checked_copy_target(&request, entry);
        let answers = if relayed { entry.node } else { route.requester };
        let serve_request = ServeRequest {
            relayed,
            requester: route.requester,
            addresses: address_filter::few(entry.told(route.reply_to)),
            reflect: reflect.unwrap_or_default(),
            ..self.serve_request((answers, request.id), Some(connection), &request)
        };
        let service = serve_request.offer.service;
        let is_for_hub = serve_request.reflect.is_some_and(|reflect| reflect.hops > 0);
        if let Err(reason) = reflect {
            return decline(core, &serve_request, reason, None);
        }
        if is_for_hub && !core.permits(connection, Action::Reflect, Some(service), Some(self.cell)) {
            core.counters.forbidden += 1;
            core.tell_denial(connection, Action::Reflect, Some(service), Some(self.cell));
            return decline(core, &serve_request, Reason::Forbidden, None);
        }
        self.consider(core, serve_request);
    }

    /// A node asks without a hub.
    pub(super) fn on_direct_request(
        &mut self,
        core: &mut Core,
        connection: ConnectionId,
        request: Request,
        pushed: Option<PushedObject>,
    ) {
        let Some(entry) = core.connections.get(connection).filter(|entry| entry.role == Role::Node) else {
            core.counters.refused += 1;
            return;
        };
        let reflect = self.publications.checked_copy_target(&request, entry);
        let serve_request = ServeRequest {
            pushed,
            reflect: reflect.unwrap_or_default(),
            ..self.serve_request((entry.node, request.id), Some(connection), &request)
        };
        if pushed.is_none() && request.spec.pushed {
            return decline(core, &serve_request, Reason::NotFound, None);
        }
        if request.spec.mode == RequestMode::Lookup || reflect.is_err() {
            return decline(core, &serve_request, Reason::NotAllowed, None);
        }
        self.consider(core, serve_request);
    }

    /// A request with this node's defaults, from a requester that this node has no addresses of.
    pub(super) fn serve_request(
        &self,
        key: SessionFlowKey,
        asked_by: Option<ConnectionId>,
        request: &Request,
    ) -> ServeRequest {
        let spec = &request.spec;
        let offer = self.services.offer(spec.service, &spec.filter).unwrap_or_else(|| Offer::new(spec.service));
        let duration = request.spec.duration.unwrap_or(self.stream_duration).min(MAX_STREAM_DURATION);
        ServeRequest {
            key,
            relayed: false,
            asked_by,
            requester: key.0,
            nonce: request.nonce,
            spec: request.spec.clone(),
            addresses: Vec::new(),
            duration: offer.service.is_stream().then_some(duration),
            deadline: Duration::from_millis(request.deadline_ms.into()).min(MAX_DEADLINE),
            terms: request.spec.delivery_preferences().or_class(self.classes.for_service(offer.service)),
            offer,
            pushed: None,
            reflect: None,
        }
    }

    /// Takes a request on, or says why not.
    pub(super) fn consider(&mut self, core: &mut Core, request: ServeRequest) {
        if let Some(session) = self.index.get(&request.key).copied() {
            let same = self.sessions.get(&session).filter(|known| known.request.nonce == request.nonce);
            if same.is_some_and(Session::has_given_way) {
                // Packets of its stream may still come to the requester, which would take them for
                // the beginning of a second stream of this number.
                return decline(core, &request, Reason::Busy, self.until_free(core.now));
            }
            if same.is_some_and(|known| !known.was_missed()) {
                return self.repeat(core, session, request.asked_by, request.reflect);
            }
            // The requester never heard of it, or has started anew and counts from elsewhere.
            self.finish(core, session, Some(Reason::Cancelled));
            self.remove(core, session);
        }
        if self.goes_on_by_hub(core, &request)
            || self.resume_session(core, &request)
            || self.decline_forbidden(core, &request)
            || self.move_to_hub(core, &request)
        {
            return;
        }
        if request.offer.service.is_call() && request.spec.resume.is_some() {
            // Only the provider that has run it can go on with its answer.
            return decline(core, &request, Reason::NotFound, None);
        }
        self.make_room(core, &request);
        if let Err(reason) = self.admit(core, &request) {
            let busy = reason == Reason::Busy && request.offer.service.is_stream();
            let retry_after = self.until_free(core.now).filter(|_| busy);
            self.on_member_refused(core, &request);
            return decline(core, &request, reason, retry_after);
        }
        self.begin(core, request);
    }

    fn begin(&mut self, core: &mut Core, request: ServeRequest) {
        if let FlowKind::Stream { bits_per_second, .. } = request.offer.flow_kind() {
            core.reckoned_streams = core.reckoned_streams.saturating_sub(1);
            core.reckoned_kbps = core.reckoned_kbps.saturating_sub(bits_per_second.div_ceil(1000));
        }
        let session = self.number();
        core.set(Timer::Expire(session), request.deadline);
        self.index.insert(request.key, session);
        self.sessions.insert(session, Session::new(request, core.now));
        self.live.insert(session);
        self.leave_keys(core, session);
        self.reach(core, session);
    }

    /// The number of the next session.
    fn number(&mut self) -> SessionId {
        self.next += 1;
        SessionId(self.next - 1)
    }

    /// True if this node provides the service of a request, or has offered its object.
    fn provides(&self, core: &Core, request: &ServeRequest) -> bool {
        request.requester != core.node
            && (request.pushed.is_some() || self.services.has(request.spec.service, &request.spec.filter))
    }

    fn admit(&self, core: &mut Core, request: &ServeRequest) -> Result<(), Reason> {
        if !self.provides(core, request) {
            return Err(Reason::NotFound);
        }
        let is_busy = self.is_busy(request) && self.giving_way(request).is_empty();
        if is_busy && self.displaced(core.now, request).is_empty() {
            core.counters.declined_busy += 1;
            core.reckoned_streams = 0;
            return Err(Reason::Busy);
        }
        Ok(())
    }

    /// True if the node has an offer for a request.
    pub(super) fn offers(&self, request: &ServiceRequest) -> bool {
        self.services.has(request.service, &request.filter) && request.area.contains(self.cell)
    }

    /// True if there is a session of this name.
    pub(super) fn knows(&self, key: SessionFlowKey) -> bool {
        self.index.contains_key(&key)
    }

    /// True if a request that nobody has to be told "no" for would be served.
    pub(super) fn takes(&self, core: &mut Core, request: &ServeRequest) -> bool {
        let way = core.connections.between(core.now, request.requester, request.spec.transports, &request.addresses);
        let has_way = match way {
            Some(way) => self.permits(core, request, way),
            None => self.can_dial(core.now, request),
        };
        has_way && self.admit(core, request).is_ok()
    }

    /// The time until the first stream ends.
    fn until_free(&self, now: Time) -> Option<Duration> {
        let lasting = self.under_way().filter_map(|(_, session)| Some(session.started + session.request.duration?));
        lasting.min().map(|end| end.since(now).clamp(SHORTEST_RETRY, LONGEST_RETRY))
    }

    /// The request came again: nothing is served twice, but its answers may
    /// have been lost.
    fn repeat(&mut self, core: &mut Core, id: SessionId, asked_by: Option<ConnectionId>, reflect: Option<CopyTarget>) {
        if let Some(session) = self.sessions.get_mut(&id) {
            session.request.asked_by = asked_by.or(session.request.asked_by);
            session.request.reflect = session.request.reflect.and(reflect).or(session.request.reflect);
            session.repeats += 1;
        }
        self.repeat_answer(core, id);
        self.leave_keys(core, id);
        self.offer_to(core, id);
        self.tell_pending(core, id);
    }

    /// Tells a hub that the request is in good hands. A node that asks
    /// without a hub hears from us anyway.
    fn tell_pending(&self, core: &mut Core, id: SessionId) {
        let Some(session) = self.sessions.get(&id) else { return };
        let request = &session.request;
        if let Some(hub) = request.asked_by.filter(|connection| core.is_hub(*connection)) {
            let requester = Some(request.requester).filter(|_| !request.relayed);
            core.send(hub, RequestMessage::Pending { id: request.key.1, requester, provider: None });
        }
    }

    /// Gives a session back to the hub: another provider may serve it.
    fn refuse(&mut self, core: &mut Core, id: SessionId, reason: Reason) {
        self.refuse_saying(core, id, reason, None);
    }

    /// Gives it back with the words of its program.
    fn refuse_saying(&mut self, core: &mut Core, id: SessionId, reason: Reason, sentence: Option<Sentence>) {
        self.finish(core, id, Some(reason));
        if let Some(Session { request, .. }) = self.remove(core, id) {
            send_decline(core, &request, Decline { sentence, ..Decline::new(request.key.1, reason) });
        }
    }

    /// A request's deadline has passed.
    pub(super) fn on_expire_timer(&mut self, core: &mut Core, id: SessionId) {
        let Some(session) = self.sessions.get(&id) else { return };
        match session.phase {
            SessionPhase::Reaching | SessionPhase::Fetching(_) | SessionPhase::Opening => {
                self.finish(core, id, Some(Reason::TimedOut));
                self.remove(core, id);
            }
            SessionPhase::Done { .. } => {
                self.remove(core, id);
            }
            SessionPhase::Streaming(_) | SessionPhase::Sending(_) | SessionPhase::Member => {}
        }
    }

    fn remove(&mut self, core: &mut Core, id: SessionId) -> Option<Session> {
        let session = self.sessions.remove(&id)?;
        self.live.remove(&id);
        self.done.remove(&id);
        self.index.remove(&session.request.key);
        for timer in [Timer::Reach(id), Timer::Accept(id), Timer::Expire(id), Timer::Serve(id)] {
            core.timers.clear(timer);
        }
        Some(session)
    }

    /// The session whose flow `id` the remote at `connection` takes.
    fn find(&self, core: &Core, connection: ConnectionId, id: RequestId) -> Option<SessionId> {
        let node = core.connections.get(connection)?.node;
        self.index.get(&(node, id)).copied()
    }

    pub(super) fn reconfigure(&mut self, services: ServiceSet, max_streams: u16, uplink_kbps: Option<u32>) {
        self.services = services;
        self.max_streams = max_streams;
        self.uplink_kbps = uplink_kbps;
    }

    pub(super) fn status(&self, now: Time) -> Vec<SessionStatus> {
        let one = |(id, session): (SessionId, &Session)| SessionStatus {
            session: id,
            service: session.request.offer.service,
            requester: session.request.requester,
            relayed: session.request.relayed,
            bytes: session.bytes(),
            age: now.since(session.started),
        };
        self.under_way().map(one).collect()
    }

    fn under_way(&self) -> impl Iterator<Item = (SessionId, &Session)> {
        self.live.iter().filter_map(|id| self.sessions.get(id).map(|session| (*id, session)))
    }

    /// The sessions under way of which `which` holds.
    fn live_where(&self, which: impl Fn(&Session) -> bool) -> Vec<SessionId> {
        self.under_way().filter(|(_, session)| which(session)).map(|(id, _)| id).collect()
    }
}

fn decline(core: &mut Core, request: &ServeRequest, reason: Reason, retry_after: Option<Duration>) {
    let retry_after_ms = retry_after.and_then(|after| u32::try_from(after.as_millis()).ok());
    send_decline(core, request, Decline { retry_after_ms, ..Decline::new(request.key.1, reason) });
}

fn send_decline(core: &mut Core, request: &ServeRequest, decline: Decline) {
    // A requester that asks by multicast hears from another node, or asks again.
    let Some(asked_by) = request.asked_by else { return };
    let requester = Some(request.requester).filter(|_| !request.relayed && core.is_hub(asked_by));
    core.send(asked_by, RequestMessage::Decline(Decline { requester, ..decline }));
}
