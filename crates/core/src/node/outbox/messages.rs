//! The exchange between the outbox and its owner.

use std::time::Duration;

use roost_wire::messages::PushState;
use roost_wire::{Cell, DeliveryId, NodeId, NodeSelector, Service};

use crate::node::api::Provider;

/// Of two objects the one of the higher priority goes first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum OutboxPriority {
    Low,
    #[default]
    Normal,
    High,
}

/// An object that the owner has on disk.
#[derive(Clone, Debug)]
pub struct OutboxItem {
    pub id: DeliveryId,
    pub to: NodeSelector,
    pub priority: OutboxPriority,
    /// Unix seconds; of two objects of a priority the older goes first.
    pub since_s: u64,
    pub left: Duration,
    /// The offers so far. Counted on disk before the first offer, else a crash hides that the receiver may have it.
    pub tries: u32,
}

#[derive(Clone, Debug)]
pub struct FoundReceiver {
    pub to: Provider,
    /// As in [`NodeCommand::Push`](crate::node::NodeCommand::Push).
    pub published_service: Option<(Service, Cell)>,
}

#[derive(Clone, Debug)]
pub enum OutboxCommand {
    /// The object is on disk, new or from before a restart.
    Deposit(OutboxItem),
    Cancel {
        id: DeliveryId,
    },
    /// The answer to [`OutboxEvent::Look`]; if the receiver was not found, with the reason.
    Found {
        to: NodeSelector,
        found: Result<FoundReceiver, String>,
    },
    /// The answer to [`OutboxEvent::Send`]: the receiver's, or the reason for which there is none.
    Tried {
        id: DeliveryId,
        answer: Result<PushState, OfferFault>,
    },
}

/// The reason for which an offer has no answer of the receiver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OfferFault {
    /// The sender could not make the offer: the receiver has not heard of the object.
    Unoffered(String),
    /// The offer failed by something that concerns this object alone, as its data.
    Object(String),
    /// The receiver is not there, or does not answer.
    Receiver(String),
}

#[derive(Clone, Debug)]
pub enum OutboxEvent {
    Look {
        to: NodeSelector,
    },
    /// Offer an object. The number of tries is to be on disk before.
    Send {
        id: DeliveryId,
        to: FoundReceiver,
        tries: u32,
        /// Zero only asks what has become of it.
        left: Duration,
    },
    /// Seal a small object for its receiver, to be left at the home. Answered by
    /// [`NodeCommand::SealedForHome`](crate::node::NodeCommand::SealedForHome). The number of tries is to be on disk
    /// before.
    Leave {
        id: DeliveryId,
        tries: u32,
        left: Duration,
    },
    /// A node is connected, whose certificate is to be kept: files for it may be sealed later.
    Met {
        node: NodeId,
    },
    /// The end has come, or nobody wants the object any more: the offer under way is to stop.
    Stop {
        id: DeliveryId,
    },
    /// The last event of an object. It stays on disk until the owner has noted the end.
    Ended {
        id: DeliveryId,
        end: OutboxEnd,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutboxEnd {
    /// The receiver has verified and stored it.
    Delivered,
    /// The end came, and the receiver does not have it.
    Expired,
    /// The end came, and the receiver, which was offered the object, did not say whether it has it.
    ExpiredUnconfirmed,
    /// The receiver does not take it, now or later.
    Refused(PushState),
    Cancelled,
}
