//! Three reference implementations in one short C program, compiled before the measurement.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use tempfile::TempDir;

const SOURCE: &str = include_str!("reference.c");

/// The compiled program, which lives as long as this value.
pub(super) struct ReferenceProgram(TempDir);

impl ReferenceProgram {
    /// Compiles it.
    ///
    /// # Errors
    /// A sentence, if the compiler is missing.
    pub(super) fn compile() -> Result<Self, String> {
        let missing = |why: String| format!("what is written in C is not measured: {why}; install gcc and libc6-dev");
        let folder = tempfile::tempdir().map_err(|error| missing(format!("no folder for it ({error})")))?;
        let source = folder.path().join("reference.c");
        fs::write(&source, SOURCE).map_err(|error| missing(format!("it cannot be written ({error})")))?;
        let program = Self(folder);
        let compiled = Command::new("gcc").args(["-O2", "-o"]).arg(program.path()).arg(&source).output();
        let compiled = compiled.map_err(|error| missing(format!("gcc does not start ({error})")))?;
        let said = String::from_utf8_lossy(&compiled.stderr);
        let first = said.lines().find(|line| line.contains("error")).unwrap_or("gcc failed").to_owned();
        if compiled.status.success() { Ok(program) } else { Err(missing(first)) }
    }

    pub(super) fn path(&self) -> PathBuf {
        self.0.path().join("reference")
    }
}
