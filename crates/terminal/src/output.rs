//! Data on stdout, messages on stderr, colour for a terminal only.

use std::fmt::Display;
use std::io::{self, IsTerminal, Write};

use anstyle::{AnsiColor, Style};
use clap::Args;
use roost_wire::{printable, printable_json, printable_lines};
use serde::Serialize;
use serde_json::json;

use crate::table::Table;

/// The version of every JSON object that a command prints. Fields are only ever
/// added to it.
pub const SCHEMA: u32 = 2;

#[derive(Debug, thiserror::Error)]
pub enum OutputError {
    /// The reader has closed the pipe. This is no error: the command ends with success.
    #[error("the reader of the output has gone")]
    ClosedPipe,
    /// Another failure, such as a full disk.
    #[error("cannot write the output: {0}")]
    Write(io::Error),
}

impl From<io::Error> for OutputError {
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe { Self::ClosedPipe } else { Self::Write(error) }
    }
}

/// An error of a command, for [`Output::report_error`].
#[derive(Clone, Copy, Debug)]
pub struct ErrorReport<'a> {
    /// The kind of failure, for scripts.
    pub kind: &'a str,
    pub exit: u8,
    /// A sentence that says what is wrong and what to do.
    pub message: &'a str,
    /// The words of a provider's program that declined; for JSON, as `message` quotes them.
    pub provider_reason: Option<&'a str>,
}

impl<'a> ErrorReport<'a> {
    pub const fn new(kind: &'a str, exit: u8, message: &'a str) -> Self {
        Self { kind, exit, message, provider_reason: None }
    }
}

/// The flags that every command has, to be flattened into its own.
#[derive(Clone, Copy, Debug, Default, Args)]
#[command(next_help_heading = "Global options")]
pub struct OutputArgs {
    /// Print JSON (each object carries "schema") instead of tables
    #[arg(long, global = true)]
    pub json: bool,
    /// Print results and errors only, no progress and no notes
    #[arg(short, long, global = true)]
    pub quiet: bool,
    /// Say more
    #[arg(short, long, global = true, conflicts_with = "quiet")]
    pub verbose: bool,
    /// Never colour (also NO_COLOR and TERM=dumb)
    #[arg(long, global = true)]
    pub no_color: bool,
}

impl OutputArgs {
    /// The output that these flags and the environment ask for.
    pub fn output(self) -> Output {
        let Self { json, quiet, verbose, no_color } = self;
        let set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        Output { json, quiet, verbose, plain: no_color || set("NO_COLOR") || dumb, beside_data: false }
    }
}

#[derive(Clone, Copy, Debug)]
pub struct Output {
    json: bool,
    quiet: bool,
    verbose: bool,
    plain: bool,
    beside_data: bool,
}

impl Output {
    /// An output for a command that writes received data to stdout: JSON then goes to stderr, so that the two
    /// do not mix.
    pub fn beside_data(self) -> Self {
        Self { beside_data: true, ..self }
    }

    pub fn is_json(self) -> bool {
        self.json
    }

    /// True if the command prints only errors, and the data that was requested.
    pub fn is_quiet(self) -> bool {
        self.quiet
    }

    /// True if progress may be drawn: stderr is a terminal.
    pub fn shows_progress(self) -> bool {
        !self.quiet && !self.plain && io::stderr().is_terminal()
    }

    /// Writes data. Terminal escapes are made harmless, since the text may come from remotes.
    ///
    /// # Errors
    /// Fails when stdout cannot be written to.
    pub fn data(self, text: &str) -> Result<(), OutputError> {
        self.painted(&printable_lines(text))
    }

    /// Writes data that [`Self::verdict`] has coloured, unescaped: it must contain nothing from remotes.
    ///
    /// # Errors
    /// Fails if stdout cannot be written to.
    pub fn painted(self, text: &str) -> Result<(), OutputError> {
        let mut stdout = io::stdout().lock();
        stdout.write_all(text.as_bytes())?;
        Ok(stdout.flush()?)
    }

