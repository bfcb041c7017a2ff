//! The flags of `roost call`, which are a request's and those of the body.

use std::time::Duration;

use clap::{ArgGroup, Args};
use roost_services::SinkSpec;
use roost_wire::{Metadata, NodeSelector, Scheme, Scope, Service};

use super::request::{Mode, OutputFormat, ReceiveArgs, Reflect, RequestArgs};
use super::{AreaArgs, area, value};

#[derive(Clone, Debug, Args)]
#[command(group = ArgGroup::new("callee").args(area::FLAGS).arg("provider").required(true).multiple(true))]
pub(crate) struct CallArgs {
    /// A call that somebody offers, such as acme/tiles
    pub(crate) service: Service,
    /// The body: a text, @FILE, or - for the standard input; at most 64 KiB [default: an empty body]
    #[arg(long, value_name = "BODY")]
    pub(crate) data: Option<String>,
    /// Words for the provider's program beside the body, or @FILE with them; at most 1 KiB
    #[arg(long, value_name = "TEXT", value_parser = value::params)]
    params: Option<String>,
    #[command(flatten)]
    area: AreaArgs,
    /// Ask this node directly, by name, id or the beginning of its id; `roost lookup` prints them
    #[arg(long = "from", help_heading = "Where", value_name = "NODE", value_parser = value::parse_selector,
        conflicts_with_all = area::FLAGS)]
    provider: Option<NodeSelector>,
    /// Only offers with this metadata; may be given several times
    #[arg(long = "where", help_heading = "Where", value_name = "KEY=VALUE")]
    filter: Vec<Metadata>,
    /// The only transport that body and answer may take: udp, tcp or quic
    #[arg(long, value_name = "NAME")]
    transport: Option<Scheme>,
    /// Directly to the provider, or through the hub
    #[arg(long, value_enum, default_value_t = Mode::Forward)]
    mode: Mode,
    /// The provider's greatest distance: cell, subnet, home, area or anywhere, as of `roost request`
    #[arg(long, value_name = "HOW-FAR", default_value_t = Scope::Anywhere, conflicts_with = "provider")]
    scope: Scope,
    /// The longest wait for the answer to begin, the run of the provider's program included
    /// [default: 10s, or ten round trips to the hub if that is longer]
    #[arg(long, value_name = "TIME", value_parser = value::time)]
    timeout: Option<Duration>,
    /// The answer ends after this time without progress [default: 30s, or longer over a long path]
    #[arg(long, value_name = "TIME", value_parser = value::time)]
    patience: Option<Duration>,
    /// The destination of the answer: a file, or - for stdout [default: stdout, nothing with --json]
    #[arg(short, long, value_name = "TO")]
    output: Option<SinkSpec>,
}

impl CallArgs {
    pub(crate) fn request_args(&self, service: Service, output: Option<SinkSpec>) -> RequestArgs {
        let receive = ReceiveArgs {
            timeout: self.timeout,
            patience: self.patience,
            output: self.output.clone().or(output),
            sdp: None,
            format: OutputFormat::Raw,
            progress: false,
        };
        RequestArgs {
            service,
            area: self.area.clone(),
            provider: self.provider,
            filter: self.filter.clone(),
            params: self.params.clone(),
            count: None,
            duration: None,
            min_kbps: None,
            transport: self.transport,
            profile: None,
            class: None,
            mode: self.mode,
            reflect: Reflect::Never,
            scope: self.scope,
            receive,
        }
    }
}
