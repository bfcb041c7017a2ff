//! A file on its way into the outbox: the command brings it chunk by chunk, as one that is sent at once.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use roost_api::server::{ApiError, json_line};
use roost_api::{Code, Error, JSON_LINES, OutboxState, OutboxTerms, SendEvent, SendQuery};
use roost_core::node::{NodeCommand, OutboxCommand};
use roost_runtime::http::{Body, IntoResponse, Response, header};
use roost_wire::messages::{MAX_DELIVERY_S, MAX_OBJECT_NAME_BYTES};
use roost_wire::object::digest_text;
use roost_wire::{DeliveryId, Role, format_node};
use tokio::sync::{mpsc, oneshot};

use super::store::{EndNote, ReserveError, StoredDelivery};
use super::{Outbox, item, outbox_of, unix_s};
use crate::naming::NameScope;
use crate::node::NodeService;

/// Sessions of the machine count from 1.
const FIRST_SESSION: u64 = 1 << 48;

/// The most bytes of a chunk, as for a file that is sent at once.
const CHUNK_BYTES: u64 = 256 * 1024;

const CHUNK_TIMEOUT: Duration = Duration::from_secs(60);

/// The most files that commands bring at once.
const MAX_DEPOSITS: usize = 16;

/// The longest search for a receiver that may be away, to find out that a name means two nodes.
const NAME_TIMEOUT: Duration = Duration::from_secs(2);

#[derive(Debug)]
struct ChunkWaiter {
    offset: u64,
    sender: oneshot::Sender<Bytes>,
}

/// The sessions of files that commands bring, and who waits for their next chunk.
#[derive(Debug, Default)]
pub(super) struct ChunkWaiters {
    last: AtomicU64,
    waiting: Mutex<BTreeMap<u64, Option<ChunkWaiter>>>,
}

impl ChunkWaiters {
    fn open(&self) -> Option<u64> {
        let session = FIRST_SESSION + self.last.fetch_add(1, Ordering::Relaxed);
        let mut waiting = self.lock();
        if waiting.len() >= MAX_DEPOSITS {
            return None;
        }
        waiting.insert(session, None);
        Some(session)
    }

    fn close(&self, session: u64) {
        self.lock().remove(&session);
    }

    /// The chunk at `offset`, once the command has brought it.
    fn expect(&self, session: u64, offset: u64) -> oneshot::Receiver<Bytes> {
        let (sender, receiver) = oneshot::channel();
        self.lock().insert(session, Some(ChunkWaiter { offset, sender }));
        receiver
    }

    pub(super) fn receive(&self, session: u64, offset: u64, bytes: &Bytes) -> bool {
        let mut waiting = self.lock();
        let Some(waiter) = waiting.get_mut(&session) else { return session >= FIRST_SESSION };
        if let Some(waiter) = waiter.take_if(|waiter| waiter.offset == offset) {
            // A deposit that has ended needs no chunk.
            let _ = waiter.sender.send(bytes.clone());
        }
        true
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, Option<ChunkWaiter>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Closes a session when its deposit ends or is dropped.
struct Session<'a> {
    waiters: &'a ChunkWaiters,
    number: u64,
}

impl Drop for Session<'_> {
    fn drop(&mut self) {
        self.waiters.close(self.number);
    }
}

/// `POST /v1/send?…&until=…`: takes a file into the outbox.
pub(crate) async fn deposit(node: NodeService, query: SendQuery, terms: OutboxTerms) -> Result<Response, ApiError> {
    let outbox = Arc::clone(outbox_of(&node)?);
    check(&node, &query, &terms).await?;
    let (events, lines) = mpsc::channel(1);
    tokio::spawn(async move {
        let (last, id) = match take_in(&node, &outbox, &query, &terms, &events).await {
            Ok(id) => (
                SendEvent::Queued { id: id.to_string(), until_unix_s: terms.until_unix_s },
                Some(id).filter(|_| terms.wait),
            ),
            Err(ApiError(error)) => (SendEvent::Failed { error }, None),
        };
        // A command that has gone hears nothing more; what is in the outbox stays there.
        let is_told = events.send(last).await.is_ok();
        if let Some(id) = id.filter(|_| is_told) {
            tokio::select! {
                () = events.closed() => {}
                end = ended(&outbox, id) => drop(events.send(final_event(&node, &outbox, id, end)).await),
            }
        }
    });
    let lines = futures_util::stream::unfold(lines, |mut lines| async move {
        let event: SendEvent = lines.recv().await?;
        Some((Ok::<_, Infallible>(json_line(&event)), lines))
    });
    Ok(([(header::CONTENT_TYPE, JSON_LINES)], Body::from_stream(lines)).into_response())
}

