//! Objects that their owner offers to one node, which then asks for them.

use minicbor::{Decode, Encode};

use crate::address::{self, Address};
use crate::ids::RequestId;
use crate::open::open;

/// The longest name of an object that is offered, bytes: with what is added to
/// it a file's name still fits the system.
pub const MAX_OBJECT_NAME_BYTES: usize = 200;

/// See [`RequestMessage::Push`](super::RequestMessage::Push).
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(array)]
pub struct Push {
    /// The sender's number for it. The same number sent again is the same offer.
    #[n(0)]
    pub id: RequestId,
    /// What the sender calls it; the receiver need not.
    #[n(1)]
    pub name: String,
    /// Its size.
    #[n(2)]
    pub bytes: u64,
    /// Its SHA-256.
    #[cbor(n(3), with = "minicbor::bytes")]
    pub digest: [u8; 32],
    /// Where the sender can be dialled, should the connection break.
    #[cbor(n(4), with = "address::list", has_nil)]
    pub addresses: Vec<Address>,
}

/// What has become of an object that was offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Encode)]
#[cbor(index_only)]
pub enum PushState {
    /// The receiver asks for it, or will.
    #[n(0)]
    InProgress,
    /// The receiver has it, verified and under its name.
    #[n(1)]
    Stored,
    /// The receiver takes no objects.
    #[n(2)]
    NoInbox,
    /// It is larger than the receiver takes.
    #[n(3)]
    TooLarge,
    /// There is no room for it at the moment.
    #[n(4)]
    NoRoom,
    /// It has no name that a file may have.
    #[n(5)]
    BadName,
    /// The receiver takes too many at the moment.
    #[n(6)]
    Busy,
    /// What came is not what was offered.
    #[n(7)]
    Damaged,
    /// The transfer broke off; offered again it goes on.
    #[n(8)]
    Interrupted,
    /// The receiver cannot write it.
    #[n(9)]
    Unwritable,
    /// Something that only later versions tell.
    #[n(10)]
    Unspecified,
}

open!(PushState, [InProgress, Stored, NoInbox, TooLarge, NoRoom, BadName, Busy, Damaged, Interrupted, Unwritable, Unspecified], else Unspecified);
