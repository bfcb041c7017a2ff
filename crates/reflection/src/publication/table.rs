//! All streams that begin at this node.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;

use roost_core::node::{NodeCommand, SessionId};
use roost_wire::{StreamId, StreamTag, Time};

use super::{FrameMarker, PayloadError, Publication, PublishError};
use crate::keys::{AnnouncedKey, SecretSource};
use crate::node::NodeOutput;
use crate::relay::Relay;

/// A stream that is to be published.
pub struct NewPublication {
    pub session: SessionId,
    pub stream: StreamId,
    pub key: AnnouncedKey,
    /// The reader of its format.
    pub marker: Box<dyn FrameMarker>,
}

/// All publications, as many as the relay admits streams.
pub(crate) struct Publications {
    by_stream: BTreeMap<StreamId, Publication>,
    secrets: Box<dyn SecretSource>,
    /// Drained by the owner after each input.
    outputs: VecDeque<NodeOutput>,
}

impl Publications {
    pub(crate) fn new(secrets: Box<dyn SecretSource>) -> Self {
        Self { by_stream: BTreeMap::new(), secrets, outputs: VecDeque::new() }
    }

    pub(crate) fn poll_output(&mut self) -> Option<NodeOutput> {
        self.outputs.pop_front()
    }

    pub(crate) fn publish(&mut self, now: Time, relay: &mut Relay, new: NewPublication) {
        let session = new.session;
        let result = self.try_publish(now, relay, new);
        self.outputs.push_back(NodeOutput::Published { session, result });
    }

    fn try_publish(&mut self, now: Time, relay: &mut Relay, new: NewPublication) -> Result<(), PublishError> {
        let NewPublication { session, stream, key, marker } = new;
        let published = Publication::new(now, session, stream, &key, marker)?;
        relay.publish(now, stream)?;
        self.by_stream.insert(stream, published);
        Ok(())
    }

    /// Seals a datagram of a stream's source, and sends it.
    pub(crate) fn push_payload(&mut self, now: Time, relay: &mut Relay, stream: StreamId, payload: &[u8]) {
        let Some(published) = self.by_stream.get_mut(&stream) else { return };
        let session = published.session();
        let sealed = published.seal(now, payload, |packet| relay.push(now, stream, packet));
        if sealed != Err(PayloadError::TooLong) && published.wants_first_key_frame(now) {
            self.outputs.push_back(NodeOutput::KeyFrameWanted { session });
        }
        match sealed {
            Ok(()) => {}
            Err(PayloadError::TooLong) => {
                let is_first = published.is_first_rejection();
                self.outputs.push_back(NodeOutput::PayloadTooLong { session, bytes: payload.len(), is_first });
            }
            Err(PayloadError::Unsealed(error)) => {
                self.outputs.push_back(NodeOutput::PayloadNotSealed { session, error });
            }
        }
    }

    pub(crate) fn unpublish(&mut self, now: Time, relay: &mut Relay, session: SessionId) {
        self.by_stream.retain(|stream, published| {
            let is_over = published.session() == session;
            if is_over {
                relay.unpublish(now, *stream);
            }
            !is_over
        });
    }

    /// Offers a stream to a hub's media address, under the hub's tag.
    pub(crate) fn offer(&mut self, now: Time, relay: &mut Relay, stream: StreamId, to: SocketAddr, tag: StreamTag) {
        if let Err(reason) = relay.offer(now, stream, to, tag) {
            self.outputs.push_back(NodeOutput::OfferRefused { stream, reason });
        }
    }

    /// Somebody may read the streams of a session no further.
    pub(crate) fn record_departure(&mut self, now: Time, session: SessionId) {
        let departed = self.by_stream.values_mut().filter(|published| published.session() == session);
        departed.for_each(Publication::record_departure);
        self.rekey(now);
    }

    /// Nobody has wanted a stream for a while.
    pub(crate) fn on_idle(&mut self, stream: StreamId) {
        if let Some(published) = self.by_stream.get(&stream) {
            let session = published.session();
            self.outputs.push_back(NodeOutput::Command(NodeCommand::Idle { session }));
        }
    }

    /// A hub to which a stream goes has not reported when it should.
    pub(crate) fn on_downstream_silent(&mut self) {
        self.outputs.push_back(NodeOutput::Command(NodeCommand::Suspect));
    }

    /// A receiver waits for a key frame.
    pub(crate) fn on_key_frame_requested(&mut self, stream: StreamId) {
        if let Some(published) = self.by_stream.get(&stream) {
            self.outputs.push_back(NodeOutput::KeyFrameWanted { session: published.session() });
        }
    }

    /// Prepares the next epochs that are due, and has all members told.
    fn rekey(&mut self, now: Time) {
        for published in self.by_stream.values_mut() {
            let session = published.session();
            match published.rekey(now, &mut *self.secrets) {
                Ok(None) => {}
                Ok(Some(AnnouncedKey { epoch, secret })) => {
                    self.outputs.push_back(NodeOutput::Command(NodeCommand::Rekey { session, epoch, secret }));
                }
                Err(error) => self.outputs.push_back(NodeOutput::RekeyFailed { session, error }),
            }
        }
    }

    /// The time at which an epoch is due.
    pub(crate) fn poll_deadline(&self) -> Option<Time> {
        self.by_stream.values().map(Publication::poll_deadline).min()
    }

    pub(crate) fn handle_timeout(&mut self, now: Time) {
        self.rekey(now);
    }
}
