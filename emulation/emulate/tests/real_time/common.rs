//! Helpers that run the command.

use std::io::{Read as _, Write as _};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

pub(crate) struct Folder(TempDir);

impl Folder {
    /// A new one with one file.
    pub(crate) fn with(name: &str, text: &str) -> Self {
        let folder = Self(tempfile::tempdir().unwrap());
        folder.write(name, text);
        folder
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        std::fs::write(self.0.path().join(name), text).unwrap();
    }

    pub(crate) fn path(&self) -> &std::path::Path {
        self.0.path()
    }

    /// Runs the command in it, without a terminal.
    pub(crate) fn emulate(&self, args: &[&str]) -> Output {
        self.command().args(args).stdin(Stdio::null()).output().unwrap()
    }

    pub(crate) fn emulate_with(&self, args: &[&str], input: &str) -> Output {
        let mut command = self.command();
        command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        child.wait_with_output().unwrap()
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

/// The messages on stderr, without those about every lab on this machine.
pub(crate) fn said(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stderr);
    let is_of_the_machine = |line: &str| line.starts_with("warning: ") && line.contains("this system");
    text.split_inclusive('\n').filter(|line| !is_of_the_machine(line)).collect()
}

pub(crate) fn json(bytes: &[u8]) -> Value {
    serde_json::from_slice(bytes).unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(bytes)))
}

/// The command on a terminal, which `script` of util-linux provides.
pub(crate) struct TestTerminal {
    child: Child,
    shown: Receiver<Vec<u8>>,
    seen: String,
}

impl TestTerminal {
    pub(crate) fn start(folder: &Folder, args: &[&str]) -> Self {
        Self::run(folder, &format!("exec EMULATE {}", args.join(" ")))
    }

    /// Runs a line of `sh` in a folder; `EMULATE` is the path of the command.
    pub(crate) fn run(folder: &Folder, line: &str) -> Self {
        let line = line.replace("EMULATE", &Self::program());
        let mut script = Command::new("script");
        script.current_dir(folder.0.path()).env("TERM", "xterm").env("HOME", folder.0.path()).env("SHELL", "/bin/sh");
        script.args(["-qfec", &line, "/dev/null"]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = script.spawn().unwrap();
        let (sender, shown) = channel();
        let mut output = child.stdout.take().unwrap();
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(count @ 1..) = output.read(&mut buffer) {
                if sender.send(buffer[..count].to_vec()).is_err() {
                    break;
                }
            }
        });
        Self { child, shown, seen: String::new() }
    }

    pub(crate) fn program() -> String {
        program().display().to_string()
    }

    pub(crate) fn send(&mut self, text: &str) {
        self.child.stdin.as_mut().unwrap().write_all(text.as_bytes()).unwrap();
    }

    /// Waits until this text appears, after the previous one.
    pub(crate) fn await_text(&mut self, text: &str) {
        loop {
            if let Some(at) = self.seen.find(text) {
                self.seen.drain(..at + text.len());
                return;
            }
            match self.shown.recv_timeout(Duration::from_secs(20)) {
                Ok(bytes) => self.seen.push_str(&String::from_utf8_lossy(&bytes)),
                Err(error) => panic!("`{text}` is not shown ({error}), but: {}", self.seen),
            }
        }
    }

    /// Waits for its end; returns its exit code.
    pub(crate) fn end(mut self) -> Option<i32> {
        self.child.wait().unwrap().code()
    }
}

impl Drop for TestTerminal {
    fn drop(&mut self) {
        // The program has ended already unless the test failed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
