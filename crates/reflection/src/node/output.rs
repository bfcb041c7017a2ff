//! The consequences of a node's part of reflection.

use bytes::Bytes;
use roost_core::node::{NodeCommand, SessionId, Ticket};
use roost_wire::StreamId;

use crate::admission::AdmissionError;
use crate::publication::{PublishError, RekeyError, SealError};
use crate::subscription::{Reception, SubscriptionError};

#[derive(Clone, Debug)]
#[allow(clippy::large_enum_variant, reason = "commands are few beside payloads, and moved once")]
pub enum NodeOutput {
    /// The node's machine is to do this.
    Command(NodeCommand),
    /// A payload of a request's stream, in its order.
    Payload { ticket: Ticket, payload: Bytes, reception: Reception },
    /// The counts of a request have changed otherwise.
    Received { ticket: Ticket, reception: Reception },
    /// A request cannot go on: it is to be cancelled.
    SubscriptionFailed { ticket: Ticket, error: SubscriptionError },
    /// A stream has begun, or has not.
    Published { session: SessionId, result: Result<(), PublishError> },
    /// The source is to make a key frame.
    KeyFrameWanted { session: SessionId },
    /// A datagram of a source is not sent, as a packet takes less and it may not be cut.
    PayloadTooLong {
        session: SessionId,
        bytes: usize,
        /// True for the first of its stream.
        is_first: bool,
    },
    /// A datagram of a source is not sent.
    PayloadNotSealed { session: SessionId, error: SealError },
    /// A published stream is not offered to a hub that wants it.
    OfferRefused { stream: StreamId, reason: AdmissionError },
    /// The next epoch of a stream could not be prepared, and is tried again.
    RekeyFailed { session: SessionId, error: RekeyError },
}
