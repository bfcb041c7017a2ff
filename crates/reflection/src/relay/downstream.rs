//! The side that sends: offers, leases, and who has gone.

use std::net::{IpAddr, SocketAddr};

use roost_wire::reflection::{DownstreamKind, StartCondition};
use roost_wire::{StreamId, StreamTag, Time};

use super::downstream_state::{Answered, Downstream};
use super::timers::Timer;
use super::{Relay, RelayEvent, SPREAD};
use crate::admission::{AdmissionError, MAX_TARGETS, MAX_UNANSWERED};
use crate::control::{ControlPacket, Nack, PathToken, ReceiverReport};
use crate::datagram_path::canonical;
use crate::target::{StartPoint, TargetOptions};

/// The most bytes of a stream for a host that has not answered: it may not have asked. Most key frames fit.
const MAX_UNANSWERED_BYTES: u64 = 128 << 10;

/// The copy of a downstream that was trusted to want the stream, hence has it already.
#[derive(Clone, Copy, PartialEq, Eq)]
enum TrustedCopy {
    GoesOn,
    BeginsAnew,
}

impl Relay {
    /// Offers a stream to an address, or under one more tag.
    pub(super) fn add_downstream(
        &mut self,
        now: Time,
        stream: StreamId,
        to: SocketAddr,
        begin: StartCondition,
        tag: StreamTag,
        kind: DownstreamKind,
    ) -> Result<(), AdmissionError> {
        let to = canonical(to);
        if let Some(door) = self.doors.offered_address(tag, stream).filter(|door| *door != to) {
            if door.ip() == to.ip() && self.has_member(stream, door) {
                // The subscriber has called from another port since, where it is offered the stream or has it.
                return Ok(());
            }
            self.withdraw(now, stream, tag);
        }
        let is_known = self.has_member(stream, to);
        if !is_known {
            self.check_room(stream, to)?;
        }
        let may_begin = self.may_begin_unanswered(now, to, begin);
        let word = self.random.draw_token();
        let Some(known) = self.streams.get_mut(&stream) else { return Err(AdmissionError::NoStream) };
        known.reflector.sends_on = true;
        let member = known.downstreams.entry(to).or_insert_with(|| Downstream::new(now, kind, word));
        member.offer(now, tag);
        if kind == DownstreamKind::Subscriber {
            self.doors.record_offer(tag, stream, to);
        }
        if !is_known && may_begin {
            let terms = TargetOptions { kind, ..TargetOptions::SUBSCRIBER };
            member.target = known.reflector.fanout().add_target(now, to, terms, StartPoint::KeyFrame).ok();
            member.target.into_iter().for_each(|target| known.reflector.fanout().allow(target, MAX_UNANSWERED_BYTES));
            self.busy.insert(stream);
        }
        self.poll_downstream(now, stream, to);
        self.update_demand(now, stream);
        Ok(())
    }

    /// True if a stream may be sent with its first offer: one stream at a time to a host that has not answered.
    fn may_begin_unanswered(&self, now: Time, to: SocketAddr, begin: StartCondition) -> bool {
        let is_there = match begin {
            StartCondition::Answered => self.routable.knows(now, to),
            StartCondition::Offered => true,
            StartCondition::Resumed => false,
        };
        is_there && !self.trusts(to.ip())
    }

    fn has_member(&self, stream: StreamId, address: SocketAddr) -> bool {
        self.streams.get(&stream).is_some_and(|known| known.downstreams.contains_key(&address))
    }

    fn check_room(&self, stream: StreamId, to: SocketAddr) -> Result<(), AdmissionError> {
        let Some(known) = self.streams.get(&stream) else { return Err(AdmissionError::NoStream) };
        let all = self.streams.values().filter_map(|stream| stream.downstreams.get(&to));
        let unanswered = all.filter(|member| !member.has_answered()).count();
        match () {
            () if self.is_leaving => Err(AdmissionError::Leaving),
            () if known.downstreams.len() >= MAX_TARGETS => Err(AdmissionError::TooManyTargets),
            () if unanswered >= MAX_UNANSWERED => Err(AdmissionError::Unanswered),
            () if self.residual_capacity().is_some_and(|residual| residual < known.rate()) => {
                Err(AdmissionError::UplinkFull)
            }
            () => Ok(()),
        }
    }

    /// True if a host is sent something that it has not answered.
    fn trusts(&self, host: IpAddr) -> bool {
        let ports = SocketAddr::new(host, 0)..=SocketAddr::new(host, u16::MAX);
        let mut members = self.streams.values().flat_map(|stream| stream.downstreams.range(ports.clone()));
        members.any(|(_, member)| member.target.is_some() && !member.has_answered())
    }

    /// The residual capacity of the uplink, bits per second, if it has a limit.
    pub fn residual_capacity(&self) -> Option<u64> {
        let used = self.streams.values().map(super::stream::RelayStream::load).sum();
        self.config.uplink.map(|uplink| uplink.saturating_sub(used))
    }

    /// The downstream that is known by this word at this address.
    fn member(&mut self, from: SocketAddr, stream: StreamId, word: PathToken) -> Option<&mut Downstream> {
        self.streams.get_mut(&stream)?.downstreams.get_mut(&from).filter(|member| member.word == word)
    }

