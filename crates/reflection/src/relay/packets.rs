//! The loop of a relay: datagrams in, datagrams out, and timers.

use std::net::SocketAddr;
use std::ops::Bound;

use roost_wire::{StreamId, Time};

use super::timers::Timer;
use super::{Relay, RelayEvent};
use crate::control::ControlPacket;
use crate::datagram_path::DatagramPath;
use crate::fec::ParityPacket;
use crate::packet::{Header, Hop, ReadPacket};
use crate::transmit::{SendOutcome, Transmit};

/// The most that is due and done at once.
const MAX_DUE: usize = 256;

impl Relay {
    /// True if a datagram on a shared port is for a relay, by its first byte: DTLS and QUIC begin with others.
    pub fn is_relay_datagram(datagram: &[u8]) -> bool {
        datagram.first().is_some_and(|byte| Hop::from_byte(*byte).is_some())
            || ControlPacket::is_control_packet(datagram)
    }

    /// Takes a datagram. A packet of a stream that is watched here goes to `deliver`, once; whether
    /// it is genuine a [`Subscriber`](crate::Subscriber) can tell.
    pub fn handle_datagram(
        &mut self,
        now: Time,
        from: impl Into<DatagramPath>,
        datagram: &[u8],
        mut deliver: impl FnMut(StreamId, &[u8]),
    ) {
        let path = from.into();
        self.locals.begin(path);
        let from = path.remote;
        if ControlPacket::is_control_packet(datagram) {
            self.handle_control(now, from, datagram, &mut deliver);
        } else {
            self.handle_packet(now, from, datagram, &mut deliver);
        }
    }

    /// Takes a packet, and those that come back with it.
    fn handle_packet(
        &mut self,
        now: Time,
        from: SocketAddr,
        datagram: &[u8],
        deliver: &mut dyn FnMut(StreamId, &[u8]),
    ) {
        let Ok((hop, header)) = Header::decode(datagram) else {
            self.rejected.malformed += 1;
            return;
        };
        let known = self.streams.get_mut(&header.stream);
        let Some(known) = known.filter(|known| known.upstreams.iter().any(|leg| leg.address == from)) else {
            return self.unknown_upstream(now, from, header.stream);
        };
        let packet = ReadPacket { hop, header: &header, datagram };
        let is_taken = known.receive_packet(now, from, packet);
        let leads = known.reflector.leads(header.counter);
        match known.upstream_mut(from) {
            Some(leg) if leads => leg.record_packet(now, hop, &header),
            Some(leg) => leg.heard = now,
            None => {}
        }
        if is_taken {
            self.forward_packet(now, from, packet, deliver);
        }
    }

    /// A packet that was taken goes to whoever wants it.
    fn forward_packet(
        &mut self,
        now: Time,
        from: SocketAddr,
        packet: ReadPacket<'_>,
        deliver: &mut dyn FnMut(StreamId, &[u8]),
    ) {
        let ReadPacket { hop, header, datagram } = packet;
        let stream = header.stream;
        let Some(known) = self.streams.get_mut(&stream) else { return };
        if known.is_local {
            deliver(stream, datagram);
        }
        self.busy.insert(stream);
        if known.reflector.leads(header.counter) {
            known.gaps.record_arrival(now, header.counter, hop.catch_up, header.flags);
            known.protect(now, header.counter, datagram);
            let back = known.decoder.packet(now, header.counter, datagram);
            self.handle_recovered(now, from, stream, back, deliver);
        }
    }

    /// Takes packets that parity has brought back: as if they had come from this upstream, repaired.
    /// Each belongs to a block that is solved, so that there is an end to it.
    fn handle_recovered(
        &mut self,
        now: Time,
        from: SocketAddr,
        stream: StreamId,
        back: Vec<Vec<u8>>,
        deliver: &mut dyn FnMut(StreamId, &[u8]),
    ) {
        for mut datagram in back {
            let Some(known) = self.streams.get_mut(&stream) else { return };
            let Some(leg) = known.upstream_mut(from) else { return };
            datagram[0] = Hop { hops: leg.depth, catch_up: true }.byte();
            // Forged parity brings back nonsense.
            let Ok((hop, header)) = Header::decode(&datagram) else { continue };
            let packet = ReadPacket { hop, header: &header, datagram: &datagram };
            if header.stream == stream && known.receive_packet(now, from, packet) {
                known.upstream_mut(from).into_iter().for_each(|leg| leg.brought_back(now, header.counter));
                self.forward_packet(now, from, packet, deliver);
            }
        }
    }

    fn handle_parity(
        &mut self,
        now: Time,
        from: SocketAddr,
        stream: StreamId,
        parity: ParityPacket,
        deliver: &mut dyn FnMut(StreamId, &[u8]),
    ) {
        let Some(known) = self.streams.get_mut(&stream) else { return };
        let back = known.decoder.parity(now, parity);
        self.handle_recovered(now, from, stream, back, deliver);
    }

