//! Reads a daemon once a second, and keeps the picture of what it says.
//!
//! A hub tells every node of its directory. A node watches the four services that every node knows, everywhere.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use roost_api::{Client, ClientError, Status, WatchEvent, WatchQuery};
use roost_wire::{Area, ServiceSet};
use serde_json::json;
use tokio::sync::broadcast;

use crate::picture::{Change, Picture, Rows};
use crate::rows::{self, Rates};

/// The pause between two looks at the daemon.
const PAUSE: Duration = Duration::from_secs(1);

/// Nodes of a hub's directory that a look asks for at once.
const PAGE: u32 = 1000;

/// Nodes beyond which a hub's directory is read every fifth time only.
const MANY_NODES: u64 = 5000;

/// Changes that wait for a slow browser. One that misses some gets the whole picture again.
const BACKLOG: usize = 256;

/// The picture, and word of its changes.
#[derive(Clone, Debug)]
pub struct Feed {
    picture: Arc<Mutex<Picture>>,
    changes: broadcast::Sender<Arc<Change>>,
}

impl Default for Feed {
    fn default() -> Self {
        Self { picture: Arc::default(), changes: broadcast::channel(BACKLOG).0 }
    }
}

fn unix_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as u64
}

impl Feed {
    pub(crate) fn picture(&self) -> MutexGuard<'_, Picture> {
        self.picture.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The picture now, and the changes from there on.
    pub(crate) fn subscribe(&self) -> (Change, broadcast::Receiver<Arc<Change>>) {
        // No change comes in between: the picture is held.
        let picture = self.picture();
        let now = Change { at_ms: picture.at_ms(), set: picture.rows().clone(), gone: Vec::new() };
        (now, self.changes.subscribe())
    }

    /// Puts the rows of a section in place of those before.
    pub(crate) fn replace(&self, section: &str, rows: Rows) {
        let mut picture = self.picture();
        let change = picture.replace(unix_ms(), section, rows);
        self.announce(change);
    }

    fn merge(&self, set: Rows, gone: Vec<String>) {
        let mut picture = self.picture();
        let change = picture.merge(Change { at_ms: unix_ms(), set, gone });
        self.announce(change);
    }

    /// Tells of a change while the picture is held, so that changes come in order.
    fn announce(&self, change: Option<Change>) {
        if let Some(change) = change {
            // Without browsers nobody listens.
            let _ = self.changes.send(Arc::new(change));
        }
    }

    /// Follows the daemon for ever, also over its restarts.
    pub async fn follow(self, client: Client) {
        let mut look = Look { feed: self.clone(), client: client.clone(), rates: Rates::default(), at: None, turn: 0 };
        let mut watch = None;
        loop {
            match look.look().await {
                Ok(status) => {
                    self.say("live", None);
                    if status.index.is_none() && watch.as_ref().is_none_or(tokio::task::JoinHandle::is_finished) {
                        watch = Some(tokio::spawn(watch_nodes(self.clone(), client.clone())));
                    }
                }
                Err(error) => self.say("lost", Some(error.to_string())),
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// The state of the feed itself, a row as any other.
    fn say(&self, state: &str, message: Option<String>) {
        self.replace("feed", Rows::from([("feed/daemon".to_owned(), json!({ "state": state, "message": message }))]));
    }
}

/// The looks at a daemon, one after the other.
struct Look {
    feed: Feed,
    client: Client,
    rates: Rates,
    at: Option<Instant>,
    turn: u64,
}

impl Look {
    async fn look(&mut self) -> Result<Status, ClientError> {
        let client = &self.client;
        let (status, connections, services) = tokio::join!(client.status(), client.connections(), client.services());
        let (status, connections, services) = (status?, connections?, services?);
        let now = Instant::now();
        let since = self.at.replace(now).map_or(PAUSE, |before| now - before);
        self.feed.replace("daemon", rows::daemon(&status));
        self.feed.replace("hub", rows::hubs(&status));
        self.feed.replace("service", rows::services(&services));
        self.feed.replace("connection", self.rates.connections(&connections, since));
        self.feed.replace("transfer", self.rates.transfers(&status, since));
        // The servers of the baseline reflect nothing, and say so.
        match self.client.streams().await {
            Ok(streams) => self.feed.replace("stream", rows::streams(&streams)),
            Err(ClientError::Api(_)) => {}
            Err(error) => return Err(error),
        }
        if let Some(index) = &status.index
            && (index.nodes < MANY_NODES || self.turn.is_multiple_of(5))
        {
            let nodes = self.directory().await?;
            self.feed.replace("node", nodes);
        }
        self.turn += 1;
        Ok(status)
    }

    async fn directory(&self) -> Result<Rows, ClientError> {
        let (mut nodes, mut after) = (Rows::new(), None);
        loop {
            let page = self.client.index(PAGE, after).await?;
            nodes.extend(page.nodes.iter().map(rows::node));
            match page.nodes.last() {
                Some(last) if page.nodes.len() == PAGE as usize => {
                    after = last.node.to_string().parse().ok();
                }
                _ => return Ok(nodes),
            }
        }
    }
}

/// Watches the nodes until the daemon ends the watch.
async fn watch_nodes(feed: Feed, client: Client) {
    let everywhere = WatchQuery { services: ServiceSet::ALL, area: Area::Anywhere, place: None, names: true };
    let Ok(mut changes) = client.watch(&everywhere).await else { return };
    let mut is_first = true;
    while let Ok(Some(WatchEvent { present, gone, .. })) = changes.next().await {
        let set: Rows = present.iter().map(rows::node).collect();
        // The first event is the present state.
        if std::mem::take(&mut is_first) {
            feed.replace("node", set);
        } else {
            feed.merge(set, gone.iter().map(|node| format!("node/{node}")).collect());
        }
    }
}