    /// Writes a table, with its heading in bold on a terminal.
    ///
    /// # Errors
    /// Fails when stdout cannot be written to.
    pub fn table(self, table: &Table) -> Result<(), OutputError> {
        let bold = !self.plain && io::stdout().is_terminal();
        self.painted(&table.render(|line| if bold { paint(Style::new().bold(), line) } else { line.to_owned() }))
    }

    /// Writes one JSON object on one line.
    ///
    /// # Errors
    /// Fails when stdout cannot be written to.
    pub fn json(self, value: &impl Serialize) -> Result<(), OutputError> {
        if self.beside_data {
            // A closed stderr leaves nobody to inform.
            let _ = io::stderr().write_all(one_line(value).as_bytes());
            return Ok(());
        }
        self.painted(&one_line(value))
    }

    /// Writes a message to stderr, unless `--quiet` is set.
    pub fn say(self, text: impl Display) {
        if !self.quiet {
            self.whisper(indented(&text.to_string()));
        }
    }

    /// Writes a message only with `--verbose`.
    pub fn detail(self, text: impl Display) {
        if self.verbose {
            self.whisper(indented(&text.to_string()));
        }
    }

    /// Reports an error as text on stderr and, if JSON is on, as JSON as well.
    pub fn report_error(self, trouble: ErrorReport<'_>) {
        let ErrorReport { kind, exit, message, provider_reason } = trouble;
        let label = if !self.plain && io::stderr().is_terminal() {
            paint(AnsiColor::Red.on_default().bold(), "error:")
        } else {
            "error:".to_owned()
        };
        if !(self.json && self.beside_data) {
            self.whisper(format!("{label} {}", indented(message)));
        }
        if self.json {
            let mut error = json!({"code": kind, "exit": exit, "message": message});
            if let Some(words) = provider_reason {
                error["provider_reason"] = words.into();
            }
            // The error at hand matters more than a failure to report it.
            let _ = self.json(&json!({"schema": SCHEMA, "error": error}));
        }
    }

    /// `text` in green, if stdout is a terminal.
    pub fn good(self, text: &str) -> String {
        self.coloured(AnsiColor::Green, text)
    }

    /// `text` in red, if stdout is a terminal.
    pub fn bad(self, text: &str) -> String {
        self.coloured(AnsiColor::Red, text)
    }

    fn coloured(self, colour: AnsiColor, text: &str) -> String {
        if self.plain || !io::stdout().is_terminal() { text.to_owned() } else { paint(colour.on_default(), text) }
    }

    fn whisper(self, text: impl Display) {
        // A closed stderr leaves nobody to inform.
        let _ = writeln!(io::stderr(), "{text}");
    }
}

/// Indents all lines but the first: text from remotes must not look like a line of its own.
fn indented(text: &str) -> String {
    let mut lines = text.lines().map(printable);
    let first = lines.next().unwrap_or_default().into_owned();
    lines.fold(first, |text, line| text + "\n  " + &line)
}

fn paint(style: Style, text: &str) -> String {
    format!("{style}{text}{style:#}")
}

fn one_line(value: &impl Serialize) -> String {
    match serde_json::to_string(value) {
        // Text from remotes may be in it.
        Ok(line) => printable_json(&line).into_owned() + "\n",
        // The values printed are maps with string keys and numbers, which always have a JSON form.
        Err(error) => unreachable!("a report always has a JSON form: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use roost_wire::printable::is_plain;

    use super::*;

    #[test]
    fn continuation_lines_are_indented() {
        assert_eq!(indented("one sentence"), "one sentence");
        assert_eq!(indented("a\nerror: \u{1b}forged\n"), "a\n  error: \\u{1b}forged");
    }

    #[test]
    fn json_of_others_commands_nothing() {
        let said = json!({"name": "x\u{9b}2J\u{202e}\u{2028}"});
        let line = one_line(&said);
        assert!(line.trim_end().chars().all(is_plain), "{line:?}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&line).unwrap(), said);
    }
}
