//! The flags of the commands that need no running daemon.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use roost_identity::KeyExchange;
use roost_terminal::generate::Shell;
use roost_wire::{Endpoint, Scheme};

use super::value;

#[derive(Debug, Args)]
pub(crate) struct ConfigArgs {
    #[command(subcommand)]
    pub(crate) command: ConfigCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Print a commented configuration with every setting at its default
    #[command(before_help = "Examples:
  roost config init overlay-node > overlay-node.toml
")]
    Init {
        /// The daemon
        daemon: Daemon,
    },
    /// Print the settings in force and where each comes from
    Show {
        /// The daemon
        daemon: Daemon,
        /// The configuration file
        #[arg(long, value_name = "FILE")]
        config: Option<PathBuf>,
    },
    /// Check a configuration without starting anything
    #[command(before_help = "Examples:
  roost config check supernode --config /etc/roost/supernode.toml
")]
    Check {
        /// The daemon
        daemon: Daemon,
        /// The configuration file
        #[arg(long, value_name = "FILE")]
        config: Option<PathBuf>,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Daemon {
    /// Offers and requests services
    OverlayNode,
    /// Indexes services and routes requests
    Supernode,
    /// The client/server baseline
    CsServer,
}

impl Daemon {
    pub(crate) const fn program(self) -> &'static str {
        match self {
            Self::OverlayNode => "overlay-node",
            Self::Supernode => "supernode",
            Self::CsServer => "cs-server",
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct DemoArgs {
    /// Duration of each stream; the six run one after the other, so the default demo takes about a minute
    #[arg(long = "for", value_name = "TIME", default_value = "5s", value_parser = value::time)]
    pub(crate) duration: Duration,
    /// Leave everything running afterwards, and say how to use it
    #[arg(long)]
    pub(crate) keep: bool,
    /// Show a network that moves on a live page in the browser instead, until Ctrl-C
    #[arg(long, conflicts_with_all = ["keep", "duration"])]
    pub(crate) watch: bool,
}

#[derive(Debug, Args)]
pub(crate) struct BenchArgs {
    #[command(subcommand)]
    pub(crate) command: BenchCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum BenchCommand {
    /// Attach many nodes to a hub, look them up as fast as it answers, and report the cost; start the
    /// hub with --lookups-per-second 10000000
    #[command(before_help = "Examples:
  roost bench hub --group ./grove --super udp://127.0.0.1:7700
  roost bench hub --group ./grove --super udp://127.0.0.1:7700 --entries 100000 --pid 4242 --json
")]
    Hub(BenchHubArgs),
}

#[derive(Debug, Args)]
pub(crate) struct BenchHubArgs {
    /// The group's directory: the bench issues its nodes' identities, in memory only
    #[arg(long, value_name = "DIR")]
    pub(crate) group: PathBuf,
    /// The hub, by the endpoint of the transport to use
    #[arg(long = "super", value_name = "ENDPOINT")]
    pub(crate) hub: Endpoint,
    /// Directory entries to make; a node has four
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(8..=1_000_000))]
    pub(crate) entries: u32,
    /// Lookups under way at once
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub(crate) in_flight: u32,
    /// The duration of each measurement
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub(crate) seconds: u64,
    /// The transport, which must be that of the endpoint
    #[arg(long, value_name = "NAME")]
    pub(crate) transport: Option<Scheme>,
    /// The key exchange over tcp and quic: hybrid or classic
    #[arg(long, value_name = "NAME", default_value = "hybrid")]
    pub(crate) key_exchange: KeyExchange,
    /// Nodes offer four services of people's own (acme/video and so on) in place of those that every node knows
    #[arg(long)]
    pub(crate) own_services: bool,
    /// The hub's process on this machine, whose processor time and memory the bench reads; memory
    /// growth shows only in a newly started hub, since an older one reuses its memory
    #[arg(long, value_name = "PID")]
    pub(crate) pid: Option<u32>,
}

#[derive(Debug, Args)]
pub(crate) struct CompletionsArgs {
    /// The shell
    pub(crate) shell: Shell,
}

#[derive(Debug, Args)]
pub(crate) struct ManArgs {
    /// The directory, made if it is not there
    pub(crate) dir: PathBuf,
}
