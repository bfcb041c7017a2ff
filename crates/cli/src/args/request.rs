//! What a request asks for, and what is sent.

use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgGroup, Args, ValueEnum};
use roost_proto::node::ReflectionPolicy;
use roost_proto::{Endpoint, NodeSelector, Scheme, Scope, Service};
use roost_services::SinkSpec;

#[cfg(doc)]
use super::Command;
use super::{AreaArgs, area, value};

/// See [`Command::Request`].
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("where").args(area::FLAGS).arg("provider").required(true).multiple(true))]
pub(crate) struct RequestArgs {
    /// video, track, image or sensor
    pub(crate) service: Service,
    #[command(flatten)]
    pub(crate) area: AreaArgs,
    /// Ask this node directly, by name, id or the beginning of its id; `roost lookup` prints them
    #[arg(long = "from", help_heading = "Where", value_name = "NODE", value_parser = value::called,
        conflicts_with_all = area::FLAGS)]
    pub(crate) provider: Option<NodeSelector>,
    /// Consider at most this many providers
    #[arg(short = 'k', value_name = "N", value_parser = clap::value_parser!(u8).range(1..=64))]
    pub(crate) count: Option<u8>,
    /// How long a stream lasts [default: 10s, the provider's]
    #[arg(long = "for", value_name = "TIME", value_parser = value::time)]
    pub(crate) duration: Option<Duration>,
    /// The only transport that the data may take: udp, tcp or quic
    #[arg(long, value_name = "NAME")]
    pub(crate) transport: Option<Scheme>,
    /// What matters most: with none, a stream's datagrams may be lost or overtake one another
    #[arg(long, value_enum, value_name = "WHAT-FOR")]
    pub(crate) profile: Option<Profile>,
    /// Over which of several paths the data comes [default: the profile's, or the provider's]
    #[arg(long, value_enum, value_name = "PATHS")]
    pub(crate) class: Option<Class>,
    /// Directly from the provider, or through the hub
    #[arg(long, value_enum, default_value_t = Mode::Forward)]
    pub(crate) mode: Mode,
    /// Whether super nodes may reflect a stream, so that its provider sends one copy for all who watch
    #[arg(long, value_enum, default_value_t = Reflect::IfBusy, value_name = "WHEN")]
    pub(crate) reflect: Reflect,
    /// How far the provider may be: cell (the one asked for, or the node's own), connection (found by
    /// multicast), home (of the same hub), area (below the hub's parent) or anywhere
    #[arg(long, value_name = "HOW-FAR", default_value_t = Scope::Anywhere, conflicts_with = "provider")]
    pub(crate) scope: Scope,
    #[command(flatten)]
    pub(crate) receive: ReceiveArgs,
}

/// How long to wait, and what becomes of what comes: the same for `roost request` and `roost subscribe`.
#[derive(Clone, Debug, Args)]
pub(crate) struct ReceiveArgs {
    /// How long to wait for a provider
    /// [default: 10s, or ten round trips to the hub if that is longer]
    #[arg(long, value_name = "TIME", value_parser = value::time)]
    pub(crate) timeout: Option<Duration>,
    /// Time without progress after which the transfer ends; until then it goes on by itself
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = value::time)]
    pub(crate) patience: Duration,
    /// Where the data goes: a file, - for stdout, udp://HOST:PORT or, for video, rtp://HOST:PORT;
    /// without it the data is received, checked and measured only
    #[arg(short, long, value_name = "TO")]
    pub(crate) output: Option<SinkSpec>,
    /// With -o rtp://…: where to write what tells a player of it, once the stream comes
    #[arg(long, value_name = "FILE", requires = "output")]
    pub(crate) sdp: Option<PathBuf>,
    /// How a track is written: as JSON lines, or in the form its source gave it
    #[arg(long, value_enum, default_value_t = Form::Json, requires = "output")]
    pub(crate) form: Form,
    /// With --json: a line each second that says how far it is
    #[arg(long)]
    pub(crate) progress: bool,
}

/// See [`RequestArgs::mode`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Mode {
    /// The provider answers directly
    Forward,
    /// Answer and data come through the hub
    Relay,
}

/// See [`RequestArgs::profile`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Profile {
    /// To steer by: over all paths at once, before all other data; what is late is dropped, and counted
    Piloting,
    /// To miss nothing: a stream comes whole and in order, also when the connection breaks
    Surveillance,
    /// To decide by: the same, and other data goes first
    Command,
}

