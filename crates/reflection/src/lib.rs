//! Reflection: one copy of a stream in, any number of copies out.
//!
//! A publisher seals each packet once, with a key of the stream's present
//! *epoch*; subscribers that were given the key open it. In between, super nodes pass
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
//! | [`NodeReflection`], [`HubReflection`] | the machine of a host: all of the below, driven as [`ReflectionMachine`] says |
//! | [`publication`] | streams that begin here: sources are marked, sealed once, and get new epochs |
//! | [`subscription`] | streams that end here: packets are opened, put in order, counted and handed over |
//! | [`keys`] | the keys of epochs, and boxes in which they wait at hubs |
//! | [`Relay`] | all streams of a host: from whom they come, to whom they go, and who is admitted |
//! | [`StreamReflector`], [`Fanout`] | one stream: each packet once, and to every target at its own pace |
//! | [`LossTracker`] | which packets a receiver misses, and when it asks for repairs |
//! | [`ParityPacket`] | what makes up for lost packets where asking takes too long |
//! | [`packet`], [`control`] | the bytes of a packet, and of what is said beside packets |
//!
//! All are machines without I/O: time, datagrams and secrets come in from outside. The control half, which
//! decides who publishes and who may subscribe, is in the node's and the hub's machine of `roost_core`.

#![allow(missing_docs, reason = "a comment stands where it says more than the name")]

mod admission;
mod budget;
pub mod control;
mod datagram_path;
mod fanout;
mod fec;
mod hub;
pub mod keys;
mod loss_tracker;
mod machine;
mod node;
pub mod packet;
pub mod publication;
mod reflector;
pub mod relay;
mod replay;
mod ring;
pub mod subscription;
mod target;
mod transmit;

pub use admission::{AdmissionError, MAX_TARGETS};
pub use datagram_path::DatagramPath;
pub use fanout::{Fanout, FanoutConfig};
pub use fec::ParityPacket;
pub use hub::{HubInput, HubOutput, HubReflection};
pub use loss_tracker::LossTracker;
pub use machine::ReflectionMachine;
pub use node::{NodeInput, NodeOutput, NodeReflection};
pub use packet::{Epoch, Flags, Header, Hop, Malformed, StreamId};
pub use publication::{EpochLimits, Publisher, RekeyReason, SealError};
pub use reflector::{ArrivalCounts, DropReason, StreamReflector};
pub use relay::Relay;
pub use ring::RetentionLimits;
pub use roost_wire::reflection::{DownstreamKind, EpochSecret, ReflectionGrant, SECRET_BYTES, StreamTag};
pub use subscription::{OpenCounts, OpenError, OpenedPacket, ReorderBuffer, Subscriber};
pub use target::{LagLimits, StartPoint, TargetOptions, TargetStats};
pub use transmit::{SendOutcome, TargetId, Transmit};
