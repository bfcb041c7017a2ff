//! The transport layer of Roost: authenticated connections over UDP, TCP and QUIC.
//!
//! [`bind`] opens the sockets and returns a [`Transport`], which sends messages, and [`Events`], a single stream of
//! connections that come up and go down, dials that failed, and whole messages.
//!
//! | scheme | carries | datagram class | reliable class |
//! |---|---|---|---|
//! | `udp://` | DTLS 1.3 | one packet, or fragments up to 64 KiB | own acknowledgements, retransmission and congestion control |
//! | `tcp://` | TLS 1.3 | a frame, ahead of reliable ones | a frame |
//! | `quic://` | QUIC, a connection for each path | QUIC datagram; a short stream where there are several paths | short streams on all paths, in order within its flow |
//!
//! Both sides of every connection have proved their identity and passed the group's policy before [`Event::Up`], and no
//! message is delivered earlier. A side that is refused learns the reason in a sentence.
//!
//! # Tasks
//!
//! TCP and QUIC connections have tasks of their own. **UDP has none**: [`Events::recv_many`] reads its sockets, runs
//! its timers and continues its handshakes in the task that consumes the events, so that a packet costs no task switch.
//! Keep a `recv_many` pending whenever there is nothing else to do. [`Transport::send`] seals a UDP message at once and
//! [`Transport::flush`] hands all sealed packets to the socket.
//!
//! # Fair reading
//!
//! All events of one node wait in one lane. The lanes are served in turn, one datagram or message of 1500 bytes each. A
//! node that sends more than the application consumes loses its own datagrams before they are decrypted, or is not read
//! for a while; another node waits for one round of the lanes. Over UDP, strangers share sixteen lanes, by network,
//! until their handshake has shown that their address is not forged.
#![allow(missing_docs, reason = "only crates of this workspace import it")]

mod config;
mod connection;
mod counters;
mod dial;
mod error;
mod event;
mod fair_queue;
#[doc(hidden)]
pub mod fuzzing;
mod handshake_limiter;
mod handshake_side;
mod handshake_timeout;
mod known_remotes;
mod local_addresses;
mod multicast;
mod multipath;
mod priority_queue;
mod quic;
#[cfg(feature = "simulated")]
pub mod simulated;
mod stateless_reset;
mod tcp;
mod transport;
mod udp;

pub use config::{Config, Limits};
pub use connection::{ConnectionInfo, PathInfo};
pub use counters::{Counters, SchemeCounters};
pub use error::{BindError, SendError};
pub use event::{Event, Events};
pub use known_remotes::{KnownRemote, RestartNotifier};
pub use multicast::{
    DEFAULT_GROUPS, MAX_MULTICAST_BYTES, MulticastConfig, MulticastCounters, MulticastError, TOLERANCE,
};
pub use transport::{Transport, bind};
