//! A daemon of the demo. The process ends when its value is dropped.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use roost_api::{Client, State, Status};
use tokio::process::{Child, Command};

use crate::failure::{Failure, Outcome};
use crate::programs;

/// The longest time until a daemon serves or is attached.
const READY: Duration = Duration::from_secs(20);

/// Time between two looks at a daemon that is starting.
const LOOK: Duration = Duration::from_millis(20);

/// The longest time for a daemon to leave before it is killed.
const LEAVE: Duration = Duration::from_secs(5);

/// Lines of a daemon's log that are shown when it does not come up.
const LOG_LINES: usize = 3;

pub(super) struct Process {
    name: String,
    child: Child,
    log: PathBuf,
    client: Option<Client>,
    socket: PathBuf,
}

impl Process {
    /// Starts `program` with its socket and log in `folder`.
    pub(super) fn start(program: &str, name: &str, folder: &Path, args: &[String]) -> Outcome<Self> {
        let (socket, log) = (folder.join(format!("{name}.sock")), folder.join(format!("{name}.log")));
        let file = std::fs::File::create(&log).map_err(|error| Failure::file("create", &log, &error))?;
        let child = Command::new(programs::find_program(program)?)
            .arg("--socket")
            .arg(&socket)
            .args(args)
            // Settings of this machine must not leak into the demo.
            .env_clear()
            .envs(std::env::var_os("RUST_BACKTRACE").map(|value| ("RUST_BACKTRACE", value)))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(file)
            .kill_on_drop(true)
            .spawn();
        let child = child.map_err(|error| Failure::failed(format!("cannot start {program}: {error}")))?;
        Ok(Self { name: name.to_owned(), child, log, client: None, socket })
    }

    /// The socket of the local API.
    pub(super) fn socket(&self) -> &Path {
        &self.socket
    }

    /// Waits until the daemon serves or is attached.
    pub(super) async fn ready(&mut self) -> Outcome<Status> {
        let deadline = Instant::now() + READY;
        loop {
            if let Ok(Some(status)) = self.child.try_wait() {
                return Err(self.failed(&format!("ended at once ({status})")));
            }
            if let Some(status) = self.look().await {
                return Ok(status);
            }
            if Instant::now() > deadline {
                return Err(self.failed(&format!("was not ready after {} s", READY.as_secs())));
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// The daemon's status, if it is ready.
    async fn look(&mut self) -> Option<Status> {
        let client = Client::connect(&self.socket).await.ok()?;
        let status = client.status().await.ok()?;
        self.client = Some(client);
        matches!(status.state, State::Listening | State::Attached).then_some(status)
    }

    pub(super) fn client(&self) -> Outcome<&Client> {
        self.client.as_ref().ok_or_else(|| Failure::failed(format!("{} is not ready", self.name)))
    }

    /// Bytes that all sockets of the daemon have sent so far.
    pub(super) async fn sent(&self) -> Outcome<u64> {
        Ok(self.client()?.status().await?.transport.sent_bytes)
    }

    /// Asks the daemon to leave, and kills it if it does not.
    pub(super) async fn stop(mut self) {
        self.leave();
        if tokio::time::timeout(LEAVE, self.child.wait()).await.is_err() {
            // The process ends with `self` in any case.
            let _ = self.child.kill().await;
        }
    }

    /// Kills the daemon without a warning, as when its host loses power.
    pub(super) async fn kill(&mut self) {
        // The process may have ended already.
        let _ = self.child.kill().await;
    }

    /// Asks the daemon to leave without waiting for it.
    pub(super) fn leave(&self) {
        let id = self.child.id().and_then(|id| i32::try_from(id).ok()).and_then(rustix::process::Pid::from_raw);
        if let Some(id) = id {
            // The process may have ended already.
            let _ = rustix::process::kill_process(id, rustix::process::Signal::TERM);
        }
    }

    fn failed(&self, what: &str) -> Failure {
        let log = std::fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = log.lines().rev().take(LOG_LINES).collect();
        let last: Vec<&str> = lines.into_iter().rev().collect();
        let said =
            if last.is_empty() { "it said nothing".to_owned() } else { format!("it said: {}", last.join(" | ")) };
        Failure::failed(format!("{} {what}; {said}", self.name))
    }
}
