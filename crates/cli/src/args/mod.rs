//! The command line, which is also the source of help, man pages and completions.

mod area;
mod audit;
mod call;
mod group;
mod offer;
mod policy;
mod record;
mod request;
mod room;
mod single_command;
mod tak;
mod tools;
mod value;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgGroup, Args, CommandFactory, Parser, Subcommand, ValueEnum};
use roost_services::SinkSpec;
use roost_terminal::{OutputArgs, generate};
use roost_wire::{Metadata, NodeSelector, Scheme, Scope, Service};

pub(crate) use area::{AreaArgs, AreaChoice};
pub(crate) use audit::{AuditArgs, AuditCommand, AuditShowArgs, AuditVerifyArgs};
pub(crate) use call::CallArgs;
pub(crate) use group::{
    GroupArgs, GroupCommand, HandInArgs, HubsCommand, IdentityArgs, IdentityCommand, InviteArgs, JoinArgs, LabelArgs,
    RolloverCommand,
};
pub(crate) use offer::OfferArgs;
pub(crate) use policy::{ExplainArgs, PolicyArgs, PolicyCommand, SigningArgs};
pub(crate) use record::RecordArgs;
pub(crate) use request::{
    Mode, OutboxArgs, OutboxCommand, OutputFormat, ReceiveArgs, Reflect, RequestArgs, SendArgs, SubscribeArgs,
};
pub(crate) use room::RoomArgs;
pub(crate) use single_command::read;
pub(crate) use tak::TakArgs;
pub(crate) use tools::{
    BenchArgs, BenchCommand, BenchHubArgs, CompletionsArgs, ConfigArgs, ConfigCommand, Daemon, DemoArgs, ManArgs,
};

const EXIT_CODES: &str = "\
Exit codes:
  0  ok, also when the reader of the output has gone
  1  failed in a way that has no code of its own
  2  the command line is wrong
  3  no daemon answers on the socket
  4  nothing found there
  5  refused: busy, not allowed, no common transport
  6  no answer in time
  7  a transfer or an audit log is incomplete or damaged
  78  a service's group cannot be opened
  130  interrupted";

/// Finds and gets services by kind and place.
#[derive(Debug, Parser)]
#[command(
    name = "roost",
    version,
    before_help = "Examples:
  roost demo                                    see it all work, on this machine alone
  roost request video --at 27,92 -o clip.ts     a stream of ten seconds
  roost lookup image --near 27,92 -k 3          who has pictures around there
  roost status                                  the daemon at a glance
",
    after_long_help = EXIT_CODES,
    max_term_width = 100
)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: GlobalArgs,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Global options")]
pub(crate) struct GlobalArgs {
    /// The daemon's Unix socket [default: roost/overlay-node.sock in $XDG_RUNTIME_DIR or /run]
    #[arg(long, global = true, value_name = "PATH", env = "ROOST_SOCKET", hide_env_values = true)]
    pub(crate) socket: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) speech: OutputArgs,
}

impl GlobalArgs {
    /// The daemon's socket: the named one, else the socket of an overlay node of this user, or of the system.
    pub(crate) fn socket(&self) -> PathBuf {
        self.socket.clone().unwrap_or_else(|| first_existing(&default_sockets()))
    }
}

/// The places of a socket that is not named: that of a daemon which this user started by hand, then the system's.
pub(crate) fn default_sockets() -> Vec<PathBuf> {
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").filter(|dir| !dir.is_empty()).map(PathBuf::from);
    let mut sockets: Vec<_> =
        runtime.into_iter().chain(["/run".into()]).map(|dir| dir.join("roost/overlay-node.sock")).collect();
    sockets.dedup();
    sockets
}

