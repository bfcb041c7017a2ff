//! Reflected streams that begin or end at this node: sealed and sent once,
//! opened and handed to whoever watches.
//!
//! All of it runs on the relay's thread. The node's machine says what is
//! published and watched, by [`RelayCommand`]s; it hears when a way is lost, a source is
//! no longer wanted, or a key is due.

mod gop_cache;
mod key_seal;
mod playout;
mod playouts;
mod publish;
mod reception;
mod relay_client;
mod request;
mod subscriptions;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use prometheus::IntCounter;
use roost_daemon::DaemonContext;
use roost_daemon::driver::Mailbox;
use roost_daemon::media::RelayHandler;
use roost_proto::node::{Node, NodeCommand, SessionId, Ticket};
use roost_proto::reflection::{Epoch, EpochSecret, StreamId, StreamTag};
use roost_proto::{NodeId, Time};
use roost_reflection::Relay;
use roost_reflection::relay::RelayEvent;
use roost_services::KeyFrameRequester;
use tokio::sync::oneshot;

pub(crate) use key_seal::KeySealer;
use publish::Published;
pub(crate) use reception::ReceptionTable;
pub(crate) use relay_client::{RelayClient, SubscriberOutput};
use subscriptions::Subscriptions;

/// What the node asks of its relay.
pub(crate) enum RelayCommand {
    /// A session's source has started: begin its stream.
    Publish {
        /// The session.
        session: SessionId,
        /// Its stream.
        stream: StreamId,
        /// The first epoch, and what opens it.
        epoch: Epoch,
        secret: EpochSecret,
        /// What the stream is.
        format: String,
        /// Where to ask for a key frame, if the source makes some.
        key_frames: Option<KeyFrameRequester>,
        /// Hears that it has begun, or why not.
        begun: oneshot::Sender<Result<(), String>>,
    },
    /// A datagram of its source.
    Payload { stream: StreamId, payload: Bytes },
    /// The session is over.
    Unpublish { session: SessionId },
    /// Offer a published stream to a hub that wants it.
    Offer { stream: StreamId, to: SocketAddr, tag: StreamTag },
    /// Somebody may read a published stream no further.
    MemberLeft { session: SessionId },
    /// Expect the offer of a request's stream under this tag. A knock at `door`, the home's media address, shows the
    /// home this node's address.
    Expect { ticket: Ticket, tag: StreamTag, door: Option<SocketAddr> },
    /// Which stream that is, and what opens it.
    Reflected {
        ticket: Ticket,
        tag: StreamTag,
        stream: StreamId,
        /// Who says so, or of whom a hub says it.
        provider: NodeId,
        epoch: Epoch,
        secret: EpochSecret,
        is_confirmed: bool,
    },
    /// What opens its next epoch.
    Key { ticket: Ticket, epoch: Epoch, secret: EpochSecret },
    /// The request is over.
    Release { ticket: Ticket },
}

/// What this node publishes and watches.
pub(crate) struct NodeRelayHandler {
    mailbox: Mailbox<Node>,
    shared: Arc<DaemonContext>,
    too_long: IntCounter,
    published: BTreeMap<StreamId, Published>,
    watches: Subscriptions,
}

impl NodeRelayHandler {
    /// `too_long` counts what is too long to be reflected.
    pub(crate) fn new(ending: SubscriberOutput, shared: Arc<DaemonContext>, too_long: IntCounter) -> Self {
        let (mailbox, published) = (ending.mailbox.clone(), BTreeMap::new());
        Self { mailbox, shared, too_long, published, watches: Subscriptions::new(ending) }
    }

    /// The streams that requests have, each with one of these.
    pub(crate) fn watched(&self) -> Vec<(StreamId, Ticket)> {
        self.watches.streams()
    }

    fn publish(&mut self, now: Time, relay: &mut Relay, stream: StreamId, published: Published) -> Result<(), String> {
        relay.publish(now, stream).map_err(|reason| reason.to_string())?;
        self.published.insert(stream, published);
        Ok(())
    }

    /// Seals a datagram of a stream's source, and sends it.
    fn seal(&mut self, now: Time, relay: &mut Relay, stream: StreamId, payload: &[u8]) {
        let Some(published) = self.published.get_mut(&stream) else { return };
        if let Err(error) = published.seal(now, payload, |packet| relay.push(now, stream, packet)) {
            self.too_long.inc();
            if published.is_new_to_it() {
                tracing::warn!("{error}");
                self.shared.set_last_error(error.to_string());
            }
        }
    }

