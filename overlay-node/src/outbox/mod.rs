//! Files that wait for their receivers: the disk and the transfers, as the machine's outbox decides.

mod deposit;
mod elapsed;
mod leave;
mod offer;
mod store;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use roost_api::server::{ApiError, QueryPairs, json_response};
use roost_api::{Code, OutboxRow, OutboxState, OutboxTotals, Priority, SCHEMA};
use roost_core::node::{
    self, NodeCommand, OfferFault, OutboxCommand, OutboxEnd, OutboxEvent, OutboxItem, OutboxPriority,
};
use roost_runtime::clock::{Clock as _, SystemClock};
use roost_runtime::http::{Response, State};
use roost_wire::{DeliveryId, NodeSelector};
use tokio::sync::{Notify, mpsc};
use tokio::task::AbortHandle;
use tokio::time::{MissedTickBehavior, interval};

use crate::api::leaving;
use crate::node::NodeService;
use deposit::ChunkWaiters;
pub(crate) use deposit::deposit;
use elapsed::NOTE_PAUSE;
use store::{EndNote, Store, StoredDelivery};

#[derive(Debug)]
pub(crate) struct Outbox {
    store: Store,
    /// Wakes the calls that wait for an end.
    ended: Notify,
    delivered: AtomicU64,
    expired: AtomicU64,
    waiters: ChunkWaiters,
}

impl Outbox {
    /// Makes an outbox whose files may take `limit` bytes.
    pub(crate) fn new(folder: PathBuf, limit: u64) -> Self {
        let (ended, delivered, expired) = (Notify::new(), AtomicU64::new(0), AtomicU64::new(0));
        let store = Store::new(folder, limit, SystemClock);
        Self { store, ended, delivered, expired, waiters: ChunkWaiters::default() }
    }

    /// Checks that the folder is writable; makes it if it is absent.
    ///
    /// # Errors
    /// A sentence with the reason.
    pub(crate) fn check(&self) -> Result<(), String> {
        let (folder, probe) = (self.store.folder(), self.store.folder().join(".outbox.new"));
        let made = std::fs::create_dir_all(folder);
        let written = made.and_then(|()| std::fs::write(&probe, "")).and_then(|()| std::fs::remove_file(&probe));
        written.map_err(|error| {
            let folder = folder.display();
            format!("the outbox {folder} cannot be written to: {error}; name a folder that this user may write to")
        })
    }

    /// Takes a chunk that the command brings; false if its session is none of the outbox.
    pub(crate) fn receive_chunk(&self, session: u64, offset: u64, bytes: &Bytes) -> bool {
        self.waiters.receive(session, offset, bytes)
    }

    pub(crate) fn totals(&self) -> OutboxTotals {
        let waiting: Vec<StoredDelivery> = self
            .store
            .all()
            .into_iter()
            .map(|(_, delivery)| delivery)
            .filter(|waiting| waiting.end.is_none())
            .collect();
        let oldest = waiting.iter().map(|delivery| delivery.since_s).min();
        OutboxTotals {
            files: waiting.len() as u64,
            bytes: waiting.iter().map(|delivery| delivery.bytes).sum(),
            oldest_s: oldest.map_or(0, |since_s| unix_s().saturating_sub(since_s)),
            delivered: self.delivered.load(Ordering::Relaxed),
            expired: self.expired.load(Ordering::Relaxed),
        }
    }
}

