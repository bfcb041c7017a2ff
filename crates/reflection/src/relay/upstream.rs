//! The side that receives: answers, reports, and the change from one upstream to another.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use roost_wire::{StreamId, StreamTag, Time};

use super::downstream_state::Downstream;
use super::stream::StreamName;
use super::tags::{BindOutcome, GRANTED, StreamUse};
use super::timers::Timer;
use super::upstream_state::{REPORT, SILENCE, Upstream};
use super::{Relay, RelayEvent};
use crate::control::{ControlPacket, PathToken};
use crate::packet::MAX_HOPS;

impl Relay {
    /// A stream is offered. Whoever did not ask for it says so.
    pub(super) fn handle_offer(
        &mut self,
        now: Time,
        from: SocketAddr,
        stream: StreamId,
        word: PathToken,
        tag: StreamTag,
    ) {
        let asked = self.tags.get_mut(tag);
        let asked = asked.filter(|asked| asked.may_be(stream)).map(|asked| (asked.whom, asked.number));
        let is_own = self.streams.get(&stream).is_some_and(|stream| stream.is_published);
        let Some((whom, number)) = asked.filter(|_| !is_own) else {
            self.rejected.unknown += 1;
            // An offer that somebody else asked for is no reason to end a stream of this host.
            if self.known_upstream(from, stream, word).is_none() {
                self.send_control(from, stream, word, &ControlPacket::Bye);
            }
            return;
        };
        let known = if self.makes_room(now, stream, &whom, from) { self.stream_or_new(stream) } else { None };
        let Some(known) = known else {
            // The one that offers it need not go on.
            self.rejected.unknown += 1;
            return self.send_control(from, stream, word, &ControlPacket::Bye);
        };
        let next = known.reflector.next();
        if let Some(leg) = known.answer_upstream(now, from, word, number) {
            self.leave_upstream(now, stream, leg.address, leg.word);
        }
        self.parted.forget(stream, from);
        self.locals.record_current(now);
        self.send_control(from, stream, word, &ControlPacket::Answer { tag, next });
        self.bind(now, stream, tag, whom);
        self.poll_upstreams(now, stream);
    }

    /// Binds a tag to this stream.
    fn bind(&mut self, now: Time, stream: StreamId, tag: StreamTag, whom: StreamUse) {
        let Some(bound) = self.tags.get_mut(tag).map(|asked| asked.bind(stream)) else { return };
        if let (StreamUse::Local, BindOutcome::Instead(before)) = (whom, &bound) {
            self.unbind(now, *before);
        }
        let is_new = !matches!(bound, BindOutcome::Again);
        let Some(known) = self.streams.get_mut(&stream).filter(|_| is_new) else { return };
        match whom {
            StreamUse::Local => {
                known.is_local = true;
                known.watchers += 1;
                self.timers.set(Timer::Tag(tag), now + GRANTED);
                self.events.push_back(RelayEvent::Began { tag, stream });
            }
            StreamUse::Forwarded(grant) => {
                known.call(StreamName::from(&grant));
                // If there is no room, the control plane has refused, or the downstream asks again.
                let _ = self.add_downstream(now, stream, grant.to, grant.begin, grant.their_tag, grant.kind);
                self.update_demand(now, stream);
            }
        }
    }

    /// Another stream has replaced this one under one tag.
    fn unbind(&mut self, now: Time, stream: StreamId) {
        let Some(known) = self.streams.get_mut(&stream) else { return };
        known.watchers = known.watchers.saturating_sub(1);
        if known.watchers == 0 {
            self.release_stream(now, stream);
        }
    }

    /// A tag has waited long enough, or been remembered.
    pub(super) fn expire(&mut self, tag: StreamTag) {
        self.timers.clear(Timer::HolePunch(tag));
        let asked = self.tags.remove(tag);
        if asked.is_some_and(|asked| matches!(asked.whom, StreamUse::Local) && asked.stream.is_none()) {
            self.events.push_back(RelayEvent::OfferTimedOut { tag });
        }
    }

    /// An upstream is there, at this depth, and has sent what is before this counter.
    pub(super) fn handle_heartbeat(
        &mut self,
        now: Time,
        from: SocketAddr,
        stream: StreamId,
        word: PathToken,
        depth: u8,
        next: u64,
    ) {
        let Some(leg) = self.known_upstream(from, stream, word) else {
            return self.unknown_upstream(now, from, stream);
        };
        leg.record_heartbeat(now, depth, next);
        let Some(known) = self.streams.get_mut(&stream) else { return };
        known.gaps.record_end(now, next);
        if let Some(due) = known.gaps.poll_deadline() {
            self.timers.advance(Timer::Repair(stream), due);
        }
    }

    pub(super) fn handle_leaving(&mut self, now: Time, from: SocketAddr, stream: StreamId, word: PathToken) {
        let Some(leg) = self.known_upstream(from, stream, word) else {
            return self.unknown_upstream(now, from, stream);
        };
        leg.record_leaving(now);
        self.report_upstream_loss(now, stream);
    }

    /// An upstream has no more of the stream; answers whether it was one.
    pub(super) fn handle_upstream_bye(
        &mut self,
        now: Time,
        from: SocketAddr,
        stream: StreamId,
        word: PathToken,
    ) -> bool {
        if self.known_upstream(from, stream, word).is_none() {
            return false;
        }
        if let Some(known) = self.streams.get_mut(&stream) {
            known.upstreams.retain(|leg| leg.address != from);
        }
        self.schedule_upstreams(now, stream);
        self.report_upstream_loss(now, stream);
        true
    }

    pub(super) fn known_upstream(
        &mut self,
        from: SocketAddr,
        stream: StreamId,
        word: PathToken,
    ) -> Option<&mut Upstream> {
        self.streams.get_mut(&stream)?.upstream_mut(from).filter(|leg| leg.word == word)
    }