    fn unpublish(&mut self, now: Time, relay: &mut Relay, session: SessionId) {
        self.published.retain(|stream, published| {
            let is_over = published.session() == session;
            if is_over {
                relay.unpublish(now, *stream);
            }
            !is_over
        });
    }

    /// Prepares the next epochs that are due, and has all members told.
    fn rekey(&mut self, now: Time) {
        for published in self.published.values_mut() {
            if let Some(rekey) = published.rekey(now) {
                self.mailbox.post(rekey);
            }
        }
    }
}

impl RelayHandler for NodeRelayHandler {
    type RelayCommand = RelayCommand;

    fn handle_command(&mut self, now: Time, relay: &mut Relay, order: RelayCommand) {
        match order {
            RelayCommand::Publish { session, stream, epoch, secret, format, key_frames, begun } => {
                let published = Published::new(now, session, (stream, epoch), &secret, &format);
                let published = published.map(|published| published.asking(key_frames)).map_err(|e| e.to_string());
                let is_begun = published.and_then(|published| self.publish(now, relay, stream, published));
                if begun.send(is_begun).is_err() {
                    // Its session is over already.
                    self.unpublish(now, relay, session);
                }
            }
            RelayCommand::Payload { stream, payload } => self.seal(now, relay, stream, &payload),
            RelayCommand::Unpublish { session } => self.unpublish(now, relay, session),
            RelayCommand::Offer { stream, to, tag } => {
                if let Err(reason) = relay.offer(now, stream, to, tag) {
                    tracing::warn!(%reason, "a stream is not offered");
                }
            }
            RelayCommand::MemberLeft { session } => {
                self.published.values_mut().filter(|one| one.session() == session).for_each(Published::member_left);
                self.rekey(now);
            }
            RelayCommand::Expect { ticket, tag, door } => {
                self.watches.expect(now, relay, ticket, tag);
                door.into_iter().for_each(|door| relay.punch_hole(now, tag, door));
            }
            RelayCommand::Reflected { ticket, tag, stream, provider, epoch, secret, is_confirmed: true } => {
                self.watches.set_confirmed_stream(now, relay, ticket, (tag, stream, provider), (epoch, &secret));
            }
            RelayCommand::Reflected { ticket, stream, provider, epoch, secret, is_confirmed: false, .. } => {
                self.watches.set_provisional_stream(now, ticket, (stream, provider), (epoch, &secret));
            }
            RelayCommand::Key { ticket, epoch, secret } => self.watches.key(now, ticket, epoch, &secret),
            RelayCommand::Release { ticket } => self.watches.release(now, relay, ticket),
        }
    }

    fn deliver(&mut self, now: Time, stream: StreamId, packet: &[u8]) {
        self.watches.deliver(now, stream, packet);
    }

    fn event(&mut self, now: Time, relay: &mut Relay, event: RelayEvent) {
        match event {
            RelayEvent::Began { tag, stream } => self.watches.began(now, relay, tag, stream),
            RelayEvent::OfferTimedOut { tag } => self.watches.unoffered(now, relay, tag),
            RelayEvent::Lost { stream } => self.watches.resubscribe(stream, true),
            RelayEvent::UpstreamLeaving { stream } => self.watches.resubscribe(stream, false),
            RelayEvent::Idle { stream } => {
                if let Some(published) = self.published.get(&stream) {
                    self.mailbox.post(NodeCommand::Idle { session: published.session() });
                }
            }
            RelayEvent::KeyFrameRequested { stream } => {
                if let Some(published) = self.published.get(&stream) {
                    tracing::debug!(session = published.session().0, "a receiver waits for a key frame");
                    published.ask_key_frame();
                }
            }
            RelayEvent::DownstreamSilent { .. } => self.mailbox.post(NodeCommand::Suspect),
            RelayEvent::Subscribed { .. } => {}
        }
    }

    fn poll_deadline(&self) -> Option<Time> {
        let epochs = self.published.values().map(Published::poll_deadline);
        epochs.chain(self.watches.poll_deadline()).min()
    }

    fn handle_timeout(&mut self, now: Time, relay: &mut Relay) {
        self.rekey(now);
        self.watches.handle_timeout(now, relay);
    }
}
