//! Streams that end here: packets are opened, put in order, and handed to the requests that have subscribed.
//!
//! The node's machine has the control half of a subscription: the request, its repetitions and its provider.
//! `Subscription` is the data half of one request. Streams are shared: each `Playout` serves
//! all requests that have it.

mod gop_cache;
mod playout;
mod playouts;
mod reception;
mod reorder;
mod subscriber;
mod table;

use std::collections::VecDeque;
use std::time::Duration;

use roost_wire::{StreamId, StreamTag, Time};

use crate::admission::AdmissionError;
use crate::relay::Relay;
use playout::{KeyAuthority, PlayoutLoss};
use playouts::PlayoutId;
pub use playouts::StreamSource;
pub use reception::{Reception, RequestReception, SilenceCause};
pub use reorder::ReorderBuffer;
pub use subscriber::{OpenCounts, OpenError, OpenedPacket, Subscriber};
pub(crate) use table::{NamedStream, Subscriptions};

/// The time for which a stream is asked for anew that comes and is of no use: as long as one that does not come.
const HOPE: Duration = Duration::from_secs(30);

/// The most tags of one request, of which the present one and the one before it matter; also the most streams
/// that have begun under them.
const MAX_TAGS: usize = 4;

/// Why the node ends a subscription by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SubscriptionError {
    /// There is no room for another tag.
    #[error("this node cannot take one more stream: {0}")]
    Refused(AdmissionError),
    /// No key opens its packets.
    #[error(
        "what comes of this stream has not opened for 30 seconds with the keys that its provider tells: ask for it \
         from another provider"
    )]
    Undecodable,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum FirstPacket {
    /// No provider has accepted yet.
    #[default]
    Unpromised,
    /// A provider accepted at this time.
    Awaited(Time),
    Came,
}

/// The data half of one request for a reflected stream.
#[derive(Debug, Default)]
struct Subscription {
    /// The tags under which its stream may come, the latest last.
    tags: VecDeque<StreamTag>,
    /// The tag that was accepted last.
    accepted: Option<StreamTag>,
    /// Streams that have begun to come for it; until one is accepted nobody knows which it is.
    begun: VecDeque<StreamId>,
    source: Option<StreamSource>,
    /// True once the provider itself has named the source.
    is_confirmed: bool,
    first_packet: FirstPacket,
    /// The time since which it is asked for anew, and the number of packets handed over by then.
    in_vain: Option<(Time, u64)>,
    /// Losses not of its playout, added to those of it; both numbers wrap around.
    other_loss: PlayoutLoss,
    reception: Reception,
}

impl Subscription {
    fn new(now: Time) -> Self {
        Self { reception: Reception { began: now, ..Reception::default() }, ..Self::default() }
    }

    fn stream(&self) -> Option<StreamId> {
        self.source.map(|source| source.stream)
    }

    /// Adds a tag under which the stream may come.
    fn push_tag(&mut self, tag: StreamTag) {
        self.tags.push_back(tag);
        if self.tags.len() > MAX_TAGS {
            self.tags.pop_front();
        }
    }

    fn wants(&self, (stream, provider): PlayoutId) -> bool {
        match provider {
            Some(provider) => self.source == Some(StreamSource { stream, provider }),
            // The key for its own may be wrong until the provider has said it.
            None if self.stream() == Some(stream) => !self.is_confirmed,
            None => self.begun.contains(&stream),
        }
    }

    /// A stream has begun to come for it. Returns one that it has no place for any more.
    fn begin_stream(&mut self, stream: StreamId) -> Option<StreamId> {
        self.record_first_packet();
        self.reception.is_offered = true;
        if !self.begun.contains(&stream) {
            self.begun.push_back(stream);
        }
        if self.begun.len() > MAX_TAGS { self.begun.pop_front() } else { None }
    }

    /// A stream comes in vain. Returns true once it has for so long that it will not come to anything.
    fn should_give_up(&mut self, now: Time) -> bool {
        let handed = self.reception.packets;
        let before = self.in_vain.filter(|(_, before)| *before == handed);
        let (since, _) = *self.in_vain.insert(before.unwrap_or((now, handed)));
        now.since(since) >= HOPE
    }

    /// A provider has accepted: its stream is offered under this tag from now on.
    fn accept(&mut self, now: Time, relay: &mut Relay, tag: StreamTag) {
        self.is_confirmed = true;
        if self.first_packet == FirstPacket::Unpromised && self.begun.is_empty() {
            self.first_packet = FirstPacket::Awaited(now);
        }
        if self.accepted.replace(tag) != Some(tag) && self.begun.is_empty() {
            // There is room: the tag is waited for already.
            let _ = relay.expect_offer(now, tag);
        }
    }

    /// A packet has found its way, or is not waited for any more.
    fn record_first_packet(&mut self) {
        self.first_packet = FirstPacket::Came;
    }

    /// The end of the time in which a packet has to come of an accepted stream.
    fn gives_up_at(&self) -> Option<Time> {
        match self.first_packet {
            FirstPacket::Awaited(since) => Some(since + HOPE),
            FirstPacket::Unpromised | FirstPacket::Came => None,
        }
    }

