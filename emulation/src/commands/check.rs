//! `emulate check`: the network that a file was understood as.

use std::path::PathBuf;

use clap::Args;
use roost_emulation::scenario::{self, describe};
use roost_terminal::Output;

use crate::failure::{Failure, Outcome};

/// `emulate check`.
#[derive(Debug, Args)]
pub(crate) struct CheckArgs {
    /// A topology: our own format (.toml) or Emulab's (.ns, .tcl)
    file: PathBuf,
}

/// Reads a topology and shows what it was understood as.
pub(crate) fn run(args: &CheckArgs, output: Output) -> Outcome {
    let wrong = |error: &dyn std::fmt::Display| Failure::bad_input(error.to_string());
    let topology = scenario::load(&args.file).map_err(|error| wrong(&error))?;
    if output.is_json() {
        let source = args.file.display().to_string();
        let description = describe::describe(&topology, &source).map_err(|error| wrong(&error))?;
        return Ok(output.json(&description)?);
    }
    let sections = describe::sections(&topology).map_err(|error| wrong(&error))?;
    for (index, section) in sections.iter().enumerate() {
        let gap = if index == 0 { "" } else { "\n" };
        output.data(&format!("{gap}{}\n", section.title))?;
        output.table(&section.table)?;
    }
    Ok(())
}
