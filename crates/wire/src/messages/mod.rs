//! The wire format: CBOR with numbered fields, one message per value.
//!
//! `docs/wire.cddl` describes it. A message is an array: its number, then its
//! fields in order. Fields may be added at the end as optional ones; a reader
//! ignores those it does not know, and skips messages and values of later versions
//! (`open`). Every connection runs over an encrypted,
//! mutually authenticated transport, so no message carries its sender.
//!
//! A message belongs to one of eleven families, each an enumeration in a file of its own.
//! [`Message::is_allowed`] is the table of who may say which message to whom.

#![warn(missing_docs)]

mod bytes_codec;
pub(crate) mod codec;
mod directory;
mod document;
mod flow;
mod hierarchy;
mod json;
mod mailbox;
mod message;
mod multicast;
mod permission;
mod probe;
mod push;
mod reason;
mod reflection;
mod registration;
mod replication;
mod request;
mod request_spec;
mod room;
mod route;
mod sentence;
mod service_request;
mod trace;

pub use crate::address::list::read as read_addresses;
pub use crate::node_selector::MAX_NAME_BYTES;
pub use directory::{Candidate, Coverage, DirectoryMessage, HubLookup, LookupResult, Watch, WatchChange};
pub use document::{
    DocumentKind, DocumentMessage, DocumentPart, DocumentRequest, Holdings, HubProgress, MAX_DOCUMENT_BYTES,
    MAX_DOCUMENT_KINDS, MAX_DOCUMENT_PART, MAX_PROGRESS_ROWS,
};
pub use flow::{Chunk, Datagram, FlowMessage, Report};
pub use hierarchy::{HierarchyMessage, HomeChanged, MAX_SUMMARY_BLOCKS, Summary};
pub use mailbox::{
    MAX_MAILBOX_FILE_BYTES, MAX_SEALED_FILE_BYTES, MailboxMessage, MailboxState, MailboxStatus, SealedFile,
};
pub use message::Message;
pub use multicast::{MulticastCandidate, MulticastMessage, MulticastRequest, MulticastSuppression};
pub use permission::Party;
pub use probe::{Capabilities, Hello, ProbeMessage, ProtocolVersion, StatedDatum};
pub use push::{DeliveryTerms, MAX_DELIVERY_S, MAX_OBJECT_NAME_BYTES, Push, PushState};
pub use reason::Reason;
pub use reflection::{CopyTarget, MAX_SEALED_BYTES, MediaAddress, ProvisionalAccept, Rekey, SealedKeys, StreamKeys};
pub use registration::{RegistrationMessage, Renew};
pub use replication::{
    Adopt, MAX_REPLICA_CHANGES, MAX_REPLICA_NODES, MAX_REPLICA_RECORDS, ReplicaCapacity, ReplicaMove, ReplicaRecord,
    ReplicaUpdate, ReplicationMessage, ResyncRequest,
};
pub use request::{Accept, BodyRequest, Decline, FlowDescription, ProviderAddress, Request, RequestMessage};
pub use request_spec::RequestSpec;
pub use room::{JoinRoom, LeaveRoom, RoomMessage, Roster};
pub use route::{HubHop, Route, RouteDirection};
pub use sentence::{InvalidSentence, MAX_SENTENCE_BYTES, Sentence};
pub use service_request::{
    CallBody, DEFAULT_TIMEOUT, InvalidRequest, MAX_BODY_BYTES, MAX_PARAMS_BYTES, MAX_REQUEST_TIME, MAX_SPEC_BYTES,
    ReflectionPolicy, RequestMode, ResumePoint, STALL_TIMEOUT, ServiceRequest, USUAL_SPEC_BYTES,
};
pub use trace::{Hop, HopAction, HopReport, MAX_TRACED_HOPS};

/// The longest word of membership, bytes: with its frame it fits into one
/// datagram of any path.
pub const MAX_GOSSIP_BYTES: usize = 1_100;

/// The largest encoded message, bytes. What is longer is neither sent nor read.
pub const MAX_MESSAGE_BYTES: usize = 64 * 1024;

/// The most candidates in one [`LookupResult`] and providers considered for one request.
pub const MAX_CANDIDATES: usize = 64;

/// The name of how messages are put on the wire: the ALPN identifier of TLS and QUIC.
/// [`Hello`] tells which messages there are.
pub const PROTOCOL: &str = "roost/2";

/// Why bytes are no message. The sender is at fault; nothing has changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// Of a kind that only later versions know, or about something that only they know.
    #[error("message {0} is of a later version, or about something of one")]
    LaterVersion(u64),
    /// Bytes that are not CBOR of the described shape.
    #[error("malformed message: {0}")]
    Malformed(String),
    /// Well-formed, but a field is outside its limits.
    #[error("message out of bounds: {0}")]
    OutOfBounds(&'static str),
}