/// Runs the outbox until the machine is gone, beginning with what was on disk.
pub(crate) async fn run(
    node: NodeService,
    outbox: Arc<Outbox>,
    waiting: Vec<OutboxItem>,
    mut events: mpsc::UnboundedReceiver<OutboxEvent>,
) {
    waiting.into_iter().for_each(|item| node.mailbox.post(NodeCommand::Outbox(OutboxCommand::Deposit(item))));
    let mut offers = BTreeMap::<DeliveryId, AbortHandle>::new();
    let mut notes = interval(NOTE_PAUSE);
    notes.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let event = tokio::select! {
            event = events.recv() => event,
            _ = notes.tick() => {
                note_elapsed(&outbox).await;
                continue;
            }
        };
        let Some(event) = event else { return };
        offers.retain(|_, offer| !offer.is_finished());
        match event {
            OutboxEvent::Look { to } => drop(tokio::spawn(offer::look(node.clone(), to))),
            OutboxEvent::Send { id, to, tries, left } => {
                let offer = offer::OfferTask { id, to, tries, until: SystemClock.passed() + left };
                let task = tokio::spawn(offer.run(node.clone(), Arc::clone(&outbox)));
                offers.insert(id, task.abort_handle());
            }
            OutboxEvent::Leave { id, tries, left } => {
                drop(tokio::spawn(leave::leave(node.clone(), Arc::clone(&outbox), id, tries, left)));
            }
            OutboxEvent::Met { node: met } => leave::keep_certificate(&node, &outbox, met).await,
            OutboxEvent::Stop { id } => {
                offers.remove(&id).into_iter().for_each(|offer| offer.abort());
                let stopped = OutboxCommand::Tried { id, answer: Err(OfferFault::Object("it was stopped".to_owned())) };
                node.mailbox.post(NodeCommand::Outbox(stopped));
            }
            OutboxEvent::Ended { id, end } => note_end(&outbox, id, end).await,
        }
    }
}

async fn note_elapsed(outbox: &Arc<Outbox>) {
    let noting = Arc::clone(outbox);
    let noted = tokio::task::spawn_blocking(move || noting.store.note_elapsed()).await;
    if let Err(error) = noted.map_err(std::io::Error::other).and_then(|noted| noted) {
        tracing::warn!(%error, "the time that passes is not noted in the outbox; a date that goes back lengthens ends");
    }
}

/// Reads what is on disk, before anybody puts a file into the outbox.
pub(crate) async fn load(outbox: &Arc<Outbox>) -> Vec<OutboxItem> {
    let loading = Arc::clone(outbox);
    let loaded = tokio::task::spawn_blocking(move || loading.store.load()).await;
    let waiting = loaded.map_err(std::io::Error::other).and_then(|loaded| loaded).unwrap_or_else(|error| {
        tracing::error!(%error, "the outbox cannot be read; nothing in it is sent, and it takes no file");
        Vec::new()
    });
    let item = |(id, delivery): (DeliveryId, StoredDelivery)| {
        let item = item(&outbox.store, id, &delivery);
        if item.is_none() {
            tracing::error!(%id, "a file of the outbox has no receiver");
        }
        item
    };
    waiting.into_iter().filter_map(item).collect()
}

fn item(store: &Store, id: DeliveryId, delivery: &StoredDelivery) -> Option<OutboxItem> {
    let StoredDelivery { to, priority, since_s, tries, .. } = delivery;
    let to: NodeSelector = to.parse().ok()?;
    let priority = match priority {
        Priority::Low => OutboxPriority::Low,
        Priority::Normal => OutboxPriority::Normal,
        Priority::High => OutboxPriority::High,
    };
    Some(OutboxItem { id, to, priority, since_s: *since_s, left: store.left(delivery), tries: *tries })
}

async fn note_end(outbox: &Arc<Outbox>, id: DeliveryId, end: OutboxEnd) {
    let (state, why) = match end {
        OutboxEnd::Delivered => (OutboxState::Delivered, None),
        OutboxEnd::Expired => (OutboxState::Expired, None),
        OutboxEnd::ExpiredUnconfirmed => {
            (OutboxState::ExpiredUnconfirmed, Some("the receiver did not say whether it has the file".to_owned()))
        }
        OutboxEnd::Refused(reception) => (OutboxState::Refused, Some(crate::sending::refusal(reception).to_owned())),
        OutboxEnd::Cancelled => (OutboxState::Cancelled, None),
    };
    tracing::info!(%id, state = state.name(), why, "a file of the outbox has ended");
    let counter = match state {
        OutboxState::Delivered => Some(&outbox.delivered),
        OutboxState::Expired | OutboxState::ExpiredUnconfirmed => Some(&outbox.expired),
        _ => None,
    };
    if let Some(counter) = counter {
        counter.fetch_add(1, Ordering::Relaxed);
    }
    let noting = Arc::clone(outbox);
    let note = EndNote { state, why, at_s: unix_s() };
    let noted = tokio::task::spawn_blocking(move || noting.store.end(id, note)).await;
    if let Err(error) = noted.map_err(std::io::Error::other).and_then(|noted| noted) {
        tracing::warn!(%id, %error, "the end of a file of the outbox is not on disk; it is found again after a restart");
    }
    outbox.ended.notify_waiters();
}

