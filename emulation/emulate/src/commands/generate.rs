//! `emulate completions` and `emulate man`: made from the definition of the command line.

use std::path::PathBuf;

use clap::Args;
use roost_terminal::{Output, generate};

use crate::definition;
use crate::failure::{CommandResult, Failure};

/// `emulate completions`.
#[derive(Debug, Args)]
pub(crate) struct CompletionsArgs {
    /// The shell
    shell: generate::Shell,
}

/// `emulate man`.
#[derive(Debug, Args)]
pub(crate) struct ManArgs {
    /// The directory, made if it is not there
    dir: PathBuf,
}

/// Prints the completion script of a shell.
pub(crate) fn completions(args: &CompletionsArgs, output: Output) -> CommandResult {
    Ok(output.data(&generate::completions(definition(), args.shell))?)
}

/// Writes a manual page for the command and one for each of its commands.
pub(crate) fn man(args: &ManArgs, output: Output) -> CommandResult {
    let made = generate::man(definition(), &args.dir);
    made.map_err(|error| Failure::file("write the manual pages into", &args.dir, &error))?;
    output.say(format!("Read them with: man {}/emulate.1", args.dir.display()));
    Ok(())
}