    /// Somebody takes this host for its downstream: it did not hear that it is done.
    pub(super) fn unknown_upstream(&mut self, now: Time, from: SocketAddr, stream: StreamId) {
        self.rejected.foreign += 1;
        if let Some(word) = self.parted.tell_again(now, stream, from) {
            self.send_control(from, stream, word, &ControlPacket::Bye);
        }
    }

    pub(super) fn leave_upstream(&mut self, now: Time, stream: StreamId, address: SocketAddr, word: PathToken) {
        self.send_control(address, stream, word, &ControlPacket::Bye);
        self.parted.record_departure(now, stream, address, word);
    }

    /// Reports, gives up the silent, and leaves those for whom another stands in.
    pub(super) fn poll_upstreams(&mut self, now: Time, stream: StreamId) {
        let max_hops = self.config.fanout.max_hops;
        let Some(known) = self.streams.get_mut(&stream) else { return };
        let legs = std::mem::take(&mut known.upstreams);
        let left = left(now, &legs, &known.downstreams, max_hops);
        let mut parted = Vec::new();
        for (leg, is_left) in legs.into_iter().zip(left) {
            if is_left {
                parted.push((leg.address, leg.word));
            } else {
                known.upstreams.push(leg);
            }
        }
        let missed = known.gaps.given_up();
        let mut reports = Vec::new();
        for leg in known.upstreams.iter_mut().filter(|leg| leg.report_due <= now) {
            leg.report_due = now + REPORT;
            reports.push((leg.address, leg.word, leg.reported(missed)));
        }
        self.schedule_upstreams(now, stream);
        for (address, word) in parted {
            self.leave_upstream(now, stream, address, word);
        }
        for (address, word, reported) in reports {
            self.send_control(address, stream, word, &ControlPacket::Report(reported));
        }
        self.report_upstream_loss(now, stream);
    }

    fn schedule_upstreams(&mut self, now: Time, stream: StreamId) {
        let Some(known) = self.streams.get_mut(&stream) else { return };
        let end = known.ends(now);
        if end.is_some_and(|end| end <= now) {
            // Downstreams that wait are better off with another upstream.
            return self.remove_downstreams(now, stream);
        }
        let is_changing = known.upstreams.len() > 1;
        let look = is_changing.then_some(now + super::upstream_state::LOOK);
        match known.upstreams.iter().map(|leg| leg.due(now)).chain(look).chain(end).min() {
            Some(due) => self.timers.set(Timer::Upstreams(stream), due),
            None => self.timers.clear(Timer::Upstreams(stream)),
        }
    }

    /// Says so where it matters if a stream has no upstream that stays.
    fn report_upstream_loss(&mut self, now: Time, stream: StreamId) {
        let Some(known) = self.streams.get_mut(&stream) else { return };
        let is_lost = known.upstreams.is_empty() && !known.is_published;
        // Nothing comes meanwhile, for which downstreams could wait for their turn.
        let is_urgent = is_lost || known.upstreams.iter().all(|leg| leg.is_doubtful(now));
        if is_lost && known.is_local && !std::mem::replace(&mut known.is_lost, true) {
            self.events.push_back(RelayEvent::Lost { stream });
        }
        if known.tells_moving(now) {
            if known.is_local && !is_lost {
                self.events.push_back(RelayEvent::UpstreamLeaving { stream });
            }
            if is_urgent {
                self.send_leaving(stream);
            } else {
                self.schedule_leaving(now, stream);
            }
        }
    }

    /// Asks for what is missing, where it can be had soonest.
    pub(super) fn send_nack(&mut self, now: Time, stream: StreamId) {
        let Some(known) = self.streams.get_mut(&stream) else { return };
        let leg = known.upstreams.iter_mut().filter(|leg| !leg.is_leaving(now)).max_by_key(|leg| leg.heard);
        let round_trip = leg.as_ref().map_or(SILENCE, |leg| leg.round_trip);
        let nack = known.gaps.poll_nack(now, round_trip);
        if let Some(due) = known.gaps.poll_deadline() {
            // Packets that did not fit into one message are due already.
            self.timers.set(Timer::Repair(stream), due.max(now + super::upstream_state::ASK_AGAIN));
        }
        let Some((leg, nack)) = leg.zip(nack) else { return };
        if let Some(first) = nack.counters().next() {
            leg.ask(now, first);
        }
        let (to, word) = (leg.address, leg.word);
        self.send_control(to, stream, word, &ControlPacket::Nack(nack));
    }
}

/// The upstreams to leave: silent ones, those at the end of a circle, and those that a later one stands in for.
///
/// An upstream that is also a downstream stands in for nobody: if both hosts did so at once, both would be cut
/// off. If that does not change of itself the upstream is left.
fn left(now: Time, legs: &[Upstream], members: &BTreeMap<SocketAddr, Downstream>, max_hops: u8) -> Vec<bool> {
    // A packet that has come further would be dropped when it is sent on.
    let most = if members.is_empty() { MAX_HOPS } else { max_hops.saturating_sub(1) };
    let is_mutual = |leg: &Upstream| members.get(&leg.address).is_some_and(Downstream::has_answered);
    let is_left = |(at, leg): (usize, &Upstream)| {
        let mut others = legs.iter().enumerate().filter(|(other, _)| *other != at);
        let stands_in = others.any(|(other, later)| {
            !is_mutual(later) && later.stands_in_for(now, leg) && (other > at || is_mutual(leg) && leg.is_old(now))
        });
        now.since(leg.heard) >= SILENCE || leg.depth > most || stands_in
    };
    legs.iter().enumerate().map(is_left).collect()
}
