//! `emulate report`: writes the page, the figures and the tables of results again.

use std::path::PathBuf;

use clap::Args;
use roost_report::{WriteError, WrittenReport};
use roost_terminal::{Output, SCHEMA, Table};
use serde_json::json;

use crate::failure::{CommandResult, Failure, FailureCode};

/// The most reasons to distrust figures that a terminal shows.
const REASONS: usize = 3;

/// `emulate report`.
#[derive(Debug, Args)]
pub(crate) struct ReportArgs {
    /// The folder of a run, or one with runs in it
    dir: PathBuf,
}

/// Writes the report of a run, or of each run in the folder and the page about all of them.
pub(crate) fn run(args: &ReportArgs, output: Output) -> CommandResult {
    let runs = roost_report::runs(&args.dir).map_err(failure)?;
    let is_one = runs.len() == 1 && runs[0] == args.dir;
    if is_one {
        return print_report(&roost_report::write(&args.dir).map_err(failure)?, output);
    }
    for folder in &runs {
        match roost_report::write(folder) {
            Ok(written) => output.detail(written.page.display()),
            // The page about all of them names it as well.
            Err(error) => output.say(error),
        }
    }
    print_report(&roost_report::combine(&args.dir).map_err(failure)?, output)
}

/// Prints the files and the main figures; fails with a code of its own if they cannot be trusted.
pub(crate) fn print_report(written: &WrittenReport, output: Output) -> CommandResult {
    if output.is_json() {
        output.json(&json!({
            "schema": SCHEMA,
            "page": written.page,
            "files": written.files,
            "measures": written.measures,
            "distrust": written.distrust_reasons,
            "remarks": written.remarks,
        }))?;
    } else {
        let mut table = Table::new(&["WHAT", "SEEN"]);
        written.headline.iter().for_each(|(name, value)| table.row([name.clone(), value.clone()]));
        output.table(&table)?;
        written.remarks.iter().for_each(|remark| output.say(remark));
        output.say(format!("Look at {}", written.page.display()));
    }
    require_trusted(&written.distrust_reasons, output)
}

/// Fails with a code of its own if there are reasons to distrust the figures. JSON output contains them
/// already.
pub(crate) fn require_trusted(distrust_reasons: &[String], output: Output) -> CommandResult {
    if distrust_reasons.is_empty() {
        return Ok(());
    }
    if output.is_json() {
        return Err(Failure::ProgramExit((FailureCode::Invalid as u8).into()));
    }
    let first = distrust_reasons.iter().take(REASONS).cloned().collect::<Vec<_>>().join("; ");
    let more = match distrust_reasons.len().saturating_sub(REASONS) {
        0 => String::new(),
        more => format!("; and {more} more"),
    };
    Err(Failure::new(FailureCode::Invalid, format!("these figures cannot be trusted: {first}{more}")))
}

/// Converts an error in reading or writing results.
pub(crate) fn failure(error: WriteError) -> Failure {
    match error {
        WriteError::Read(_)
        | WriteError::NoRun { .. }
        | WriteError::Folder { .. }
        | WriteError::Unlike { .. }
        | WriteError::Ending { .. } => Failure::bad_input(error.to_string()),
        _ => Failure::failed(error.to_string()),
    }
}
