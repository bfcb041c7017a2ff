//! The flags of `roost record`, and what they say about themselves.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::value;

#[derive(Debug, Args)]
pub(crate) struct RecordArgs {
    /// The file to write, JSON lines; it must not exist
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: PathBuf,
    /// Sockets of further daemons of this host, beside that of --socket
    #[arg(value_name = "SOCKET")]
    pub(crate) sockets: Vec<PathBuf>,
    /// The length of the recording; without it until Ctrl-C
    #[arg(long = "for", value_name = "TIME", value_parser = value::time)]
    pub(crate) duration: Option<Duration>,
    /// The pause after the round trips to all remotes were measured, one after the other
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = value::time)]
    pub(crate) ping: Duration,
    /// The size in MB at which the recording ends
    #[arg(long, value_name = "MB", default_value_t = 256, value_parser = clap::value_parser!(u64).range(1..=4096))]
    pub(crate) max_size: u64,
    /// Replace names and addresses by digests with the word in this file, which all hosts of a recording share
    ///
    /// Cells and the ids of nodes stay. The word has at least 16 bytes: whoever finds it out can try names out.
    #[arg(long, value_name = "FILE")]
    pub(crate) redact: Option<PathBuf>,
}