    fn handle_control(
        &mut self,
        now: Time,
        from: SocketAddr,
        datagram: &[u8],
        deliver: &mut dyn FnMut(StreamId, &[u8]),
    ) {
        let Ok((stream, word, said)) = ControlPacket::decode(datagram) else {
            self.rejected.malformed += 1;
            return;
        };
        match said {
            ControlPacket::Offer(tag) => self.handle_offer(now, from, stream, word, tag),
            ControlPacket::Heartbeat { depth, next } => self.handle_heartbeat(now, from, stream, word, depth, next),
            ControlPacket::Leaving => self.handle_leaving(now, from, stream, word),
            ControlPacket::Parity(parity) if self.known_upstream(from, stream, word).is_some() => {
                self.handle_parity(now, from, stream, parity, deliver);
            }
            ControlPacket::Parity(_) => self.unknown_upstream(now, from, stream),
            ControlPacket::Bye => {
                let was_known = self.handle_upstream_bye(now, from, stream, word)
                    || self.handle_downstream_bye(now, from, stream, word);
                // Both ends may end a stream at once: then neither knows it when the other says so.
                self.rejected.ended += u64::from(!was_known);
            }
            ControlPacket::Answer { tag, next } => self.handle_answer(now, from, stream, word, tag, next),
            ControlPacket::Report(reported) => self.handle_report(now, from, stream, word, reported),
            ControlPacket::Nack(nack) => self.handle_nack(now, from, stream, word, &nack),
            ControlPacket::KeyFrameRequest => self.handle_key_frame_request(now, from, stream, word),
            ControlPacket::HolePunch(tag) => self.handle_hole_punch(now, from, tag),
        }
    }

    /// Ends a batch: its packets may be sent, and targets for which the system had no room are tried again. The
    /// owner calls it once no more datagram is there, or after some ten, and before it polls: batches make runs
    /// of packets.
    pub fn end_batch(&mut self, now: Time) {
        self.busy.append(&mut self.full);
        let mut wants_key = Vec::new();
        for id in &self.busy {
            let Some(stream) = self.streams.get_mut(id) else { continue };
            stream.reflector.fanout().close(now);
            if stream.reflector.fanout().take_wants_key() {
                wants_key.push(*id);
            }
            if let Some(due) = stream.gaps.poll_deadline() {
                self.timers.advance(Timer::Repair(*id), due);
            }
            if let Some(due) = stream.begins_to_run() {
                self.timers.set(Timer::Pause(*id), due);
            }
        }
        for stream in wants_key {
            self.request_key_frame(now, stream);
        }
    }

    /// Polls for datagrams; [`record_outcome`](Self::record_outcome) has to follow before any other call.
    pub fn poll_transmit(&mut self, now: Time) -> Option<Transmit> {
        if let Some(word) = self.words.pop_front() {
            return Some(word);
        }
        loop {
            let after = self.turn.map_or(Bound::Unbounded, Bound::Excluded);
            let mut next = self.busy.range((after, Bound::Unbounded));
            let id = *next.next().or_else(|| self.busy.first())?;
            self.turn = Some(id);
            let stream = self.streams.get_mut(&id);
            if let Some(transmit) = stream.and_then(|stream| stream.poll_transmit(now, id)) {
                let from = self.locals.local_address(transmit.to);
                return Some(transmit.leaving(from));
            }
            self.busy.remove(&id);
            if let Some(due) = self.streams.get(&id).and_then(|stream| stream.reflector.targets().poll_deadline()) {
                self.timers.set(Timer::Pace(id), due);
            }
        }
    }

    /// Tells what has become of a [`Transmit`]. Packets that did not fit are next again after the next
    /// [`end_batch`](Self::end_batch); a word is as good as lost, and said again.
    pub fn record_outcome(&mut self, now: Time, transmit: &Transmit, outcome: SendOutcome) {
        if let Some(stream) = self.streams.get_mut(&transmit.stream) {
            stream.reflector.fanout().record_outcome(now, transmit, outcome);
            if outcome.is_full {
                self.full.insert(transmit.stream);
            }
        }
    }

    pub fn poll_event(&mut self) -> Option<RelayEvent> {
        self.events.pop_front()
    }

    pub fn poll_deadline(&self) -> Option<Time> {
        self.timers.next()
    }

    /// The time of [`poll_deadline`](Self::poll_deadline) has come. Does 256 things that are due at
    /// most; if there are more, that time stays.
    pub fn handle_timeout(&mut self, now: Time) {
        // Each is set again to a later time at the earliest.
        for _ in 0..MAX_DUE {
            let Some(timer) = self.timers.pop(now) else { return };
            match timer {
                Timer::Tag(tag) => self.expire(tag),
                Timer::HolePunch(tag) => self.send_hole_punch(now, tag),
                Timer::Downstream(stream, address) => self.poll_downstream(now, stream, address),
                Timer::Upstreams(stream) => self.poll_upstreams(now, stream),
                Timer::Repair(stream) => self.send_nack(now, stream),
                Timer::Pause(stream) => self.poll_pause(now, stream),
                Timer::Pace(stream) => {
                    if let Some(known) = self.streams.get_mut(&stream) {
                        known.reflector.fanout().handle_timeout(now);
                        self.busy.insert(stream);
                    }
                }
                Timer::Idle(stream) => self.idle(now, stream),
            }
        }
    }
}
