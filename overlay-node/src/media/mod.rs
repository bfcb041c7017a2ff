//! Hands events between the node and its part of reflection, which runs on the relay's thread.

mod marker;
mod receptions;
mod relay_client;

use std::collections::BTreeMap;
use std::sync::Arc;

use prometheus::IntCounter;
use roost_core::node::SessionId;
use roost_reflection::publication::{NewPublication, PublishError};
use roost_reflection::{NodeInput, NodeOutput, NodeReflection};
use roost_runtime::DaemonContext;
use roost_runtime::media::RelayHandler;
use roost_services::KeyFrameRequester;
use tokio::sync::oneshot;

pub(crate) use marker::marker_of;
use marker::too_long;
pub(crate) use receptions::ReceptionTable;
pub(crate) use relay_client::{RelayClient, SubscriberOutput};

/// A command of the node to its relay.
pub(crate) enum RelayCommand {
    /// Begins the stream of a session whose source has started.
    Publish {
        publication: NewPublication,
        /// Asks the source for a key frame, if it makes some.
        key_frames: Option<KeyFrameRequester>,
        /// Gets the outcome.
        begun: oneshot::Sender<Result<(), PublishError>>,
    },
    Input(NodeInput),
}

/// The source of a published stream, as far as the relay's thread needs it.
struct SourceHandle {
    key_frames: Option<KeyFrameRequester>,
    begun: Option<oneshot::Sender<Result<(), PublishError>>>,
}

/// The relay thread's way to the rest of the node.
pub(crate) struct NodeRelayHandler {
    output: SubscriberOutput,
    shared: Arc<DaemonContext>,
    too_long: IntCounter,
    /// As many as there are publications.
    sources: BTreeMap<SessionId, SourceHandle>,
}

impl NodeRelayHandler {
    /// Makes a handler that counts in `too_long` the datagrams that are too long to be reflected.
    pub(crate) fn new(output: SubscriberOutput, shared: Arc<DaemonContext>, too_long: IntCounter) -> Self {
        Self { output, shared, too_long, sources: BTreeMap::new() }
    }

    fn reject_payload(&self, bytes: usize, is_first: bool) {
        self.too_long.inc();
        if is_first {
            let sentence = too_long(bytes);
            tracing::warn!("{sentence}");
            self.shared.set_last_error(sentence);
        }
    }

    fn report_published(&mut self, session: SessionId, result: Result<(), PublishError>) {
        let begun = self.sources.get_mut(&session).and_then(|source| source.begun.take());
        if result.is_err() {
            self.sources.remove(&session);
        }
        if let Some(begun) = begun {
            // A session that is over ends its stream by itself.
            let _ = begun.send(result);
        }
    }

    fn request_key_frame(&self, session: SessionId) {
        if let Some(key_frames) = self.sources.get(&session).and_then(|source| source.key_frames.as_ref()) {
            tracing::debug!(session = session.0, "a key frame is wanted");
            key_frames.request_key_frame();
        }
    }
}

impl RelayHandler for NodeRelayHandler {
    type Machine = NodeReflection;
    type Command = RelayCommand;

    fn translate(&mut self, command: RelayCommand) -> NodeInput {
        match command {
            RelayCommand::Publish { publication, key_frames, begun } => {
                self.sources.insert(publication.session, SourceHandle { key_frames, begun: Some(begun) });
                NodeInput::Publish(publication)
            }
            RelayCommand::Input(input) => {
                if let NodeInput::Unpublish { session } = &input {
                    self.sources.remove(session);
                }
                input
            }
        }
    }

    fn handle_output(&mut self, output: NodeOutput) {
        match output {
            NodeOutput::Command(command) => self.output.mailbox.post(command),
            NodeOutput::Payload { ticket, payload, reception } => self.output.hand_over(ticket, payload, reception),
            NodeOutput::Received { ticket, reception } => self.output.receptions.update(ticket, reception, || {}),
            NodeOutput::SubscriptionFailed { ticket, error } => self.output.end(ticket, error.to_string()),
            NodeOutput::Published { session, result } => self.report_published(session, result),
            NodeOutput::KeyFrameWanted { session } => self.request_key_frame(session),
            NodeOutput::PayloadTooLong { bytes, is_first, .. } => self.reject_payload(bytes, is_first),
            NodeOutput::PayloadNotSealed { error, .. } => tracing::debug!(%error, "a datagram is not sent"),
            NodeOutput::OfferRefused { reason, .. } => tracing::warn!(%reason, "a stream is not offered"),
            NodeOutput::RekeyFailed { error, .. } => {
                tracing::error!("the next epoch of a stream cannot be prepared, and is tried again: {error}");
            }
        }
    }
}