    pub(super) fn handle_answer(
        &mut self,
        now: Time,
        from: SocketAddr,
        stream: StreamId,
        word: PathToken,
        tag: StreamTag,
        next: u64,
    ) {
        let Some(member) = self.member(from, stream, word) else { return self.refuse(from, stream, word) };
        let answered = member.answer(now, tag);
        self.routable.record_answer(now, from);
        self.locals.record_current(now);
        let start = if next > 0 { StartPoint::At(next) } else { StartPoint::KeyFrame };
        match answered {
            Answered::First { was_repeated } if was_repeated || next > 0 => {
                self.start(now, from, stream, start, TrustedCopy::BeginsAnew);
            }
            Answered::First { .. } => self.start(now, from, stream, start, TrustedCopy::GoesOn),
            Answered::Again => {}
        }
    }

    /// Sends the stream to a downstream that wants it. A trusted copy begins anew only if the downstream did not
    /// know what it got, or has what is before.
    fn start(&mut self, now: Time, to: SocketAddr, stream: StreamId, start: StartPoint, trusted: TrustedCopy) {
        let Some(known) = self.streams.get_mut(&stream) else { return };
        let Some(member) = known.downstreams.get_mut(&to) else { return };
        member.target.into_iter().for_each(|target| known.reflector.fanout().allow_all(target));
        match member.target {
            Some(target) if trusted == TrustedCopy::BeginsAnew => {
                known.reflector.fanout().restart_target(now, target, start)
            }
            Some(_) => {}
            None => {
                let terms = TargetOptions { kind: member.kind, ..TargetOptions::SUBSCRIBER };
                member.target = known.reflector.fanout().add_target(now, to, terms, start).ok();
            }
        }
        self.busy.insert(stream);
    }

    /// A report is an answer as well, if that was lost.
    pub(super) fn handle_report(
        &mut self,
        now: Time,
        from: SocketAddr,
        stream: StreamId,
        word: PathToken,
        said: ReceiverReport,
    ) {
        let target = self.member(from, stream, word).map(|member| member.target);
        let Some(target) = target else { return self.refuse(from, stream, word) };
        self.locals.record_current(now);
        let Some(known) = self.streams.get_mut(&stream) else { return };
        let missed = known.gaps.given_up();
        let is_congested =
            target.is_some_and(|target| known.reflector.fanout().note_reported(now, target, said.highest));
        let Some(member) = known.downstreams.get_mut(&from) else { return };
        let is_first = !member.has_answered();
        member.report(now, said, missed, is_congested);
        let parity = member.parity;
        known.note_parity(now, parity);
        if is_first {
            self.start(now, from, stream, StartPoint::At(said.highest.saturating_add(1)), TrustedCopy::GoesOn);
        }
    }

    pub(super) fn handle_nack(&mut self, now: Time, from: SocketAddr, stream: StreamId, word: PathToken, nack: &Nack) {
        let target = self.member(from, stream, word).map(|member| member.target);
        let Some(target) = target else { return self.refuse(from, stream, word) };
        if let (Some(target), Some(known)) = (target, self.streams.get_mut(&stream)) {
            known.reflector.fanout().repair(now, target, nack);
            self.busy.insert(stream);
        }
    }

    pub(super) fn handle_key_frame_request(&mut self, now: Time, from: SocketAddr, stream: StreamId, word: PathToken) {
        match self.member(from, stream, word) {
            Some(_) => self.request_key_frame(now, stream),
            None => self.refuse(from, stream, word),
        }
    }

    /// Somebody takes this host for its upstream, which it is no more: before a restart, perhaps.
    fn refuse(&mut self, from: SocketAddr, stream: StreamId, word: PathToken) {
        self.rejected.unknown += 1;
        self.send_control(from, stream, word, &ControlPacket::Bye);
    }

    /// A downstream wants the stream no more; answers whether it was one.
    pub(super) fn handle_downstream_bye(
        &mut self,
        now: Time,
        from: SocketAddr,
        stream: StreamId,
        word: PathToken,
    ) -> bool {
        let next = self.random.draw_token();
        let Some(member) = self.member(from, stream, word) else { return false };
        if !member.has_answered() {
            // The host was trusted, and did not ask.
            self.routable.forget(from);
        } else if member.is_offered() {
            // The stream that it had ends, not the one that it has asked for since.
            let target = member.begin_again(now, next);
            if let (Some(target), Some(known)) = (target, self.streams.get_mut(&stream)) {
                known.reflector.fanout().remove_target(target);
            }
            self.poll_downstream(now, stream, from);
            return true;
        }
        self.remove_downstream(now, stream, from);
        true
    }

    /// Ends a stream for all downstreams: nothing comes any more.
    pub(super) fn remove_downstreams(&mut self, now: Time, stream: StreamId) {
        let members =
            self.streams.get(&stream).map(|known| known.downstreams.iter().map(|(to, member)| (*to, member.word)));
        let members: Vec<(SocketAddr, PathToken)> = members.into_iter().flatten().collect();
        for (address, word) in members {
            self.send_control(address, stream, word, &ControlPacket::Bye);
            self.remove_downstream(now, stream, address);
        }
    }

