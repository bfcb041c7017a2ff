//! The machine's side of subscriptions: commands to the relay's thread, and the end of requests there.

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use roost_core::node::{Node, NodeCommand, RequestSummary, Ticket};
use roost_reflection::NodeInput;
use roost_reflection::subscription::{Reception, SilenceCause};
use roost_runtime::driver::Mailbox;
use roost_runtime::media::{RelayMailbox, RelayStopped};
use roost_wire::NodeId;
use roost_wire::messages::Reason;

use super::{NodeRelayHandler, ReceptionTable, RelayCommand};
use crate::tickets::{Failure, Reply, Tickets};

/// The way of a subscription's outputs to the request that waits for them.
#[derive(Clone)]
pub(crate) struct SubscriberOutput {
    pub(crate) tickets: Arc<Tickets>,
    pub(crate) receptions: ReceptionTable,
    pub(crate) mailbox: Mailbox<Node>,
}

impl SubscriberOutput {
    /// Ends a request, with a sentence for its requester.
    pub(crate) fn end(&self, ticket: Ticket, why: String) {
        let failed = Reply::Failed(Failure::new(Reason::Unreachable, why));
        if self.tickets.deliver(ticket, failed).is_some() {
            self.mailbox.post(NodeCommand::Cancel { ticket });
        }
    }

    /// Hands a payload over, with the counts; ends the request if there is no room for it.
    pub(super) fn hand_over(&self, ticket: Ticket, payload: Bytes, reception: Reception) {
        self.receptions.update(ticket, reception, || {
            if self.tickets.deliver_data(ticket, payload).is_some() {
                self.mailbox.post(NodeCommand::Cancel { ticket });
            }
        });
    }

    /// Ends all requests that have or await a reflected stream.
    pub(crate) fn end_all(&self, why: &str) {
        self.receptions.tickets().into_iter().for_each(|ticket| self.end(ticket, why.to_owned()));
    }
}

/// Commands to the relay, if there is one.
pub(crate) struct RelayClient {
    media: Option<RelayMailbox<NodeRelayHandler>>,
    address: Option<SocketAddr>,
    output: SubscriberOutput,
}

impl RelayClient {
    pub(crate) fn new(
        address: Option<SocketAddr>,
        media: Option<RelayMailbox<NodeRelayHandler>>,
        output: SubscriberOutput,
    ) -> Self {
        Self { media, address, output }
    }

    /// Hands an event of the machine to the relay.
    pub(crate) fn command(&self, input: NodeInput) {
        let Some(media) = &self.media else { return };
        let NodeInput::Expect { ticket, .. } = &input else {
            return media.post(RelayCommand::Input(input));
        };
        let ticket = *ticket;
        self.output.receptions.begin(ticket);
        media.post(RelayCommand::Input(input));
        // A relay that stops ends the requests of the table. The check comes after the entry, so that no request is
        // missed.
        if media.is_stopped() {
            self.output.end(ticket, RelayStopped.to_string());
        }
    }

    /// Ends the subscription of a request that gets its own stream, but keeps the counts.
    pub(crate) fn turns_direct(&self, ticket: Ticket) {
        let Some(media) = &self.media else { return };
        if self.output.receptions.turn_direct(ticket, media.now()) {
            self.command(NodeInput::Release { ticket });
        }
    }

    /// Ends a request. If it had a reflected stream, its summary gets the part that the machine cannot know. Returns
    /// the reason if no packet of the stream came, where the machine knows no better one. `who` formats a node for
    /// people.
    pub(crate) fn over(
        &self,
        ticket: Ticket,
        summary: Option<&mut RequestSummary>,
        who: impl FnOnce(NodeId) -> String,
    ) -> Option<(Reason, String)> {
        let request = self.output.receptions.remove(ticket)?;
        if request.reflected().is_some() {
            self.command(NodeInput::Release { ticket });
        }
        let summary = summary?;
        let cause = request.finish(summary)?;
        Some((cause.reason(), silence(cause, &who(summary.provider), self.address)))
    }
}

/// The sentence about a stream of which no packet came.
fn silence(cause: SilenceCause, provider: &str, media: Option<SocketAddr>) -> String {
    match cause {
        SilenceCause::Source => format!("the source of {provider} gives nothing: switch its camera or feed on"),
        SilenceCause::Path => {
            let port = media.map(|media| format!(", {},", media.port())).unwrap_or_default();
            format!(
                "{provider} has accepted, but no packet of the stream came: let UDP through between this node's \
                 media port{port} and the media port of super nodes, usually 7702; `roost doctor` tests it"
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silence_names_its_remedy() {
        let media = Some(SocketAddr::from(([127, 0, 0, 1], 44_487)));
        let source = silence(SilenceCause::Source, "uav7", media);
        assert!(source.contains("the source of uav7 gives nothing"), "{source}");
        let path = silence(SilenceCause::Path, "uav7", media);
        assert!(path.contains("media port, 44487, and the media port"), "{path}");
    }
}
