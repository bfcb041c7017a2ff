//! Flows: what moves the data of one request from a provider to a requester.
//!
//! A stream numbers its datagrams; the receiver counts what is lost, overtaken
//! and repeated and reports once a second; one that must come whole is kept by
//! its sender until it is reported. An object travels in chunks on a
//! reliable flow; the receiver's reports are the credit for further ones. None
//! of these types sends anything: their owner asks what there is to send.

mod body_receiver;
mod object_receiver;
mod object_sender;
mod stream_receiver;
mod stream_sender;
mod window;

use std::time::Duration;

use roost_wire::FlowKind;

pub use body_receiver::{BodyReceiver, BodyState};
pub use object_receiver::ObjectReceiver;
pub use object_sender::{ObjectSender, SendBudget};
pub use stream_receiver::{StreamReceiver, StreamStatistics};
pub use stream_sender::StreamSender;

/// Payload of one chunk of an object, bytes.
pub const CHUNK_BYTES: usize = 16 * 1024;

/// Payload of the first of several chunks on a path, bytes: it fits one packet, so
/// that an object begins when that has come. A whole one is more than TCP sends in
/// its first round trip (ten segments, RFC 6928). What is one chunk comes at once.
pub const FIRST_CHUNK_BYTES: usize = 1024;

/// Payload of one message with a part of a call's body, bytes: it fits one packet, so that a thin path shows progress.
pub const BODY_CHUNK_BYTES: usize = 1024;

/// The most times that one provider gets the body of a call: again over another connection, or through a hub.
pub const MAX_BODY_TIMES: u8 = 8;

/// The limit up to which an object's sender goes beyond the receiver's last report until it knows the path,
/// and always where a hub relays, bytes: a hub holds what the requester's connection has no room for yet.
pub const WINDOW_BYTES: u64 = 256 * 1024;

/// The farthest that the senders of objects over one connection go beyond the
/// reports, together, bytes: three times what is under way on 200 Mbit/s × 100 ms.
/// With [`MAX_KEPT_BYTES`] it is less than what may wait in a connection.
pub const MAX_WINDOW_BYTES: u64 = 8 << 20;

/// The limit over all connections of a node: what its objects under way may take in memory, beside those that
/// are held whole and [`READ_BYTES`].
pub const MAX_WINDOWS_BYTES: u64 = 64 << 20;

/// A piece of an object that is not held in memory, as it is read at once, bytes. Its sender has twice as
/// much at most that was read and not sent.
pub const READ_BYTES: u64 = 256 * 1024;

/// The part of an object after which a receiver reports again, bytes.
pub const REPORT_BYTES: u64 = 64 * 1024;

/// The largest object that travels inside its acceptance, bytes.
pub const INLINE_BYTES: usize = 1024;

/// The most that is kept of a stream which must come whole and of which the
/// receiver has not reported, bytes. A sixth of what may wait in a connection, so that
/// one slow requester does not fill it.
pub const MAX_KEPT_BYTES: usize = 2 * 1024 * 1024;

/// The largest payload of one datagram of a stream, bytes: a message's limit
/// less its header.
pub const MAX_PACKET_BYTES: usize = roost_wire::messages::MAX_MESSAGE_BYTES - 64;

pub const REPORT_INTERVAL: Duration = Duration::from_secs(1);

/// After this long without a word a flow's other end is doubted: it is asked for
/// again, and gives way at a provider that is full.
pub const SILENCE_TIMEOUT: Duration = Duration::from_secs(5);

/// The bytes of an object that count as progress: what comes more slowly than
/// this within the patience ends.
pub const PROGRESS_BYTES: u64 = 1024;

/// The wait of a stream's receiver, once it knows the end, for datagrams that the end has overtaken.
pub const STRAGGLERS: Duration = Duration::from_millis(250);

/// The longest that a stream may last.
pub const MAX_STREAM_DURATION: Duration = Duration::from_secs(24 * 3600);

/// The usual rate of a stream of this form, kbit/s.
pub(crate) const fn usual_kbps(form: FlowKind) -> u32 {
    match form {
        FlowKind::Stream { bits_per_second, .. } => bits_per_second.div_ceil(1000),
        FlowKind::Object { .. } => 0,
    }
}
