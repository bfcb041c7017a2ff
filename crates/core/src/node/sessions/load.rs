//! The load that the node takes on: its streams and their uplink, and its objects.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use roost_wire::{Capacity, FlowKind, Service};

use super::publications::{MAX_MEMBERS, MAX_MEMBERS_PER_REQUESTER};
use super::serve_request::{ServeRequest, SessionFlowKey};
use super::session::{Session, SessionPhase};
use crate::flow::usual_kbps;
use crate::node::api::SessionId;
use crate::node::sessions::{MAX_OBJECT_SESSIONS, ProviderSessions};

impl ProviderSessions {
    /// True if a request is one more than this node takes on. What its session has is not counted.
    pub(super) fn is_busy(&self, request: &ServeRequest) -> bool {
        self.is_too_much(request, &self.load_besides(Some(request.key)))
    }

    /// True if a request is too much beside so much else.
    pub(super) fn is_too_much(&self, request: &ServeRequest, load: &ProviderLoad) -> bool {
        let published =
            request.reflect.and_then(|reflect| Some((reflect.to, self.publications.rate(request.offer.service)?)));
        match (request.offer.flow_kind(), published) {
            (FlowKind::Stream { .. }, Some((to, kbps))) => {
                !self.has_room_for_member(request) || !self.has_room_for_copy(request, to, load, kbps)
            }
            (form @ FlowKind::Stream { .. }, None) => !self.has_room(load, usual_kbps(form)),
            (FlowKind::Object { .. }, _) => load.objects >= MAX_OBJECT_SESSIONS,
        }
    }

    /// The streams of a service that are sent to one requester each, if without them there is room
    /// for one that all of them can have instead; none if there is room anyway. Where no super node
    /// reflects they would take as much as before.
    pub(super) fn giving_way(&self, request: &ServeRequest) -> Vec<SessionId> {
        let is_reflected = request.reflect.is_some_and(|reflect| reflect.hops > 0);
        if !is_reflected
            || self.publications.find_publication(request.offer.service).is_some()
            || !self.is_busy(request)
        {
            return Vec::new();
        }
        let gives_way = |session: &Session| {
            let other = &session.request;
            matches!(session.phase, SessionPhase::Streaming(_))
                && other.offer.service == request.offer.service
                && other.spec.is_reflectable()
        };
        let mut load = self.load_besides(Some(request.key));
        let giving_way = self.live_where(gives_way);
        for session in giving_way.iter().filter_map(|id| self.sessions.get(id)) {
            load.leave(&ProviderLoad::of_stream(session.kbps));
        }
        if self.has_room(&load, usual_kbps(request.offer.flow_kind())) { giving_way } else { Vec::new() }
    }

    /// True if there is room for one more stream.
    fn has_room(&self, load: &ProviderLoad, kbps: u32) -> bool {
        let fits = |limit| load.kbps.saturating_add(kbps) <= limit;
        load.streams < usize::from(self.max_streams) && self.uplink_kbps.is_none_or(fits)
    }

    /// True if there is a place for one more request of a publication.
    fn has_room_for_member(&self, request: &ServeRequest) -> bool {
        let (mut all, mut own) = (0, 0);
        for (_, member) in self.members(request.offer.service).filter(|(_, member)| member.request.key != request.key) {
            all += 1;
            own += usize::from(member.request.requester == request.requester);
        }
        all < MAX_MEMBERS / 2 || all < MAX_MEMBERS && own < MAX_MEMBERS_PER_REQUESTER
    }

    /// True if there is room for the copy that a member is to be sent, if it is one of its own. Who has one and
    /// asks for another way has two for a moment: for one of all who do so there is room beyond the limits.
    fn has_room_for_copy(&self, request: &ServeRequest, to: SocketAddr, load: &ProviderLoad, kbps: u32) -> bool {
        let copies = self.copies(request.offer.service, |other| other.key != request.key);
        let own = self
            .copies(request.offer.service, |other| other.key != request.key && other.requester == request.requester);
        let without_own =
            || ProviderLoad { streams: load.streams.saturating_sub(1), kbps: load.kbps.saturating_sub(kbps), ..*load };
        copies.is_empty()
            || copies.contains(&to)
            || self.has_room(load, kbps)
            || own.len() == 1 && self.has_room(&without_own(), kbps)
    }

    /// The addresses of the copies of a service's publication, for members of which `which` holds.
    fn copies(&self, service: Service, which: impl Fn(&ServeRequest) -> bool) -> BTreeSet<SocketAddr> {
        let joined = self.members(service).filter(|(_, member)| member.has_joined() && which(&member.request));
        joined.filter_map(|(_, member)| Some(member.request.reflect?.to)).collect()
    }

    /// The rest of the node's limits.
    pub(crate) fn capacity(&self) -> Capacity {
        let load = self.load();
        let streams = usize::from(self.max_streams).saturating_sub(load.streams);
        Capacity {
            streams: u16::try_from(streams).unwrap_or(u16::MAX),
            // The wire's word for no limit.
            uplink_kbps: self.uplink_kbps.map_or(u32::MAX, |limit| limit.saturating_sub(load.kbps)),
        }
    }

    /// The used part of the limits: a reflected stream counts once for each place to which it goes, however
    /// many take it there.
    pub(super) fn load(&self) -> ProviderLoad {
        self.load_besides(None)
    }

    /// The load without one session.
    pub(super) fn load_besides(&self, except: Option<SessionFlowKey>) -> ProviderLoad {
        let mut load = ProviderLoad::default();
        for (service, kbps) in self.publications.rates() {
            // The source runs also while nobody has joined yet, and when everybody has left.
            let copies = self.copies(service, |request| Some(request.key) != except).len().max(1);
            load.streams += copies;
            load.kbps = load.kbps.saturating_add(kbps.saturating_mul(u32::try_from(copies).unwrap_or(u32::MAX)));
        }
        let counts = |session: &Session| session.request.reflect.is_none() && Some(session.request.key) != except;
        for (_, session) in self.under_way().filter(|(_, session)| counts(session)) {
            if session.request.offer.service.is_stream() {
                load.streams += 1;
                load.kbps = load.kbps.saturating_add(session.kbps);
            } else {
                load.objects += 1;
            }
        }
        load
    }
}

/// The load of the sessions under way.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ProviderLoad {
    pub(super) streams: usize,
    pub(super) kbps: u32,
    objects: usize,
}

impl ProviderLoad {
    pub(super) fn of_stream(kbps: u32) -> Self {
        Self { streams: 1, kbps, objects: 0 }
    }

    pub(super) fn of_object() -> Self {
        Self { objects: 1, ..Self::default() }
    }

    /// Takes away what is under way no longer.
    pub(super) fn leave(&mut self, gone: &Self) {
        self.streams = self.streams.saturating_sub(gone.streams);
        self.kbps = self.kbps.saturating_sub(gone.kbps);
        self.objects = self.objects.saturating_sub(gone.objects);
    }
}
