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
//! | [`packet`] | the bytes of a packet |
//! | [`Publisher`] | numbers and seals; says when a new epoch is due |
//! | [`Subscriber`] | opens, each packet once, across a change of epochs |
//!
//! These are machines without I/O: time and secrets come in from outside. Who
//! publishes, who is admitted, and how secrets travel is the overlay's business.

pub mod packet;
mod publisher;
mod replay;
mod seal;
mod subscriber;

pub use packet::{Epoch, Flags, Header, Hop, Malformed, StreamId};
pub use publisher::{Limits, Publisher, Reason, SealError};
pub use seal::{SECRET_BYTES, Secret};
pub use subscriber::{Counts, OpenError, Opened, Subscriber};
