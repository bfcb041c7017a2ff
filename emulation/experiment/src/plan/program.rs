//! Programs of a plan, beside the daemons or in place of them.

use std::collections::BTreeMap;
use std::time::Duration;

use roost_topology::file::expand_names;
use roost_topology::units::format_duration;
use serde::Deserialize;
use toml::Spanned;

use super::file::PlanLines;
use super::values::{DurationText, Moment};
use super::{Named, PlanError};

/// The longest name of a variable, and the longest value, bytes: the system takes 128 KiB for both.
const MAX_VARIABLE: usize = 255;
const MAX_VALUE: usize = 32 << 10;
const MAX_VARIABLES: usize = 256;
const MAX_COMMAND: usize = 64 << 10;

/// A program, on each of some hosts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanProgram {
    pub name: Named,
    pub hosts: ProgramHosts,
    pub command: String,
    /// The folder in which it starts, relative to the plan's.
    pub folder: Option<String>,
    /// A folder with a root file system, relative to the plan's.
    pub root: Option<Named>,
    pub start: Duration,
    /// The time at which it is asked to end.
    pub stop: Option<Duration>,
    pub timeout: Option<Duration>,
    /// The exit code that means success. Without it a program that is stopped has succeeded, too.
    pub exit: Option<i32>,
    pub environment: BTreeMap<String, String>,
    /// True if its output is searched for measurements.
    pub measure: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProgramHosts {
    Hosts(Vec<Named>),
    Class(Named),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ProgramFile {
    name: Spanned<String>,
    host: Option<Spanned<NamesFile>>,
    class: Option<Spanned<String>>,
    command: Spanned<String>,
    folder: Option<String>,
    root: Option<Spanned<String>>,
    start: Option<Spanned<Moment>>,
    stop: Option<Spanned<Moment>>,
    timeout: Option<Spanned<DurationText>>,
    exit: Option<Spanned<i64>>,
    #[serde(default)]
    environment: VariablesFile,
    measure: Option<bool>,
}

#[derive(Deserialize)]
#[serde(untagged, expecting = "the name of a host, or a list of names, with or without ranges")]
enum NamesFile {
    One(String),
    Many(Vec<String>),
}

pub(super) type VariablesFile = BTreeMap<Spanned<String>, VariableFile>;

/// The value of a variable, as a text or a number.
#[derive(Deserialize)]
#[serde(untagged, expecting = "a text, a number, or true or false")]
pub(super) enum VariableFile {
    Text(String),
    Whole(i64),
    Decimal(f64),
    Truth(bool),
}

impl VariableFile {
    fn text(self) -> String {
        match self {
            Self::Text(text) => text,
            Self::Whole(whole) => whole.to_string(),
            Self::Decimal(decimal) => decimal.to_string(),
            Self::Truth(truth) => truth.to_string(),
        }
    }
}

impl ProgramFile {
    pub(super) fn read(self, lines: &PlanLines<'_>, duration: Duration) -> Result<PlanProgram, PlanError> {
        let name = lines.named(&self.name);
        let command = lines.named(&self.command);
        if command.name.trim().is_empty() || command.name.len() > MAX_COMMAND || command.name.contains('\0') {
            let message = format!("a command has 1 to {MAX_COMMAND} bytes, and no NUL");
            return Err(lines.error(command.line, message));
        }
        if name.name.ends_with(".out") || name.name.ends_with(".err") {
            let message = "the name of a program does not end in .out or .err, as the files of its output do";
            return Err(lines.error(name.line, message));
        }
        if !is_program_name(&name.name) {
            let message = "the name of a program is 1 to 63 letters, digits, `-`, `_` or `.`, and begins with a letter";
            return Err(lines.error(name.line, message));
        }
        let hosts = hosts(self.host, self.class, &name, lines)?;
        let time = |given: Option<Spanned<Moment>>| {
            given.map(|at| (at.get_ref().resolve_time(duration), lines.line_of(at.span())))
        };
        let (start, start_line) = time(self.start).unwrap_or((Duration::ZERO, name.line));
        let stop = time(self.stop);
        let told = format_duration;
        if start >= duration {
            let message = format!("it starts at {}, and the plan's duration is {}", told(start), told(duration));
            return Err(lines.error(start_line, message));
        }
        if let Some((stop, line)) = stop.filter(|(stop, _)| *stop <= start || *stop > duration) {
            let message =
                format!("it stops at {}: choose a time from {} to {}", told(stop), told(start), told(duration));
            return Err(lines.error(line, message));
        }
        let exit = self.exit.map(|code| {
            let wrong = || lines.error(lines.line_of(code.span()), "an exit code is from 0 to 255");
            u8::try_from(*code.get_ref()).map(i32::from).map_err(|_| wrong())
        });
        let timeout = self.timeout.map(|timeout| match timeout.get_ref().0 {
            Duration::ZERO => Err(lines.error(lines.line_of(timeout.span()), "it must be longer than nothing")),
            length => Ok(length),
        });
        Ok(PlanProgram {
            hosts,
            command: command.name,
            folder: self.folder,
            root: self.root.as_ref().map(|root| lines.named(root)),
            start,
            stop: stop.map(|(stop, _)| stop),
            timeout: timeout.transpose()?,
            exit: exit.transpose()?,
            environment: variables(self.environment, lines)?,
            measure: self.measure.unwrap_or(true),
            name,
        })
    }
}

/// A name is a part of the names of files.
fn is_program_name(name: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    name.len() <= 63 && name.starts_with(|c: char| c.is_ascii_alphabetic()) && name.chars().all(is_plain)
}

fn hosts(
    hosts: Option<Spanned<NamesFile>>,
    class: Option<Spanned<String>>,
    name: &Named,
    lines: &PlanLines<'_>,
) -> Result<ProgramHosts, PlanError> {
    let hosts = match (hosts, class) {
        (Some(hosts), None) => hosts,
        (None, Some(class)) => return Ok(ProgramHosts::Class(lines.named(&class))),
        _ => {
            let message = format!("say where {} runs: either host = \"a\" or class = \"low\"", name.name);
            return Err(lines.error(name.line, message));
        }
    };
    let line = lines.line_of(hosts.span());
    let words = match hosts.into_inner() {
        NamesFile::One(word) => vec![word],
        NamesFile::Many(words) => words,
    };
    let mut named = Vec::new();
    for word in words {
        let names = expand_names(&word).map_err(|message| lines.error(line, message))?;
        named.extend(names.into_iter().map(|name| Named { name, line }));
    }
    if named.is_empty() {
        return Err(lines.error(line, format!("{} runs on no host", name.name)));
    }
    Ok(ProgramHosts::Hosts(named))
}

pub(super) fn variables(file: VariablesFile, lines: &PlanLines<'_>) -> Result<BTreeMap<String, String>, PlanError> {
    if file.len() > MAX_VARIABLES {
        return Err(lines.error(0, format!("has more than {MAX_VARIABLES} variables in one environment")));
    }
    let mut variables = BTreeMap::new();
    for (name, value) in file {
        let named = lines.named(&name);
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let begins = |c: char| c.is_ascii_alphabetic() || c == '_';
        if named.name.len() > MAX_VARIABLE || !named.name.starts_with(begins) || !named.name.chars().all(is_name) {
            let message = format!("`{}` names no variable: use letters, digits and `_`", named.name);
            return Err(lines.error(named.line, message));
        }
        if named.name.starts_with("EMULATE_") {
            let message = format!("`{}` is set by the run: choose a name without EMULATE_", named.name);
            return Err(lines.error(named.line, message));
        }
        let value = value.text();
        if value.len() > MAX_VALUE || value.contains('\0') {
            let message = format!("the value of `{}` is at most {MAX_VALUE} bytes long, without NUL", named.name);
            return Err(lines.error(named.line, message));
        }
        variables.insert(named.name, value);
    }
    Ok(variables)
}
