//! `emulate convert`: the same topology in another format.

use std::path::{Path, PathBuf};

use clap::Args;
use roost_terminal::Output;
use roost_topology::trace;

use super::format::{ExportFormat, write_output};
use crate::failure::{CommandResult, Failure};

/// `emulate convert`.
#[derive(Debug, Args)]
pub(crate) struct ConvertArgs {
    /// A topology: our own format (.toml) or Emulab's (.ns, .tcl)
    file: PathBuf,
    /// The format to write; without it the output's name tells
    #[arg(long, value_enum, value_name = "FORMAT", required_unless_present = "output")]
    to: Option<ExportFormat>,
    /// The file to write instead of stdout
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Reads a topology and writes it in another format.
pub(crate) fn run(args: &ConvertArgs, output: Output) -> CommandResult {
    let mut topology = roost_ns::load(&args.file).map_err(|error| Failure::bad_input(error.to_string()))?;
    let file = args.output.as_deref();
    let folder = |path: &Path| path.parent().map(Path::to_owned);
    if file.is_some_and(|file| folder(file) != folder(&args.file)) {
        trace::name_absolutely(&mut topology);
    }
    let Some(format) = args.to.or_else(|| file.and_then(ExportFormat::from_path)) else {
        return Err(Failure::bad_input("the output's name does not tell its format: add --to"));
    };
    let source = args.file.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    let text = format.text(&topology, &format!("Made from {source} by emulate convert."), output)?;
    write_output(&text, file, output)
}
