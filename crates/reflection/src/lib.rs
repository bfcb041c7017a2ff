//! One copy of a stream in, any number of copies out.
//!
//! A publisher seals each packet once, with a key of the stream's present
//! *epoch*; whoever was given the key opens it. In between, super nodes pass
//! packets on unchanged and cannot read them: what they need to know, where
//! frames end and key frames begin, is in clear and authenticated.
//!
//! ```text
//! publisher ──▶ home ──▶ subscriber
//!                 ├────▶ subscriber
//!                 └────▶ super node ──▶ subscriber
//! ```
//!
//! | part | what it is |
//! |---|---|
//! | [`packet`], [`control`] | the bytes of a packet, and of what is said beside packets |
//! | [`Publisher`] | numbers and seals; says when a new epoch is due |
//! | [`Relay`] | all streams of a host: from whom they come, to whom they go |
//! | [`StreamReflector`], [`Fanout`] | one stream: each packet once, and to every target at its own pace |
//! | [`Subscriber`] | opens, each packet once, across a change of epochs |
//! | [`ReorderBuffer`] | packets in order again, after repairs |
//! | [`LossTracker`] | which packets a receiver misses, and when it asks for them |
//! | [`ParityPacket`] | what makes up for lost packets where asking takes too long |
//! | [`Socket`] | datagrams in batches |
//!
//! All but the socket are machines without I/O: time and secrets come in from
//! outside. Who publishes, who is admitted, and how secrets travel is the overlay's business.

mod admission_error;
mod budget;
pub mod control;
mod fanout;
mod fec;
mod loss_tracker;
pub mod packet;
mod publisher;
mod reflector;
pub mod relay;
mod reorder;
mod replay;
mod ring;
mod seal;
mod socket;
mod subscriber;
mod target;

pub use admission_error::AdmissionError;
pub use fanout::{Fanout, FanoutConfig, MAX_TARGETS, SendOutcome, TargetId, Transmit};
pub use fec::ParityPacket;
pub use loss_tracker::LossTracker;
pub use packet::{Epoch, Flags, Header, Hop, Malformed, StreamId};
pub use publisher::{EpochLimits, Publisher, RekeyReason, SealError};
pub use reflector::{ArrivalCounts, DropReason, StreamReflector};
pub use relay::Relay;
pub use reorder::ReorderBuffer;
pub use ring::RetentionLimits;
pub use roost_proto::reflection::{DownstreamKind, EpochSecret, ReflectionGrant, SECRET_BYTES, StreamTag};
pub use socket::{DatagramPath, Socket};
pub use subscriber::{OpenCounts, OpenError, OpenedPacket, Subscriber};
pub use target::{LagLimits, StartPoint, TargetOptions, TargetStats};
