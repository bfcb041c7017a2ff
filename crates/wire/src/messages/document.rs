//! Documents of the group: numbered texts that its authority has signed and every member holds.

use bytes::Bytes;
use minicbor::decode::Error as DecodeError;
use minicbor::encode::{Error as EncodeError, Write};
use minicbor::{Decode, Decoder, Encode, Encoder};

use super::bytes_codec;
use crate::ids::NodeId;
use crate::refusal::{Refusal, check_bound};

/// The longest document, bytes: a list of as many members as a group can revoke is shorter.
pub const MAX_DOCUMENT_BYTES: usize = 4 << 20;

/// The most bytes of a document in one message: a remote that gets a long one sends nothing else over the connection
/// for as long as this takes.
pub const MAX_DOCUMENT_PART: usize = 32 << 10;

/// The most kinds in [`Holdings`]; there are fewer so far.
pub const MAX_DOCUMENT_KINDS: usize = 16;

/// The most rows of a [`DocumentMessage::Progress`], which then has at most 8 KiB.
pub const MAX_PROGRESS_ROWS: usize = 64;

/// The longest name of a hub in a row of progress, bytes, as in a certificate.
const MAX_HUB_NAME_BYTES: usize = 64;

/// Holdings of members, and the documents themselves.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(flat)]
pub enum DocumentMessage {
    /// The documents that the sender holds. Answered by the same if the receiver has not said what it holds, and by
    /// a `DocumentRequest` if it holds less.
    #[n(60)]
    Holdings(#[n(0)] Holdings),
    /// A document, or a part of one.
    #[n(61)]
    Document(#[n(0)] DocumentPart),
    /// The receiver is asked for a part of a document. Answered by `Document`.
    #[n(62)]
    DocumentRequest(#[n(0)] DocumentRequest),
    /// From hub to hub, to all hubs: how many nodes of each hub do not hold its newest documents.
    #[n(63)]
    Progress(#[n(0)] Vec<HubProgress>),
}

impl DocumentMessage {
    pub(super) fn check_limits(&self) -> Result<(), Refusal> {
        match self {
            Self::Document(part) => part.check_limits(),
            Self::Progress(rows) => {
                check_bound(rows.len() <= MAX_PROGRESS_ROWS, "too many hubs")?;
                check_bound(rows.iter().all(|row| row.name.len() <= MAX_HUB_NAME_BYTES), "too long a hub's name")
            }
            Self::Holdings(_) | Self::DocumentRequest(_) => Ok(()),
        }
    }
}

/// A kind of document. Later versions have more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode)]
#[cbor(transparent)]
pub struct DocumentKind(#[n(0)] pub u16);

impl DocumentKind {
    /// The list of revoked certificates, a CRL in DER (RFC 5280); its number is the CRL number.
    pub const REVOCATIONS: Self = Self(0);

    /// The policy: which member may do what. Its content is the text of the rules; an empty one means that the group has
    /// none.
    pub const POLICY: Self = Self(1);

    /// The authorities that are trusted. All others are signed by one of them, so this one is fetched first.
    pub const TRUST: Self = Self(2);

    const NAMED: [Self; 3] = [Self::REVOCATIONS, Self::POLICY, Self::TRUST];

    /// The name in the local API and in metrics; `None` of a kind of a later version.
    pub const fn name(self) -> Option<&'static str> {
        match self {
            Self::REVOCATIONS => Some("revocations"),
            Self::POLICY => Some("policy"),
            Self::TRUST => Some("trust"),
            _ => None,
        }
    }

    /// The kind that has this name in the local API and in metrics.
    pub fn named(name: &str) -> Option<Self> {
        Self::NAMED.into_iter().find(|kind| kind.name() == Some(name))
    }
}

/// The number of the document that a member holds of each kind. Of a remote they are no more than claims.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Holdings(Vec<(DocumentKind, u64)>);

impl Holdings {
    /// The number of the document of a kind; 0 if there is none.
    pub fn number(&self, kind: DocumentKind) -> u64 {
        self.0.binary_search_by_key(&kind, |held| held.0).map_or(0, |at| self.0[at].1)
    }

    /// Notes a number. One kind more than [`MAX_DOCUMENT_KINDS`] is left out.
    pub fn set(&mut self, kind: DocumentKind, number: u64) {
        match self.0.binary_search_by_key(&kind, |held| held.0) {
            Ok(at) => self.0[at].1 = number,
            Err(at) if self.0.len() < MAX_DOCUMENT_KINDS => self.0.insert(at, (kind, number)),
            Err(_) => {}
        }
    }

    /// The kinds in their order, each with its number.
    pub fn iter(&self) -> impl Iterator<Item = (DocumentKind, u64)> + '_ {
        self.0.iter().copied()
    }

    /// True if no document of any kind is held.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<C> Encode<C> for Holdings {
    fn encode<W: Write>(&self, e: &mut Encoder<W>, _: &mut C) -> Result<(), EncodeError<W::Error>> {
        e.map(self.0.len() as u64)?;
        for (kind, number) in &self.0 {
            e.u16(kind.0)?.u64(*number)?;
        }
        Ok(())
    }
}

impl<'b, C> Decode<'b, C> for Holdings {
    fn decode(d: &mut Decoder<'b>, _: &mut C) -> Result<Self, DecodeError> {
        let length = d.map()?.filter(|length| *length <= MAX_DOCUMENT_KINDS as u64);
        let length = length.ok_or(Refusal::OutOfBounds("too many kinds of documents"))?;
        let mut holdings = Self::default();
        for _ in 0..length {
            holdings.set(DocumentKind(d.u16()?), d.u64()?);
        }
        Ok(holdings)
    }
}

/// The content of [`DocumentMessage::Document`]: a whole document or a part.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(array)]
pub struct DocumentPart {
    /// The kind of the document, as in [`Holdings`].
    #[n(0)]
    pub kind: DocumentKind,
    /// The number of the document, which only its signature proves.
    #[n(1)]
    pub number: u64,
    /// The length of the whole document, bytes; at most [`MAX_DOCUMENT_BYTES`].
    #[n(2)]
    pub length: u32,
    /// The place of the part's first byte in the document.
    #[n(3)]
    pub offset: u32,
    /// At least one byte and at most [`MAX_DOCUMENT_PART`].
    #[cbor(n(4), with = "bytes_codec")]
    pub bytes: Bytes,
}

impl DocumentPart {
    /// True if the part is the whole document.
    pub fn is_whole(&self) -> bool {
        self.offset == 0 && self.bytes.len() == self.length as usize
    }

    fn check_limits(&self) -> Result<(), Refusal> {
        check_bound(self.length as usize <= MAX_DOCUMENT_BYTES, "too long a document")?;
        check_bound((1..=MAX_DOCUMENT_PART).contains(&self.bytes.len()), "too long a part of a document, or none")?;
        let end = u64::from(self.offset) + self.bytes.len() as u64;
        check_bound(end <= u64::from(self.length), "a part beyond the end of its document")
    }
}

/// The content of [`DocumentMessage::DocumentRequest`]: which part of which document.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(array)]
pub struct DocumentRequest {
    /// The kind of the document, as in [`Holdings`].
    #[n(0)]
    pub kind: DocumentKind,
    /// The number that the remote has claimed. It answers with the document that it holds.
    #[n(1)]
    pub number: u64,
    /// The place of the part's first byte in the document.
    #[n(2)]
    pub offset: u32,
}

/// A row of [`DocumentMessage::Progress`]: of one hub and one kind.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(array)]
pub struct HubProgress {
    /// The hub that has counted its nodes.
    #[n(0)]
    pub hub: NodeId,
    /// The name in its certificate, at most 64 bytes.
    #[n(1)]
    pub name: String,
    /// Time of the row by the hub's clock, seconds of the Unix epoch: the later one wins.
    #[n(2)]
    pub said_s: u64,
    /// The kind of the document, as in [`Holdings`].
    #[n(3)]
    pub kind: DocumentKind,
    /// The number of the document that the hub holds.
    #[n(4)]
    pub number: u64,
    /// The nodes that have their home at the hub.
    #[n(5)]
    pub nodes: u32,
    /// Nodes of these that do not hold that number yet.
    #[n(6)]
    pub behind: u32,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::messages::Message;

    fn decoded(message: DocumentMessage) -> Result<Message, crate::messages::WireError> {
        Message::decode(&Message::from(message).encode())
    }

    #[test]
    fn holdings_of_one_kind_take_few_bytes() {
        let mut holdings = Holdings::default();
        holdings.set(DocumentKind::REVOCATIONS, 7);
        let message = Message::from(DocumentMessage::Holdings(holdings.clone()));
        assert_eq!(message.encode().len(), 6);
        assert_eq!(decoded(DocumentMessage::Holdings(holdings)).unwrap(), message);
    }

    #[test]
    fn unknown_kinds_are_read() {
        let mut holdings = Holdings::default();
        for kind in [900, 0, 7] {
            holdings.set(DocumentKind(kind), u64::MAX);
        }
        let kinds: Vec<u16> = holdings.iter().map(|(kind, _)| kind.0).collect();
        assert_eq!(kinds, [0, 7, 900]);
        assert!(decoded(DocumentMessage::Holdings(holdings)).is_ok());
    }

    #[test]
    fn part_lies_within_its_document() {
        let part = |length, offset, bytes: usize| {
            let (kind, number) = (DocumentKind::REVOCATIONS, 1);
            let bytes = vec![1; bytes].into();
            decoded(DocumentMessage::Document(DocumentPart { kind, number, length, offset, bytes }))
        };
        assert!(part(10, 4, 6).is_ok());
        assert!(part(10, 4, 7).is_err());
        assert!(part(10, 4, 0).is_err());
        assert!(part(10, u32::MAX, 1).is_err());
        assert!(part(MAX_DOCUMENT_BYTES as u32 + 1, 0, 1).is_err());
        assert!(part(MAX_DOCUMENT_BYTES as u32, 0, MAX_DOCUMENT_PART).is_ok());
        assert!(part(MAX_DOCUMENT_BYTES as u32, 0, MAX_DOCUMENT_PART + 1).is_err());
    }
}
