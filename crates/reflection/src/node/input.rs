//! The commands to a node's part of reflection.

use std::net::SocketAddr;

use bytes::Bytes;
use roost_core::node::{NodeEvent, SessionId, Ticket};
use roost_wire::{Epoch, EpochSecret, StreamId, StreamTag};

use crate::keys::AnnouncedKey;
use crate::publication::NewPublication;
use crate::subscription::StreamSource;

/// A command to a node's part of reflection.
pub enum NodeInput {
    /// Begin the stream of a session; answered by [`NodeOutput::Published`](super::NodeOutput::Published).
    Publish(NewPublication),
    /// A datagram of a source.
    Payload {
        stream: StreamId,
        payload: Bytes,
    },
    Unpublish {
        session: SessionId,
    },
    /// Offer a published stream to a hub that wants it.
    Offer {
        stream: StreamId,
        to: SocketAddr,
        /// The tag under which it wants the stream.
        tag: StreamTag,
    },
    /// Somebody may read a published stream no further.
    MemberLeft {
        /// The session of the stream's source.
        session: SessionId,
    },
    /// Expect the offer of a request's stream under this tag.
    Expect {
        ticket: Ticket,
        tag: StreamTag,
        /// The home's media address: a knock there shows the home this node's address.
        door: Option<SocketAddr>,
    },
    /// The provider has named a request's stream.
    Confirm {
        ticket: Ticket,
        /// The tag under which the stream comes.
        tag: StreamTag,
        source: StreamSource,
        /// The key of the stream's present epoch.
        key: AnnouncedKey,
    },
    /// A hub has named it before the provider.
    Foretell {
        ticket: Ticket,
        /// The stream, as the hub says.
        source: StreamSource,
        /// The key that may open it.
        key: AnnouncedKey,
    },
    /// The key of the next epoch of a request's stream.
    Key {
        ticket: Ticket,
        key: AnnouncedKey,
    },
    /// The request is over, or has a stream of its own.
    Release {
        ticket: Ticket,
    },
}

impl NodeInput {
    /// The command that an event of the node's machine is; `None` for one of no concern here. That a request
    /// is over, the owner says.
    pub fn from_event(event: &NodeEvent) -> Option<Self> {
        let key = |epoch: &Epoch, secret: &EpochSecret| AnnouncedKey { epoch: *epoch, secret: secret.clone() };
        Some(match event {
            NodeEvent::Reflect { stream, to, tag, .. } => Self::Offer { stream: *stream, to: *to, tag: *tag },
            NodeEvent::MemberLeft { session } => Self::MemberLeft { session: *session },
            NodeEvent::ExpectTag { ticket, tag, door } => Self::Expect { ticket: *ticket, tag: *tag, door: *door },
            NodeEvent::Reflected { ticket, tag, stream, provider, epoch, secret, is_confirmed } => {
                let source = StreamSource { stream: *stream, provider: *provider };
                let (ticket, tag, key) = (*ticket, *tag, key(epoch, secret));
                match is_confirmed {
                    true => Self::Confirm { ticket, tag, source, key },
                    false => Self::Foretell { ticket, source, key },
                }
            }
            NodeEvent::Key { ticket, epoch, secret } => Self::Key { ticket: *ticket, key: key(epoch, secret) },
            _ => return None,
        })
    }
}
