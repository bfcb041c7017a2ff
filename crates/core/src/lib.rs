//! The sans-IO core of Roost: the state machines of nodes and hubs.
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

mod address_filter;
mod allowance;
mod boxed_map;
mod connections;
pub mod directory;
mod documents;
pub mod flow;
pub mod hub;
pub mod machine;
pub mod node;
mod request_key;
mod wall;

pub use allowance::Denial;
pub use documents::{DocumentCounters, DocumentVerdict, HeldDocument, ReceivedDocument};
pub use machine::{Deadline, Input, Machine, Traffic, Transmit};
