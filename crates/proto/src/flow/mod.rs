//! Flows: what moves the data of one request from a provider to a requester.
//!
//! A stream numbers its datagrams; the receiver counts what is lost, overtaken
//! and repeated and reports once a second; one that must come whole is kept by
//! its sender until it is reported. An object travels in chunks on a
//! reliable flow; the receiver's reports are the credit for further ones. None
//! of these types sends anything: their owner asks what there is to send.

mod object_receiver;
mod object_sender;
mod stream_receiver;
mod stream_sender;

use std::time::Duration;

use bytes::Bytes;
use sha2::{Digest, Sha256};

pub use object_receiver::ObjectReceiver;
pub use object_sender::ObjectSender;
pub use stream_receiver::{StreamReceiver, StreamStatistics};
pub use stream_sender::StreamSender;

/// Payload of one chunk of an object, bytes.
pub const CHUNK_BYTES: usize = 16 * 1024;

/// How far an object's sender goes beyond the receiver's last report, bytes.
pub const WINDOW_BYTES: u64 = 256 * 1024;

/// How much of an object a receiver takes before it reports again, bytes.
pub const REPORT_BYTES: u64 = 64 * 1024;

/// The largest object, bytes. It is held in memory whole while it is sent.
pub const MAX_OBJECT_BYTES: usize = 64 * 1024 * 1024;

/// The largest object that travels inside its acceptance, bytes.
pub const INLINE_BYTES: usize = 1024;

/// The most that is kept of a stream which must come whole and of which the
/// receiver has not reported, bytes. Half of what may wait in a link, so that
/// one slow requester does not fill it.
pub const MAX_KEPT_BYTES: usize = 2 * 1024 * 1024;

/// The largest payload of one datagram of a stream, bytes: a message's limit
/// less its header.
pub const MAX_PACKET_BYTES: usize = crate::wire::MAX_MESSAGE_BYTES - 64;

/// How often a stream's receiver reports.
pub const REPORT_INTERVAL: Duration = Duration::from_secs(1);

/// After this long without a word a flow's other end is given up.
pub const SILENCE: Duration = Duration::from_secs(5);

/// How long a stream's receiver waits, once it knows the end, for datagrams
/// that the end has overtaken.
pub const STRAGGLERS: Duration = Duration::from_millis(250);

/// The SHA-256 digest of `bytes`.
pub fn digest(bytes: &Bytes) -> [u8; 32] {
    Sha256::digest(bytes).into()
}