/// The first that exists, else the first.
fn first_existing(sockets: &[PathBuf]) -> PathBuf {
    let there = sockets.iter().find(|socket| socket.exists());
    there.or(sockets.first()).cloned().unwrap_or_default()
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Ask for a service and receive its data
    #[command(before_help = "Examples:
  roost request video --at 27,92 -o clip.ts
  roost request video --near 27,92 --for 30s -o - | ffplay -
  roost request video --any -o udp://127.0.0.1:5000 --profile piloting
  roost request image --near 27,92 --within 5 -o picture.jpg
  roost request image --from uav7 -o picture.jpg
  roost request sensor --any --json
")]
    Request(RequestArgs),
    /// Watch a live stream with others: its provider sends one copy, and super nodes send the others
    ///
    /// A stream that cannot be reflected comes as one of its own, and the summary says so.
    #[command(before_help = "Examples:
  roost subscribe video --at 27,92 -o - | ffplay -
  roost subscribe video --near 27,92 --for 30s -o clip.ts
  roost subscribe track --from uav7 -o udp://127.0.0.1:5004
")]
    Subscribe(SubscribeArgs),
    /// Call a service: a body goes to its provider's program, whose output is the answer
    ///
    /// A provider runs a call at most once. One that fails before it answers leaves the call to the next, so a call may
    /// run at several providers.
    #[command(before_help = "Examples:
  roost call acme/tiles --any --data @query.json -o tile.png
  roost call acme/plan --from uav7 --data 'to 30,40' --timeout 60s
  sensor-log | roost call acme/classify --near 27,92 --data -
")]
    Call(CallArgs),
    /// Enter a room: this node receives the stream of each member, and each member receives its stream
    #[command(
        name = "join-room",
        before_help = "Examples:
  roost join-room ops                              who comes and leaves; all streams are measured
  roost join-room ops --output-dir streams               each in a file of its own: streams/NODE.ts
  roost join-room ops -o udp://127.0.0.1:5004      each for a player: ports 5004, 5006, 5008 …
  roost join-room ops --services video,track --output-dir streams --for 10m
"
    )]
    JoinRoom(RoomArgs),
    /// Send a file to a node that has an inbox
    #[command(before_help = "Examples:
  roost send survey.tif uav7
  roost send survey.tif 6f0c2f1a9be04d7bb21f0e6f2d1c8a55 --address udp://10.0.0.3:7711
")]
    Send(SendArgs),
    /// Offer a service of one's own: a program's output is the data, the program runs once for each request
    ///
    /// The program finds the request in its environment: ROOST_REQUEST, ROOST_SERVICE, ROOST_REQUESTER,
    /// ROOST_REQUESTER_NAME, ROOST_DURATION_MS, ROOST_WHERE and ROOST_PARAMS, and the body of a call on its standard
    /// input. It is killed when the requester has enough.
    #[command(before_help = "Examples:
  roost offer acme/lidar --stream --rate 2mbit --meta sensor=ir -- lidar-reader /dev/ttyUSB0
  roost offer acme/lidar --stream --shared --rate 2mbit -- lidar-reader /dev/ttyUSB0
  roost offer acme/map --object --max 1MB -- cat map.tif
  roost offer acme/tiles --call --max 1MB -- render-tile
  roost offer video#bow --rate 3mbit -- ffmpeg -loglevel error -i /dev/video0 -f mpegts -
")]
    Offer(OfferArgs),
    /// List the files that wait for their receivers, and the last that have ended
    #[command(before_help = "Examples:
  roost outbox
  roost outbox cancel 0f3c2a9d5b7e1846
")]
    Outbox(OutboxArgs),
    /// Tell who offers a service, the nearest first
    #[command(before_help = "Examples:
  roost lookup video --near 27,92 -k 3
  roost lookup track --at 27,92                  the first who are found in that cell
  roost lookup track --near 27,92 --within 0     everybody in it, which takes longer
  roost lookup video --near 47.3769,8.5417 --within 5km
  roost lookup image --area @zone.geojson --format geojson > providers.geojson
  roost lookup sensor --rect 0,0,50,50 --json
")]
    Lookup(LookupArgs),
    /// Request a service and show each hub that the request passed
    #[command(before_help = "Examples:
  roost trace sensor --at 27,92
  roost trace video --near 27,92 --json
")]
    Trace(TraceArgs),
    /// Show each provider that appears, moves or leaves in an area, as it happens
    #[command(before_help = "Examples:
  roost watch --near 27,92 --within 10
  roost watch video track --json | jq -r '.present[].cell'