async fn check(node: &NodeService, query: &SendQuery, terms: &OutboxTerms) -> Result<(), ApiError> {
    let usage = |why: &str| Err(ApiError::new(Code::Usage, why));
    let now_s = unix_s();
    if node.hub_role == Role::Server {
        let why = "with a server all data goes through it: a file cannot be sent to a node, now or later";
        return Err(ApiError::new(Code::Refused, why));
    }
    if terms.until_unix_s <= now_s {
        return usage("--until is in the past: give a time to come, such as 24h");
    }
    if terms.until_unix_s - now_s > MAX_DELIVERY_S.into() {
        return usage("--until is more than 30 days from now: give at most 30d");
    }
    if query.name.is_empty() || query.name.len() > MAX_OBJECT_NAME_BYTES {
        return usage("the name is empty or longer than 200 bytes: give another one with --name");
    }
    match node.meant(query.node, NameScope::Whoever, Some(NAME_TIMEOUT)).await {
        Ok(to) if to == node.shared.node() => {
            let who = format_node(to, node.name(to).as_deref());
            Err(ApiError::new(Code::Refused, format!("{who} is this node itself: a file goes to another one")))
        }
        Err(ApiError(error)) if error.code == Code::Usage => Err(ApiError(error)),
        // A receiver that is away is found later.
        Ok(_) | Err(_) => Ok(()),
    }
}

/// Takes the whole file onto the disk, then hands it to the machine.
async fn take_in(
    node: &NodeService,
    outbox: &Arc<Outbox>,
    query: &SendQuery,
    terms: &OutboxTerms,
    events: &mpsc::Sender<SendEvent>,
) -> Result<DeliveryId, ApiError> {
    let room = outbox.store.reserve(query.bytes).map_err(unreserved)?;
    let mut number = [0; 8];
    roost_runtime::random_bytes(&mut number).map_err(|error| ApiError::new(Code::Internal, error.to_string()))?;
    let id = DeliveryId::from_bytes(number);
    let delivery = keep(outbox, id, query, terms, events).await?;
    room.keep();
    if let Some(item) = item(&outbox.store, id, &delivery) {
        // Without the machine the file is sent after the next start.
        let _ = node.mailbox.command(NodeCommand::Outbox(OutboxCommand::Deposit(item))).await;
    }
    Ok(id)
}

fn unreserved(error: ReserveError) -> ApiError {
    match error {
        ReserveError::Full => {
            let why = "the outbox has no room for the file: its outbox_limit or 1000 files; see roost outbox";
            ApiError::new(Code::Busy, why)
        }
        ReserveError::Unread => {
            ApiError::new(Code::Internal, "the outbox could not be read at the start: the daemon's log says why")
        }
    }
}

/// Puts a file onto the disk, or leaves nothing: a user who hears of an error puts the file in again.
async fn keep(
    outbox: &Arc<Outbox>,
    id: DeliveryId,
    query: &SendQuery,
    terms: &OutboxTerms,
    events: &mpsc::Sender<SendEvent>,
) -> Result<StoredDelivery, ApiError> {
    let kept = put(outbox, id, query, terms, events).await;
    if kept.is_err() {
        let discarding = Arc::clone(outbox);
        if let Err(ApiError(error)) = blocking(move || discarding.store.discard(id)).await {
            tracing::error!(%id, error = error.message, "a file that was refused stays in the outbox's folder");
        }
    }
    kept
}

/// Puts the content and then the description onto the disk.
async fn put(
    outbox: &Arc<Outbox>,
    id: DeliveryId,
    query: &SendQuery,
    terms: &OutboxTerms,
    events: &mpsc::Sender<SendEvent>,
) -> Result<StoredDelivery, ApiError> {
    write(outbox, id, query, events).await?;
    if events.is_closed() {
        return Err(gone());
    }
    let now_s = unix_s();
    let delivery = StoredDelivery {
        to: query.node.to_string(),
        node: None,
        addresses: query.addresses.iter().map(ToString::to_string).collect(),
        name: query.name.clone(),
        bytes: query.bytes,
        sha256: digest_text(&query.digest),
        priority: terms.priority,
        since_s: now_s,
        until_s: terms.until_unix_s,
        left_s: 0,
        left_at_s: 0,
        tries: 0,
        end: None,
    };
    let left = Duration::from_secs(terms.until_unix_s.saturating_sub(now_s));
    let delivery = outbox.store.noted(delivery, left);
    let (noting, noted) = (Arc::clone(outbox), delivery.clone());
    blocking(move || noting.store.write(id, noted)).await?;
    Ok(delivery)
}

fn gone() -> ApiError {
    ApiError::new(Code::Incomplete, "the command brought no more of the file")
}

