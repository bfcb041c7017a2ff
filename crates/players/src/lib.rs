//! Video of a Roost network for browsers and players.
//!
//! [`SharedStreams`] has one request for each stream that somebody watches here, however many watch it. A browser gets
//! its pictures by [`whep`], a player by [`rtsp`]. Nothing is encoded anew.

#![allow(missing_docs, reason = "a comment stands where it says more than the name")]

mod places;
mod random;
mod recent;
pub mod rtsp;
mod shared;
mod token;
pub mod whep;

pub use token::{Token, TokenError};

pub use shared::{Age, Datagram, Selection, SharedStream, SharedStreams, Viewer, WatchError};
