//! The log, on standard error.
//!
//! ERROR stops something, WARN may need action, INFO is what an operator wants
//! to know, DEBUG an odd branch, TRACE one line per packet.

use std::fmt::Write as _;
use std::io::IsTerminal;

use roost_proto::printable::Printable;
use tracing_subscriber::field::MakeExt;
use tracing_subscriber::fmt::FormatFields;
use tracing_subscriber::fmt::format::debug_fn;
use tracing_subscriber::layer::{Layer, SubscriberExt};
use tracing_subscriber::reload;
use tracing_subscriber::util::{SubscriberInitExt, TryInitError};
use tracing_subscriber::{EnvFilter, Registry};

use crate::config::LogFormat;

/// Libraries whose INFO is of no interest to an operator.
/// A datagram that the system did not take is one that was lost; quinn_udp says it in the system's own terms.
const QUIET: &str = "hyper=warn,quinn=warn,quinn_proto=warn,quinn_udp=error,rustls=warn,dimpl=warn,mio=warn,h2=warn";

/// The levels there are, the most important first.
pub const LEVELS: [&str; 5] = ["error", "warn", "info", "debug", "trace"];

/// Changes what is logged while the daemon runs.
#[derive(Clone)]
pub struct Level {
    handle: reload::Handle<EnvFilter, Registry>,
}

impl Level {
    /// Logs from now on what is at least as important as `level`.
    ///
    /// # Errors
    /// When there is no such level.
    pub fn set(&self, level: &str) -> Result<(), String> {
        if !LEVELS.contains(&level) {
            return Err(format!("unknown level {level:?}: expected one of {}", LEVELS.join(", ")));
        }
        self.handle.reload(filter(level)).map_err(|error| error.to_string())
    }
}

/// Starts the log.
///
/// # Errors
/// When the process has one already.
pub fn start(format: LogFormat, level: &str) -> Result<Level, TryInitError> {
    let (filter, handle) = reload::Layer::new(filter(level));
    // systemd stamps what a service writes to its journal.
    let journald = std::env::var_os("JOURNAL_STREAM").is_some();
    let terminal = std::io::stderr().is_terminal();
    let plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty())
        || std::env::var_os("TERM").is_some_and(|term| term == "dumb");
    let base = tracing_subscriber::fmt::layer().with_writer(std::io::stderr).with_ansi(terminal && !plain);
    let lines: Box<dyn Layer<_> + Send + Sync> = match (format, journald) {
        (LogFormat::Json, _) => base.json().flatten_event(true).boxed(),
        (LogFormat::Text, true) => base.without_time().with_target(false).fmt_fields(fields()).boxed(),
        (LogFormat::Text, false) => base.with_target(false).fmt_fields(fields()).boxed(),
    };
    tracing_subscriber::registry().with(filter).with(lines).try_init()?;
    Ok(Level { handle })
}

/// Writes the fields of a line. Whatever a remote has said stays on it and commands no terminal.
fn fields() -> impl for<'writer> FormatFields<'writer> + Send + Sync + 'static {
    debug_fn(|writer, field, value| {
        match field.name() {
            "message" => {}
            // The bridge from `log` has taken these over already.
            name if name.starts_with("log.") => return Ok(()),
            name if writer.has_ansi_escapes() => write!(writer, "\x1b[3m{name}\x1b[0m\x1b[2m=\x1b[0m")?,
            name => write!(writer, "{name}=")?,
        }
        write!(Printable(writer), "{value:?}")
    })
    .delimited(" ")
}

fn filter(level: &str) -> EnvFilter {
    let directives = if matches!(level, "debug" | "trace") { level.to_owned() } else { format!("{level},{QUIET}") };
    EnvFilter::new(directives)
}
