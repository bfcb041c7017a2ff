//! Files that wait at hubs for their receivers, sealed.

use bytes::Bytes;
use minicbor::{Decode, Encode};

use super::bytes_codec;
use super::push::MAX_DELIVERY_S;
use crate::ids::{DeliveryId, NodeId};
use crate::open::open;
use crate::refusal::{Refusal, check_bound};

/// The largest file that is left at a hub, bytes: sealed and with its sender's certificate it fits into one message.
pub const MAX_MAILBOX_FILE_BYTES: usize = 60 << 10;

/// The largest sealed file, bytes, with room for the rest of its message.
pub const MAX_SEALED_FILE_BYTES: usize = (64 << 10) - 128;

/// Sealed files on their way from the sender to a hub, from hub to hub, and to the receiver.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(flat)]
pub enum MailboxMessage {
    /// Keep this for its receiver, or, to the receiver: take it. Answered by `MailboxStatus`.
    #[n(64)]
    SealedFile(#[n(0)] SealedFile),
    /// The fate of a file, from whoever was given it. From its sender: it is wanted no more.
    #[n(65)]
    MailboxStatus(#[n(0)] MailboxStatus),
    /// From hub to hub: files for this node wait here. Answered by `NodeIsHere` if the node's home is there.
    #[n(66)]
    FilesWait(#[n(0)] NodeId),
    /// From hub to hub: this node's home is here, so its files belong here.
    #[n(67)]
    NodeIsHere(#[n(0)] NodeId),
}

impl MailboxMessage {
    pub(super) fn check_limits(&self) -> Result<(), Refusal> {
        match self {
            Self::SealedFile(file) => {
                check_bound(file.left_s <= MAX_DELIVERY_S, "too long a life of a file")?;
                check_bound((1..=MAX_SEALED_FILE_BYTES).contains(&file.sealed.len()), "too large a file, or none")
            }
            Self::MailboxStatus(_) | Self::FilesWait(_) | Self::NodeIsHere(_) => Ok(()),
        }
    }
}

/// The content of [`MailboxMessage::SealedFile`]: a file, and where it goes.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(array)]
pub struct SealedFile {
    /// The sender, which the signature in `sealed` proves to the receiver alone.
    #[n(0)]
    pub from: NodeId,
    /// The receiver, which alone can open the file.
    #[n(1)]
    pub to: NodeId,
    /// The sender's number for the delivery, as in [`DeliveryTerms`](super::DeliveryTerms).
    #[n(2)]
    pub id: DeliveryId,
    /// The time until the end as this message leaves, seconds; at most [`MAX_DELIVERY_S`].
    #[n(3)]
    pub left_s: u32,
    /// The file, sealed for the receiver and signed by the sender; at most [`MAX_SEALED_FILE_BYTES`].
    #[cbor(n(4), with = "bytes_codec")]
    pub sealed: Bytes,
}

/// The content of [`MailboxMessage::MailboxStatus`]: which file, and its fate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(array)]
pub struct MailboxStatus {
    /// The sender, as in the file's own message.
    #[n(0)]
    pub from: NodeId,
    /// The receiver, as in the file's own message.
    #[n(1)]
    pub to: NodeId,
    /// The sender's number for the delivery, which no restart changes.
    #[n(2)]
    pub id: DeliveryId,
    /// The fate of the file, as its teller knows it.
    #[n(3)]
    pub state: MailboxState,
}

/// The fate of a file that was left at a hub.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Encode)]
#[cbor(index_only)]
pub enum MailboxState {
    /// The hub keeps it in memory until its end.
    #[n(0)]
    Kept,
    /// The hub has no room for it, or none any more.
    #[n(1)]
    Full,
    /// The receiver has it, or will never take it; or its sender wants it delivered no more.
    #[n(2)]
    Ended,
    /// The receiver does not take it at the moment.
    #[n(3)]
    Later,
    /// A state that only later versions know.
    #[n(4)]
    Unspecified,
}

open!(MailboxState, [Kept, Full, Ended, Later, Unspecified], else Unspecified);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::messages::{MAX_MESSAGE_BYTES, Message};

    #[test]
    fn largest_file_fits_message() {
        let (from, to) = (NodeId::from_bytes([255; 16]), NodeId::from_bytes([254; 16]));
        let file = |bytes| {
            let (id, sealed) = (DeliveryId::from_bytes([9; 8]), vec![1; bytes].into());
            Message::from(MailboxMessage::SealedFile(SealedFile { from, to, id, left_s: MAX_DELIVERY_S, sealed }))
        };
        let largest = file(MAX_SEALED_FILE_BYTES);
        assert!(largest.encode().len() <= MAX_MESSAGE_BYTES);
        assert_eq!(Message::decode(&largest.encode()).unwrap(), largest);
        assert!(Message::decode(&file(MAX_SEALED_FILE_BYTES + 1).encode()).is_err());
        assert!(Message::decode(&file(0).encode()).is_err());
    }
}
