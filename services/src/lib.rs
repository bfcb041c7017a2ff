//! Sources and sinks of the four Roost services.
//!
//! A node that offers a service has a [`SourceSpec`] for it; each request that it serves opens the source and
//! gets an [`OpenedSource`]: a [`Feed`] of datagrams that come when they are due, one whole object, or a
//! [`StoredFile`] that is read chunk by chunk. The requester writes the data into a [`Sink`].
//!
//! | service | sources | sinks |
//! |---|---|---|
//! | video | `synthetic`, `file:`, `udp://`, `rtp://` | `-`, a file, `udp://`, `rtp://` |
//! | track | `synthetic`, `file:`, `gpsd://`, `cot+udp://`, `nmea+udp://` | `-`, a file, `udp://`; JSON lines or the form it came in |
//! | image | `synthetic`, `file:`, `dir:`, `command:` | `-`, a file |
//! | sensor | `synthetic`, `file:`, `command:` | `-`, a file |
//!
//! Schedules, generated content and parsers do no I/O, so that a simulation can use them: see [`pace`] and
//! [`synthetic`].

#![allow(missing_docs, reason = "only this workspace imports it")]

pub mod format;
pub mod image;
pub mod pace;
pub mod sensor;
pub mod sink;
pub mod synthetic;
pub mod track;
pub mod video;

mod command;
mod error;
mod feed;
mod files;
mod net;
mod options;
mod shared_reader;
mod source;
mod stored;
#[cfg(test)]
mod testing;

pub use error::{SinkError, SourceError, SpecError};
pub use feed::{Feed, FeedItem, OpenedSource};
pub use net::check_address;
pub use shared_reader::KeyFrameRequester;
pub use sink::{Finished, MIN_PART_BYTES, ObjectIdentity, PartialFile, Sink, SinkSpec, SinkState, TrackFormat};
pub use source::{SourceSpec, Sources};
pub use stored::{StoredFile, digest_of};

use roost_wire::object::MAX_HELD_BYTES;

/// The largest datagram that a feed hands out, bytes. Larger ones from a live source are dropped and counted.
pub const MAX_DATAGRAM_BYTES: usize = 8 * 1024;
