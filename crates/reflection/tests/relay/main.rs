//! Relays in virtual time: publishers, hubs and subscribers joined by connections that delay, lose,
//! repeat and reorder. Each test holds for any seed:
//! `ROOST_SEEDS=100` runs what varies for so many.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may stop where it stands")]

mod changes;
mod congestion;
mod hostile;
mod joins;
mod network;
mod repair;
mod single;
mod stream_world;
mod streams;
mod world;
