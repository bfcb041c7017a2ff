//! The reference page of the command line, made from its definition.

use std::fmt::Write as _;

use clap::{Arg, Command};

use crate::args::definition;
use crate::failure::Outcome;
use crate::output::Output;

/// Prints the page.
pub(crate) fn run(output: Output) -> Outcome {
    output.data(&page())
}

fn page() -> String {
    let mut roost = definition();
    roost.build();
    let mut text = String::from("# Commands\n\nMade by `roost reference`; `roost COMMAND --help` says the same.\n");
    push_text(&mut text, roost.get_before_help().map(ToString::to_string));
    push_text(&mut text, roost.get_after_long_help().map(ToString::to_string));
    text.push_str("\n## Global options\n\n");
    push_arguments(&mut text, roost.get_arguments().filter(|argument| argument.is_global_set()));
    for command in roost.get_subcommands() {
        push_command(&mut text, command, "roost");
    }
    text
}

/// A command's section, then those of its own commands.
fn push_command(text: &mut String, command: &Command, parent: &str) {
    if command.is_hide_set() || command.get_name() == "help" {
        return;
    }
    let name = format!("{parent} {}", command.get_name());
    let about = command.get_about().map(ToString::to_string).unwrap_or_default();
    // Writing to a string cannot fail; so for the whole file.
    let _ = write!(text, "\n## `{name}`\n\n{about}.\n");
    push_text(text, command.get_before_help().map(ToString::to_string));
    let own: Vec<&Arg> = command.get_arguments().filter(|argument| is_own(argument)).collect();
    if !own.is_empty() {
        text.push('\n');
        push_arguments(text, own.into_iter());
    }
    for sub in command.get_subcommands() {
        push_command(text, sub, &name);
    }
}

fn is_own(argument: &Arg) -> bool {
    !argument.is_global_set() && !["help", "version"].contains(&argument.get_id().as_str())
}

fn push_text(text: &mut String, block: Option<String>) {
    if let Some(block) = block {
        let _ = write!(text, "\n```text\n{}\n```\n", block.trim_end());
    }
}

fn push_arguments<'a>(text: &mut String, arguments: impl Iterator<Item = &'a Arg>) {
    text.push_str("| argument | meaning | default |\n|---|---|---|\n");
    for argument in arguments {
        let help = argument.get_help().map(ToString::to_string).unwrap_or_default();
        let defaults: Vec<_> = argument.get_default_values().iter().map(|value| value.to_string_lossy()).collect();
        let default = if argument.get_action().takes_values() { defaults.join(" ") } else { String::new() };
        let default = if default.is_empty() { String::new() } else { format!("`{default}`") };
        let _ = writeln!(text, "| `{}` | {} | {default} |", notation(argument), help.replace('|', "\\|"));
    }
}

/// As in `-k N` or `--at X,Y` or `SERVICE`.
fn notation(argument: &Arg) -> String {
    let value = argument.get_value_names().and_then(|names| names.first()).map(ToString::to_string);
    let value = value.filter(|_| argument.get_action().takes_values());
    let short = argument.get_short().map(|short| format!("-{short}"));
    let long = argument.get_long().map(|long| format!("--{long}"));
    let names: Vec<String> = short.into_iter().chain(long).collect();
    match (names.join(", "), value) {
        (names, Some(value)) if names.is_empty() => value,
        (names, Some(value)) => format!("{names} {value}"),
        (names, None) => names,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_and_flag_is_in_the_reference() {
        let page = page();
        for part in ["`roost request`", "`roost group issue`", "`--at X,Y`", "`-k N`", "`--socket PATH`", "  7  "] {
            assert!(page.contains(part), "{part} is missing from:\n{page}");
        }
        assert!(!page.contains("roost reference`\n\nPrint"), "{page}");
    }
}
