//! The machine's side of what is watched: which requests may have a reflected
//! stream, and what came for them in the end.

use std::collections::HashMap;
use std::time::Instant;

use roost_daemon::media::Media;
use roost_proto::peer::{Summary, Ticket};
use roost_proto::reflection::Tag;

use super::{NodeEnds, Order, Tallies};

/// Orders to the relay, if there is one, and the requests that it knows of.
pub(crate) struct Watching {
    media: Option<Media<NodeEnds>>,
    tallies: Tallies,
    /// When they were made; as many as the machine admits.
    requests: HashMap<Ticket, Instant>,
}

impl Watching {
    pub(crate) fn new(media: Option<Media<NodeEnds>>, tallies: Tallies) -> Self {
        Self { media, tallies, requests: HashMap::new() }
    }

    /// Asks something of the relay.
    pub(crate) fn order(&self, order: Order) {
        if let Some(media) = &self.media {
            media.post(order);
        }
    }

    /// A request may get a reflected stream.
    pub(crate) fn expect(&mut self, ticket: Ticket, tag: Tag) {
        self.requests.entry(ticket).or_insert_with(Instant::now);
        self.tallies.begin(ticket);
        self.order(Order::Expect { ticket, tag });
    }

    /// A request is over. If it had a reflected stream its summary gets what the machine cannot know.
    pub(crate) fn over(&mut self, ticket: Ticket, summary: Option<&mut Summary>) {
        let Some(began) = self.requests.remove(&ticket) else { return };
        self.order(Order::Release { ticket });
        if let (Some(tally), Some(summary)) = (self.tallies.take(ticket), summary) {
            tally.complete(summary, began);
        }
    }
}
