//! Messages to everybody in the subnet, by multicast. Unlike all other messages these carry their senders: the
//! whole group knows the key that seals them. They only lead to dials, and the certificates prove the identity
//! of who answers.

use minicbor::{Decode, Encode};

use super::directory::Candidate;
use super::request::Request;
use crate::ids::{NodeId, RequestId};
use crate::refusal::Refusal;

/// Discovery in the subnet. These messages are sealed for the group and never travel over a connection.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(flat)]
pub enum MulticastMessage {
    /// A search for a provider in the subnet. By multicast only.
    #[n(40)]
    MulticastRequest(#[n(0)] MulticastRequest),
    /// A provider answers a search: the others need not. By multicast only.
    #[n(41)]
    MulticastSuppression(#[n(0)] MulticastSuppression),
    /// A provider, in answer to a search that is a lookup only. By multicast only.
    #[n(42)]
    MulticastCandidate(#[n(0)] MulticastCandidate),
}

impl MulticastMessage {
    pub(super) fn check_limits(&self) -> Result<(), Refusal> {
        match self {
            Self::MulticastRequest(inquiry) => inquiry.request.check_limits(),
            Self::MulticastCandidate(present) => present.candidate.check_limits(),
            Self::MulticastSuppression(_) => Ok(()),
        }
    }
}

/// The content of [`MulticastMessage::MulticastRequest`].
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

/// The content of [`MulticastMessage::MulticastSuppression`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(array)]
pub struct MulticastSuppression {
    /// The requester, as `id` is one of its numbers.
    #[n(0)]
    pub requester: NodeId,
    /// The number of the request that is searched for.
    #[n(1)]
    pub id: RequestId,
    /// The last repetition of the request that needs no answer.
    #[n(2)]
    pub attempt: u8,
    /// The sender: the provider that answers, or the requester, who has a provider.
    #[n(3)]
    pub sender: NodeId,
}

/// The content of [`MulticastMessage::MulticastCandidate`].
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(array)]
pub struct MulticastCandidate {
    /// The requester, as `id` is one of its numbers.
    #[n(0)]
    pub requester: NodeId,
    /// The number of the request that is searched for.
    #[n(1)]
    pub id: RequestId,
    /// The provider, with its addresses to dial.
    #[n(2)]
    pub candidate: Candidate,
}
