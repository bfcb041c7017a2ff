//! A node's part of reflection: streams begin here and end here.
//!
//! The node's machine in `roost_core` decides with whom; its events come in as [`NodeInput`], and its commands go
//! out as [`NodeOutput::Command`].

mod input;
mod output;

use roost_core::node::Ticket;
use roost_wire::{StreamId, Time};

use crate::datagram_path::DatagramPath;
use crate::keys::SecretSource;
use crate::machine::ReflectionMachine;
use crate::publication::Publications;
use crate::relay::{Relay, RelayConfig, RelayEvent};
use crate::subscription::{NamedStream, Subscriptions};
use crate::transmit::{SendOutcome, Transmit};
pub use input::NodeInput;
pub use output::NodeOutput;

/// A node's part of reflection, a machine without I/O.
pub struct NodeReflection {
    relay: Relay,
    publications: Publications,
    subscriptions: Subscriptions,
}

impl NodeReflection {
    /// A node without streams. The seed is secret; the secrets of epochs come from `secrets`.
    pub fn new(config: RelayConfig, seed: [u8; 32], secrets: Box<dyn SecretSource>) -> Self {
        Self {
            relay: Relay::new(config, seed),
            publications: Publications::new(secrets),
            subscriptions: Subscriptions::default(),
        }
    }

    /// The streams that requests have, each with one of these.
    pub fn subscribed(&self) -> Vec<(StreamId, Ticket)> {
        self.subscriptions.streams()
    }

    fn handle_relay_event(&mut self, now: Time, event: RelayEvent) {
        let Self { relay, publications, subscriptions } = self;
        match event {
            RelayEvent::Began { tag, stream } => subscriptions.on_began(now, relay, tag, stream),
            RelayEvent::OfferTimedOut { tag } => subscriptions.on_offer_timed_out(now, relay, tag),
            RelayEvent::Lost { stream } => subscriptions.on_lost(stream),
            RelayEvent::UpstreamLeaving { stream } => subscriptions.on_upstream_leaving(stream),
            RelayEvent::Idle { stream } => publications.on_idle(stream),
            RelayEvent::KeyFrameRequested { stream } => publications.on_key_frame_requested(stream),
            RelayEvent::DownstreamSilent { .. } => publications.on_downstream_silent(),
            RelayEvent::Subscribed { .. } => {}
        }
    }
}

impl ReflectionMachine for NodeReflection {
    type Input = NodeInput;
    type Output = NodeOutput;

    fn relay(&self) -> &Relay {
        &self.relay
    }

    fn handle_input(&mut self, now: Time, input: NodeInput) {
        let Self { relay, publications, subscriptions } = self;
        match input {
            NodeInput::Publish(new) => publications.publish(now, relay, new),
            NodeInput::Payload { stream, payload } => publications.push_payload(now, relay, stream, &payload),
            NodeInput::Unpublish { session } => publications.unpublish(now, relay, session),
            NodeInput::Offer { stream, to, tag } => publications.offer(now, relay, stream, to, tag),
            NodeInput::MemberLeft { session } => publications.record_departure(now, session),
            NodeInput::Expect { ticket, tag, door } => {
                subscriptions.expect(now, relay, ticket, tag);
                door.into_iter().for_each(|door| relay.punch_hole(now, tag, door));
            }
            NodeInput::Confirm { ticket, tag, source, key } => {
                subscriptions.confirm(now, relay, ticket, tag, &NamedStream { source, key });
            }
            NodeInput::Foretell { ticket, source, key } => {
                subscriptions.foretell(now, ticket, &NamedStream { source, key });
            }
            NodeInput::Key { ticket, key } => subscriptions.add_key(now, ticket, &key),
            NodeInput::Release { ticket } => subscriptions.release(now, relay, ticket),
        }
    }

    fn handle_datagram(&mut self, now: Time, path: DatagramPath, datagram: &[u8]) {
        let Self { relay, subscriptions, .. } = self;
        relay.handle_datagram(now, path, datagram, |stream, packet| subscriptions.handle_packet(now, stream, packet));
    }

