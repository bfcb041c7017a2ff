//! The log, on standard error.
//!
//! ERROR stops something, WARN may need action, INFO is for operators, DEBUG an odd branch, TRACE a line per packet.

use std::fmt::Write as _;
use std::io::{self, IsTerminal};

use roost_wire::printable::Printable;
use roost_wire::printable_json;
use tracing_subscriber::field::MakeExt;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt::FormatFields;
use tracing_subscriber::fmt::format::debug_fn;
use tracing_subscriber::layer::{Layer, SubscriberExt};
use tracing_subscriber::util::{SubscriberInitExt, TryInitError};
use tracing_subscriber::{Registry, reload};

use crate::config::LogFormat;

/// Libraries whose INFO does not concern an operator.
const QUIET: [&str; 6] = ["hyper", "quinn", "quinn_proto", "rustls", "dimpl", "mio"];

/// The most important level is the first.
pub const LEVELS: [&str; 5] = ["error", "warn", "info", "debug", "trace"];

/// Changes the level of the log while the daemon runs.
#[derive(Clone)]
pub struct Level {
    handle: reload::Handle<Targets, Registry>,
}

impl Level {
    /// # Errors
    /// Fails if there is no such level.
    pub fn set(&self, level: &str) -> Result<(), String> {
        if !LEVELS.contains(&level) {
            return Err(format!("unknown level {level:?}: expected one of {}", LEVELS.join(", ")));
        }
        self.handle.reload(filter(level)).map_err(|error| error.to_string())
    }
}

/// # Errors
/// Fails if the process has a log already.
pub fn start(format: LogFormat, level: &str) -> Result<Level, TryInitError> {
    let (filter, handle) = reload::Layer::new(filter(level));
    // systemd stamps the lines that a service writes to its journal.
    let journald = std::env::var_os("JOURNAL_STREAM").is_some();
    let terminal = io::stderr().is_terminal();
    let plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty())
        || std::env::var_os("TERM").is_some_and(|term| term == "dumb");
    let base = tracing_subscriber::fmt::layer().with_writer(io::stderr).with_ansi(terminal && !plain);
    let lines: Box<dyn Layer<_> + Send + Sync> = match (format, journald) {
        (LogFormat::Json, _) => base.with_writer(|| PlainJson(io::stderr())).json().flatten_event(true).boxed(),
        (LogFormat::Text, true) => base.without_time().with_target(false).fmt_fields(fields()).boxed(),
        (LogFormat::Text, false) => base.with_target(false).fmt_fields(fields()).boxed(),
    };
    tracing_subscriber::registry().with(filter).with(lines).try_init()?;
    Ok(Level { handle })
}

/// Writes the fields of a line. Text of remotes is escaped, so that it commands no terminal.
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

/// The lines of `level`, an entry of [`LEVELS`].
fn filter(level: &str) -> Targets {
    let level = level.parse().unwrap_or(LevelFilter::INFO);
    // A datagram that the system did not take is lost like any other; quinn_udp logs each.
    let targets = Targets::new().with_default(level).with_target("quinn_udp", LevelFilter::ERROR);
    if level >= LevelFilter::DEBUG {
        return targets;
    }
    targets.with_targets(QUIET.map(|library| (library, level.min(LevelFilter::WARN))))
}

/// Escapes characters that command a terminal in JSON; each write is whole lines.
struct PlainJson<W>(W);

impl<W: io::Write> io::Write for PlainJson<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write_all(printable_json(&String::from_utf8_lossy(bytes)).as_bytes())?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use tracing::Level;

    use super::{LEVELS, PlainJson, filter};

    #[test]
    fn quinn_udp_warnings_are_filtered() {
        for level in LEVELS {
            let filter = filter(level);
            assert!(!filter.would_enable("quinn_udp", &Level::WARN), "{level}");
            assert!(filter.would_enable("roost_core", &level.parse().unwrap()), "{level}");
        }
    }

    #[test]
    fn json_lines_command_nothing() {
        let mut written = PlainJson(Vec::new());
        written.write_all("{\"reason\":\"\u{9b}2J\u{202e}\"}\n".as_bytes()).unwrap();
        assert_eq!(String::from_utf8(written.0).unwrap(), "{\"reason\":\"\\u009b2J\\u202e\"}\n");
    }
}