impl From<Profile> for roost_proto::Profile {
    fn from(profile: Profile) -> Self {
        match profile {
            Profile::Piloting => Self::Piloting,
            Profile::Surveillance => Self::Surveillance,
            Profile::Command => Self::Command,
        }
    }
}

/// See [`RequestArgs::class`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Class {
    /// Each piece over the path where it is there first
    Stripe,
    /// All over all paths at once
    Duplicate,
    /// Over the first path; over the next only while that does not answer
    Backup,
}

impl From<Class> for roost_proto::DeliveryClass {
    fn from(class: Class) -> Self {
        match class {
            Class::Stripe => Self::Stripe,
            Class::Duplicate => Self::Duplicate,
            Class::Backup => Self::Backup,
        }
    }
}

/// See [`RequestArgs::reflect`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Reflect {
    /// From the beginning, as `roost subscribe` does
    Always,
    /// If the provider is busy otherwise
    IfBusy,
    /// A stream of its own, or none
    Never,
}

impl From<Reflect> for Option<ReflectionPolicy> {
    fn from(reflect: Reflect) -> Self {
        match reflect {
            Reflect::Always => Some(ReflectionPolicy::Always),
            Reflect::IfBusy => Some(ReflectionPolicy::IfBusy),
            Reflect::Never => None,
        }
    }
}

/// See [`Command::Subscribe`].
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("whose").args(area::FLAGS).arg("provider").required(true).multiple(true))]
pub(crate) struct SubscribeArgs {
    /// video or track
    pub(crate) service: Service,
    #[command(flatten)]
    pub(crate) area: AreaArgs,
    /// This node's stream, by name, id or the beginning of its id; `roost lookup` prints them
    #[arg(long = "from", help_heading = "Where", value_name = "NODE", value_parser = value::called,
        conflicts_with_all = area::FLAGS)]
    pub(crate) provider: Option<NodeSelector>,
    /// How long to watch [default: until Ctrl-C, or the provider ends it]
    #[arg(long = "for", value_name = "TIME", value_parser = value::time)]
    pub(crate) duration: Option<Duration>,
    /// How far the provider may be: cell (the one asked for, or the node's own), home (of the same
    /// hub), area (below the hub's parent) or anywhere
    #[arg(long, value_name = "HOW-FAR", default_value_t = Scope::Anywhere, conflicts_with = "provider")]
    pub(crate) scope: Scope,
    #[command(flatten)]
    pub(crate) receive: ReceiveArgs,
}

impl RequestArgs {
    /// Whether its stream lasts until somebody ends it.
    pub(crate) fn is_endless(&self) -> bool {
        self.reflect == Reflect::Always && self.duration.is_none()
    }
}

impl From<&SubscribeArgs> for RequestArgs {
    /// The same as a request.
    fn from(args: &SubscribeArgs) -> Self {
        Self {
            service: args.service,
            area: args.area.clone(),
            provider: args.provider,
            count: None,
            duration: args.duration,
            transport: None,
            profile: None,
            class: None,
            mode: Mode::Forward,
            reflect: Reflect::Always,
            scope: args.scope,
            receive: args.receive.clone(),
        }
    }
}

/// See [`ReceiveArgs::form`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Form {
    /// One JSON object per line
    Json,
    /// The same, and under `raw` what the source gave
    Full,
    /// As it came in
    Raw,
}

/// See [`Command::Send`].
#[derive(Debug, Args)]
pub(crate) struct SendArgs {
    /// The file
    pub(crate) file: PathBuf,
    /// To whom, by name, id or the beginning of its id
    #[arg(value_parser = value::called)]
    pub(crate) node: NodeSelector,
    /// What to call it there [default: its name here]
    #[arg(long)]
    pub(crate) name: Option<String>,
    /// Where the node listens, if no hub knows it: a node that offers nothing is in no directory
    #[arg(long, value_name = "ENDPOINT")]
    pub(crate) address: Vec<Endpoint>,
    /// How long to wait for the node's answer
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = value::time)]
    pub(crate) timeout: Duration,
    /// With --json: a line each second that says how far it is
    #[arg(long)]
    pub(crate) progress: bool,
}
