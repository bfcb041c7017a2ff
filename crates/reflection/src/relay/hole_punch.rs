//! Hosts behind translators of addresses: what is offered to where they take streams in does not
//! arrive. So who asks calls the hub as well, from there and under the same tag, and is offered the
//! stream where that call comes from.

use std::net::SocketAddr;
use std::time::Duration;

use roost_wire::reflection::StartCondition;
use roost_wire::{StreamId, StreamTag, Time};

use super::Relay;
use super::timers::Timer;
use crate::control::{ControlPacket, PathToken};

/// First pause before the hub is told again where this host is, doubled each time, and the most
/// times that it is told: until the request has reached it, and as long as a stream may take to get
/// there.
const AGAIN: Duration = Duration::from_millis(50);
const KNOCKS: u8 = 7;

impl Relay {
    /// Tells the hub whose media address this is from where its stream is [expected](Relay::expect_offer)
    /// under a tag.
    pub fn punch_hole(&mut self, now: Time, tag: StreamTag, at: SocketAddr) {
        if let Some(asked) = self.tags.get_mut(tag) {
            asked.door = Some((at, 0));
            self.send_hole_punch(now, tag);
        }
    }

    pub(super) fn send_hole_punch(&mut self, now: Time, tag: StreamTag) {
        let asked = self.tags.get_mut(tag).filter(|asked| asked.stream.is_none());
        let Some((at, times)) = asked.and_then(|asked| asked.door.as_mut()) else { return };
        if *times >= KNOCKS {
            return;
        }
        let (at, wait) = (*at, AGAIN * (1 << u32::from(*times)));
        *times += 1;
        self.timers.set(Timer::HolePunch(tag), now + wait);
        self.send_control(at, StreamId(0), PathToken(0), &ControlPacket::HolePunch(tag));
    }

    /// The subscriber that asked under a tag is not where the stream is offered. It may only be at
    /// another port of the same host, since no other host is to be aimed at.
    pub(super) fn handle_hole_punch(&mut self, now: Time, from: SocketAddr, tag: StreamTag) {
        let Some((stream, to)) = self.doors.get(tag) else { return };
        let member = self.streams.get(&stream).and_then(|known| known.downstreams.get(&to));
        let Some(member) = member.filter(|member| member.is_offered_under(tag)) else { return };
        let kind = member.kind;
        if from.ip() != to.ip() {
            return;
        }
        self.locals.record_current(now);
        if from == to {
            // The subscriber has called the address here that it knows, from which alone it is answered.
            return self.offer_again(now, stream, to);
        }
        self.withdraw(now, stream, tag);
        // If there is no room, the subscriber hears of it by getting no offer.
        let _ = self.add_downstream(now, stream, from, StartCondition::Answered, tag, kind);
    }

    /// A stream is no longer offered under a tag at the address where it was: one tag stands for one
    /// copy, however many addresses its host has.
    pub(super) fn withdraw(&mut self, now: Time, stream: StreamId, tag: StreamTag) {
        let Some(to) = self.doors.offered_address(tag, stream) else { return };
        self.doors.forget(tag);
        let known = self.streams.get_mut(&stream);
        let Some(member) = known.and_then(|known| known.downstreams.get_mut(&to)) else { return };
        if member.withdraw(tag) {
            self.remove_downstream(now, stream, to);
        }
    }

    fn offer_again(&mut self, now: Time, stream: StreamId, to: SocketAddr) {
        if let Some(member) = self.streams.get_mut(&stream).and_then(|known| known.downstreams.get_mut(&to)) {
            member.offer_now(now);
            self.poll_downstream(now, stream, to);
        }
    }
}

#[cfg(test)]
mod tests {
    use roost_wire::reflection::DownstreamKind;

    use super::super::RelayConfig;
    use super::*;
    use crate::datagram_path::DatagramPath;
    use crate::transmit::Transmit;

    const STREAM: StreamId = StreamId(7);
    const TAG: StreamTag = StreamTag(99);

    fn at(host: u8, port: u16) -> SocketAddr {
        SocketAddr::from(([10, 0, 0, host], port))
    }

