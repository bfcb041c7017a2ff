//! Reads a daemon once a second, and keeps the picture of what it says.
//!
//! A hub tells every node of its directory. A node watches everywhere the four services that every node knows, and those
//! of people's own of which it has heard.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use roost_api::{Client, ClientError, Status};
use roost_wire::{NodeId, Role};
use serde::Serialize;
use serde_json::json;
use tokio::sync::broadcast;
use tokio::task::JoinHandle;

use crate::node_watch;
use crate::own_services::OwnServices;
use crate::picture::{Change, Picture, Rows, RunFull};
use crate::rows::{self, Rates};
use crate::slow_look;

/// The pause between two looks at the daemon.
const PAUSE: Duration = Duration::from_secs(1);

/// The longest look: a daemon that takes longer counts as lost.
const PATIENCE: Duration = Duration::from_secs(10);

/// The most nodes that the page shows.
pub(crate) const MAX_NODES: usize = 20_000;

/// Nodes of a hub's directory that a look asks for at once.
const PAGE: u32 = 5_000;

/// Nodes beyond which a hub's directory is read every fifth time only.
const MANY_NODES: u64 = 5_000;

/// Changes that wait for a slow browser. One that misses some gets the whole picture again.
const BACKLOG: usize = 16;

/// Changes of a run that wait for a slow browser: its picture keeps them anyway.
const RUN_BACKLOG: usize = 4096;

/// The picture, and word of its changes.
#[derive(Clone, Debug)]
pub struct Feed {
    picture: Arc<Mutex<Picture>>,
    changes: broadcast::Sender<Arc<Change>>,
    pub(crate) own_services: OwnServices,
}

/// The whole picture, as a browser gets it first. Times are Unix milliseconds.
#[derive(Debug, Serialize)]
pub(crate) struct Snapshot {
    from_ms: u64,
    at_ms: u64,
    /// The time at which the browser gets it.
    now_ms: u64,
    set: Rows,
}

impl Default for Feed {
    fn default() -> Self {
        Self { picture: Arc::default(), changes: broadcast::channel(BACKLOG).0, own_services: OwnServices::default() }
    }
}

fn unix_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as u64
}

impl Feed {
    /// An empty feed of a run, to which [`Self::add`] adds.
    pub fn of_run() -> Self {
        Self { picture: Arc::default(), changes: broadcast::channel(RUN_BACKLOG).0, ..Self::default() }
    }

    /// Adds a change to the picture of a run.
    ///
    /// # Errors
    /// Fails when the picture is full.
    pub fn add(&self, change: Change) -> Result<(), RunFull> {
        let mut picture = self.picture();
        let change = picture.insert(change)?;
        self.announce(Some(change));
        Ok(())
    }

    /// Sets a row for the whole run, also in a full picture: it is for the few words about the run itself.
    pub fn set_for_run(&self, key: &str, row: serde_json::Value) {
        let mut picture = self.picture();
        let change = picture.set_for_run(key, row);
        self.announce(Some(change));
    }

    pub(crate) fn picture(&self) -> MutexGuard<'_, Picture> {
        self.picture.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The picture now, and the changes from there on.
    pub(crate) fn subscribe(&self) -> (Snapshot, broadcast::Receiver<Arc<Change>>) {
        // No change comes in between: the picture is held.
        let picture = self.picture();
        let (from_ms, at_ms, set) = (picture.history_start_ms(), picture.at_ms(), picture.rows().clone());
        (Snapshot { from_ms, at_ms, now_ms: unix_ms(), set }, self.changes.subscribe())
    }

    /// Puts the rows of a section in place of those before.
    pub(crate) fn replace(&self, section: &str, rows: Rows) {
        let mut picture = self.picture();
        let change = picture.replace(unix_ms(), section, rows);
        self.announce(change);
    }

    pub(crate) fn merge(&self, set: Rows, gone: Vec<String>) {
        let mut picture = self.picture();
        let change = picture.merge(Change { at_ms: unix_ms(), set, gone });
        self.announce(change);
    }

    /// Tells of a change while the picture is held, so that changes come in order.
    fn announce(&self, change: Option<Arc<Change>>) {
        if let Some(change) = change {
            // Without browsers nobody listens.
            let _ = self.changes.send(change);
        }
    }