")]
    Watch(WatchArgs),
    /// List the services that the node offers or, on a hub, that the hub knows
    Services,
    /// Show the daemon at a glance
    Status,
    /// List the connections that are up
    Connections {
        /// Print one row for each path; a connection over `quic://` with several addresses has several
        #[arg(long)]
        paths: bool,
    },
    /// List the reflected streams that the daemon publishes, receives or reflects
    #[command(before_help = "Examples:
  roost streams
  roost streams --to            everybody to whom they are sent on, and what of it arrives
")]
    Streams {
        /// Print one row for each receiver
        #[arg(long)]
        to: bool,
    },
    /// Show remotes and streams with their rates, live; q quits, s sorts, arrows scroll, / filters
    #[command(
        name = "top",
        before_help = "Examples:\n  roost top\n  roost top --once --socket /run/roost/supernode.sock\n"
    )]
    Monitor(MonitorArgs),
    /// Serve a live page with a map of the network and the video of its cameras
    ///
    /// The page shows what the daemon knows: a hub, every node that it or its standbys hold; a node, the nodes that its
    /// hub finds for it. A node requests the data that the page shows. Other machines get the page over TLS and with
    /// the token that is printed, if --identity is given. A daemon with the setting `http` serves it by itself.
    #[command(before_help = "Examples:
  roost dashboard                                     then open http://127.0.0.1:7790/
  roost dashboard --socket /run/roost/supernode.sock --through /run/roost/overlay-node.sock
  roost dashboard --listen 0.0.0.0:7790 --identity /etc/roost/identity
")]
    Dashboard(DashboardArgs),
    /// Connect the overlay with TAK: its nodes are contacts there, and the contacts of TAK are a track here
    ///
    /// It speaks Cursor on Target with TAK servers, a multicast group, and clients that connect to it. The group needs a
    /// datum.
    #[command(before_help = "Examples:
  roost tak tcp://10.0.0.9:8087
  roost tak tls://tak.example:8089 --ca ca.pem --cert roost.pem --key roost.key
  roost tak udp://239.2.3.1:6969 --tracks --near 47.3769,8.5417 --within 20km
  roost tak --listen tcp://127.0.0.1:8087 --type 'uav*=a-f-A-M-F-Q' --rate 20kbit
")]
    Tak(TakArgs),
    /// Record what the connections of daemons do, where nodes go and what is requested at them
    ///
    /// Once a second it looks at the daemons of this host, and it measures round trips to their remotes. `emulate twin`
    /// makes a network and a plan of the recordings of all hosts, which it aligns by their clocks. The file has names,
    /// addresses and cells of nodes, and services; it has no data, metadata or parameters.
    #[command(before_help = "Examples:
  roost record -o uav7.jsonl --for 10m
  roost record -o base.jsonl /run/roost/supernode.sock
  roost record -o uav7.jsonl --redact word.txt
")]
    Record(RecordArgs),
    /// List what a hub's directory holds
    #[command(before_help = "Examples:
  roost index --socket /run/roost/supernode.sock --limit 20
")]
    Index(IndexArgs),
    /// Move the node to another place
    #[command(
        name = "move",
        before_help = "Examples:
  roost move --at 47.3769,8.5417
  roost move --at 30,40
"
    )]
    Move(MoveArgs),
    /// Measure the round trip to the hub or to a node
    #[command(before_help = "Examples:
  roost ping
  roost ping uav7 --count 10
")]
    Ping(PingArgs),
    /// Check the daemon and this host for faults, and say how to fix them
    #[command(before_help = "Examples:
  roost doctor
  roost doctor --identity /etc/roost/identity --listen udp://0.0.0.0:7700
")]
    Doctor(DoctorArgs),
    /// Make and manage the group: its authority and its members' identities
    Group(GroupArgs),
    /// Join a group with an invitation: this host makes its key and gets its certificate
    #[command(before_help = "Examples:
  roost join 'roost://10.0.0.1:7703/join#TOKEN.FINGERPRINT' --start
  roost join uav7.bundle
