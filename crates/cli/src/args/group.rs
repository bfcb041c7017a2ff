//! The flags of the commands about a group, and about joining one.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use roost_geo::{LatLon, Length};
use roost_wire::Role;

use super::value;

#[derive(Debug, Args)]
pub(crate) struct GroupArgs {
    /// The file with the passphrase of a sealed key [default: the credential group-passphrase of systemd, else a prompt]
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) passphrase_file: Option<PathBuf>,
    #[command(subcommand)]
    pub(crate) command: GroupCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum GroupCommand {
    /// Make a new group: its private authority, whose key never leaves DIR
    #[command(before_help = "Examples:
  roost group init ./grove
  roost group init /var/lib/roost/group --name grove --origin 47.37,8.54 --cell 1km
")]
    Init {
        /// The directory to make
        dir: PathBuf,
        /// The group's name, which every certificate carries [default: the directory's]
        #[arg(long)]
        name: Option<String>,
        /// Latitude and longitude of the corner of cell (0, 0), at most 2000 km from every place; without it the grid is
        /// nowhere on the Earth
        #[arg(long, value_name = "LAT,LON", allow_hyphen_values = true, requires = "cell")]
        origin: Option<LatLon>,
        /// The side of a cell, from 1m to 100km, such as 1km
        #[arg(long, value_name = "LENGTH", requires = "origin")]
        cell: Option<Length>,
    },
    /// Issue a member's identity: certificate and key, to be carried to its host
    #[command(before_help = "Examples:
  roost group issue ./grove sn1 --role supernode
  roost group issue ./grove uav7 --role node --valid 90d -o ./uav7
  roost group issue ./grove uav7 --role node --label team=red --label kind=scout
")]
    Issue {
        /// The group's directory, as `roost group init` made it
        dir: PathBuf,
        /// The member's name
        name: String,
        /// The member's role: node, supernode or server
        #[arg(long)]
        role: Role,
        /// Time for which the certificate is valid
        #[arg(long, value_name = "TIME", default_value = "30d", value_parser = value::validity)]
        valid: Duration,
        /// The directory for the identity [default: DIR/members/NAME]
        #[arg(short, long, value_name = "DIR")]
        output: Option<PathBuf>,
        #[command(flatten)]
        labels: LabelArgs,
    },
    /// Give a member other labels, instead of all that it has; its next certificate has them
    #[command(before_help = "Examples:
  roost group label ./grove uav7 team=blue kind=scout
  roost group label ./grove uav7 --none
")]
    Label {
        /// The group's directory, as `roost group init` made it
        dir: PathBuf,
        /// The member's name, its id or four digits or more of the beginning of it, or a certificate's serial number
        member: String,
        /// Its labels from now on
        #[arg(value_name = "KEY=VALUE", required_unless_present = "none", conflicts_with = "none")]
        labels: Vec<String>,
        /// Take its labels away
        #[arg(long)]
        none: bool,
    },
    /// Renew a member's certificate for the same key; the new one replaces the one in its directory
    #[command(before_help = "Examples:
  roost group renew ./grove ./uav7 --valid 90d
")]
    Renew {
        /// The group's directory, as `roost group init` made it
        dir: PathBuf,
        /// The identity's directory; its private key need not be there
        identity: PathBuf,
        /// Time for which the certificate is valid
        #[arg(long, value_name = "TIME", default_value = "30d", value_parser = value::validity)]
        valid: Duration,
    },
    /// Invite a device: print the address with which it joins
    #[command(before_help = "Examples:
  roost group invite ./grove --role node --name uav7 --authority 10.0.0.1:7703
  roost group invite ./grove --role node --uses 5 --valid 1d --approve
")]
    Invite(InviteArgs),
    /// List the open invitations
    Invitations {
        /// The group's directory, as `roost group init` made it
        dir: PathBuf,
    },
    /// End an invitation before its time
    Withdraw {
        /// The group's directory, as `roost group init` made it
        dir: PathBuf,
        /// The invitation's id, from `roost group invitations`
        invitation: String,
    },
    /// List the requests that wait for approval, with the words that their devices show
    Requests {
        /// The group's directory, as `roost group init` made it
        dir: PathBuf,
    },
    /// Approve a request: the device that waits becomes a member
    #[command(before_help = "Examples:
  roost group requests ./grove
  roost group approve ./grove uav7
")]
    Approve {
        /// The group's directory, as `roost group init` made it
        dir: PathBuf,
        /// The device, by its name, id or the beginning of its id
        device: String,
    },
    /// Deny a request
    Deny {
        /// The group's directory, as `roost group init` made it
        dir: PathBuf,
        /// The device, by its name, id or the beginning of its id
        device: String,
    },
    /// Serve invited devices, and members that renew their certificates
    #[command(before_help = "Examples:
  roost group serve ./grove --listen tls://0.0.0.0:7703
")]
    Serve {
        /// The group's directory, as `roost group init` made it
        dir: PathBuf,
        /// The address to listen on: tls://ADDRESS:PORT
        #[arg(long, value_name = "ENDPOINT", default_value = "tls://[::]:7703", value_parser = value::tls_endpoint)]
        listen: SocketAddr,
    },
    /// Sign a request that came as a file, and print the answer for `roost join`
    #[command(before_help = "Examples:
  roost group sign ./grove uav7.req > uav7.bundle
")]
    Sign {
        /// The group's directory, as `roost group init` made it
        dir: PathBuf,
        /// The file that `roost identity request` wrote
        request: PathBuf,
        /// The member's name [default: the one in the request]
        #[arg(long)]
        name: Option<String>,
        /// The member's role [default: the one in the request]
        #[arg(long)]
        role: Option<Role>,
        /// Time for which the certificate is valid
        #[arg(long, value_name = "TIME", default_value = "30d", value_parser = value::validity)]
        valid: Duration,
        #[command(flatten)]
        labels: LabelArgs,
    },
    /// List the hubs that a new member turns to, or set them
    #[command(before_help = "Examples:
  roost group hubs ./grove
  roost group hubs ./grove set udp://10.0.0.2:7700,tcp://10.0.0.2:7700 udp://10.0.0.3:7700
")]
    Hubs {
        /// The group's directory, as `roost group init` made it
        dir: PathBuf,
        #[command(subcommand)]
        change: Option<HubsCommand>,
    },
    /// Seal the group's key with a passphrase
    #[command(before_help = "Examples:
  roost group seal ./grove
")]
    Seal {
        /// The group's directory, as `roost group init` made it
        dir: PathBuf,
    },
    /// Store the group's key without a passphrase again
    Unseal {
        /// The group's directory, as `roost group init` made it
        dir: PathBuf,
    },
    /// List the group's members
    Show {
        /// The group's directory, as `roost group init` made it
        dir: PathBuf,
    },
    /// Check whether the group's members accept an identity, and if not, say why
    #[command(before_help = "Examples:
  roost group verify ./grove ./uav7
")]
    Verify {
        /// The group's directory, as `roost group init` made it
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
        /// The group's directory, as `roost group init` made it
        dir: PathBuf,
        /// The member's name, its id or four digits or more of the beginning of it, or a certificate's serial number
        member: String,
        #[command(flatten)]
        hand_in: HandInArgs,
    },
    /// Replace the group's key while its members run, in two steps
    #[command(before_help = "Examples:
  roost group rollover start ./grove --via /run/roost/supernode.sock
  roost group rollover status ./grove
  roost group rollover finish ./grove --via /run/roost/supernode.sock
")]
    Rollover {
        #[command(subcommand)]
        step: RolloverCommand,
    },
    /// Hand the newest documents of the group to running daemons, which spread them
    #[command(before_help = "Examples:
  roost group publish ./grove --via /run/roost/supernode.sock
")]
    Publish {
        /// The directory with revoked.pem, and with policy.cbor if there is a policy
        dir: PathBuf,
        #[command(flatten)]
        hand_in: HandInArgs,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum RolloverCommand {
    /// Make a new key that signs from now on, and a document by which members trust both
    Start {
        /// The group's directory, as `roost group init` made it
        dir: PathBuf,
        #[command(flatten)]
        hand_in: HandInArgs,
    },
    /// List the members that still hold a certificate of the former key
    Status {
        /// The group's directory, as `roost group init` made it
        dir: PathBuf,
    },
    /// End the trust in the former key, and delete it
    Finish {
        /// The group's directory, as `roost group init` made it
        dir: PathBuf,
        /// Shut out the members that have not renewed
        #[arg(long)]
        force: bool,
        #[command(flatten)]
        hand_in: HandInArgs,
    },
}

#[derive(Debug, Args)]
pub(crate) struct InviteArgs {
    /// The group's directory, as `roost group init` made it
    pub(crate) dir: PathBuf,
    /// The role of the device: node, supernode or server
    #[arg(long)]
    pub(crate) role: Role,
    /// The only name that the device may have [default: the device chooses]
    #[arg(long)]
    pub(crate) name: Option<String>,
    /// Time for which the invitation is valid, at most 30 days
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = value::validity)]
    pub(crate) valid: Duration,
    /// The number of devices that may join with it
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=256))]
    pub(crate) uses: u32,
    /// Let each device wait until `roost group approve`
    #[arg(long)]
    pub(crate) approve: bool,
    /// The address at which devices reach the authority; later invitations have it, too
    #[arg(long, value_name = "HOST:PORT")]
    pub(crate) authority: Option<String>,
    /// Time for which the device's certificate is valid
    #[arg(long, value_name = "TIME", default_value = "30d", value_parser = value::validity)]
    pub(crate) certificate: Duration,
    #[command(flatten)]
    pub(crate) labels: LabelArgs,
}

