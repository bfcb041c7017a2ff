//! The flags of the commands about the group's policy.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use roost_policy::Action;
use roost_wire::{Cell, Role, Service};

use super::group::{HandInArgs, LabelArgs};

#[derive(Debug, Args)]
pub(crate) struct PolicyArgs {
    #[command(subcommand)]
    pub(crate) command: PolicyCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum PolicyCommand {
    /// Check a policy: all mistakes with line and column, and what is hardly meant
    #[command(before_help = "Examples:
  roost policy check policy.toml
  roost policy check policy.toml --group ./grove
")]
    Check {
        /// The policy
        file: PathBuf,
        /// Also look for rules that are about no member of this group, and for nodes that may do nothing
        #[arg(long, value_name = "DIR")]
        group: Option<PathBuf>,
    },
    /// Say if a member may do something, which rule decides, and why those before it do not
    #[command(before_help = "Examples:
  roost policy explain uav7 request video --at 27,92 --group ./grove
  roost policy explain uav7 lookup video --policy policy.toml --role node --label team=red
")]
    Explain(ExplainArgs),
    /// Sign a policy as the group's next one, and hand it to running daemons, which spread it in the group
    #[command(before_help = "Examples:
  roost policy publish policy.toml --group ./grove --via /run/roost/supernode.sock
")]
    Publish {
        /// The policy
        file: PathBuf,
        #[command(flatten)]
        signing: SigningArgs,
        /// Publish it even if nobody may offer or request anything, or a daemon of --via may do nothing
        #[arg(long)]
        force: bool,
    },
    /// Print the group's newest policy
    #[command(before_help = "Examples:
  roost policy show --group ./grove > policy.toml
")]
    Show {
        /// The group's directory, as `roost group init` made it
        #[arg(long, value_name = "DIR")]
        group: PathBuf,
    },
    /// Publish that the group has no policy any more: members may do everything
    #[command(before_help = "Examples:
  roost policy withdraw --group ./grove --via /run/roost/supernode.sock
")]
    Withdraw {
        #[command(flatten)]
        signing: SigningArgs,
    },
}

#[derive(Debug, Args)]
pub(crate) struct SigningArgs {
    /// The group's directory, as `roost group init` made it
    #[arg(long, value_name = "DIR")]
    pub(crate) group: PathBuf,
    /// The file with the passphrase of a sealed key [default: the credential group-passphrase of systemd, else a prompt]
    #[arg(long, value_name = "FILE")]
    pub(crate) passphrase_file: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) hand_in: HandInArgs,
}

#[derive(Debug, Args)]
pub(crate) struct ExplainArgs {
    /// The member's name; its role and labels are those in the group's records, or those of the flags
    pub(crate) member: String,
    /// offer, request, subscribe, reflect, send, call, room, lookup or watch
    pub(crate) action: Action,
    /// video, track, image or sensor [default: no service in particular]
    pub(crate) service: Option<Service>,
    /// The cell of the provider [default: not known]
    #[arg(long, value_name = "X,Y", allow_hyphen_values = true)]
    pub(crate) at: Option<Cell>,
    /// A policy that is not published yet [default: the group's newest]
    #[arg(long, value_name = "FILE", required_unless_present = "group")]
    pub(crate) policy: Option<PathBuf>,
    /// The group's directory, as `roost group init` made it
    #[arg(long, value_name = "DIR", required_unless_present = "role")]
    pub(crate) group: Option<PathBuf>,
    /// The role of a member that need not exist: node, supernode or server
    #[arg(long)]
    pub(crate) role: Option<Role>,
    #[command(flatten)]
    pub(crate) labels: LabelArgs,
}
