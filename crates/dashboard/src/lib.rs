//! A live page over a Roost daemon, or over the run of an experiment: the nodes on a map, their offers, hubs,
//! connections and streams.
//!
//! The page is part of the program, needs no internet and changes nothing. It answers this machine's browsers, and others
//! only over TLS and with a token.

#![allow(missing_docs, reason = "a comment stands where it says more than the name")]

mod access;
mod feed;
mod group;
mod guard;
mod listener;
mod loss;
mod media;
mod node_watch;
mod own_services;
mod picture;
mod rows;
mod server;
mod slow_look;
mod tiles;
mod trace;

pub use access::Access;
pub use feed::Feed;
pub use picture::{Change, Rows, RunFull};
pub use server::{PageParts, serve, serve_run};
pub use tiles::{Tiles, TilesError};