#[derive(Debug, Args)]
pub(crate) struct LabelArgs {
    /// A label in the certificate, by which rules of the group's policy tell members apart; may be given several times
    #[arg(long = "label", value_name = "KEY=VALUE")]
    pub(crate) labels: Vec<String>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum HubsCommand {
    /// Replace the stored hubs
    Set {
        /// Each hub, the preferred one first: its endpoints, separated by commas
        hubs: Vec<String>,
    },
}

#[derive(Debug, Args)]
pub(crate) struct JoinArgs {
    /// The invitation, roost://…, or a file with it or of `roost group sign`; -: standard input
    #[arg(value_name = "LINK")]
    pub(crate) invitation: String,
    /// The directory for the identity [default: /var/lib/roost/identity, or ~/.config/roost/identity of a user]
    #[arg(long, value_name = "DIR")]
    pub(crate) to: Option<PathBuf>,
    /// The name to ask for [default: the invitation's, else the host's]
    #[arg(long)]
    pub(crate) name: Option<String>,
    /// The role to insist on [default: the invitation's]
    #[arg(long)]
    pub(crate) role: Option<Role>,
    /// The user to whom the identity belongs [default: roost, if root joins and there is such a user]
    #[arg(long, value_name = "USER")]
    pub(crate) owner: Option<String>,
    /// The daemon's configuration, written if it does not exist [default: DAEMON.toml in /etc/roost, or in ~/.config/roost]
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Start the daemon's unit and enable it
    #[arg(long)]
    pub(crate) start: bool,
    /// The longest time without any answer of the authority; waiting for approval does not count
    #[arg(long, value_name = "TIME", default_value = "1m", value_parser = value::time)]
    pub(crate) timeout: Duration,
}

#[derive(Debug, Args)]
pub(crate) struct IdentityArgs {
    #[command(subcommand)]
    pub(crate) command: IdentityCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum IdentityCommand {
    /// Make a key and print a request for its certificate, to be signed where the group's key is
    #[command(before_help = "Examples:
  roost identity request --name uav7 --role node > uav7.req
")]
    Request {
        /// The name to ask for
        #[arg(long)]
        name: String,
        /// The role to ask for: node, supernode or server
        #[arg(long)]
        role: Role,
        /// The directory for the identity [default: as for `roost join`]
        #[arg(long, value_name = "DIR")]
        to: Option<PathBuf>,
    },
    /// Replace this host's key, with a certificate for the new one from the authority
    #[command(before_help = "Examples:
  roost identity rotate --authority 10.0.0.1:7703
")]
    Rotate {
        /// The group's authority
        #[arg(long, value_name = "HOST:PORT")]
        authority: String,
        /// The directory of the identity [default: as for `roost join`]
        #[arg(long, value_name = "DIR")]
        to: Option<PathBuf>,
    },
    /// Show an identity: name, role, labels, group and validity
    #[command(before_help = "Examples:
  roost identity show
  roost identity show ./grove/members/uav7
")]
    Show {
        /// The identity's directory [default: as for `roost join`]
        dir: Option<PathBuf>,
    },
}

/// Daemons to which a signed list is handed.
#[derive(Debug, Args)]
pub(crate) struct HandInArgs {
    /// The socket of a daemon of the group that spreads it; may be given several times
    #[arg(long, value_name = "SOCKET")]
    pub(crate) via: Vec<PathBuf>,
    /// The longest wait until every member has it
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = value::time)]
    pub(crate) wait: Duration,
}
