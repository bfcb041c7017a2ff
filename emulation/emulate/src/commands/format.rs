//! Formats of topologies, and their output.

use std::path::Path;

use clap::ValueEnum;
use roost_drawing::dot;
use roost_report::figure::{NetworkMarks, network};
use roost_terminal::Output;
use roost_topology::{Topology, file, rspec};

use crate::failure::{CommandResult, Failure};

/// A format that a topology can be written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ExportFormat {
    /// Our own
    Toml,
    /// Emulab's, with what it has no words for in comments
    Ns,
    /// A request for CloudLab and Emulab: GENI version 3 XML
    Rspec,
    /// A graph for Graphviz, with positions where hosts have places
    Dot,
    /// A drawing
    Svg,
}

/// The most hosts of a drawing, as on the page of `emulate view`.
const MAX_DRAWN: usize = 20_000;

impl ExportFormat {
    /// The format by the extension of a file.
    pub(crate) fn from_path(path: &Path) -> Option<Self> {
        match path.extension()?.to_str()? {
            "toml" => Some(Self::Toml),
            "ns" | "tcl" => Some(Self::Ns),
            "rspec" | "xml" => Some(Self::Rspec),
            "dot" | "gv" => Some(Self::Dot),
            "svg" => Some(Self::Svg),
            _ => None,
        }
    }

    /// The text of a topology, with a comment at the start if the format has comments; warns about parts that
    /// the format cannot express.
    pub(crate) fn text(self, topology: &Topology, comment: &str, output: Output) -> CommandResult<String> {
        match self {
            Self::Toml => Ok(file::write(topology, comment)),
            Self::Ns => {
                roost_ns::lost(topology).iter().for_each(|lost| output.say(format!("Not in the file: {lost}")));
                roost_ns::write(topology, comment).map_err(|error| Failure::bad_input(error.to_string()))
            }
            Self::Rspec => {
                let request = rspec::write(topology).map_err(|error| Failure::bad_input(error.to_string()))?;
                request.lost.iter().for_each(|lost| output.say(format!("Not in the request: {lost}")));
                Ok(request.text)
            }
            Self::Dot => Ok(dot::write(topology, comment)),
            Self::Svg if topology.hosts.len() > MAX_DRAWN => Err(Failure::bad_input(format!(
                "the network has {} hosts, and a drawing at most {MAX_DRAWN}: use --to dot",
                topology.hosts.len()
            ))),
            Self::Svg => Ok(network(topology, NetworkMarks::default()).standing(&topology.name)),
        }
    }
}

/// Writes a text to a file, or to stdout.
pub(crate) fn write_output(text: &str, file: Option<&Path>, output: Output) -> CommandResult {
    let Some(file) = file else { return Ok(output.data(text)?) };
    std::fs::write(file, text).map_err(|error| Failure::file("write", file, &error))?;
    output.say(format!("Wrote {}", file.display()));
    Ok(())
}
