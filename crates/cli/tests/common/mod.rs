use std::process::{Command, Output, Stdio};

use serde_json::Value;

/// Runs `roost` away from any terminal and any daemon of this machine.
pub(crate) fn roost(args: &[&str]) -> Output {
    let mut command = Command::new(assert_cmd::cargo::cargo_bin!("roost"));
    command.args(args).stdin(Stdio::null()).env_remove("ROOST_SOCKET").env("TERM", "dumb");
    command.output().unwrap()
}

pub(crate) fn json(bytes: &[u8]) -> Value {
    serde_json::from_slice(bytes).unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(bytes)))
}
