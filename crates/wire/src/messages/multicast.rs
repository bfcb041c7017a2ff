//! What is said to everybody on a link, by multicast. Unlike all other
//! messages these carry their senders: what seals them is known to the whole
//! group. So they only lead to dials, and the certificates say who answers.

use minicbor::{Decode, Encode};

use super::directory::Candidate;
use super::request::Request;
use crate::ids::{NodeId, RequestId};
use crate::refusal::Refusal;

/// Discovery in the subnet. These messages are sealed for the group and never travel over a connection.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(flat)]
pub enum MulticastMessage {
    /// Who on this link offers a service? By multicast only.
    #[n(40)]
    MulticastRequest(#[n(0)] MulticastRequest),
    /// An inquiry is being answered: the others need not. By multicast only.
    #[n(41)]
    MulticastSuppression(#[n(0)] MulticastSuppression),
    /// Here is one who offers what an inquiry only wants to know of. By
    /// multicast only.
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

/// See [`MulticastMessage::MulticastRequest`](super::MulticastMessage::MulticastRequest).
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

/// See [`MulticastMessage::MulticastSuppression`](super::MulticastMessage::MulticastSuppression).
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

/// See [`MulticastMessage::MulticastCandidate`](super::MulticastMessage::MulticastCandidate).
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
