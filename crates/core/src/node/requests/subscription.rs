//! A reflected stream that is asked for, or taken.

use std::net::SocketAddr;

use roost_wire::messages::{FlowMessage, Report, StreamKeys};
use roost_wire::{Cell, Epoch, NodeId, RequestId, StreamId, StreamTag, Time};

#[derive(Debug, Default)]
pub(super) struct SubscriptionState {
    /// True if this node can take one in answer.
    pub(super) able: bool,
    /// True if one is asked for.
    pub(super) is_requested: bool,
    /// The destination of the copy, and the tag by which it is recognised; another one for each number of the
    /// request.
    pub(super) copy_target: Option<(SocketAddr, StreamTag)>,
    /// The only provider that is meant, and where it is.
    pub(super) aim: Option<(NodeId, Cell)>,
    /// The hub that was asked.
    pub(super) hub: Option<NodeId>,
    /// The request that has the stream already and wants another way for it.
    pub(super) replaces: Option<RequestId>,
    /// True if its stream comes meanwhile.
    pub(super) resumes: bool,
    /// Until when it is wanted.
    pub(super) ends: Option<Time>,
    /// Since when nothing comes.
    pub(super) lost: Option<Time>,
    /// The searches in vain for another way.
    pub(super) tries: u32,
    /// The keys that a hub has handed over before anybody has accepted.
    pub(super) foretold: ProvisionalKey,
}

/// A reflected stream, as the provider has told of it.
#[derive(Debug)]
pub(super) struct Subscription {
    stream: StreamId,
    /// The latest epoch of which the owner knows what opens it.
    latest: Epoch,
    pub(super) ended: bool,
}

impl Subscription {
    pub(super) fn new(reflected: &StreamKeys) -> Self {
        Self { stream: reflected.stream, latest: reflected.epoch, ended: false }
    }

    /// Goes on to an epoch of the stream; false if the owner knows it already.
    pub(super) fn advance(&mut self, stream: StreamId, epoch: Epoch) -> bool {
        let is_news = stream == self.stream && epoch > self.latest;
        if is_news {
            self.latest = epoch;
        }
        is_news
    }
}

/// The keys that hubs have handed over for a request.
#[derive(Debug, Default)]
pub(super) struct ProvisionalKey {
    pub(super) times: u32,
    /// The provider of the stream, once its keys were opened.
    pub(super) provider: Option<NodeId>,
    /// Until when that is to be confirmed.
    pub(super) until: Option<Time>,
}

/// The message that keeps a member of a stream one.
pub(super) fn renewal_report(id: RequestId) -> FlowMessage {
    FlowMessage::Report(Report { id, ..Default::default() })
}
