//! Documents made from the definition of a command line: help that begins with examples, completions, manual
//! pages.

use std::io;
use std::path::Path;

use clap::Command;

const TEMPLATE: &str = "{about-with-newline}\n{before-help}{usage-heading} {usage}\n\n{all-args}{after-help}";

/// The shells that completions can be made for.
pub use clap_complete::Shell;

/// Puts every command's examples before its options.
pub fn with_examples_first(command: Command) -> Command {
    let names: Vec<String> = command.get_subcommands().map(|sub| sub.get_name().to_owned()).collect();
    let command = command.help_template(TEMPLATE);
    names.into_iter().fold(command, |command, name| command.mut_subcommand(name, with_examples_first))
}

pub fn completions(mut command: Command, shell: Shell) -> String {
    let name = command.get_name().to_owned();
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command, name, &mut script);
    String::from_utf8_lossy(&script).into_owned()
}

/// Writes a manual page for the command and one for each of its commands into a folder, which is created if it
/// does not exist.
///
/// # Errors
/// Fails when the folder or a page cannot be written.
pub fn man(command: Command, folder: &Path) -> io::Result<()> {
    std::fs::create_dir_all(folder)?;
    clap_mangen::generate_to(command, folder)
}
