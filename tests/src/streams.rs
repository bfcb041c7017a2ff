//! Subscriptions to the built-in video at 5,5, and the streams of daemons.

use std::path::PathBuf;
use std::process::{Child, Stdio};

use serde_json::Value;

use crate::network::{Client, Daemon, Network, PATIENCE};
use crate::process::{signal, wait_until};

/// A subscription in a process.
pub struct Watcher {
    child: Child,
    file: PathBuf,
}

impl Watcher {
    /// `roost subscribe` at a node, or `roost request`, of the video at 5,5.
    pub fn start(network: &Network, node: &Daemon, name: &str, command: &str, length: &str) -> Self {
        Self::spawn_command(network, node, name, &[command, "video", "--at", "5,5", "--for", length])
    }

    /// A subscription until it is told to end.
    pub fn endless(network: &Network, node: &Daemon, name: &str) -> Self {
        Self::spawn_command(network, node, name, &["subscribe", "video", "--at", "5,5"])
    }

    fn spawn_command(network: &Network, node: &Daemon, name: &str, command: &[&str]) -> Self {
        let file = network.path(name);
        let mut roost = node.command(&[command, &["--json", "-o"]].concat());
        let child = roost.arg(&file).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("roost starts");
        Self { child, file }
    }

    /// Ends the process at once, as a crash would.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Sends the command a signal by its name.
    ///
    /// # Panics
    /// Panics if the command has ended.
    pub fn signal(&self, name: &str) {
        signal(self.child.id(), name);
    }

    pub fn has_ended(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(Some(_)))
    }

    /// Tells an endless subscription to end, and returns as [`Self::summary`].
    ///
    /// # Panics
    /// Panics if the command has ended, or fails.
    pub fn finish(self) -> (Value, Vec<u8>) {
        self.signal("INT");
        self.summary()
    }

    /// Waits for a successful end, and returns the summary and the written data.
    ///
    /// # Panics
    /// Panics if the command fails.
    pub fn summary(self) -> (Value, Vec<u8>) {
        let output = self.child.wait_with_output().expect("it ends");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{said}");
        let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        (report["summary"].clone(), std::fs::read(self.file).expect("what it wrote"))
    }

    /// Waits for the end, and returns the exit code and the output.
    ///
    /// # Panics
    /// Panics if the system does not wait for it.
    pub fn fails(self) -> (Option<i32>, String) {
        let output = self.child.wait_with_output().expect("it ends");
        let said = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8_lossy(&said).into_owned())
    }
}

/// The first stream at a daemon that `is_so` accepts.
///
/// # Panics
/// Panics if there is none within [`PATIENCE`].
pub fn stream(daemon: &Client, what: &str, is_so: impl Fn(&Value) -> bool) -> Value {
    let look = || streams(daemon).into_iter().find(|stream| is_so(stream));
    wait_until(PATIENCE, look).unwrap_or_else(|| panic!("{what}: {:#?}\n{}", streams(daemon), daemon.log()))
}

/// All streams at a daemon.
pub fn streams(daemon: &Client) -> Vec<Value> {
    list(&daemon.json(&["streams"])["streams"])
}

pub fn downstreams(stream: &Value) -> Vec<Value> {
    list(&stream["downstreams"])
}

fn list(value: &Value) -> Vec<Value> {
    value.as_array().expect("a list").clone()
}

/// The stream at a daemon once it has `count` downstreams that receive packets.
pub fn sent_to(daemon: &Client, count: usize) -> Value {
    stream(daemon, &format!("sent to {count}"), |stream| {
        let to = downstreams(stream);
        to.len() == count && to.iter().all(|to| to["received"].as_u64() > Some(0))
    })
}

/// Waits until a daemon has no stream any more.
///
/// # Panics
/// Panics if it has one after [`PATIENCE`].
pub fn nothing_flows(daemon: &Client) {
    let is_over = || streams(daemon).is_empty().then_some(());
    assert!(wait_until(PATIENCE, is_over).is_some(), "{:#?}", streams(daemon));
}

/// The kinds of a stream's downstreams, sorted.
pub fn kinds(stream: &Value) -> Vec<String> {
    let mut kinds: Vec<String> =
        downstreams(stream).iter().filter_map(|to| to["kind"].as_str()).map(str::to_owned).collect();
    kinds.sort_unstable();
    kinds
}

/// Checks that a stream came without loss, in whole transport packets, as its summary counts.
///
/// # Panics
/// Panics if it did not.
pub fn is_whole(summary: &Value, written: &[u8]) {
    assert_eq!(summary["reflected"], true, "{summary}");
    assert_eq!((summary["lost"].as_u64(), summary["duplicates"].as_u64()), (Some(0), Some(0)), "{summary}");
    assert!(summary["packets"].as_u64() > Some(100), "{summary}");
    assert_eq!(summary["bytes"].as_u64(), Some(written.len() as u64), "{summary}");
    assert!(written.chunks(188).all(|packet| packet.len() == 188 && packet[0] == 0x47));
}
