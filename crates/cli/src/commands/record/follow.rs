//! A daemon that is recorded: its status and connections once a second, its requests as they come, and the round trips
//! to its remotes.

use std::path::{Path, PathBuf};
use std::time::Duration;

use roost_api::{Client, ClientError, Code};
use roost_recording::{DaemonRecorder, RecordingLine, Redaction};
use roost_wire::{NodeId, Role};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, MissedTickBehavior, timeout};

const LOOK: Duration = Duration::from_secs(1);
/// The longest time for an answer; a ping may take a round trip of some seconds.
const ANSWER: Duration = Duration::from_secs(10);

pub(super) struct FollowedDaemon {
    pub(super) socket: PathBuf,
    pub(super) recorder: DaemonRecorder,
    pub(super) lines: mpsc::Sender<RecordingLine>,
    pub(super) ping: Duration,
}

impl FollowedDaemon {
    /// Follows it until nobody takes its lines any more, through restarts.
    pub(super) async fn run(mut self) {
        let remotes = watch::Sender::new(Vec::new());
        let requests = Requests {
            socket: self.socket.clone(),
            daemon: self.recorder.daemon(),
            lines: self.lines.clone(),
            redaction: self.recorder.redaction().clone(),
        };
        let pings = Pings {
            socket: self.socket.clone(),
            daemon: self.recorder.daemon(),
            lines: self.lines.clone(),
            pause: self.ping,
        };
        tokio::join!(self.look_on(&remotes), requests.follow(), pings.run(remotes.subscribe()));
    }

    async fn look_on(&mut self, remotes: &watch::Sender<Vec<NodeId>>) {
        let mut looks = tokio::time::interval(LOOK);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            looks.tick().await;
            let began = Instant::now();
            let lines = match timeout(ANSWER, self.look()).await {
                Ok(Ok(lines)) => lines,
                Ok(Err(ClientError::Unreachable { .. })) | Err(_) => {
                    self.recorder.record_silence(began.elapsed()).into_iter().collect()
                }
                // A daemon that answers with an error is not gone: the next look tells more.
                Ok(Err(_)) => Vec::new(),
            };
            remotes.send_replace(self.recorder.remotes());
            for line in lines {
                if self.lines.send(line).await.is_err() {
                    return;
                }
            }
        }
    }

    async fn look(&mut self) -> Result<Vec<RecordingLine>, ClientError> {
        let client = Client::connect(&self.socket).await?;
        let (status, connections) = tokio::join!(client.status(), client.connections());
        let mut lines = self.recorder.record_status(&status?);
        lines.extend(self.recorder.record_connections(&connections?));
        Ok(lines)
    }
}

struct Requests {
    socket: PathBuf,
    daemon: u32,
    lines: mpsc::Sender<RecordingLine>,
    redaction: Redaction,
}

impl Requests {
    /// Passes on the requests at a node; a hub has none.
    async fn follow(self) {
        while !is_hub(&self.socket).await && self.pass().await.is_some() {
            tokio::time::sleep(LOOK).await;
        }
    }

    /// `None` when nobody takes lines, or the daemon is too old to report requests.
    async fn pass(&self) -> Option<()> {
        let open = async { Client::connect(&self.socket).await?.requests().await };
        let mut requests = match timeout(ANSWER, open).await {
            Ok(Ok(requests)) => requests,
            Ok(Err(ClientError::Api(error))) if error.code == Code::NoSuchEndpoint => return None,
            _ => return Some(()),
        };
        while let Ok(Some(request)) = requests.next().await {
            let request = self.redaction.request(request);
            self.lines.send(RecordingLine::Request { daemon: self.daemon, request }).await.ok()?;
        }
        Some(())
    }
}

async fn is_hub(socket: &Path) -> bool {
    let ask = async { Client::connect(socket).await?.status().await };
    matches!(timeout(ANSWER, ask).await, Ok(Ok(status)) if status.role != Role::Node)
}

struct Pings {
    socket: PathBuf,
    daemon: u32,
    lines: mpsc::Sender<RecordingLine>,
    pause: Duration,
}

impl Pings {
    /// Measures one remote after the other, so that measurements do not delay each other.
    async fn run(self, mut remotes: watch::Receiver<Vec<NodeId>>) {
        loop {
            if remotes.wait_for(|remotes| !remotes.is_empty()).await.is_err() {
                return;
            }
            let nodes = remotes.borrow().clone();
            for node in nodes {
                let ask = async { Client::connect(&self.socket).await?.ping(Some(node.into())).await };
                let rtt_ms = match timeout(ANSWER, ask).await {
                    Ok(Ok(ping)) => Some(ping.rtt_ms),
                    // The connection has ended meanwhile.
                    Ok(Err(ClientError::Api(error))) if error.code != Code::TimedOut => continue,
                    Ok(Err(ClientError::Unreachable { .. })) => break,
                    _ => None,
                };
                if self.lines.send(RecordingLine::Ping { daemon: self.daemon, node, rtt_ms }).await.is_err() {
                    return;
                }
            }
            tokio::time::sleep(self.pause).await;
        }
    }
}
