//! Input lines of `emulate shell`: from a person at a terminal, or from a pipe.

use std::fs;
use std::io::{self, BufRead, IsTerminal, Write};
use std::path::PathBuf;

use roost_topology::Topology;
use rustyline::completion::Completer;
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::FileHistory;
use rustyline::validate::Validator;
use rustyline::{CompletionType, Config, Editor, Helper};

use super::line::{CHANGES, COMMANDS};
use crate::failure::{CommandResult, Failure};

/// Lines that the history keeps between sessions.
const REMEMBERED: usize = 1000;
/// The longest line that is read from a pipe, bytes.
const LONGEST: u64 = 1 << 20;

pub(super) enum Input {
    /// A person, with history and completion.
    Person {
        editor: Box<Editor<Words, FileHistory>>,
        /// The file of its history, if there is a place for it.
        history: Option<PathBuf>,
        prompt: String,
    },
    Pipe,
}

impl Input {
    /// The input for a network; stdin may be a terminal or a pipe.
    pub(super) fn open(topology: &Topology) -> CommandResult<Self> {
        if !io::stdin().is_terminal() {
            return Ok(Self::Pipe);
        }
        let failed = |error: ReadlineError| Failure::failed(format!("cannot read from the terminal: {error}"));
        let config = Config::builder().max_history_size(REMEMBERED).map_err(failed)?;
        let config = config.auto_add_history(true).completion_type(CompletionType::List).build();
        let mut editor = Editor::with_config(config).map_err(failed)?;
        editor.set_helper(Some(Words::from_topology(topology)));
        let history = history_file();
        if let Some(file) = &history {
            // The first time there is no history.
            let _ = editor.load_history(file);
        }
        let name = if topology.name.is_empty() { "emulate" } else { topology.name.as_str() };
        Ok(Self::Person { editor: Box::new(editor), history, prompt: format!("{name}> ") })
    }

    pub(super) const fn is_person(&self) -> bool {
        matches!(self, Self::Person { .. })
    }

    /// The next line; `None` at the end. Ctrl-C at the prompt discards the line.
    pub(super) fn next(&mut self) -> CommandResult<Option<String>> {
        match self {
            Self::Person { editor, prompt, .. } => match editor.readline(prompt.as_str()) {
                Ok(line) => Ok(Some(line)),
                Err(ReadlineError::Interrupted) => Ok(Some(String::new())),
                Err(ReadlineError::Eof) => Ok(None),
                Err(error) => Err(Failure::failed(format!("cannot read from the terminal: {error}"))),
            },
            Self::Pipe => {
                let failed = |error: io::Error| Failure::failed(format!("cannot read the next line: {error}"));
                let mut line = String::new();
                let read = io::Read::take(io::stdin().lock(), LONGEST).read_line(&mut line).map_err(failed)?;
                Ok((read > 0).then_some(line))
            }
        }
    }

    /// Saves the history for the next session.
    pub(super) fn close(&mut self) {
        let Self::Person { editor, history: Some(file), .. } = self else { return };
        // A history that cannot be saved is no reason to fail.
        let _ = file
            .parent()
            .map_or(Ok(()), fs::create_dir_all)
            .and_then(|()| editor.save_history(file).map_err(|error| io::Error::other(error.to_string())));
        let _ = io::stdout().flush();
    }
}

/// `$XDG_STATE_HOME/roost/emulate-history`, else under `~/.local/state`.
fn history_file() -> Option<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let state = set("XDG_STATE_HOME").or_else(|| Some(set("HOME")?.join(".local/state")))?;
    Some(state.join("roost/emulate-history"))
}

pub(super) struct Words {
    hosts: Vec<String>,
    nets: Vec<String>,
}

impl Words {
    fn from_topology(topology: &Topology) -> Self {
        Self {
            hosts: topology.hosts.iter().map(|host| host.name.clone()).collect(),
            nets: topology.nets.iter().map(|net| net.name.clone()).collect(),
        }
    }

    /// The possible last words of a line that begins with `before`.
    fn candidates(&self, before: &str) -> Vec<&str> {
        let words: Vec<&str> = before.split_whitespace().collect();
        let hosts = self.hosts.iter().map(String::as_str);
        let nets = self.nets.iter().map(String::as_str);
        match words.as_slice() {
            [] => COMMANDS.into_iter().chain(hosts).collect(),
            ["on"] => hosts.collect(),
            ["link" | "net"] => nets.chain(hosts).collect(),
            ["link" | "net", first] if self.nets.iter().any(|net| net == first) => {
                CHANGES.into_iter().chain(hosts).collect()
            }
            ["link" | "net", _] => hosts.collect(),
            ["link" | "net", _, "from"] => hosts.collect(),
            ["link" | "net", ..] => CHANGES.to_vec(),
            ["links" | "nets"] => nets.collect(),
            ["linktest", ..] => vec!["--quick", "--only", "--net", "--as-written"],
            // Programs accept names of hosts as arguments.
            [first, ..] if self.hosts.iter().any(|host| host == first) => hosts.collect(),
            _ => Vec::new(),
        }
    }
}

impl Completer for Words {
    type Candidate = String;

    fn complete(&self, line: &str, at: usize, _: &rustyline::Context<'_>) -> rustyline::Result<(usize, Vec<String>)> {
        let before = line.get(..at).unwrap_or(line);
        let start = before.rfind(char::is_whitespace).map_or(0, |space| space + 1);
        let (before, word) = before.split_at(start);
        let fitting = self.candidates(before).into_iter().filter(|candidate| candidate.starts_with(word));
        Ok((start, fitting.map(|candidate| format!("{candidate} ")).collect()))
    }
}

impl Helper for Words {}
impl Highlighter for Words {}
impl Validator for Words {}
impl Hinter for Words {
    type Hint = String;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidates(before: &str) -> Vec<String> {
        let words = Words { hosts: vec!["a".to_owned(), "b".to_owned()], nets: vec!["ab".to_owned()] };
        words.candidates(before).into_iter().map(str::to_owned).collect()
    }

    #[test]
    fn what_fits_is_offered() {
        assert!(candidates("").contains(&"linktest".to_owned()) && candidates("").contains(&"b".to_owned()));
        assert_eq!(candidates("link "), ["ab", "a", "b"]);
        assert_eq!(candidates("link a "), ["a", "b"]);
        assert!(candidates("link ab ").contains(&"b".to_owned()) && candidates("link ab ").contains(&"up".to_owned()));
        assert_eq!(candidates("link ab from "), ["a", "b"]);
        assert_eq!(candidates("link a b "), CHANGES);
        assert_eq!(candidates("links "), ["ab"]);
        assert_eq!(candidates("a ping "), ["a", "b"]);
        assert!(candidates("nobody ").is_empty());
    }
}
