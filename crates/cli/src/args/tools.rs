//! The flags of the commands that need no running daemon.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use roost_identity::KeyExchange;
use roost_terminal::generate::Shell;
use roost_wire::{Endpoint, Role, Scheme};

use super::value;

#[derive(Debug, Args)]
pub(crate) struct GroupArgs {
    #[command(subcommand)]
    pub(crate) command: GroupCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum GroupCommand {
    /// Make a new group: its private authority, whose key never leaves DIR
    #[command(before_help = "Examples:
  roost group init ./grove --name grove
")]
    Init {
        /// The directory to make
        dir: PathBuf,
        /// The group's name, which every certificate carries
        #[arg(long)]
        name: String,
    },
    /// Issue a member's identity: certificate and key, to be carried to its host
    #[command(before_help = "Examples:
  roost group issue ./grove sn1 --role supernode
  roost group issue ./grove uav7 --role node --valid 30d -o ./uav7
")]
    Issue {
        /// The group's directory
        dir: PathBuf,
        /// The member's name
        name: String,
        /// The member's role: node, supernode or server
        #[arg(long)]
        role: Role,
        /// Time for which the certificate is valid
        #[arg(long, value_name = "TIME", default_value = "1y", value_parser = value::validity)]
        valid: Duration,
        /// The directory for the identity [default: DIR/members/NAME]
        #[arg(short, long, value_name = "DIR")]
        output: Option<PathBuf>,
    },
    /// Renew a member's certificate for the same key; the new one replaces the one in its directory
    #[command(before_help = "Examples:
  roost group renew ./grove ./uav7 --valid 1y
")]
    Renew {
        /// The group's directory
        dir: PathBuf,
        /// The identity's directory; its private key need not be there
        identity: PathBuf,
        /// Time for which the certificate is valid
        #[arg(long, value_name = "TIME", default_value = "1y", value_parser = value::validity)]
        valid: Duration,
    },
    /// List the group's members
    Show {
        /// The group's directory
        dir: PathBuf,
    },
    /// Check whether the group's members accept an identity, and if not, say why
    #[command(before_help = "Examples:
  roost group verify ./grove ./uav7
")]
    Verify {
        /// The group's directory
        dir: PathBuf,
        /// The identity's directory
        identity: PathBuf,
    },
    /// Revoke a member's certificates and write the signed revocation list
    #[command(before_help = "Examples:
  roost group revoke ./grove uav7 --via /run/roost/supernode.sock
  roost group revoke ./grove uav7
")]
    Revoke {
        /// The group's directory
        dir: PathBuf,
        /// The member's name, its id or four digits or more of the beginning of it, or a certificate's serial number
        member: String,
        #[command(flatten)]
        hand_in: HandInArgs,
    },
    /// Hand the newest revocation list to running daemons, which spread it in the group
    #[command(before_help = "Examples:
  roost group publish ./grove --via /run/roost/supernode.sock
")]
    Publish {
        /// The directory with the list revoked.pem
        dir: PathBuf,
        #[command(flatten)]
        hand_in: HandInArgs,
    },
}

/// Where a signed list is handed in.
#[derive(Debug, Args)]
pub(crate) struct HandInArgs {
    /// The socket of a daemon of the group that spreads the list; may be given several times
    #[arg(long, value_name = "SOCKET")]
    pub(crate) via: Vec<PathBuf>,
    /// The longest wait until every member has the list
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = value::time)]
    pub(crate) wait: Duration,
}

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
    /// The nodes' key exchange over tcp and quic: hybrid or classic
    #[arg(long, value_name = "NAME", default_value = "hybrid")]
    pub(crate) key_exchange: KeyExchange,
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
