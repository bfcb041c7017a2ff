//! A small Roost network of real daemons on loopback, set up with the commands that an operator would use.

use std::fs;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::Value;
use tempfile::TempDir;

use crate::process::{Process, binary, run, wait_until};

/// The longest time for a daemon to come up or to notice something, on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// A group, and the daemons that were started in it.
pub struct Network {
    folder: TempDir,
}

pub struct Daemon {
    pub process: Process,
    client: Client,
}

/// `roost` against one daemon.
pub struct Client {
    pub socket: PathBuf,
    pub log: PathBuf,
}

impl Network {
    /// A network with a fresh group and no daemons.
    pub fn new() -> Self {
        Self::with(&[])
    }

    /// A network whose group has a datum, with cells of a kilometer.
    pub fn at(origin: &str) -> Self {
        Self::with(&["--origin", origin, "--cell", "1km"])
    }

    fn with(arguments: &[&str]) -> Self {
        let network = Self { folder: TempDir::new().expect("a temporary folder") };
        network.roost_ok(&[&["group", "init", &network.group(), "--name", "grove"], arguments].concat());
        network
    }

    /// The group's folder.
    pub fn group(&self) -> String {
        self.path("grove").display().to_string()
    }

    /// A path in the network's folder.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Issues an identity and returns its folder.
    pub fn identity(&self, name: &str, role: &str) -> PathBuf {
        let folder = self.path(&format!("id-{name}"));
        self.roost_ok(&["group", "issue", &self.group(), name, "--role", role, "-o", &text(&folder)]);
        folder
    }

    /// Starts a super node that listens on all transports.
    pub fn supernode(&self, name: &str, arguments: &[&str]) -> Daemon {
        let identity = self.identity(name, "supernode");
        self.start("supernode", name, &identity, arguments).ready()
    }

    /// Starts two super nodes, `sn1` and `sn2`, and waits until they are connected.
    pub fn pair(&self) -> [Daemon; 2] {
        let first = self.supernode("sn1", &[]);
        let second = self.supernode("sn2", &["--sibling", &first.endpoint("udp")]);
        for hub in [&first, &second] {
            hub.wait_for("the hubs have not met", |status| (status["index"]["hubs"] == 1).then_some(()));
        }
        [first, second]
    }

    pub fn server(&self, name: &str) -> Daemon {
        let identity = self.identity(name, "server");
        self.start("cs-server", name, &identity, &[]).ready()
    }

    /// Starts a node at a cell and waits until it is attached.
    pub fn node(&self, name: &str, at: &str, arguments: &[&str]) -> Daemon {
        let identity = self.identity(name, "node");
        let mut all = vec!["--at", at];
        all.extend_from_slice(arguments);
        self.start("overlay-node", name, &identity, &all).ready()
    }

    /// Starts a daemon on ports of the system's choice, without waiting for it.
    pub fn start(&self, program: &str, name: &str, identity: &Path, arguments: &[&str]) -> Daemon {
        let mut command = Command::new(binary(program));
        command.arg("--identity").arg(identity).arg("--socket").arg(self.client(name).socket);
        for scheme in ["udp", "tcp", "quic"].iter().filter(|_| !arguments.contains(&"--listen")) {
            command.args(["--listen", &format!("{scheme}://127.0.0.1:0")]);
        }
        command.args(arguments);
        let client = self.client(name);
        let process = Process::start(command, client.log.clone()).expect("the daemon starts");
        Daemon { process, client }
    }

    /// The client of a daemon of this name.
    pub fn client(&self, name: &str) -> Client {
        Client { socket: self.path(&format!("{name}.sock")), log: self.path(&format!("{name}.log")) }
    }

    /// Runs `roost` and returns its output.
    pub fn roost_ok(&self, arguments: &[&str]) -> String {
        let output = run("roost", arguments);
        assert!(output.status.success(), "roost {arguments:?} failed:\n{}", describe(&output));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }
}

impl Default for Network {
    fn default() -> Self {
        Self::new()
    }
}

impl Deref for Daemon {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.client
    }
}

impl Daemon {
    /// Waits until the daemon serves, as [`Client::wait_ready`] does.
    pub fn ready(self) -> Self {
        self.wait_ready();
        self
    }
}