")]
    Join(JoinArgs),
    /// Make a key and a request for a certificate, where there is no network to the authority
    Identity(IdentityArgs),
    /// Check, explain and publish the group's policy: which member may do what, and where
    Policy(PolicyArgs),
    /// Verify and show audit records of daemons and of the authority
    Audit(AuditArgs),
    /// Write, show and check the configuration of a daemon
    Config(ConfigArgs),
    /// Put load on a running hub and measure it
    Bench(BenchArgs),
    /// Show everything at work: real daemons on this machine, every service, every transport
    #[command(before_help = "Examples:
  roost demo
  roost demo --for 2s --json
  roost demo --keep
")]
    Demo(DemoArgs),
    /// Print the completion script of a shell
    #[command(before_help = "Examples:
  roost completions bash > /etc/bash_completion.d/roost
")]
    Completions(CompletionsArgs),
    /// Write the manual pages into a directory
    Man(ManArgs),
}

impl Command {
    /// True if the received data goes to stdout.
    pub(crate) fn writes_data(&self) -> bool {
        matches!(
            self,
            Self::Request(RequestArgs { receive: ReceiveArgs { output: Some(SinkSpec::Stdout), .. }, .. })
                | Self::Subscribe(SubscribeArgs { receive: ReceiveArgs { output: Some(SinkSpec::Stdout), .. }, .. })
        )
    }
}

/// The keys of all flags together; the last value of a key counts.
pub(crate) fn merged(flags: &[Metadata]) -> Metadata {
    let pairs: BTreeMap<&str, &str> = flags.iter().flat_map(Metadata::iter).collect();
    // Each flag is within the limits; too many of them select nothing.
    Metadata::new(pairs).unwrap_or_default()
}

#[derive(Debug, Args)]
pub(crate) struct LookupArgs {
    /// video, track, image, sensor or a service of one's own such as acme/lidar; `#NAME` adds an instance
    pub(crate) service: Service,
    #[command(flatten)]
    pub(crate) area: AreaArgs,
    /// Only offers with this metadata; may be given several times
    #[arg(long = "where", help_heading = "Where", value_name = "KEY=VALUE")]
    pub(crate) filter: Vec<Metadata>,
    /// List at most this many providers
    #[arg(short = 'k', value_name = "N", value_parser = clap::value_parser!(u8).range(1..=64))]
    pub(crate) count: Option<u8>,
    /// The longest wait for the answer [default: 20s, or ten round trips to the hub if that is longer]
    #[arg(long, value_name = "TIME", value_parser = value::time)]
    pub(crate) timeout: Option<Duration>,
    /// The form in which the answer is printed
    #[arg(long, value_enum, default_value_t = LookupFormat::Table)]
    pub(crate) format: LookupFormat,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LookupFormat {
    /// A row for each provider, for people to read
    Table,
    /// A feature for each provider, for maps; in a group with a datum
    Geojson,
}

#[derive(Debug, Args)]
#[command(group = ArgGroup::new("where").args(area::FLAGS).arg("provider").required(true).multiple(true))]
pub(crate) struct TraceArgs {
    /// video, track, image or sensor; of a stream one second is received, and nothing is kept
    pub(crate) service: Service,
    #[command(flatten)]
    pub(crate) area: AreaArgs,
    /// Ask this node directly, by name, id or the beginning of its id
    #[arg(long = "from", help_heading = "Where", value_name = "NODE", value_parser = value::parse_selector,
        conflicts_with_all = area::FLAGS)]
    pub(crate) provider: Option<NodeSelector>,
    /// Directly from the provider, or through the hub
    #[arg(long, value_enum, default_value_t = Mode::Forward)]
    pub(crate) mode: Mode,
    /// The provider's greatest distance: cell, subnet, home, area or anywhere
    #[arg(long, value_name = "HOW-FAR", default_value_t = Scope::Anywhere, conflicts_with = "provider")]
    pub(crate) scope: Scope,
    /// The only transport that the data may take: udp, tcp or quic
    #[arg(long, value_name = "NAME")]
    pub(crate) transport: Option<Scheme>,
    /// The longest wait for a provider [default: 10s, or ten round trips to the hub if that is longer]
    #[arg(long, value_name = "TIME", value_parser = value::time)]
    pub(crate) timeout: Option<Duration>,
}

