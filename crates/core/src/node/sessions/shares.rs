//! Places are shared by requester. Who asks while all of them are taken gets one of the requester that
//! holds most, as long as that keeps as many as the one who asks then has, or one that is not made use
//! of. So one requester has every place while nobody else asks, and shuts out nobody.

use std::collections::{BTreeMap, BTreeSet};

use roost_wire::messages::Reason;
use roost_wire::{NodeId, Time};

use super::ProviderSessions;
use super::load::ProviderLoad;
use super::serve_request::ServeRequest;
use super::session::{Session, SessionPhase};
use crate::flow::SILENCE_TIMEOUT;
use crate::node::api::SessionId;
use crate::node::core::Core;

/// A place that is taken.
#[derive(Debug)]
pub(super) struct ProviderSlot {
    pub(super) holder: NodeId,
    /// The sessions that end when it is lost: those of one copy share a place.
    pub(super) sessions: Vec<SessionId>,
    /// Places, or bytes of memory, that it takes.
    pub(super) amount: u64,
    /// The holder reads what it is sent.
    pub(super) is_used: bool,
    /// Payload that would have been sent in vain, bytes.
    pub(super) bytes: u64,
    load: ProviderLoad,
}

/// Sessions that end to make room for `amount` more of a requester; none if all that may be taken is not enough.
/// `has_room` is asked after each place that is lost.
pub(super) fn select_evicted(
    places: Vec<ProviderSlot>,
    requester: NodeId,
    amount: u64,
    mut has_room: impl FnMut(&ProviderSlot) -> bool,
) -> Vec<SessionId> {
    let mut held = BTreeMap::<NodeId, Vec<ProviderSlot>>::new();
    for place in places {
        held.entry(place.holder).or_default().push(place);
    }
    let total = |places: &[ProviderSlot]| places.iter().map(|place| place.amount).sum::<u64>();
    let own = held.remove(&requester).map_or(0, |own| total(&own)) + amount;
    for places in held.values_mut() {
        // The last one is lost first.
        places.sort_by_key(|place| std::cmp::Reverse((place.is_used, place.bytes)));
    }
    let mut lost = Vec::new();
    loop {
        let may_lose = |places: &&mut Vec<ProviderSlot>| {
            let is_unused = places.len() > 1 && places.last().is_some_and(|place| !place.is_used);
            is_unused || total(places) > own
        };
        let Some(most) = held.values_mut().filter(may_lose).max_by_key(|places| total(places)) else {
            return Vec::new();
        };
        let Some(place) = most.pop() else { return Vec::new() };
        let is_enough = has_room(&place);
        lost.extend(place.sessions);
        if is_enough {
            return lost;
        }
    }
}

impl ProviderSessions {
    /// Ends what silent requesters hold, the one that was silent for longest first, until there
    /// is room for a request, and then what others hold beyond their share. Who comes back asks anew.
    pub(super) fn make_room(&mut self, core: &mut Core, request: &ServeRequest) {
        if self.provides(core, request) && self.is_busy(request) {
            self.end_silent(core, request);
            if self.is_busy(request) && self.giving_way(request).is_empty() {
                let displaced = self.displaced(core.now, request);
                self.displace(core, &displaced);
            }
        }
    }

    /// Ends sessions whose places others get: their requesters may go on elsewhere, or later.
    pub(super) fn displace(&mut self, core: &mut Core, sessions: &[SessionId]) {
        for id in sessions {
            let Some(Session { request, phase, .. }) = self.sessions.get(id) else { continue };
            let publication = request.reflect.and_then(|_| self.publications.find_publication(request.offer.service));
            core.counters.displaced += 1;
            match phase {
                SessionPhase::Reaching | SessionPhase::Fetching(_) | SessionPhase::Opening => {
                    self.refuse(core, *id, Reason::Busy)
                }
                _ => self.stop_requester(core, *id, Reason::Busy),
            }
            if let Some(publication) = publication {
                self.on_linger_timer(core, publication);
            }
        }
    }

    fn end_silent(&mut self, core: &mut Core, request: &ServeRequest) {
        for _ in 0..self.live.len() {
            let is_of_kind = |session: &Session| {
                session.gives_way(core)
                    && session.request.offer.service.is_stream() == request.offer.service.is_stream()
            };
            let silent = self.under_way().filter(|(_, session)| is_of_kind(session));
            let Some(id) = silent.min_by_key(|(id, session)| (session.heard, *id)).map(|(id, _)| id) else { return };
            if !self.is_busy(request) {
                return;
            }
            self.stop_requester(core, id, Reason::TimedOut);
        }
    }

    /// The sessions of others that end so that a request has a place.
    pub(super) fn displaced(&self, now: Time, request: &ServeRequest) -> Vec<SessionId> {
        let places = if request.offer.service.is_stream() { self.stream_slots(now) } else { self.object_slots(now) };
        let mut load = self.load_besides(Some(request.key));
        select_evicted(places, request.requester, 1, |place| {
            load.leave(&place.load);
            !self.is_too_much(request, &load)
        })
    }

    /// The sessions of others that end so that an object of so many bytes can be held.
    pub(super) fn displaced_from_memory(
        &self,
        now: Time,
        request: &ServeRequest,
        bytes: u64,
        excess: u64,
    ) -> Vec<SessionId> {
        let mut places = self.object_slots(now);
        places.retain_mut(|place| {
            let held = place.sessions.iter().filter_map(|id| self.sessions.get(id)).map(Session::held_bytes);
            place.amount = held.sum::<usize>() as u64;
            place.amount > 0
        });
        let mut freed = 0;
        select_evicted(places, request.requester, bytes, |place| {
            freed += place.amount;
            freed >= excess
        })
    }

