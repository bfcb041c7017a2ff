//! `roost completions` and `roost man`: made from the definition of the command line.

use roost_terminal::{Output, generate};

use crate::args::{CompletionsArgs, ManArgs, definition};
use crate::failure::{Failure, Outcome};

pub(crate) fn completions(args: &CompletionsArgs, output: Output) -> Outcome {
    Ok(output.data(&generate::completions(definition(), args.shell))?)
}

/// Writes a manual page for the command and one for each of its commands.
pub(crate) fn man(args: &ManArgs, output: Output) -> Outcome {
    let made = generate::man(definition(), &args.dir);
    made.map_err(|error| Failure::file("write the manual pages into", &args.dir, &error))?;
    output.say(format!("Read them with: man {}/roost.1", args.dir.display()));
    Ok(())
}