#[derive(Debug, Args)]
pub(crate) struct WatchArgs {
    /// video, track, image, sensor or a name OWNER/NAME [default: the first four]
    #[arg(value_name = "SERVICE")]
    pub(crate) services: Vec<Service>,
    #[command(flatten)]
    pub(crate) area: AreaArgs,
}

#[derive(Debug, Args)]
pub(crate) struct MonitorArgs {
    /// Print one frame and end, as without a terminal
    #[arg(long)]
    pub(crate) once: bool,
    /// The time over which rates are measured, and until the next frame
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = value::time)]
    pub(crate) interval: Duration,
}

#[derive(Debug, Args)]
pub(crate) struct DashboardArgs {
    /// The address to listen at; port 0 takes any that is free. One that other machines reach needs --identity
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:7790")]
    pub(crate) listen: SocketAddr,
    /// A map to lie under the network: a PMTiles file of images or vector tiles, for a group with a datum
    #[arg(long, value_name = "FILE")]
    pub(crate) tiles: Option<PathBuf>,
    /// The socket of a node that requests video and other data for the page of a super node, which requests nothing
    #[arg(long, value_name = "SOCKET")]
    pub(crate) through: Option<PathBuf>,
    /// The identity with which other machines get the page over TLS, with a token that is printed
    #[arg(long, value_name = "DIR")]
    pub(crate) identity: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct IndexArgs {
    /// List at most this many nodes
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub(crate) limit: u32,
    /// List only nodes whose ids follow this node's id; give its name, id or the beginning of its id
    #[arg(long, value_name = "NODE")]
    pub(crate) after: Option<NodeSelector>,
}

#[derive(Debug, Args)]
pub(crate) struct MoveArgs {
    /// The node's new place, such as 47.3769,8.5417, an MGRS square or a cell
    #[arg(long, value_name = "PLACE", allow_hyphen_values = true, value_parser = area::place)]
    pub(crate) at: String,
}

#[derive(Debug, Args)]
pub(crate) struct PingArgs {
    /// The remote, one of `roost connections`, by name, id or the beginning of its id [default: the hub]
    #[arg(value_parser = value::parse_selector)]
    pub(crate) node: Option<NodeSelector>,
    /// The number of pings
    #[arg(short, long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) count: u32,
    /// The time between two pings
    #[arg(long, value_name = "TIME", default_value = "200ms", value_parser = value::time)]
    pub(crate) interval: Duration,
}

#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    /// Also check the identity in this directory: dates, permissions, group
    #[arg(long, value_name = "DIR")]
    pub(crate) identity: Option<PathBuf>,
    /// Also check that this endpoint could be listened on
    #[arg(long, value_name = "ENDPOINT")]
    pub(crate) listen: Vec<roost_wire::Endpoint>,
}

/// The definition of the command line, in the layout of its help.
pub(crate) fn definition() -> clap::Command {
    generate::with_examples_first(Cli::command())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definition_is_sound() {
        definition().debug_assert();
    }

    #[test]
    fn user_socket_precedes_system_socket() {
        let dir = tempfile::tempdir().unwrap();
        let sockets = ["user", "system"].map(|name| dir.path().join(name));
        assert_eq!(first_existing(&sockets), sockets[0]);
        std::fs::write(&sockets[1], "").unwrap();
        assert_eq!(first_existing(&sockets), sockets[1]);
        std::fs::write(&sockets[0], "").unwrap();
        assert_eq!(first_existing(&sockets), sockets[0]);
    }

    #[test]
    fn help_lists_every_exit_code() {
        let help = definition().render_long_help().to_string();
        for code in 0..=7 {
            assert!(help.contains(&format!("\n  {code}  ")), "{code}");
        }
    }

    #[test]
    fn examples_stand_before_the_options() {
        let help = definition().render_help().to_string();
        assert!(help.find("Examples:") < help.find("Usage:"), "{help}");
    }
}
