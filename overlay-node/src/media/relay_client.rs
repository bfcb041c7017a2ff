//! The machine's side of what is watched: which requests may have a reflected
//! stream, and what came for them in the end.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use roost_daemon::driver::Mailbox;
use roost_daemon::media::{RelayMailbox, RelayStopped};
use roost_proto::NodeId;
use roost_proto::node::{Node, NodeCommand, RequestSummary, Ticket};
use roost_proto::reflection::StreamTag;
use roost_proto::wire::Reason;

use super::reception::ReceptionStats;
use super::{NodeRelayHandler, ReceptionTable, RelayCommand};
use crate::tickets::{Reply, Tickets};

/// Ends requests for reflected streams that cannot come.
#[derive(Clone)]
pub(crate) struct SubscriberOutput {
    pub(crate) tickets: Arc<Tickets>,
    pub(crate) tallies: ReceptionTable,
    pub(crate) mailbox: Mailbox<Node>,
}

impl SubscriberOutput {
    /// Ends one, with a sentence for who has asked.
    pub(crate) fn end(&self, ticket: Ticket, why: String) {
        let failed = Reply::Failed { reason: Reason::Unreachable, detail: why, retry_after: None };
        if self.tickets.deliver(ticket, failed).is_some() {
            self.mailbox.post(NodeCommand::Cancel { ticket });
        }
    }

    /// Hands a payload over to who watches, and counts it; ends the request for which there is no room.
    pub(super) fn hand_over(&self, ticket: Ticket, payload: &Bytes) {
        self.tallies.update_stats(ticket, |tally| {
            if self.tickets.deliver_data(ticket, payload.clone()).is_some() {
                self.mailbox.post(NodeCommand::Cancel { ticket });
            }
            tally.count(payload.len());
        });
    }

    /// Ends all that there are.
    pub(crate) fn end_all(&self, why: &str) {
        self.tallies.tickets().into_iter().for_each(|ticket| self.end(ticket, why.to_owned()));
    }
}

/// Orders to the relay, if there is one, and the requests that it knows of.
pub(crate) struct RelayClient {
    media: Option<RelayMailbox<NodeRelayHandler>>,
    /// The media port.
    address: Option<SocketAddr>,
    ending: SubscriberOutput,
    /// When they were made; as many as the machine admits.
    requests: HashMap<Ticket, Instant>,
    /// Of those whose stream goes on without reflection, what had come before; no more than there are requests.
    before: HashMap<Ticket, ReceptionStats>,
}

impl RelayClient {
    pub(crate) fn new(relay: Option<(SocketAddr, RelayMailbox<NodeRelayHandler>)>, ending: SubscriberOutput) -> Self {
        let (address, media) = relay.unzip();
        Self { media, address, ending, requests: HashMap::new(), before: HashMap::new() }
    }

    /// Asks something of the relay.
    pub(crate) fn order(&self, order: RelayCommand) {
        if let Some(media) = &self.media {
            media.post(order);
        }
    }

    /// A request may get a reflected stream.
    pub(crate) fn expect(&mut self, ticket: Ticket, tag: StreamTag, door: Option<SocketAddr>) {
        self.requests.entry(ticket).or_insert_with(Instant::now);
        self.ending.tallies.begin(ticket);
        self.order(RelayCommand::Expect { ticket, tag, door });
        // Looked at after the request is in the list that a relay which stops goes through.
        if self.media.as_ref().is_some_and(RelayMailbox::is_stopped) {
            self.ending.end(ticket, RelayStopped.to_string());
        }
    }

    /// A request gets a stream of its own: what had come of a reflected one counts as well.
    pub(crate) fn turns_direct(&mut self, ticket: Ticket) {
        if self.requests.remove(&ticket).is_none() {
            return;
        }
        self.order(RelayCommand::Release { ticket });
        let tally = self.ending.tallies.remove_stats(ticket).filter(|tally| tally.packets > 0);
        self.before.extend(tally.map(|tally| (ticket, tally.broken_off(Instant::now()))));
    }

    /// A request is over, or has a stream of its own. If it had a reflected one its summary gets what the
    /// machine cannot know; answers why nothing has come of one, where the machine does
    /// not know better.
    /// `who` shows a node to people.
    pub(crate) fn over(
        &mut self,
        ticket: Ticket,
        mut summary: Option<&mut RequestSummary>,
        who: impl FnOnce(NodeId) -> String,
    ) -> Option<(Reason, String)> {
        if let (Some(before), Some(summary)) = (self.before.remove(&ticket), summary.as_deref_mut()) {
            before.precede(summary);
        }
        let began = self.requests.remove(&ticket)?;
        self.order(RelayCommand::Release { ticket });
        let (tally, summary) = (self.ending.tallies.remove_stats(ticket)?, summary?);
        tally.complete(summary, began);
        let silent = [Reason::Unreachable, Reason::TimedOut, Reason::SourceFailed];
        let is_silent = summary.reason.is_none_or(|reason| silent.contains(&reason));
        let asks_why = summary.reflected && summary.broken.is_none() && is_silent;
        asks_why.then(|| tally.emptiness(summary.reason, &who(summary.provider), self.address)).flatten()
    }
}