impl Client {
    /// Waits until the daemon serves: a hub listens, a node is attached.
    ///
    /// # Panics
    /// Panics with the log if it does not within [`PATIENCE`].
    pub fn wait_ready(&self) {
        let states = ["listening", "attached", "multicast-only"];
        let up = wait_until(PATIENCE, || self.status().filter(|status| states.iter().any(|s| status["state"] == *s)));
        assert!(up.is_some(), "the daemon did not get ready; its log:\n{}", self.log());
    }

    pub fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// The sum of the daemon's metrics of a name that have a text in their labels.
    ///
    /// # Panics
    /// Panics if the daemon does not serve them.
    pub fn metric(&self, name: &str, label: &str) -> f64 {
        let mut curl = Command::new("curl");
        curl.args(["-sS", "--fail", "--unix-socket"]).arg(&self.socket).arg("http://roost/metrics");
        let output = curl.output().expect("curl starts");
        assert!(output.status.success(), "{}", describe(&output));
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let samples = text.lines().filter(|line| line.starts_with(name) && line.contains(label));
        samples.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
    }

    /// Waits until `look` accepts the daemon's status, and returns its result.
    ///
    /// # Panics
    /// Panics with the status and the log if it does not within [`PATIENCE`].
    pub fn wait_for<T>(&self, what: &str, mut look: impl FnMut(&Value) -> Option<T>) -> T {
        let found = wait_until(PATIENCE, || look(&self.status()?));
        found.unwrap_or_else(|| panic!("{what}: {:#?}\n{}", self.status(), self.log()))
    }

    /// The number of the node's run: the second in which it started.
    ///
    /// # Panics
    /// Panics if it does not answer.
    pub fn run(&self) -> u64 {
        let status = self.status().expect("a ready daemon answers");
        let run = status["record"].as_str().and_then(|record| record.split_once('.')?.0.parse().ok());
        run.expect("a node has a record")
    }

    /// Waits until a node that starts has a later run.
    ///
    /// # Panics
    /// Panics if the clock stands still.
    pub fn await_later_run(&self) {
        let run = self.run();
        let is_over = || (UNIX_EPOCH + Duration::from_secs(run + 1) <= SystemTime::now()).then_some(());
        assert!(wait_until(PATIENCE, is_over).is_some(), "{run}");
    }

    /// `roost status --json`, if it answers.
    pub fn status(&self) -> Option<Value> {
        let output = self.roost(&["status", "--json"]);
        if output.status.success() { serde_json::from_slice(&output.stdout).ok() } else { None }
    }

    /// The daemon's endpoint of a transport, with the port that the system chose.
    pub fn endpoint(&self, scheme: &str) -> String {
        let status = self.status().expect("a ready daemon answers");
        let listen = status["listen"].as_array().expect("a list of endpoints").clone();
        let endpoint = listen.iter().filter_map(Value::as_str).find(|endpoint| endpoint.starts_with(scheme));
        endpoint.expect("it listens on that transport").to_owned()
    }

    /// `roost` against this daemon, not yet started.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(binary("roost"));
        command.arg("--socket").arg(&self.socket).args(arguments).stdin(Stdio::null());
        command
    }

    /// Runs `roost` against this daemon.
    pub fn roost(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().expect("roost starts")
    }

    /// Runs `roost --json` against this daemon and returns the object.
    ///
    /// # Panics
    /// Panics if it fails or prints no JSON.
    pub fn json(&self, arguments: &[&str]) -> Value {
        let output = self.roost(&[arguments, &["--json"]].concat());
        assert!(output.status.success(), "roost {arguments:?}:\n{}\n{}", describe(&output), self.log());
        serde_json::from_slice(&output.stdout).expect("JSON on standard output")
    }

    /// Runs `roost` against this daemon, expects an exit code and returns its standard error.
    ///
    /// # Panics
    /// Panics if it ends with another code.
    pub fn fails(&self, code: i32, arguments: &[&str]) -> String {
        let output = self.roost(arguments);
        assert_eq!(output.status.code(), Some(code), "roost {arguments:?}:\n{}", describe(&output));
        String::from_utf8_lossy(&output.stderr).into_owned()
    }
}

pub fn text(path: &Path) -> String {
    path.display().to_string()
}

fn describe(output: &Output) -> String {
    let part = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    format!("{}\n{}{}", output.status, part(&output.stdout), part(&output.stderr))
}
