//! A live page over a Roost daemon: the nodes on a map, their offers, hubs, connections and streams.
//!
//! The page is part of the program, needs no internet, reads only, and answers this machine's browsers alone.

mod feed;
mod guard;
mod media;
mod picture;
mod rows;
mod server;
mod tiles;

pub use feed::Feed;

pub use server::{PageParts, serve};
pub use tiles::{Tiles, TilesError};
