//! The sans-IO core of Roost: domain words, wire format and state machines.
//!
//! Nothing here opens a socket, reads a clock, spawns a task or draws a random
//! number of its own: time and seeds come in from outside, so a run repeats
//! exactly. The same machines run on tokio in the daemons, in emulation, and
//! in virtual time.
//!
//! # The contract of a [`Machine`]
//!
//! Mutate, then drain:
//!
//! 1. call [`Machine::handle`] with the present [`Time`] and one [`Input`];
//! 2. call [`Machine::poll_transmit`] until it is empty and carry out each
//!    [`Transmit`];
//! 3. call [`Machine::poll_event`] until it is empty;
//! 4. read [`Machine::poll_deadline`] and, when that time comes, hand in
//!    [`Input::Timeout`].
//!
//! Time must never run backwards between two calls.

#![allow(missing_docs, reason = "a comment stands where it says more than the name; the wire words are for strangers")]

pub mod address;
mod address_filter;
mod backoff;
pub mod block;
pub mod congestion;
pub mod delivery;
pub mod directory;
pub mod flow;
pub mod grid;
pub mod hub;
pub mod ids;
pub mod machine;
pub mod node;
pub mod node_selector;
pub mod printable;
pub mod random;
pub mod record;
pub mod reflection;
pub mod room;
mod rtt;
pub mod scope;
pub mod service;
pub mod text;
pub mod time;
mod timers;
mod wall;
pub mod wire;

pub use address::{Address, Endpoint, Scheme, SchemeSet};
pub use address_filter::is_destination;
pub use congestion::Congestion;
pub use delivery::{Delivery, DeliveryClass, DeliveryClasses, DeliveryPreferences, Profile};
pub use grid::{Area, Cell};
pub use ids::{ConnectionId, DialId, NodeId, Nonce, RequestId};
pub use machine::{Channel, Deadline, Input, Machine, Traffic, Transmit};
pub use node_selector::{NodeSelector, format_node};
pub use printable::{printable, printable_json, printable_lines};
pub use record::{Capacity, Record, Version};
pub use reflection::{Epoch, EpochSecret, ReflectionGrant, StreamId, StreamTag};
pub use room::RoomId;
pub use rtt::LONGEST_ROUND_TRIP;
pub use scope::Scope;
pub use service::{FlowKind, Role, RoleSet, Service, ServiceSet};
pub use time::Time;