/// Writes the file as the command brings it, and checks it.
async fn write(
    outbox: &Arc<Outbox>,
    id: DeliveryId,
    query: &SendQuery,
    events: &mpsc::Sender<SendEvent>,
) -> Result<(), ApiError> {
    let busy = || ApiError::new(Code::Busy, "too many files are being put into the outbox: try again later");
    let session = Session { waiters: &outbox.waiters, number: outbox.waiters.open().ok_or_else(busy)? };
    let path = outbox.store.data_path(id);
    let mut file = blocking({
        let path = path.clone();
        move || File::create(path)
    })
    .await?;
    let mut offset = 0;
    while offset < query.bytes {
        let bytes = CHUNK_BYTES.min(query.bytes - offset);
        let chunk = outbox.waiters.expect(session.number, offset);
        let read = SendEvent::Read { session: session.number, offset, bytes, node: None, node_name: None };
        events.send(read).await.map_err(|_| gone())?;
        let chunk = tokio::time::timeout(CHUNK_TIMEOUT, chunk).await.ok().and_then(Result::ok).ok_or_else(gone)?;
        if chunk.len() as u64 != bytes {
            return Err(gone());
        }
        offset += bytes;
        file = blocking(move || file.write_all(&chunk).map(|()| file)).await?;
    }
    let digest = blocking(move || {
        file.sync_all()?;
        roost_services::digest_of(&path, |_| {}).map_err(io::Error::other)
    });
    if digest.await?.1 != query.digest {
        return Err(ApiError::new(Code::Incomplete, "the file changed while it was copied: send it again"));
    }
    Ok(())
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> io::Result<T> + Send + 'static) -> Result<T, ApiError> {
    let done = tokio::task::spawn_blocking(work).await.map_err(io::Error::other).and_then(|done| done);
    done.map_err(|error| match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
            ApiError::new(Code::Busy, "the disk of the outbox is full: make room, or name another folder")
        }
        _ => ApiError::new(Code::Internal, format!("the outbox cannot be written to: {error}")),
    })
}

/// Waits for the end of a file.
async fn ended(outbox: &Outbox, id: DeliveryId) -> EndNote {
    loop {
        let mut woken = std::pin::pin!(outbox.ended.notified());
        // Before the look, so that no end between the two is missed.
        woken.as_mut().enable();
        if let Some(end) = outbox.store.get(id).and_then(|delivery| delivery.end) {
            return end;
        }
        woken.await;
    }
}

fn final_event(node: &NodeService, outbox: &Outbox, id: DeliveryId, end: EndNote) -> SendEvent {
    let receiver = outbox.store.get(id).and_then(|delivery| delivery.node);
    let node_name = receiver.and_then(|receiver| node.name(receiver));
    let failed = |code, why: String| SendEvent::Failed { error: Error::new(code, why) };
    match (end.state, end.why) {
        (OutboxState::Delivered, _) => SendEvent::Finished { node: receiver, node_name },
        (OutboxState::Refused, why) => {
            let who = receiver.map_or_else(|| "the receiver".to_owned(), |to| format_node(to, node_name.as_deref()));
            failed(Code::Refused, format!("{who} {}", why.unwrap_or_default()))
        }
        (OutboxState::Cancelled, _) => failed(Code::Refused, format!("the delivery {id} was cancelled")),
        (OutboxState::ExpiredUnconfirmed, _) => failed(
            Code::TimedOut,
            "the time of the delivery is over, and the receiver did not say whether it has the file".to_owned(),
        ),
        _ => failed(Code::TimedOut, "the time of the delivery is over, and the receiver does not have it".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use roost_api::Priority;

    use super::*;

    const ID: DeliveryId = DeliveryId::from_bytes([1; 8]);

    /// The answer to the deposit of an empty file.
    async fn keep_empty(outbox: &Arc<Outbox>, events: &mpsc::Sender<SendEvent>) -> Result<StoredDelivery, ApiError> {
        let folder = outbox.store.folder();
        std::fs::write(folder.join("empty"), "").unwrap();
        let (bytes, digest) = roost_services::digest_of(&folder.join("empty"), |_| {}).unwrap();
        std::fs::remove_file(folder.join("empty")).unwrap();
        let (node, name, timeout) = ("uav7".parse().unwrap(), "site.tif".to_owned(), Duration::from_secs(1));
        let query = SendQuery { node, addresses: Vec::new(), name, bytes, digest, timeout, outbox: None };
        let terms = OutboxTerms { until_unix_s: unix_s() + 60, priority: Priority::Normal, wait: false };
        keep(outbox, ID, &query, &terms, events).await
    }

    fn loaded(folder: &std::path::Path) -> Arc<Outbox> {
        let outbox = Arc::new(Outbox::new(folder.to_owned(), 10));
        outbox.store.load().unwrap();
        outbox
    }

    #[tokio::test]
    async fn failed_deposit_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let outbox = loaded(folder.path());
        // The description cannot be written.
        std::fs::create_dir(folder.path().join(format!("{ID}.new"))).unwrap();
        let (events, _lines) = mpsc::channel(1);
        assert!(keep_empty(&outbox, &events).await.is_err());
        assert!(!outbox.store.data_path(ID).exists() && outbox.store.get(ID).is_none());
    }

    #[tokio::test]
    async fn deposit_of_a_command_that_went_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let outbox = loaded(folder.path());
        let (events, lines) = mpsc::channel(1);
        assert!(keep_empty(&outbox, &events).await.is_ok());
        outbox.store.discard(ID).unwrap();
        drop(lines);
        assert!(keep_empty(&outbox, &events).await.is_err());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
