//! A live page over a Roost daemon, or over the run of an experiment: the nodes on a map, their offers, hubs,
//! connections and streams.
//!
//! The page is part of the program, needs no internet, reads only, and answers this machine's browsers alone.

mod feed;
mod guard;
mod picture;
mod rows;
mod server;
mod tiles;

pub use feed::Feed;
pub use picture::{Change, Rows, RunFull};
pub use server::{serve, serve_run};
pub use tiles::{Tiles, TilesError};
