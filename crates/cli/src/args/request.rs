//! The flags of requests and of files that are sent.

use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgGroup, Args, Subcommand, ValueEnum};
use roost_services::SinkSpec;
use roost_wire::messages::{MAX_REQUEST_TIME, ReflectionPolicy, RequestMode, ServiceRequest};
use roost_wire::{Area, DeliveryId, Endpoint, Metadata, NodeSelector, Scheme, SchemeSet, Scope, Service};

#[cfg(doc)]
use super::Command;
use super::{AreaArgs, TraceArgs, area, merged, value};

#[derive(Clone, Debug, Args)]
#[command(group = ArgGroup::new("where").args(area::FLAGS).arg("provider").required(true).multiple(true))]
pub(crate) struct RequestArgs {
    /// video, track, image, sensor or a service of one's own such as acme/lidar; `#NAME` adds an instance
    pub(crate) service: Service,
    #[command(flatten)]
    pub(crate) area: AreaArgs,
    /// Ask this node directly, by name, id or the beginning of its id; `roost lookup` prints them
    #[arg(long = "from", help_heading = "Where", value_name = "NODE", value_parser = value::parse_selector,
        conflicts_with_all = area::FLAGS)]
    pub(crate) provider: Option<NodeSelector>,
    /// Only offers with this metadata; may be given several times
    #[arg(long = "where", help_heading = "Where", value_name = "KEY=VALUE")]
    pub(crate) filter: Vec<Metadata>,
    /// Words for the provider's program, or @FILE with them; at most 1 KiB. The stream is then one of its own
    #[arg(long, value_name = "TEXT", value_parser = value::params)]
    pub(crate) params: Option<String>,
    /// Consider at most this many providers
    #[arg(short = 'k', value_name = "N", value_parser = clap::value_parser!(u8).range(1..=64))]
    pub(crate) count: Option<u8>,
    /// The duration of a stream [default: 10s, the provider's]
    #[arg(long = "for", value_name = "TIME", value_parser = value::time)]
    pub(crate) duration: Option<Duration>,
    /// The least rate of a stream; a provider that announces a lower one is passed over
    #[arg(long = "min-bitrate", value_name = "KBIT/S", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) min_kbps: Option<u32>,
    /// The only transport that the data may take: udp, tcp or quic
    #[arg(long, value_name = "NAME")]
    pub(crate) transport: Option<Scheme>,
    /// The delivery profile; without one, a stream's datagrams may be lost or arrive out of order
    #[arg(long, value_enum, value_name = "WHAT-FOR")]
    pub(crate) profile: Option<Profile>,
    /// The delivery class over several paths [default: the profile's class, else the provider's]
    #[arg(long, value_enum, value_name = "PATHS")]
    pub(crate) class: Option<Class>,
    /// Directly from the provider, or through the hub
    #[arg(long, value_enum, default_value_t = Mode::Forward)]
    pub(crate) mode: Mode,
    /// Reflection by super nodes, with which the provider sends one copy for all subscribers
    #[arg(long, value_enum, default_value_t = Reflect::IfBusy, value_name = "WHEN")]
    pub(crate) reflect: Reflect,
    /// The provider's greatest distance: cell (the requested one, or the node's own), subnet (found by
    /// multicast), home (of the same hub), area (below the hub's parent) or anywhere
    #[arg(long, value_name = "HOW-FAR", default_value_t = Scope::Anywhere, conflicts_with = "provider")]
    pub(crate) scope: Scope,
    #[command(flatten)]
    pub(crate) receive: ReceiveArgs,
}