    pub(super) fn remove_downstream(&mut self, now: Time, stream: StreamId, address: SocketAddr) {
        self.timers.clear(Timer::Downstream(stream, address));
        let Some(known) = self.streams.get_mut(&stream) else { return };
        if let Some(target) = known.downstreams.remove(&address).and_then(|member| member.target) {
            known.reflector.fanout().remove_target(target);
        }
        self.update_demand(now, stream);
    }

    /// Sends a downstream what is due: offers, a sign of life, its end.
    pub(super) fn poll_downstream(&mut self, now: Time, stream: StreamId, address: SocketAddr) {
        let is_leaving = self.is_leaving;
        let Some(known) = self.streams.get_mut(&stream) else { return };
        let (is_rooted, depth) = (known.is_rooted(now) && !is_leaving, known.depth());
        let Some(member) = known.downstreams.get_mut(&address) else { return };
        let offers = member.due_offers(now);
        if member.falls_silent(now) && known.is_published {
            self.events.push_back(RelayEvent::DownstreamSilent { stream });
        }
        if member.is_gone(now) {
            return self.remove_downstream(now, stream, address);
        }
        if member.abuses_trust(now) {
            member.target.take().map(|target| known.reflector.fanout().remove_target(target));
            self.routable.forget(address);
        }
        let sent = member.target.and_then(|target| known.reflector.targets().statistics(target));
        let is_quiet = member.is_quiet(now, sent.map_or(0, |sent| sent.packets));
        let (word, has_answered) = (member.word, member.has_answered());
        self.timers.set(Timer::Downstream(stream, address), member.due());
        let next = known.downstreams.get(&address).map_or(0, |member| known.sent_up_to(member));
        for tag in offers {
            self.send_control(address, stream, word, &ControlPacket::Offer(tag));
        }
        if has_answered && !is_rooted {
            self.send_control(address, stream, word, &ControlPacket::Leaving);
        } else if has_answered && is_quiet {
            self.send_control(address, stream, word, &ControlPacket::Heartbeat { depth, next });
        }
    }

    /// Tells downstreams which packet was the last, if nothing has come after it for a while.
    pub(super) fn poll_pause(&mut self, now: Time, stream: StreamId) {
        let Some(known) = self.streams.get_mut(&stream) else { return };
        if let Some(due) = known.look_for_pause(now) {
            return self.timers.set(Timer::Pause(stream), due);
        }
        let depth = known.depth();
        let level = |(address, member): (&SocketAddr, &Downstream)| {
            let next = known.sent_up_to(member);
            (member.has_answered() && next > 0).then_some((*address, member.word, next))
        };
        let told: Vec<(SocketAddr, PathToken, u64)> = known.downstreams.iter().filter_map(level).collect();
        for (address, word, next) in told {
            self.send_control(address, stream, word, &ControlPacket::Heartbeat { depth, next });
        }
    }

    /// Tells all downstreams of a stream to find another way, one after the other in random order, as
    /// what they have still comes: they all ask the same super nodes.
    pub(super) fn schedule_leaving(&mut self, now: Time, stream: StreamId) {
        let members = self.streams.get(&stream).into_iter().flat_map(|known| known.downstreams.keys());
        for address in members.copied().collect::<Vec<_>>() {
            let wait = self.random.below(SPREAD);
            self.timers.advance(Timer::Downstream(stream, address), now + wait);
        }
    }

    /// Tells all downstreams of a stream, of which nothing comes any more, to find another way.
    pub(super) fn send_leaving(&mut self, stream: StreamId) {
        let Some(known) = self.streams.get(&stream) else { return };
        let answered = known.downstreams.iter().filter(|(_, member)| member.has_answered());
        let all: Vec<(SocketAddr, PathToken)> = answered.map(|(address, member)| (*address, member.word)).collect();
        for (address, word) in all {
            self.send_control(address, stream, word, &ControlPacket::Leaving);
        }
    }

    /// Starts the linger of a stream without downstreams, or tells that a published stream is wanted.
    pub(super) fn update_demand(&mut self, now: Time, stream: StreamId) {
        let linger = self.config.linger;
        let Some(known) = self.streams.get_mut(&stream) else { return };
        if known.downstreams.is_empty() {
            known.reflector.sends_on = known.is_published || !known.is_local;
            self.timers.advance(Timer::Idle(stream), now + linger);
            return;
        }
        self.timers.clear(Timer::Idle(stream));
        if known.is_published && !std::mem::replace(&mut known.is_watched, true) {
            self.events.push_back(RelayEvent::Subscribed { stream });
        }
    }

    /// Nobody has wanted a stream for the linger.
    pub(super) fn idle(&mut self, now: Time, stream: StreamId) {
        let Some(known) = self.streams.get_mut(&stream) else { return };
        if known.is_published {
            if std::mem::take(&mut known.is_watched) {
                self.events.push_back(RelayEvent::Idle { stream });
            }
        } else if !known.is_local {
            self.remove_stream(now, stream);
        }
    }
}