    /// A relay that offers a stream at this address under [`TAG`].
    fn offering(to: SocketAddr) -> Relay {
        let mut relay = Relay::new(RelayConfig::default(), [1; 32]);
        relay.publish(Time::ZERO, STREAM).unwrap();
        relay
            .add_downstream(Time::ZERO, STREAM, to, StartCondition::Answered, TAG, DownstreamKind::Subscriber)
            .unwrap();
        assert_eq!(offers(&mut relay).len(), 1);
        relay
    }

    fn offers(relay: &mut Relay) -> Vec<Transmit> {
        let sent = std::iter::from_fn(|| relay.poll_transmit(Time::ZERO));
        sent.filter(|sent| matches!(ControlPacket::decode(&sent.contents), Ok((_, _, ControlPacket::Offer(TAG)))))
            .collect()
    }

    fn knock(relay: &mut Relay, from: SocketAddr, tag: StreamTag) -> Vec<Transmit> {
        let path = DatagramPath { remote: from, local: Some([10, 9, 9, 9].into()) };
        relay.handle_datagram(
            Time::ZERO,
            path,
            &ControlPacket::HolePunch(tag).encode(StreamId(0), PathToken(0)),
            |_, _| {},
        );
        offers(relay)
    }

    #[test]
    fn stream_is_offered_where_one_knocks() {
        let mut relay = offering(at(1, 5000));
        let sent = knock(&mut relay, at(1, 6000), TAG);
        let to: Vec<_> = sent.iter().map(|sent| (sent.to, sent.from)).collect();
        assert_eq!(to, [(at(1, 6000), Some([10, 9, 9, 9].into()))]);
        assert!(!relay.streams[&STREAM].downstreams.contains_key(&at(1, 5000)));
        assert!(knock(&mut relay, at(1, 6000), TAG).len() <= 1);
    }

    fn say(relay: &mut Relay, from: SocketAddr, word: PathToken, said: &ControlPacket) {
        relay.handle_datagram(Time::ZERO, DatagramPath::from(from), &said.encode(STREAM, word), |_, _| {});
    }

    #[test]
    fn one_tag_is_one_copy() {
        let mut relay = offering(at(1, 5000));
        relay
            .add_downstream(
                Time::ZERO,
                STREAM,
                at(1, 5000),
                StartCondition::Answered,
                StreamTag(98),
                DownstreamKind::Subscriber,
            )
            .unwrap();
        let word = relay.streams[&STREAM].downstreams[&at(1, 5000)].word;
        say(&mut relay, at(1, 5000), word, &ControlPacket::Answer { tag: StreamTag(98), next: 0 });
        for port in 6000..6100 {
            knock(&mut relay, at(1, port), TAG);
            // The hub that granted it says so again.
            relay
                .add_downstream(
                    Time::ZERO,
                    STREAM,
                    at(1, 5000),
                    StartCondition::Answered,
                    TAG,
                    DownstreamKind::Subscriber,
                )
                .unwrap();
        }
        let members: Vec<_> = relay.streams[&STREAM].downstreams.keys().copied().collect();
        assert_eq!(members, [at(1, 5000), at(1, 6099)]);
    }

    #[test]
    fn offer_leaves_where_one_knocks() {
        let mut relay = offering(at(1, 5000));
        let sent = knock(&mut relay, at(1, 5000), TAG);
        let to: Vec<_> = sent.iter().map(|sent| (sent.to, sent.from)).collect();
        assert_eq!(to, [(at(1, 5000), Some([10, 9, 9, 9].into()))]);
    }

    #[test]
    fn nobody_else_is_aimed_at() {
        let mut relay = offering(at(1, 5000));
        assert!(knock(&mut relay, at(2, 5000), TAG).is_empty(), "another host");
        assert!(knock(&mut relay, at(1, 6000), StreamTag(1)).is_empty(), "another tag");
        let all: usize = (0..100).map(|_| knock(&mut relay, at(1, 5000), TAG).len()).sum();
        assert!(all < 5, "{all}");
    }
}
