//! `roost config`: the configuration of a daemon, as the daemon itself sees it.

use std::path::Path;
use std::process::Command;

use crate::args::{ConfigArgs, ConfigCommand};
use crate::failure::{Code, Failure, Outcome};
use crate::output::Output;
use crate::siblings;

/// Runs the daemon's program, which knows its settings, and passes on what it says.
pub(crate) fn run(args: &ConfigArgs, output: Output) -> Outcome {
    match &args.command {
        ConfigCommand::Init { daemon } => ask(daemon.program(), None, &["--print-config"]),
        ConfigCommand::Show { daemon, config } => ask(daemon.program(), config.as_deref(), &["--show-config"]),
        ConfigCommand::Check { daemon, config } => {
            ask(daemon.program(), config.as_deref(), &["--check"])?;
            output.say(format!("The configuration of {} is sound.", daemon.program()));
            Ok(())
        }
    }
}

fn ask(program: &str, config: Option<&Path>, flags: &[&str]) -> Outcome {
    let mut command = Command::new(siblings::program(program)?);
    if let Some(config) = config {
        command.arg("--config").arg(config);
    }
    let status = command.args(flags).status();
    let status = status.map_err(|error| Failure::failed(format!("cannot run {program}: {error}")))?;
    match status.code() {
        Some(0) => Ok(()),
        // The daemons' own codes: 64 usage, 78 configuration.
        Some(64 | 78) => {
            Err(Failure::new(Code::Usage, format!("{program} does not accept its configuration; it says why above")))
        }
        _ => Err(Failure::failed(format!("{program} ended with {status}"))),
    }
}
