//! A wrong command line, explained in one sentence.

use std::error::Error as _;
use std::io::Write as _;
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind};

use crate::output::{ErrorReport, Output, OutputArgs, OutputError};

/// The exit code of a wrong command line.
pub const EXIT: u8 = 2;

/// Prints the requested help, or one sentence on the wrong command line, and returns the exit code.
pub fn explain(error: &clap::Error) -> ExitCode {
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            let printed = error.print().and_then(|()| std::io::stdout().flush()).map_err(OutputError::from);
            match printed {
                Err(unwritten @ OutputError::Write(_)) => {
                    output().report_error(ErrorReport::new("failed", 1, &unwritten.to_string()));
                    ExitCode::FAILURE
                }
                _ => ExitCode::SUCCESS,
            }
        }
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            let _ = error.print();
            ExitCode::from(EXIT)
        }
        _ => {
            output().report_error(ErrorReport::new("usage", EXIT, &sentence(error)));
            ExitCode::from(EXIT)
        }
    }
}

/// The output that the raw command line requests, since it could not be parsed.
fn output() -> Output {
    let given = |flag: &str| std::env::args_os().take_while(|arg| arg != "--").any(|arg| arg == flag);
    OutputArgs { json: given("--json"), no_color: given("--no-color"), ..OutputArgs::default() }.output()
}

pub fn sentence(error: &clap::Error) -> String {
    if let (Some(ContextValue::String(flag)), Some(source)) = (error.get(ContextKind::InvalidArg), error.source())
        && error.kind() == ErrorKind::ValueValidation
    {
        return format!("{}: {source}", flag_name(flag));
    }
    let rendered = error.render().to_string();
    let first = rendered.split("\n\nUsage:").next().unwrap_or_default();
    let first = first.split("\n\nFor more information").next().unwrap_or_default();
    let words: Vec<&str> = first.trim_start_matches("error: ").split_whitespace().collect();
    format!("{}; `--help` has more", words.join(" ").replace(" tip: ", "; "))
}

/// `--at` of `--at <X,Y>`.
fn flag_name(flag: &str) -> &str {
    flag.split_whitespace().next().unwrap_or(flag).trim_matches(['<', '>'])
}
