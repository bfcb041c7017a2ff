//! The formats that topologies are written in, and where to.

use std::path::Path;

use clap::ValueEnum;
use roost_emulation::scenario::{Topology, file};
use roost_terminal::Output;

use crate::failure::{Failure, Outcome};

/// A format that a topology can be written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Our own
    Toml,
}

impl Format {
    /// The format that a file's name tells.
    pub(crate) fn of(path: &Path) -> Option<Self> {
        match path.extension()?.to_str()? {
            "toml" => Some(Self::Toml),
            _ => None,
        }
    }

    /// The text of a topology, with a comment at its head.
    pub(crate) fn text(self, topology: &Topology, comment: &str) -> Outcome<String> {
        Ok(match self {
            Self::Toml => file::write(topology, comment),
        })
    }
}

/// Writes a text to a file, or to stdout.
pub(crate) fn deliver(text: &str, file: Option<&Path>, output: Output) -> Outcome {
    let Some(file) = file else { return Ok(output.data(text)?) };
    std::fs::write(file, text).map_err(|error| Failure::file("write", file, &error))?;
    output.say(format!("Wrote {}; look at it with: emulate check {}", file.display(), file.display()));
    Ok(())
}