    /// Follows the daemon for ever, also over its restarts.
    pub async fn follow(self, client: Client) {
        let mut look = Look { feed: self.clone(), client, rates: Rates::default(), at: None, turn: 0, daemon: None };
        let mut watch: Option<JoinHandle<()>> = None;
        loop {
            match tokio::time::timeout(PATIENCE, look.look()).await {
                Ok(Ok(status)) => {
                    self.say("daemon", "live", None);
                    let is_ended = watch.as_ref().is_none_or(JoinHandle::is_finished);
                    if status.index.is_none() && is_ended {
                        watch = Some(tokio::spawn(node_watch::watch_nodes(self.clone(), look.client.clone())));
                    }
                }
                Ok(Err(error)) => self.say("daemon", "lost", Some(error.to_string())),
                Err(_) => {
                    let silent = format!("the daemon has not answered for {} s", PATIENCE.as_secs());
                    self.say("daemon", "lost", Some(silent));
                }
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// The state of a part of the feed, a row as any other.
    pub(crate) fn say(&self, part: &str, state: &str, message: Option<String>) {
        let row = json!({ "state": state, "message": message });
        self.merge(Rows::from([(format!("feed/{part}"), row)]), Vec::new());
    }

    pub(crate) fn nodes(&self) -> usize {
        self.node_keys().len()
    }

    pub(crate) fn node_keys(&self) -> Vec<String> {
        self.picture().rows().range("node/".to_owned().."node0".to_owned()).map(|(key, _)| key.clone()).collect()
    }
}

/// The looks at a daemon, one after the other.
struct Look {
    feed: Feed,
    client: Client,
    rates: Rates,
    at: Option<Instant>,
    turn: u64,
    /// The daemon that answered the last look.
    daemon: Option<(NodeId, Role)>,
}

impl Look {
    async fn look(&mut self) -> Result<Status, ClientError> {
        let (status, connections) = tokio::join!(self.client.status(), self.client.connections());
        let (status, connections) = (status?, connections?);
        self.recognize(&status);
        let now = Instant::now();
        let since = self.at.replace(now).map_or(PAUSE, |before| now - before);
        self.feed.replace("daemon", rows::daemon(&status));
        self.feed.replace("hub", rows::hubs(&status));
        self.feed.replace("connection", self.rates.connections(&connections, since));
        self.feed.replace("transfer", self.rates.transfers(&status, since));
        match self.client.streams().await {
            Ok(streams) => self.feed.replace("stream", self.rates.streams(&streams, since)),
            // The servers of the baseline reflect nothing, and say so.
            Err(ClientError::Api(_)) => self.feed.replace("stream", Rows::new()),
            Err(error) => return Err(error),
        }
        let listed = status.index.as_ref().map_or(0, |index| index.nodes + index.replicas);
        if listed < MANY_NODES || self.turn.is_multiple_of(5) {
            let services = self.client.services().await?;
            self.feed.own_services.add(services.services.iter().map(|row| row.service));
            self.feed.replace("service", rows::services(&services));
            if status.index.is_some() {
                let nodes = self.directory().await?;
                self.feed.replace("node", nodes);
                self.say_limit(listed);
            }
        }
        if self.turn.is_multiple_of(slow_look::EVERY) {
            slow_look::look(&self.feed, &self.client, &connections).await?;
        }
        self.turn += 1;
        Ok(status)
    }

    /// Another daemon on the same socket has nothing of what the one before had.
    fn recognize(&mut self, status: &Status) {
        let daemon = Some((status.node, status.role));
        if self.daemon.is_some() && self.daemon != daemon {
            self.feed.replace("node", Rows::new());
            self.rates = Rates::default();
            self.at = None;
        }
        self.daemon = daemon;
    }

    fn say_limit(&self, listed: u64) {
        let limit = format!("the first {MAX_NODES} of {listed} nodes are shown");
        let message = (listed > MAX_NODES as u64).then_some(limit);
        self.feed.say("nodes", if message.is_some() { "partial" } else { "live" }, message);
    }

    /// The nodes of a hub's directory, up to the most that are shown.
    async fn directory(&self) -> Result<Rows, ClientError> {
        let (mut nodes, mut after) = (Rows::new(), None);
        loop {
            let page = self.client.index(PAGE, after).await?;
            nodes.extend(page.nodes.iter().map(rows::node));
            after = page.nodes.last().map(|last| last.node.into());
            if page.nodes.len() < PAGE as usize || nodes.len() >= MAX_NODES {
                return Ok(nodes);
            }
        }
    }
}