fn outbox_of(node: &NodeService) -> Result<&Arc<Outbox>, ApiError> {
    let none = || ApiError::new(Code::Refused, "this node has no outbox: set outbox = DIR, or --outbox DIR");
    node.outbox.as_ref().ok_or_else(none)
}

pub(crate) async fn list(State(node): State<NodeService>) -> Result<Response, ApiError> {
    let outbox = outbox_of(&node)?;
    let machine = node.mailbox.inspect(|machine, now| machine.outbox(now)).await.map_err(leaving)?;
    let mut machine: BTreeMap<DeliveryId, node::OutboxRow> = machine.into_iter().map(|row| (row.id, row)).collect();
    let rows = outbox.store.all().into_iter().map(|(id, delivery)| row(&node, id, delivery, machine.remove(&id)));
    let mut files: Vec<OutboxRow> = rows.collect();
    files.sort_by_key(|row| (row.state.has_ended(), row.since_unix_s, row.id.clone()));
    Ok(json_response(&roost_api::Outbox { schema: SCHEMA, files }))
}

fn row(service: &NodeService, id: DeliveryId, delivery: StoredDelivery, machine: Option<node::OutboxRow>) -> OutboxRow {
    let StoredDelivery { to, node, name, bytes, priority, since_s, until_s, tries, end, .. } = delivery;
    let (state, obstacle) = match (end, &machine) {
        (Some(EndNote { state, why, .. }), _) => (state, why),
        (None, Some(row)) => {
            let state = match row.state {
                node::OutboxState::Waiting => OutboxState::Waiting,
                node::OutboxState::Sending => OutboxState::Sending,
                node::OutboxState::Settling => OutboxState::Settling,
            };
            (state, obstacle_of(row))
        }
        (None, None) => (OutboxState::Waiting, None),
    };
    let hub = machine.as_ref().and_then(|row| row.left_at.hub);
    let left_at = hub.map(|hub| service.names.get(&service.shared, hub).unwrap_or_else(|| hub.to_string()));
    let tries = machine.map_or(tries, |row| row.tries);
    let (since_unix_s, until_unix_s) = (since_s, until_s);
    let id = id.to_string();
    OutboxRow { id, to, node, name, bytes, priority, state, since_unix_s, until_unix_s, tries, obstacle, left_at }
}

/// The reasons for which a file waits, and for which no hub keeps it.
fn obstacle_of(row: &node::OutboxRow) -> Option<String> {
    let away = row.left_at.obstacle.as_ref().map(|why| format!("no hub keeps it: {why}"));
    let reasons = [row.obstacle.clone(), away].into_iter().flatten().collect::<Vec<_>>();
    (!reasons.is_empty()).then(|| reasons.join("; "))
}

pub(crate) async fn cancel(State(node): State<NodeService>, pairs: QueryPairs) -> Result<(), ApiError> {
    let outbox = outbox_of(&node)?;
    let id: DeliveryId = roost_api::query::Params::new(&pairs, &["id"])?.required("id")?;
    match outbox.store.get(id) {
        None => Err(ApiError::new(Code::NotFound, format!("no file {id} is in the outbox"))),
        Some(StoredDelivery { end: Some(end), .. }) => {
            Err(ApiError::new(Code::Refused, format!("file {id} has ended already: {}", end.state.name())))
        }
        Some(_) => {
            let cancel = NodeCommand::Outbox(OutboxCommand::Cancel { id });
            node.mailbox.command(cancel).await.map_err(leaving)
        }
    }
}

/// The wall clock, Unix seconds; 1970 if it is before that.
fn unix_s() -> u64 {
    SystemClock.date().as_secs()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folder_that_cannot_be_written_is_explained() {
        let parent = tempfile::tempdir().unwrap();
        let folder = parent.path().join("file");
        std::fs::write(&folder, "").unwrap();
        let refused = Outbox::new(folder, 1).check().unwrap_err();
        assert!(refused.contains("this user may write to"), "{refused}");
    }
}
