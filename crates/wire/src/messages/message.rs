//! The one type of everything that remotes say, in its families.

use bytes::Bytes;
use minicbor::decode::Error as DecodeError;
use minicbor::encode::{Error as EncodeError, Write};
use minicbor::{Decoder, Encode, Encoder};

use super::directory::DirectoryMessage;
use super::document::DocumentMessage;
use super::flow::FlowMessage;
use super::hierarchy::HierarchyMessage;
use super::mailbox::MailboxMessage;
use super::multicast::MulticastMessage;
use super::probe::ProbeMessage;
use super::registration::RegistrationMessage;
use super::replication::ReplicationMessage;
use super::request::RequestMessage;
use super::room::RoomMessage;
use super::{MAX_MESSAGE_BYTES, WireError, codec};
use crate::ids::RequestId;
use crate::refusal::Refusal;

/// Everything that remotes say to one another. [`Self::is_allowed`] tells who may say it to whom.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// The life of a record at its home, and the change of homes.
    Registration(RegistrationMessage),
    /// Requests for services and pushed objects, their answers, and the reports on their way.
    Request(RequestMessage),
    /// The data of flows, and the keys of reflected streams.
    Flow(FlowMessage),
    /// Lookups and watches, from nodes to hubs and between hubs.
    Directory(DirectoryMessage),
    /// Messages among hubs about the group and its tiers.
    Hierarchy(HierarchyMessage),
    /// Documents of the group, among all members.
    Document(DocumentMessage),
    /// Replicas of records, from a home to a standby.
    Replication(ReplicationMessage),
    /// Discovery in the subnet, without a hub.
    Multicast(MulticastMessage),
    /// Membership of rooms, and their rosters.
    Room(RoomMessage),
    /// Files that wait at hubs for their receivers.
    Mailbox(MailboxMessage),
    /// The greeting of a connection, and signs of life.
    Probe(ProbeMessage),
}

/// Makes messages of the messages of each family.
macro_rules! families {
    ($($family:ident($message:ty)),+ $(,)?) => {$(
        impl From<$message> for Message {
            fn from(message: $message) -> Self {
                Self::$family(message)
            }
        }
    )+};
}

families!(
    Registration(RegistrationMessage),
    Request(RequestMessage),
    Flow(FlowMessage),
    Directory(DirectoryMessage),
    Hierarchy(HierarchyMessage),
    Document(DocumentMessage),
    Replication(ReplicationMessage),
    Multicast(MulticastMessage),
    Room(RoomMessage),
    Mailbox(MailboxMessage),
    Probe(ProbeMessage),
);

/// The number of a request: a hub declines one that it cannot read.
const REQUEST: u64 = 5;

/// The number of a message; `None` of what is none.
fn message_number(bytes: &[u8]) -> Option<u64> {
    let mut decoder = Decoder::new(bytes);
    decoder.array().ok()?;
    decoder.u64().ok()
}

impl<C> Encode<C> for Message {
    fn encode<W: Write>(&self, e: &mut Encoder<W>, ctx: &mut C) -> Result<(), EncodeError<W::Error>> {
        match self {
            Self::Registration(message) => message.encode(e, ctx),
            Self::Request(message) => message.encode(e, ctx),
            Self::Flow(message) => message.encode(e, ctx),
            Self::Directory(message) => message.encode(e, ctx),
            Self::Hierarchy(message) => message.encode(e, ctx),
            Self::Document(message) => message.encode(e, ctx),
            Self::Replication(message) => message.encode(e, ctx),
            Self::Multicast(message) => message.encode(e, ctx),
            Self::Room(message) => message.encode(e, ctx),
            Self::Mailbox(message) => message.encode(e, ctx),
            Self::Probe(message) => message.encode(e, ctx),
        }
    }
}

impl Message {
    /// Reads one message.
    ///
    /// # Errors
    /// [`WireError`] when the bytes are no message of this version or a field
    /// is outside its limits.
    pub fn decode(bytes: &[u8]) -> Result<Self, WireError> {
        if bytes.len() > MAX_MESSAGE_BYTES {
            return Err(WireError::OutOfBounds("longer than a message may be"));
        }
        let number = message_number(bytes).ok_or_else(|| WireError::Malformed("no message".to_owned()))?;
        let mut decoder = Decoder::new(bytes);
        let d = &mut decoder;
        let message = match number {
            0..=4 | 27 | 30 | 31 | 33 | 34 | 37 => d.decode().map(Self::Registration),
            5 | 7..=9 | 26 | 45 | 50 | 51 | 80 | 81 => d.decode().map(Self::Request),
            11..=15 | 52 | 56 | 82 => d.decode().map(Self::Flow),
            10 | 16..=18 | 22 => d.decode().map(Self::Directory),
            21 | 23 | 24 | 28 | 35 | 36 => d.decode().map(Self::Hierarchy),
            60..=63 => d.decode().map(Self::Document),
            64..=67 => d.decode().map(Self::Mailbox),
            29 | 32 => d.decode().map(Self::Replication),
            40..=42 => d.decode().map(Self::Multicast),
            53..=55 => d.decode().map(Self::Room),
            19 | 20 | 57 => d.decode().map(Self::Probe),
            _ => return Err(WireError::LaterVersion(number)),
        };
        let refused = |refusal| match refusal {
            Refusal::LaterValue => WireError::LaterVersion(number),
            Refusal::OutOfBounds(violation) => WireError::OutOfBounds(violation),
        };
        let malformed = |error: &DecodeError| WireError::Malformed(error.to_string());
        let message =
            message.map_err(|error| Refusal::from_error(&error).map_or_else(|| malformed(&error), refused))?;
        if decoder.position() != bytes.len() {
            return Err(WireError::Malformed("bytes after the end".to_owned()));
        }
        message.check_limits().map_err(refused)?;
        Ok(message)
    }

    fn check_limits(&self) -> Result<(), Refusal> {
        match self {
            Self::Registration(message) => message.check_limits(),
            Self::Request(message) => message.check_limits(),
            Self::Flow(message) => message.check_limits(),
            Self::Directory(message) => message.check_limits(),
            Self::Hierarchy(message) => message.check_limits(),
            Self::Document(message) => message.check_limits(),
            Self::Replication(message) => message.check_limits(),
            Self::Multicast(message) => message.check_limits(),
            Self::Room(message) => message.check_limits(),
            Self::Mailbox(message) => message.check_limits(),
            Self::Probe(_) => Ok(()),
        }
    }

    /// The request that cannot be read because it is about something of a later
    /// version, so that it can be declined.
    pub fn unsupported_request_id(bytes: &[u8]) -> Option<RequestId> {
        let mut decoder = Decoder::new(bytes);
        decoder.array().ok()?;
        let is_request = decoder.u64().ok()? == REQUEST;
        decoder.array().ok()?;
        decoder.decode().ok().filter(|_| is_request)
    }

    /// The bytes of the message; those of a message within its limits are at most [`MAX_MESSAGE_BYTES`].
    pub fn encode(&self) -> Bytes {
        codec::to_bytes(self)
    }
}
