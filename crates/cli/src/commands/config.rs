//! `roost config`: the configuration of a daemon, as the daemon itself sees it.

use std::path::Path;
use std::process::Command;

use roost_terminal::{Output, SCHEMA};
use serde_json::json;

use crate::args::{ConfigArgs, ConfigCommand, Daemon};
use crate::failure::{Code, Failure, Outcome};
use crate::programs;

/// Runs the daemon's program, which knows its settings, and passes on its output.
pub(crate) fn run(args: &ConfigArgs, output: Output) -> Outcome {
    match &args.command {
        ConfigCommand::Init { daemon } => print(*daemon, &ask(*daemon, None, &["--print-config"])?, output),
        ConfigCommand::Show { daemon, config } => {
            print(*daemon, &ask(*daemon, config.as_deref(), &["--print-config", "--origin"])?, output)
        }
        ConfigCommand::Check { daemon, config } => {
            ask(*daemon, config.as_deref(), &["--check"])?;
            if output.is_json() {
                return Ok(output.json(&json!({"schema": SCHEMA, "daemon": daemon.program(), "sound": true}))?);
            }
            Ok(output.data(&format!("the configuration of {} is sound\n", daemon.program()))?)
        }
    }
}

fn print(daemon: Daemon, toml: &str, output: Output) -> Outcome {
    if output.is_json() {
        return Ok(output.json(&json!({"schema": SCHEMA, "daemon": daemon.program(), "toml": toml}))?);
    }
    Ok(output.data(toml)?)
}

/// The output of the daemon's program with these flags.
fn ask(daemon: Daemon, config: Option<&Path>, flags: &[&str]) -> Outcome<String> {
    let program = daemon.program();
    let mut command = Command::new(programs::find_program(program)?);
    if let Some(config) = config {
        command.arg("--config").arg(config);
    }
    let ran = command.args(flags).output();
    let ran = ran.map_err(|error| Failure::failed(format!("cannot run {program}: {error}")))?;
    let code = match ran.status.code() {
        Some(0) => return Ok(String::from_utf8_lossy(&ran.stdout).into_owned()),
        // The daemons' own codes: 64 usage, 78 configuration.
        Some(64 | 78) => Code::Usage,
        _ => Code::Failed,
    };
    let said = String::from_utf8_lossy(&ran.stderr);
    let sentence = said.lines().map(str::trim).find(|line| !line.is_empty());
    let silent = || format!("{program} ended with {}", ran.status);
    Err(Failure::new(code, sentence.map_or_else(silent, ToOwned::to_owned)))
}
