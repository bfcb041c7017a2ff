//! One request for a reflected stream: the tags under which it may come, and how long it is waited for.

use std::collections::VecDeque;
use std::time::Duration;

use roost_proto::reflection::{StreamId, StreamTag};
use roost_proto::{NodeId, Time};
use roost_reflection::Relay;

use super::playouts::PlayoutId;

/// The time for which a stream is asked for anew that comes and is of no use: as long as one that does not come.
const HOPE: Duration = Duration::from_secs(30);

/// The tags of one request, of which the present one and the one before it matter; and what has begun under them.
pub(super) const MAX_TAGS: usize = 4;

/// One request.
#[derive(Default)]
pub(super) struct ReflectedRequest {
    pub(super) tags: VecDeque<StreamTag>,
    /// The tag under which its stream comes that was accepted last.
    pub(super) accepted: Option<StreamTag>,
    /// What has begun to come for it; until it is accepted nobody knows whether it is that.
    pub(super) begun: VecDeque<StreamId>,
    /// Its stream, and whose that is.
    pub(super) copy: Option<(StreamId, NodeId)>,
    /// Whether the provider has said so.
    pub(super) is_confirmed: bool,
    /// Since when it is asked for anew, and how much had been handed over then.
    in_vain: Option<(Time, u64)>,
    /// Time at which its provider accepted first, until a packet finds its way here.
    unheard: Option<Time>,
    /// True once a packet has.
    is_heard: bool,
}

impl ReflectedRequest {
    pub(super) fn stream(&self) -> Option<StreamId> {
        self.copy.map(|(stream, _)| stream)
    }

    pub(super) fn wants(&self, (stream, provider): PlayoutId) -> bool {
        match provider {
            Some(provider) => self.copy == Some((stream, provider)),
            // What opens its own may be told wrongly until the provider has said it.
            None if self.stream() == Some(stream) => !self.is_confirmed,
            None => self.begun.contains(&stream),
        }
    }

    /// Its stream comes in vain. Answers whether it has for so long that it will not come to anything.
    pub(super) fn should_give_up(&mut self, now: Time, handed: u64) -> bool {
        let before = self.in_vain.filter(|(_, before)| *before == handed);
        let (since, _) = *self.in_vain.insert(before.unwrap_or((now, handed)));
        now.since(since) >= HOPE
    }

    /// Its provider has accepted: what is to come under this tag is offered from now on.
    pub(super) fn accept(&mut self, now: Time, relay: &mut Relay, tag: StreamTag) {
        if !self.is_heard && self.begun.is_empty() {
            self.unheard.get_or_insert(now);
        }
        if self.accepted.replace(tag) != Some(tag) && self.begun.is_empty() {
            // There is room: the tag is waited for already.
            let _ = relay.expect_offer(now, tag);
        }
    }

    /// Something has come for it.
    pub(super) fn is_begun(&mut self) {
        (self.unheard, self.is_heard) = (None, true);
    }

    /// The end of the time in which something has to come of what was accepted.
    pub(super) fn gives_up_at(&self) -> Option<Time> {
        self.unheard.map(|since| since + HOPE)
    }

    /// Nothing was offered under a tag. Until its provider accepts, which may take its time, it is
    /// waited for; answers whether there has to be another way.
    pub(super) fn is_missed(&self, now: Time, relay: &mut Relay, tag: StreamTag) -> bool {
        // Its provider sends what is accepted, whether or not another way is asked for by now.
        self.accepted == Some(tag) || self.tags.back() == Some(&tag) && relay.expect_offer(now, tag).is_err()
    }
}

#[cfg(test)]
mod tests {
    use roost_reflection::relay::{RelayConfig, RelayEvent};

    use super::*;

    const TAG: StreamTag = StreamTag(5);

    /// What the relay says at this time.
    fn said(relay: &mut Relay, now: Time) -> Option<RelayEvent> {
        relay.handle_timeout(now);
        relay.poll_event()
    }

    #[test]
    fn tag_expires_after_acceptance() {
        let at = |seconds| Time::ZERO + Duration::from_secs(seconds);
        let (mut relay, unoffered) =
            (Relay::new(RelayConfig::default(), [7; 32]), Some(RelayEvent::OfferTimedOut { tag: TAG }));
        let mut request = ReflectedRequest { tags: VecDeque::from([TAG]), ..ReflectedRequest::default() };
        relay.expect_offer(at(0), TAG).unwrap();
        for seconds in [5, 10] {
            assert_eq!(said(&mut relay, at(seconds)), unoffered);
            assert!(!request.is_missed(at(seconds), &mut relay, TAG));
        }
        request.accept(at(12), &mut relay, TAG);
        assert_eq!(said(&mut relay, at(16)), None);
        assert_eq!(said(&mut relay, at(17)), unoffered);
        assert!(request.is_missed(at(17), &mut relay, TAG));
    }

    #[test]
    fn packets_kept_until_provider_confirms() {
        let (stream, [told, other]) = (StreamId(9), [1, 2].map(|number| NodeId::from_bytes([number; 16])));
        let mut request = ReflectedRequest { copy: Some((stream, told)), ..ReflectedRequest::default() };
        let wanted =
            |request: &ReflectedRequest| [None, Some(told), Some(other)].map(|word| request.wants((stream, word)));
        assert_eq!(wanted(&request), [true, true, false]);
        request.is_confirmed = true;
        request.begun.push_back(stream);
        assert_eq!(wanted(&request), [false, true, false]);
    }

    #[test]
    fn accepted_tag_is_missed_despite_retry() {
        let mut relay = Relay::new(RelayConfig::default(), [7; 32]);
        let mut request = ReflectedRequest { tags: VecDeque::from([TAG]), ..ReflectedRequest::default() };
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
        let mut request = ReflectedRequest::default();
        assert_eq!(request.gives_up_at(), None, "nobody has accepted");
        for (seconds, tag) in [(1, StreamTag(5)), (8, StreamTag(6))] {
            request.accept(at(seconds), &mut relay, tag);
        }
        assert_eq!(request.gives_up_at(), Some(at(31)));
        request.is_begun();
        request.accept(at(40), &mut relay, StreamTag(7));
        assert_eq!(request.gives_up_at(), None, "the machine looks after what has come once");
    }

    #[test]
    fn undecodable_stream_is_given_up() {
        let at = |seconds| Time::ZERO + Duration::from_secs(seconds);
        let mut request = ReflectedRequest::default();
        let tried = [(0, 7), (20, 7), (29, 8), (50, 8), (58, 8), (59, 8)];
        let hopeless = tried.map(|(seconds, handed)| request.should_give_up(at(seconds), handed));
        assert_eq!(hopeless, [false, false, false, false, false, true]);
    }
}