/// The flags about the received data, which `roost request` and `roost subscribe` share.
#[derive(Clone, Debug, Args)]
pub(crate) struct ReceiveArgs {
    /// The longest wait for a provider [default: 10s, or ten round trips to the hub if that is longer]
    #[arg(long, value_name = "TIME", value_parser = value::time)]
    pub(crate) timeout: Option<Duration>,
    /// The transfer ends after this time without progress; until then it resumes by itself
    /// [default: 30s, or longer over a long path]
    #[arg(long, value_name = "TIME", value_parser = value::time)]
    pub(crate) patience: Option<Duration>,
    /// The destination of the data: a file, - for stdout, udp://HOST:PORT or, for video, rtp://HOST:PORT; without it
    /// roost only receives, checks and measures the data
    #[arg(short, long, value_name = "TO")]
    pub(crate) output: Option<SinkSpec>,
    /// With -o rtp://…: the SDP file for a player, which roost writes when the stream starts
    #[arg(long, value_name = "FILE", requires = "output")]
    pub(crate) sdp: Option<PathBuf>,
    /// The format of a written track: JSON lines, or the format of its source
    #[arg(long, alias = "form", value_enum, default_value_t = OutputFormat::Json, requires = "output")]
    pub(crate) format: OutputFormat,
    /// With --json: print the progress as one line each second
    #[arg(long)]
    pub(crate) progress: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Mode {
    /// The provider answers directly
    Forward,
    /// Answer and data come through the hub
    Relay,
}

impl From<Mode> for RequestMode {
    fn from(mode: Mode) -> Self {
        match mode {
            Mode::Forward => Self::Forward,
            Mode::Relay => Self::Relay,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Profile {
    /// For steering: all paths at once, before all other data; late datagrams are dropped and counted
    Piloting,
    /// For complete data: the stream arrives whole and in order, even after a connection breaks
    Surveillance,
    /// For decisions: as surveillance, but after all other data
    Command,
}

impl From<Profile> for roost_wire::Profile {
    fn from(profile: Profile) -> Self {
        match profile {
            Profile::Piloting => Self::Piloting,
            Profile::Surveillance => Self::Surveillance,
            Profile::Command => Self::Command,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Class {
    /// Each chunk takes the path on which it arrives first
    Stripe,
    /// All data takes all paths at once
    Duplicate,
    /// All data takes the first path, or the next one while the first does not answer
    Backup,
}

impl From<Class> for roost_wire::DeliveryClass {
    fn from(class: Class) -> Self {
        match class {
            Class::Stripe => Self::Stripe,
            Class::Duplicate => Self::Duplicate,
            Class::Backup => Self::Backup,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Reflect {
    /// Super nodes reflect the stream from its start, as for `roost subscribe`
    Always,
    /// Super nodes reflect the stream if the provider would otherwise be busy
    IfBusy,
    /// The provider sends a separate stream, or none
    Never,
}

impl From<Reflect> for ReflectionPolicy {
    fn from(reflect: Reflect) -> Self {
        match reflect {
            Reflect::Always => Self::Always,
            Reflect::IfBusy => Self::IfBusy,
            Reflect::Never => Self::Never,
        }
    }
}

#[derive(Debug, Args)]
#[command(group = ArgGroup::new("whose").args(area::FLAGS).arg("provider").required(true).multiple(true))]
pub(crate) struct SubscribeArgs {
    /// video, track or a stream of one's own; `#NAME` adds an instance
    pub(crate) service: Service,
    #[command(flatten)]
    pub(crate) area: AreaArgs,
    /// This node's stream, by name, id or the beginning of its id; `roost lookup` prints them
    #[arg(long = "from", help_heading = "Where", value_name = "NODE", value_parser = value::parse_selector,
        conflicts_with_all = area::FLAGS)]
    pub(crate) provider: Option<NodeSelector>,
    /// Only offers with this metadata; may be given several times
    #[arg(long = "where", help_heading = "Where", value_name = "KEY=VALUE")]
    pub(crate) filter: Vec<Metadata>,
    /// Words for the provider's program, or @FILE with them; at most 1 KiB. The stream is then no shared one
    #[arg(long, value_name = "TEXT", value_parser = value::params)]
    pub(crate) params: Option<String>,
    /// The duration of the subscription [default: until Ctrl-C, or the provider ends it]
    #[arg(long = "for", value_name = "TIME", value_parser = value::time)]
    pub(crate) duration: Option<Duration>,
    /// The provider's greatest distance: cell (the requested one, or the node's own), home (of the same hub), area
    /// (below the hub's parent) or anywhere
    #[arg(long, value_name = "HOW-FAR", default_value_t = Scope::Anywhere, conflicts_with = "provider")]
    pub(crate) scope: Scope,
    #[command(flatten)]
    pub(crate) receive: ReceiveArgs,
}

impl RequestArgs {
    pub(crate) fn service_request(&self, area: Area) -> ServiceRequest {
        ServiceRequest {
            provider: self.provider,
            count: self.count.unwrap_or(0),
            mode: self.mode.into(),
            scope: self.scope,
            duration: self.duration,
            min_kbps: self.min_kbps,
            transports: self.transport.map_or(SchemeSet::ALL, SchemeSet::only),
            profile: self.profile.map(Into::into),
            class: self.class.map(Into::into),
            reflect: self.reflect.into(),
            timeout: self.receive.timeout,
            patience: self.receive.patience,
            filter: merged(&self.filter),
            params: self.params.clone().unwrap_or_default(),
            ..ServiceRequest::new(self.service, area)
        }
    }

    /// True if the stream lasts until somebody ends it.
    pub(crate) fn is_endless(&self) -> bool {
        self.reflect == Reflect::Always && self.duration.is_none()
    }
}

impl TraceArgs {
    /// The request whose way is traced; a stream lasts for `duration`.
    pub(crate) fn service_request(&self, area: Area, duration: Duration) -> ServiceRequest {
        ServiceRequest {
            provider: self.provider,
            mode: self.mode.into(),
            scope: self.scope,
            duration: self.service.is_stream().then_some(duration),
            transports: self.transport.map_or(SchemeSet::ALL, SchemeSet::only),
            timeout: self.timeout,
            trace: true,
            ..ServiceRequest::new(self.service, area)
        }
    }
}

impl From<&SubscribeArgs> for RequestArgs {
    fn from(args: &SubscribeArgs) -> Self {
        // A stream of its own has an end.
        let is_shared = args.params.is_none();
        let longest = (!is_shared).then_some(MAX_REQUEST_TIME);
        Self {
            service: args.service,
            area: args.area.clone(),
            provider: args.provider,
            filter: args.filter.clone(),
            count: None,
            params: args.params.clone(),
            duration: args.duration.or(longest),
            min_kbps: None,
            transport: None,
            profile: None,
            class: None,
            mode: Mode::Forward,
            reflect: if is_shared { Reflect::Always } else { Reflect::Never },
            scope: args.scope,
            receive: args.receive.clone(),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum OutputFormat {
    /// A JSON object per line
    Json,
    /// A JSON object per line, with the source's own record under `raw`
    Full,
    /// The source's own records, unchanged
    Raw,
}

#[derive(Debug, Args)]
pub(crate) struct SendArgs {
    /// The file
    pub(crate) file: PathBuf,
    /// The node that receives the file, by name, id or the beginning of its id
    #[arg(value_parser = value::parse_selector)]
    pub(crate) node: NodeSelector,
    /// The file's name there [default: its name here]
    #[arg(long)]
    pub(crate) name: Option<String>,
    /// The node's endpoint, if no hub knows it; a node without offers is in no directory
    #[arg(long, value_name = "ENDPOINT")]
    pub(crate) address: Vec<Endpoint>,
    /// The longest wait for the node's answer
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = value::time)]
    pub(crate) timeout: Duration,
    /// Leave the file in the daemon's outbox, which sends it when the node is there, until this time: 24h, or
    /// 2030-01-31T12:00:00Z; at most 30 days
    #[arg(long, value_name = "TIME", value_parser = value::end)]
    pub(crate) until: Option<u64>,
    /// With --until: of two files for a node, the one of the higher priority goes first
    #[arg(long, value_enum, default_value_t = SendPriority::Normal, requires = "until")]
    pub(crate) priority: SendPriority,
    /// With --until: end when the delivery has ended
    #[arg(long, requires = "until")]
    pub(crate) wait: bool,
    /// With --json: print the progress as one line each second
    #[arg(long)]
    pub(crate) progress: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum SendPriority {
    Low,
    Normal,
    High,
}

impl From<SendPriority> for roost_api::Priority {
    fn from(priority: SendPriority) -> Self {
        match priority {
            SendPriority::Low => Self::Low,
            SendPriority::Normal => Self::Normal,
            SendPriority::High => Self::High,
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct OutboxArgs {
    #[command(subcommand)]
    pub(crate) command: Option<OutboxCommand>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum OutboxCommand {
    /// Take a file out of the outbox; a receiver to which it is being sent may have it nevertheless
    Cancel {
        /// The id, as `roost outbox` prints it
        id: DeliveryId,
    },
}
