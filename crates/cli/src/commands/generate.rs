//! `roost completions` and `roost man`: made from the definition of the command line.

use std::fs;

use crate::args::{CompletionsArgs, ManArgs, definition};
use crate::failure::{Failure, Outcome};
use crate::output::Output;

/// Prints the completion script of a shell.
pub(crate) fn completions(args: &CompletionsArgs, output: Output) -> Outcome {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut definition(), "roost", &mut script);
    output.data(&String::from_utf8_lossy(&script))
}

/// Writes a manual page for the command and one for each of its commands.
pub(crate) fn man(args: &ManArgs, output: Output) -> Outcome {
    let made = fs::create_dir_all(&args.dir).and_then(|()| clap_mangen::generate_to(definition(), &args.dir));
    made.map_err(|error| Failure::file("write the manual pages into", &args.dir, &error))?;
    output.say(format!("Read them with: man {}/roost.1", args.dir.display()));
    Ok(())
}
