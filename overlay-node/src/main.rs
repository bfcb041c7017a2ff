//! The daemon of a node: it offers and requests services, and keeps a home at a hub.

mod api;
mod config;
mod deliver;
mod event_handler;
mod following;
mod form_cache;
mod inbox;
mod media;
mod metrics;
mod naming;
mod node;
mod offers;
mod outbox;
mod provider_cache;
mod region;
mod region_movers;
mod request_feed;
mod requests;
mod rooms;
mod rows;
mod sending;
mod session;
mod tickets;

use std::process::ExitCode;

fn main() -> ExitCode {
    roost_runtime::main::<node::OverlayNode>()
}
