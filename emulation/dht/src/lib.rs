//! A geographic DHT after Geodemlia (Gross et al., IEEE P2P 2012), to compare Roost's hierarchy with.
//!
//! Only the paper's abstract was at hand. So the model has what such an overlay needs and what Kademlia has
//! shown to work: contacts by direction and by distance that doubles from one bucket to the next, iterative
//! searches in parallel, and buckets that are refreshed. Each value of [`DhtSettings`] is an assumption.
//!
//! A [`DhtNode`] does no I/O. Its driver gives it each [`DhtInput`] with the time, takes outputs until there is
//! none, and comes back at its deadline.
//!
//! | file | its part |
//! |---|---|
//! | `geometry` | circles, directions and rings |
//! | `table` | contacts in buckets |
//! | `search` | one iterative search |
//! | `message` | messages and their sizes |
//! | `node` | the machine |
//! | `settings` | the assumptions |
#![allow(missing_docs, reason = "only crates of `emulation` import this one")]

mod geometry;
mod message;
mod node;
mod search;
mod settings;
mod table;
#[cfg(test)]
mod tests;

pub use geometry::{Circle, Contact, DhtId};
pub use message::{DhtMessage, Purpose};
pub use node::{DhtInput, DhtNode, DhtOutput, SearchResult};
pub use settings::DhtSettings;
