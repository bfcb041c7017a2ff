//! The daemon of a node: it offers services, asks for them, and keeps a home
//! at a hub.

mod api;
mod config;
mod deliver;
mod inbox;
mod media;
mod metrics;
mod naming;
mod node;
mod owner;
mod providers;
mod rows;
mod sending;
mod session;
mod tickets;

use std::process::ExitCode;

fn main() -> ExitCode {
    roost_daemon::main::<node::OverlayNode>()
}
