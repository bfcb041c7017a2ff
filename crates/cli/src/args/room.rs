//! The flags of `roost join-room`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use roost_services::SinkSpec;
use roost_wire::Service;

#[cfg(doc)]
use super::Command;
use super::{OutputFormat, value};

#[derive(Debug, Args)]
pub(crate) struct RoomArgs {
    /// The room's name, on which its members have agreed
    pub(crate) name: String,
    /// The services to receive of each member: video, track
    #[arg(long, value_name = "NAMES", value_delimiter = ',', default_value = "video")]
    pub(crate) services: Vec<Service>,
    /// The duration of the stay [default: until Ctrl-C]
    #[arg(long = "for", value_name = "TIME", value_parser = value::time)]
    pub(crate) duration: Option<Duration>,
    /// The folder for one file per stream: NODE.ts for video, NODE.jsonl for a track, NODE-2.ts
    /// and so on for a stream that starts again
    #[arg(long, value_name = "DIR", conflicts_with = "output")]
    pub(crate) output_dir: Option<PathBuf>,
    /// The players' first port: udp://HOST:PORT or, for video, rtp://HOST:PORT; each further stream
    /// takes a port two higher; without -o and --output-dir, roost only receives, checks and measures
    /// the streams
    #[arg(short, long, value_name = "TO")]
    pub(crate) output: Option<SinkSpec>,
    /// The format of a written track: JSON lines, or the format of its source
    #[arg(long, alias = "form", value_enum, default_value_t = OutputFormat::Json)]
    pub(crate) format: OutputFormat,
    /// The longest wait for a member's answer, before roost repeats the request [default: 10s, or ten round trips to
    /// the hub if that is longer]
    #[arg(long, value_name = "TIME", value_parser = value::time)]
    pub(crate) timeout: Option<Duration>,
}
