//! Objects that their owner offers to one node, which then asks for them.

use minicbor::{Decode, Encode};

use crate::address::{self, Address};
use crate::ids::{DeliveryId, RequestId};
use crate::open::open;

/// The longest name of an object that is offered, bytes: with what is added to
/// it a file's name still fits the system.
pub const MAX_OBJECT_NAME_BYTES: usize = 200;

/// The longest life of an object in an outbox, seconds.
pub const MAX_DELIVERY_S: u32 = 30 * 24 * 60 * 60;

/// The content of [`RequestMessage::Push`](super::RequestMessage::Push).
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(array)]
pub struct Push {
    /// The sender's number for it. The same number sent again is the same offer.
    #[n(0)]
    pub id: RequestId,
    /// The sender's name for it; the receiver may use another. At most [`MAX_OBJECT_NAME_BYTES`].
    #[n(1)]
    pub name: String,
    /// The size of the object, bytes.
    #[n(2)]
    pub bytes: u64,
    /// The SHA-256 of the whole object.
    #[cbor(n(3), with = "minicbor::bytes")]
    pub digest: [u8; 32],
    /// Addresses of the sender, should the connection break.
    #[cbor(n(4), with = "address::list", has_nil)]
    pub addresses: Vec<Address>,
    /// Set if the object comes from an outbox; a receiver of an earlier version ignores it, and may store the object
    /// again after the sender has crashed.
    #[n(5)]
    pub delivery: Option<DeliveryTerms>,
}

/// An object from an outbox: the receiver stores it at most once, and not after its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(array)]
pub struct DeliveryTerms {
    /// The sender's number for it, which stays through restarts.
    #[n(0)]
    pub id: DeliveryId,
    /// The end by the wall clock of the sender, Unix seconds.
    #[n(1)]
    pub until_s: u64,
    /// The time until then as this message leaves, seconds; 0 only asks what has become of it. At most
    /// [`MAX_DELIVERY_S`].
    #[n(2)]
    pub left_s: u32,
}

/// The progress of an object that was offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Encode)]
#[cbor(index_only)]
pub enum PushState {
    /// The receiver asks for it, or will.
    #[n(0)]
    InProgress,
    /// The receiver has it, verified and under its name.
    #[n(1)]
    Stored,
    /// The receiver has no inbox: it takes no objects.
    #[n(2)]
    NoInbox,
    /// The object is larger than the receiver takes.
    #[n(3)]
    TooLarge,
    /// There is no room for it at the moment.
    #[n(4)]
    NoRoom,
    /// No file may have the object's name.
    #[n(5)]
    BadName,
    /// The receiver takes too many at the moment.
    #[n(6)]
    Busy,
    /// The data that came does not have the digest of the offer.
    #[n(7)]
    Damaged,
    /// The transfer broke off; offered again it goes on.
    #[n(8)]
    Interrupted,
    /// The receiver's system refuses to write the file.
    #[n(9)]
    Unwritable,
    /// A state that only later versions know.
    #[n(10)]
    Unspecified,
    /// The group's policy does not let the sender send files to the receiver.
    #[n(11)]
    Forbidden,
    /// The end of the delivery has passed, and the receiver has not stored the object.
    #[n(12)]
    Expired,
}

open!(PushState, [InProgress, Stored, NoInbox, TooLarge, NoRoom, BadName, Busy, Damaged, Interrupted, Unwritable, Unspecified, Forbidden, Expired], else Unspecified);