    fn object_slots(&self, now: Time) -> Vec<ProviderSlot> {
        let objects = self.under_way().filter(|(_, session)| !session.request.offer.service.is_stream());
        objects.map(|(id, session)| provider_slot(now, id, session)).collect()
    }

    /// A stream for one requester is a place; so is a copy that one requester alone has.
    fn stream_slots(&self, now: Time) -> Vec<ProviderSlot> {
        let is_single =
            |session: &Session| session.request.offer.service.is_stream() && session.request.reflect.is_none();
        let streams = self.under_way().filter(|(_, session)| is_single(session));
        let mut places: Vec<ProviderSlot> = streams.map(|(id, session)| provider_slot(now, id, session)).collect();
        for (service, kbps) in self.publications.rates() {
            let mut copies = BTreeMap::<_, Vec<(SessionId, &Session)>>::new();
            for (id, member) in self.members(service).filter(|(_, member)| member.has_joined()) {
                copies.entry(member.request.reflect.map(|reflect| reflect.to)).or_default().push((id, member));
            }
            for members in copies.into_values() {
                let holders: BTreeSet<NodeId> = members.iter().map(|(_, member)| member.request.requester).collect();
                if let (Some(holder), 1) = (holders.first().copied(), holders.len()) {
                    let sessions = members.iter().map(|(id, _)| *id).collect();
                    let load = ProviderLoad::of_stream(kbps);
                    places.push(ProviderSlot { holder, sessions, amount: 1, is_used: true, bytes: 0, load });
                }
            }
        }
        places
    }
}

fn provider_slot(now: Time, id: SessionId, session: &Session) -> ProviderSlot {
    ProviderSlot {
        holder: session.request.requester,
        sessions: vec![id],
        amount: 1,
        is_used: session.is_used(now),
        bytes: session.bytes(),
        load: if session.request.offer.service.is_stream() {
            ProviderLoad::of_stream(session.kbps)
        } else {
            ProviderLoad::of_object()
        },
    }
}

impl Session {
    /// True while its requester takes what it is sent. A source that has not begun is nobody's fault.
    fn is_used(&self, now: Time) -> bool {
        let moved = if matches!(self.phase, SessionPhase::Sending(_)) { self.moved } else { self.heard };
        let is_under_way = matches!(self.phase, SessionPhase::Sending(_) | SessionPhase::Streaming(_));
        !is_under_way || now.since(moved) < SILENCE_TIMEOUT
    }

    /// True for a member of a publication to which a copy goes, or is about to.
    pub(super) fn has_joined(&self) -> bool {
        matches!(self.phase, SessionPhase::Opening | SessionPhase::Member)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use roost_wire::random::SplitMix64;

    fn node(number: u8) -> NodeId {
        NodeId::from_bytes([number; 16])
    }

    fn place(number: u64, holder: u8, is_used: bool) -> ProviderSlot {
        let (sessions, load) = (vec![SessionId(number)], ProviderLoad::default());
        ProviderSlot { holder: node(holder), sessions, amount: 1, is_used, bytes: number, load }
    }

    /// Sessions that make `room` for one more of requester 1.
    fn losers(places: Vec<ProviderSlot>, room: usize) -> Vec<u64> {
        let mut left = room;
        let lost = select_evicted(places, node(1), 1, |_| {
            left -= 1;
            left == 0
        });
        lost.into_iter().map(|SessionId(number)| number).collect()
    }

    #[test]
    fn greatest_holder_loses_its_youngest() {
        let held = [2, 3, 3, 3, 2].into_iter().zip(0..);
        assert_eq!(losers(held.map(|(holder, number)| place(number, holder, true)).collect(), 1), [1]);
    }

    #[test]
    fn equal_shares_are_left_alone() {
        let held = [1, 2, 2].into_iter().zip(0..);
        assert!(losers(held.map(|(holder, number)| place(number, holder, true)).collect(), 1).is_empty());
    }

    #[test]
    fn unused_places_go_beyond_shares() {
        let places = vec![place(0, 1, true), place(1, 1, true), place(2, 2, false), place(3, 2, true)];
        assert_eq!(losers(places, 1), [2]);
        // The only one stays: it may be on a thin link.
        assert!(losers(vec![place(0, 1, true), place(1, 2, false)], 1).is_empty());
    }

    #[test]
    fn nobody_loses_in_vain() {
        let places = (0..3).map(|number| place(number, 2, true)).collect();
        assert!(losers(places, 3).is_empty());
    }

    #[test]
    fn shares_even_out_whoever_asks() {
        for seed in 0..200 {
            let mut random = SplitMix64::new(seed);
            let all = 2 + random.below(30);
            let mut places: Vec<(u64, u8)> = (0..all).map(|number| (number, 9)).collect();
            for number in all..all + 200 {
                let requester = 1 + random.below(4) as u8;
                let held = places.iter().map(|(number, holder)| place(*number, *holder, true)).collect();
                let lost = select_evicted(held, node(requester), 1, |_| true);
                if let [SessionId(loser)] = lost[..] {
                    places.retain(|(number, _)| *number != loser);
                    places.push((number, requester));
                }
            }
            let count = |holder| places.iter().filter(|(_, of)| *of == holder).count();
            let counts: Vec<usize> = [1, 2, 3, 4, 9].map(count).into();
            let (least, most) = (counts.iter().min().unwrap(), counts.iter().max().unwrap());
            assert!(all < 5 || most - least <= 1, "seed {seed}: {counts:?}");
        }
    }
}
