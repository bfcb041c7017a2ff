//! Emulab's NS files, read into descriptions of networks and written from them.
//!
//! An NS file is a Tcl program that makes objects: `set n1 [$ns node]`. It is run here by an evaluator of our
//! own (`tcl`) without access to anything outside the file. The result is that of Emulab's parser: the same
//! names, members, values of every leg, queues, events and programs.
//!
//! Sources: Emulab's tutorial and its reference of NS extensions, ns-2's manual, and the behaviour of Emulab's
//! own parser where these are silent.
//!
//! [`NsLimits`] bound the time and the memory that a file can take. [`load()`] reads a file of either format, this one
//! or our own. [`write()`] makes an NS file and reads it back, so that an export never loses a host or a link.
//! [`expect`] compares a description with the listing of another parser.
//!
//! ```
//! use roost_ns::{self as ns, NsLimits};
//!
//! let source = "set ns [new Simulator]\n set a [$ns node]\n set b [$ns node]\n\
//!     set link0 [$ns duplex-link $a $b 10Mb 40ms DropTail]\n $ns run\n";
//! let topology = ns::parse("two.ns", source, &NsLimits::default()).unwrap();
//! assert_eq!(topology.nets[0].name, "link0");
//!
//! let error = ns::parse("typo.ns", "set ns [new Simulator]\n$ns duplex-link $a", &NsLimits::default()).unwrap_err();
//! assert_eq!(error.to_string(), "typo.ns:2: can't read \"a\": no such variable");
//! ```
#![allow(missing_docs, reason = "only crates of `emulation` import this one")]

mod assigned;
mod build;
mod classes;
mod events;
pub mod expect;
mod export;
mod firewall;
mod load;
mod methods;
mod naming;
mod nets;
mod nodes;
mod schedules;
mod simulator;
mod state;
mod storage;
mod tb;
mod tcl;
mod traffic;
mod units;

#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::fmt;

use roost_topology::Topology;
use roost_topology::validate::{self, ValidationPolicy};

pub use export::{ExportError, lost, write};
pub use load::{LoadError, load, load_text};
use tcl::completion::{TclCompletion, TclError};
use tcl::interp::TclInterpreter;

/// The limits of a file while it is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NsLimits {
    pub source_bytes: usize,
    /// Commands run, iterations of loops, and elements of lists. The limit ends an infinite loop.
    pub steps: u64,
    pub value_bytes: usize,
    /// Variables and array elements that exist at one time.
    pub variables: usize,
    pub procedures: usize,
}

impl Default for NsLimits {
    /// Enough for the largest topology; a file reaches them in a second or two.
    fn default() -> Self {
        Self { source_bytes: 8 << 20, steps: 1_000_000, value_bytes: 1 << 20, variables: 250_000, procedures: 10_000 }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NsError {
    pub file: String,
    /// The line of the failing command, from 1; 0 if no single line is at fault.
    pub line: u32,
    pub message: String,
    /// The procedure that contains the command, and the line that called it.
    pub within: Option<(String, u32)>,
}

impl fmt::Display for NsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.file)?;
        if self.line > 0 {
            write!(f, "{}:", self.line)?;
        }
        write!(f, " {}", self.sentence())
    }
}

impl NsError {
    /// The message without the file and the line.
    pub fn sentence(&self) -> String {
        match &self.within {
            Some((procedure, line)) => format!("{} (in \"{procedure}\", called on line {line})", self.message),
            None => self.message.clone(),
        }
    }
}

impl std::error::Error for NsError {}

/// Reads an NS file; `name` is the name of the file, for messages and for the topology.
///
/// # Errors
/// Fails when Emulab would refuse it (a misspelt name, an unknown unit or command, no `$ns run`), when it accesses
/// anything outside (a file, a process), or when it uses more than `limits` allow.
pub fn parse(name: &str, source: &str, limits: &NsLimits) -> Result<Topology, NsError> {
    let error = |fault: TclError| NsError {
        file: name.to_owned(),
        line: fault.line,
        message: fault.message,
        within: fault.within,
    };
    if source.len() > limits.source_bytes {
        return Err(error(TclError::new(format!("the file is longer than {} bytes", limits.source_bytes))));
    }
    let mut interp = TclInterpreter::new(limits.clone());
    interp.world.file = name.to_owned();
    interp.set_up().map_err(error)?;
    let text = as_read(source);
    let mut end = u32::try_from(text.lines().count()).unwrap_or(u32::MAX).max(1);
    match interp.run_file(&text) {
        Ok(()) => {}
        Err(TclCompletion::Exit) => end = interp.exit_line,
        Err(TclCompletion::Error(fault) | TclCompletion::Refused(fault)) => return Err(error(*fault)),
        // `run_file` turns the others into errors.
        Err(TclCompletion::Break | TclCompletion::Continue | TclCompletion::Return(_)) => {}
    }
    let Some((mut topology, lines)) = interp.world.finished.take() else {
        return Err(error(TclError::at(
            end,
            "the file ends here without a \"$ns run\", which says that all is described",
        )));
    };
    topology.name = title(name);
    topology.notes = interp.world.take_notes();
    let findings = validate::check(&topology, &lines, ValidationPolicy::Lenient);
    if let Some(first) = findings.errors.into_iter().next() {
        return Err(error(TclError::at(first.line, first.text)));
    }
    topology.notes.warnings.extend(findings.warnings);
    topology.notes.warnings.sort();
    Ok(topology)
}

/// The text as Tcl reads it: lines end in `\n`, and a Ctrl-Z ends the file.
fn as_read(source: &str) -> Cow<'_, str> {
    let source = source.strip_prefix('\u{feff}').unwrap_or(source);
    let source = source.split('\u{1a}').next().unwrap_or_default();
    match source.contains('\r') {
        true => source.replace("\r\n", "\n").replace('\r', "\n").into(),
        false => source.into(),
    }
}

/// A file's name without folder and extension.
fn title(name: &str) -> String {
    let file = name.rsplit('/').next().unwrap_or(name);
    match file.rsplit_once('.') {
        Some((stem, _)) if !stem.is_empty() => stem.to_owned(),
        _ => file.to_owned(),
    }
}

impl TclInterpreter {
    fn set_up(&mut self) -> Result<(), TclError> {
        for (name, value) in [
            ("argv0", "emulate"),
            ("argv", ""),
            ("argc", "0"),
            ("tcl_version", "8.6"),
            ("tcl_patchLevel", "8.6.13"),
            ("tcl_interactive", "0"),
            ("tcl_platform(platform)", "unix"),
            ("tcl_platform(os)", "Linux"),
        ] {
            self.set(name, value.into())?;
        }
        self.make_array("env")
    }
}