    fn handle_timeout(&mut self, now: Time) {
        let is_due = |due: Option<Time>| due.is_some_and(|due| due <= now);
        if is_due(self.relay.poll_deadline()) {
            self.relay.handle_timeout(now);
        }
        if is_due(self.publications.poll_deadline()) {
            self.publications.handle_timeout(now);
        }
        if is_due(self.subscriptions.poll_deadline()) {
            self.subscriptions.handle_timeout(now, &self.relay);
        }
    }

    fn end_batch(&mut self, now: Time) {
        self.relay.end_batch(now);
    }

    fn poll_transmit(&mut self, now: Time) -> Option<Transmit> {
        self.relay.poll_transmit(now)
    }

    fn record_outcome(&mut self, now: Time, transmit: &Transmit, outcome: SendOutcome) {
        self.relay.record_outcome(now, transmit, outcome);
    }

    fn poll_output(&mut self, now: Time) -> Option<NodeOutput> {
        loop {
            if let Some(output) = self.subscriptions.poll_output().or_else(|| self.publications.poll_output()) {
                return Some(output);
            }
            let event = self.relay.poll_event()?;
            self.handle_relay_event(now, event);
        }
    }

    fn poll_deadline(&self) -> Option<Time> {
        let ends = [self.publications.poll_deadline(), self.subscriptions.poll_deadline()];
        ends.into_iter().chain([self.relay.poll_deadline()]).flatten().min()
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use bytes::Bytes;
    use roost_core::node::{NodeCommand, SessionId};
    use roost_wire::{Epoch, EpochSecret, NodeId, StreamTag};

    use super::*;
    use crate::admission::{AdmissionError, MAX_TAGS};
    use crate::keys::AnnouncedKey;
    use crate::publication::{NewPublication, OpaqueMarker};
    use crate::subscription::{StreamSource, SubscriptionError};

    const TICKET: Ticket = Ticket(1);
    const STREAM: StreamId = StreamId(7);
    const SESSION: SessionId = SessionId(3);

    fn node() -> NodeReflection {
        let secrets = |bytes: &mut [u8]| {
            bytes.fill(9);
            true
        };
        NodeReflection::new(RelayConfig::default(), [7; 32], Box::new(secrets))
    }

    fn outputs(node: &mut NodeReflection, now: Time) -> Vec<NodeOutput> {
        std::iter::from_fn(|| node.poll_output(now)).collect()
    }

    fn key() -> AnnouncedKey {
        AnnouncedKey { epoch: Epoch(1), secret: EpochSecret::from_bytes([1; 32]) }
    }

    fn publish(node: &mut NodeReflection) -> Vec<NodeOutput> {
        let marker = Box::new(OpaqueMarker::default());
        let publication = NewPublication { session: SESSION, stream: STREAM, key: key(), marker };
        node.handle_input(Time::ZERO, NodeInput::Publish(publication));
        outputs(node, Time::ZERO)
    }

    #[test]
    fn refused_tag_ends_new_requests_only() {
        let (now, mut node) = (Time::ZERO, node());
        let expect = |ticket, tag| NodeInput::Expect { ticket: Ticket(ticket), tag: StreamTag(tag), door: None };
        for number in 0..MAX_TAGS as u64 {
            node.handle_input(now, expect(number, number));
        }
        let source = StreamSource { stream: STREAM, provider: NodeId::from_bytes([1; 16]) };
        node.handle_input(now, NodeInput::Confirm { ticket: Ticket(0), tag: StreamTag(0), source, key: key() });
        assert!(outputs(&mut node, now).is_empty());
        // A request that has a stream keeps it, and tries its other way in vain.
        node.handle_input(now, expect(0, 1 << 32));
        assert!(outputs(&mut node, now).is_empty());
        node.handle_input(now, expect(1 << 32, 1 << 33));
        let refused = SubscriptionError::Refused(AdmissionError::TooManyTags);
        let outputs = outputs(&mut node, now);
        assert!(
            matches!(&outputs[..], [NodeOutput::SubscriptionFailed { ticket: Ticket(0x1_0000_0000), error }] if *error == refused),
            "{outputs:?}"
        );
    }

    #[test]
    fn source_asked_and_key_announced() {
        let (now, mut node) = (Time::ZERO, node());
        assert!(matches!(publish(&mut node)[..], [NodeOutput::Published { session: SESSION, result: Ok(()) }]));
        node.handle_input(now, NodeInput::Payload { stream: STREAM, payload: Bytes::from_static(b"frame") });
        assert!(matches!(outputs(&mut node, now)[..], [NodeOutput::KeyFrameWanted { session: SESSION }]));
        node.handle_input(now, NodeInput::MemberLeft { session: SESSION });
        let outputs = outputs(&mut node, now);
        let [NodeOutput::Command(NodeCommand::Rekey { session: SESSION, epoch: Epoch(2), secret })] = &outputs[..]
        else {
            panic!("{outputs:?}");
        };
        assert_eq!(*secret, EpochSecret::from_bytes([9; 32]));
    }

    #[test]
    fn ended_publication_is_not_offered() {
        let (now, mut node) = (Time::ZERO, node());
        publish(&mut node);
        node.handle_input(now, NodeInput::Unpublish { session: SESSION });
        let to = SocketAddr::from(([10, 0, 0, 1], 7702));
        node.handle_input(now, NodeInput::Offer { stream: STREAM, to, tag: StreamTag(5) });
        let outputs = outputs(&mut node, now);
        assert!(
            matches!(outputs[..], [NodeOutput::OfferRefused { stream: STREAM, reason: AdmissionError::NoStream }]),
            "{outputs:?}"
        );
        assert_eq!(node.relay().streams(now).count(), 0);
    }

    /// A provider was restarted: under the tag of the request its home offers the former stream, which it has still,
    /// and the provider accepts with another one.
    #[test]
    fn former_stream_leaves_tag_awaited() {
        let (mut former, mut watcher, now, tag) = (node(), node(), Time::ZERO, StreamTag(5));
        let [from, to] = [1, 2].map(|host| SocketAddr::from(([10, 0, 0, host], 7702)));
        publish(&mut former);
        former.handle_input(now, NodeInput::Offer { stream: STREAM, to, tag });
        let offer = former.poll_transmit(now).unwrap().contents.to_vec();
        watcher.handle_input(now, NodeInput::Expect { ticket: TICKET, tag, door: None });
        watcher.handle_datagram(now, DatagramPath::from(from), &offer);
        outputs(&mut watcher, now);
        let source = StreamSource { stream: StreamId(8), provider: NodeId::from_bytes([1; 16]) };
        watcher.handle_input(now, NodeInput::Confirm { ticket: TICKET, tag, source, key: key() });
        outputs(&mut watcher, now);
        let later = now + std::time::Duration::from_secs(6);
        watcher.handle_timeout(later);
        let outputs = outputs(&mut watcher, later);
        assert!(
            matches!(outputs[..], [NodeOutput::Command(NodeCommand::Resubscribe { ticket: TICKET, lost: true })]),
            "{outputs:?}"
        );
    }

    #[test]
    fn unoffered_request_asks_for_another_way() {
        let mut node = node();
        let at = |seconds| Time::ZERO + std::time::Duration::from_secs(seconds);
        node.handle_input(at(0), NodeInput::Expect { ticket: TICKET, tag: StreamTag(5), door: None });
        let source = StreamSource { stream: STREAM, provider: NodeId::from_bytes([1; 16]) };
        node.handle_input(at(1), NodeInput::Confirm { ticket: TICKET, tag: StreamTag(5), source, key: key() });
        node.handle_timeout(at(6));
        let outputs_then = outputs(&mut node, at(6));
        assert!(
            matches!(outputs_then[..], [NodeOutput::Command(NodeCommand::Resubscribe { ticket: TICKET, lost: true })]),
            "{outputs_then:?}"
        );
        node.handle_timeout(at(31));
        let outputs_later = outputs(&mut node, at(31));
        assert!(
            matches!(outputs_later[..], [NodeOutput::Command(NodeCommand::EndSubscription { ticket: TICKET })]),
            "{outputs_later:?}"
        );
        node.handle_input(at(32), NodeInput::Release { ticket: TICKET });
        assert_eq!(node.subscribed(), []);
    }
}
