//! A live page over a Roost daemon: the nodes on a map, their offers, hubs, connections and streams.
//!
//! The page is part of the program, needs no internet, reads only, and answers this machine's browsers alone.

mod feed;
mod group;
mod guard;
mod loss;
mod node_watch;
mod own_services;
mod picture;
mod rows;
mod server;
mod slow_look;
mod tiles;
mod trace;

pub use feed::Feed;

pub use server::serve;
pub use tiles::{Tiles, TilesError};
