//! `emulate bench reflector`: the process that `emulate bench reflect` measures.

use std::net::SocketAddr;

use clap::Args;
use roost_bench::reflect::{ReflectorSettings, reflect};

use crate::failure::{CommandResult, Failure};

/// `emulate bench reflector`.
#[derive(Debug, Args)]
pub(crate) struct ReflectorArgs {
    /// The address that receives datagrams
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: SocketAddr,
    /// The target address; datagrams go to this port and to those that follow it
    #[arg(long, value_name = "ADDRESS:PORT")]
    to: SocketAddr,
    /// The number of ports
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1024))]
    count: u16,
    /// Take sealed packets of one stream, as from a publisher, instead of any datagrams
    #[arg(long)]
    sealed: bool,
    /// Send each packet by itself, without segmentation offload
    #[arg(long)]
    no_offload: bool,
}

pub(crate) fn run(args: &ReflectorArgs) -> CommandResult {
    let ReflectorArgs { listen, to, count, sealed, no_offload } = *args;
    let settings = ReflectorSettings { listen, to, count, sealed, offload: !no_offload };
    reflect(&settings).map_err(|error| Failure::failed(format!("cannot reflect from {listen} to {to}: {error}")))
}
