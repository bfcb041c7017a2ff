//! `emulate check`: shows the network that was read from a file.

use std::path::{Path, PathBuf};

use clap::Args;
use roost_ns::{LoadError, expect};
use roost_terminal::Output;
use roost_topology::{Topology, describe};
use serde_json::{Value, json};

use crate::failure::{CommandResult, Failure};

/// `emulate check`.
#[derive(Debug, Args)]
pub(crate) struct CheckArgs {
    /// A topology: our own format (.toml) or Emulab's (.ns, .tcl)
    file: PathBuf,
    /// Compare with this listing (JSON), and print only what differs: nothing, and exit code 0, if it is as expected
    #[arg(long, value_name = "LISTING")]
    expect: Option<PathBuf>,
}

pub(crate) fn run(args: &CheckArgs, output: Output) -> CommandResult {
    let wrong = |error: &dyn std::fmt::Display| Failure::bad_input(error.to_string());
    if std::fs::read_to_string(&args.file).is_ok_and(|text| super::run::names_a_topology(&text)) {
        let file = args.file.display();
        return Err(Failure::bad_input(format!("{file} is a plan: `emulate run {file} --check` checks it")));
    }
    let loaded = roost_ns::load(&args.file);
    if let Some(expected) = &args.expect {
        return compare(args, loaded, expected, output);
    }
    let topology = loaded.map_err(|error| wrong(&error))?;
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

/// Prints the differences from a listing, such as one made with Emulab's parser.
fn compare(args: &CheckArgs, loaded: Result<Topology, LoadError>, expected: &Path, output: Output) -> CommandResult {
    let text = std::fs::read_to_string(expected).map_err(|error| Failure::file("read", expected, &error))?;
    let expected: Value = serde_json::from_str(&text)
        .map_err(|error| Failure::bad_input(format!("{} is no listing: {error}", expected.display())))?;
    let wrong = |error: &dyn std::fmt::Display| Failure::bad_input(error.to_string());
    let differences = match loaded {
        Err(error @ LoadError::Wrong { .. }) if expected["emulab_parser"] == "rejects" => {
            output.say(format_args!("refused, as expected: {error}"));
            expect::refusal_differences(&error)
        }
        loaded => {
            let topology = loaded.map_err(|error| wrong(&error))?;
            let ours =
                describe::describe(&topology, &args.file.display().to_string()).map_err(|error| wrong(&error))?;
            expect::differences(&serde_json::to_value(&ours).map_err(|error| wrong(&error))?, &expected)
        }
    };
    if output.is_json() {
        output.json(&json!({ "schema": roost_terminal::SCHEMA, "differences": differences }))?;
    } else {
        differences.iter().try_for_each(|line| output.data(&format!("{line}\n")))?;
    }
    match differences.len() {
        0 => Ok(()),
        count => Err(Failure::failed(format!("{count} differences from what is expected"))),
    }
}
