//! The group of a run, newly made by the `roost` command.

use std::path::Path;
use std::process::{Command, Stdio};

use super::binaries::Binaries;
use super::error::RunError;

/// The validity of the identities: longer than any run.
const VALID: &str = "30d";

/// Makes a group in `folder`, which must not exist.
pub fn make_group(binaries: &Binaries, folder: &Path) -> Result<(), RunError> {
    roost(Command::new(binaries.path("roost")?).args(["group", "init", "--name", "emulation"]).arg(folder))
}

/// Issues the identity `name` with `role` into the folder `output`.
pub fn issue(binaries: &Binaries, group: &Path, name: &str, role: &str, output: &Path) -> Result<(), RunError> {
    let mut command = Command::new(binaries.path("roost")?);
    command.args(["group", "issue", "--role", role, "--valid", VALID, "-o"]).arg(output).arg(group).arg(name);
    roost(&mut command)
}

fn roost(command: &mut Command) -> Result<(), RunError> {
    let output = command.stdin(Stdio::null()).output();
    let output = output.map_err(|error| RunError::Failed(format!("cannot start roost: {error}")))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(RunError::Failed(format!("roost group did not make an identity: {}", said.trim())))
}
