//! What is said to everybody on a link, by multicast. Unlike all other
//! messages these carry their senders: what seals them is known to the whole
//! group. So they only lead to dials, and the certificates say who answers.

use minicbor::{Decode, Encode};

use super::lookup::Candidate;
use super::open;
use super::request::{RequestMode, RequestParams};
use crate::address::Address;
use crate::grid::Area;
use crate::ids::{NodeId, Nonce, RequestId};
use crate::node_selector::NodeSelector;
use crate::service::Service;

/// See [`Message::MulticastRequest`](super::Message::MulticastRequest).
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(array)]
pub struct MulticastRequest {
    /// The requester's number for it.
    #[n(0)]
    pub id: RequestId,
    /// The secret to show to the requester. The group gets to know it, so it
    /// tells a fresh answer from a stale one, and nothing about who answers.
    #[n(1)]
    pub nonce: Nonce,
    /// What.
    #[n(2)]
    pub service: Service,
    /// Where.
    #[n(3)]
    pub area: Area,
    /// `Forward`: serve it. `Lookup`: only say who is there, by [`MulticastCandidate`].
    #[n(4)]
    pub mode: RequestMode,
    /// Who asks.
    #[n(5)]
    pub requester: NodeId,
    /// Where to answer, the requester's preferred transport first.
    #[cbor(n(6), with = "open::addresses", has_nil)]
    pub reply_to: Vec<Address>,
    /// How long the requester still waits for an acceptance, milliseconds.
    #[n(7)]
    pub deadline_ms: u32,
    /// Which repetition this is, from 0. Who let another answer an earlier one
    /// considers a later one anew.
    #[n(8)]
    pub attempt: u8,
    /// Of `Lookup`: how many to list; 0 is as many as a lookup may list.
    #[n(9)]
    pub count: u8,
    /// More.
    #[n(10)]
    pub params: Option<RequestParams>,
    /// Of `Lookup`, as in a [`Request`](super::Request): who is there tells its name, and only who is
    /// called so answers.
    #[n(11)]
    pub selector: Option<NodeSelector>,
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
