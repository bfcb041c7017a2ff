//! Running the command.

use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

/// A folder of topologies.
pub(crate) struct Folder(TempDir);

impl Folder {
    /// A new one with one file.
    pub(crate) fn with(name: &str, text: &str) -> Self {
        let folder = Self(tempfile::tempdir().unwrap());
        folder.write(name, text);
        folder
    }

    /// Puts a file into it.
    pub(crate) fn write(&self, name: &str, text: &str) {
        std::fs::write(self.0.path().join(name), text).unwrap();
    }

    /// Runs the command in it, away from any terminal.
    pub(crate) fn emulate(&self, args: &[&str]) -> Output {
        self.command().args(args).stdin(Stdio::null()).output().unwrap()
    }

    fn command(&self) -> Command {
        let mut command = Command::new(program());
        command.current_dir(self.0.path()).env("TERM", "dumb").env("HOME", self.0.path());
        command
    }
}

fn program() -> PathBuf {
    assert_cmd::cargo::cargo_bin!("emulate").to_owned()
}

/// What it said to people.
pub(crate) fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// One JSON value.
pub(crate) fn json(bytes: &[u8]) -> Value {
    serde_json::from_slice(bytes).unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(bytes)))
}