    /// No stream was offered under a tag. Until its provider accepts, which may take its time, the tag is
    /// waited for; returns true if there has to be another way.
    fn is_missed(&self, now: Time, relay: &mut Relay, tag: StreamTag) -> bool {
        // The provider sends an accepted stream, even if the request asks for another way by now.
        self.accepted == Some(tag) || self.tags.back() == Some(&tag) && relay.expect_offer(now, tag).is_err()
    }

    fn record_loss(&mut self, loss: PlayoutLoss) {
        self.reception.lost = loss.lost.wrapping_add(self.other_loss.lost);
        self.reception.duplicates = loss.duplicates.wrapping_add(self.other_loss.duplicates);
    }

    /// Moves to another playout, with these losses so far; the subscription's own counts go on.
    fn change_playout(&mut self, now: Time, loss: PlayoutLoss) {
        let lost = self.reception.lost.saturating_add(self.reception.missed_since(now));
        self.other_loss = PlayoutLoss {
            lost: lost.wrapping_sub(loss.lost),
            duplicates: self.reception.duplicates.wrapping_sub(loss.duplicates),
        };
    }
}

#[cfg(test)]
mod tests {
    use roost_wire::NodeId;

    use super::*;
    use crate::relay::{RelayConfig, RelayEvent};

    const TAG: StreamTag = StreamTag(5);

    fn event_at(relay: &mut Relay, now: Time) -> Option<RelayEvent> {
        relay.handle_timeout(now);
        relay.poll_event()
    }

    #[test]
    fn tag_expires_after_acceptance() {
        let at = |seconds| Time::ZERO + Duration::from_secs(seconds);
        let (mut relay, unoffered) =
            (Relay::new(RelayConfig::default(), [7; 32]), Some(RelayEvent::OfferTimedOut { tag: TAG }));
        let mut request = Subscription { tags: VecDeque::from([TAG]), ..Subscription::default() };
        relay.expect_offer(at(0), TAG).unwrap();
        for seconds in [5, 10] {
            assert_eq!(event_at(&mut relay, at(seconds)), unoffered);
            assert!(!request.is_missed(at(seconds), &mut relay, TAG));
        }
        request.accept(at(12), &mut relay, TAG);
        assert_eq!(event_at(&mut relay, at(16)), None);
        assert_eq!(event_at(&mut relay, at(17)), unoffered);
        assert!(request.is_missed(at(17), &mut relay, TAG));
    }

    #[test]
    fn packets_kept_until_provider_confirms() {
        let (stream, [told, other]) = (StreamId(9), [1, 2].map(|number| NodeId::from_bytes([number; 16])));
        let source = Some(StreamSource { stream, provider: told });
        let mut request = Subscription { source, ..Subscription::default() };
        let wanted = |request: &Subscription| [None, Some(told), Some(other)].map(|word| request.wants((stream, word)));
        assert_eq!(wanted(&request), [true, true, false]);
        request.is_confirmed = true;
        request.begun.push_back(stream);
        assert_eq!(wanted(&request), [false, true, false]);
    }

    #[test]
    fn accepted_tag_is_missed_despite_retry() {
        let mut relay = Relay::new(RelayConfig::default(), [7; 32]);
        let mut request = Subscription { tags: VecDeque::from([TAG]), ..Subscription::default() };
        relay.expect_offer(Time::ZERO, TAG).unwrap();
        request.accept(Time::ZERO, &mut relay, TAG);
        request.tags.push_back(StreamTag(6));
        assert!(request.is_missed(Time::ZERO, &mut relay, TAG));
        assert!(!request.is_missed(Time::ZERO, &mut relay, StreamTag(6)), "it may be offered yet");
    }

    #[test]
    fn accepted_stream_without_packets_ends() {
        let at = |seconds| Time::ZERO + Duration::from_secs(seconds);
        let mut relay = Relay::new(RelayConfig::default(), [7; 32]);
        let mut request = Subscription::default();
        assert_eq!(request.gives_up_at(), None, "nobody has accepted");
        for (seconds, tag) in [(1, StreamTag(5)), (8, StreamTag(6))] {
            request.accept(at(seconds), &mut relay, tag);
        }
        assert_eq!(request.gives_up_at(), Some(at(31)));
        request.record_first_packet();
        request.accept(at(40), &mut relay, StreamTag(7));
        assert_eq!(request.gives_up_at(), None, "the machine looks after what has come once");
    }

    #[test]
    fn undecodable_stream_is_given_up() {
        let at = |seconds| Time::ZERO + Duration::from_secs(seconds);
        let mut request = Subscription::default();
        let tried = [(0, 7), (20, 7), (29, 8), (50, 8), (58, 8), (59, 8)];
        let hopeless = tried.map(|(seconds, handed)| {
            request.reception.packets = handed;
            request.should_give_up(at(seconds))
        });
        assert_eq!(hopeless, [false, false, false, false, false, true]);
    }
}
