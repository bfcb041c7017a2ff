//! What is said to everybody on a link, by multicast. Unlike all other
//! messages these carry their senders: what seals them is known to the whole
//! group. So they only lead to dials, and the certificates say who answers.

use minicbor::{Decode, Encode};

use super::lookup::Candidate;
use super::request::Request;
use crate::ids::{NodeId, RequestId};

/// See [`Message::MulticastRequest`](super::Message::MulticastRequest).
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(array)]
pub struct MulticastRequest {
    /// The request, with its requester and its addresses as the route. The group gets to know the
    /// nonce, so it tells a fresh answer from a stale one, and nothing about who answers.
    #[n(0)]
    pub request: Request,
    /// The number of the repetition, from 0. A node that let another one answer an earlier
    /// repetition considers a later one anew.
    #[n(1)]
    pub attempt: u8,
}

/// See [`Message::MulticastSuppression`](super::Message::MulticastSuppression).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(array)]
pub struct MulticastSuppression {
    /// Whose inquiry.
    #[n(0)]
    pub requester: NodeId,
    /// Which one.
    #[n(1)]
    pub id: RequestId,
    /// Up to which repetition of it.
    #[n(2)]
    pub attempt: u8,
    /// Who says it: the provider that answers, or the requester, who has what it wanted.
    #[n(3)]
    pub sender: NodeId,
}

/// See [`Message::MulticastCandidate`](super::Message::MulticastCandidate).
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(array)]
pub struct MulticastCandidate {
    /// Whose inquiry.
    #[n(0)]
    pub requester: NodeId,
    /// Which one.
    #[n(1)]
    pub id: RequestId,
    /// Who offers it.
    #[n(2)]
    pub candidate: Candidate,
}
