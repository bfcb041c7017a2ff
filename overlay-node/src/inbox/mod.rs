//! Files that other nodes send to this one.

mod names;
mod quota;
mod receipts;
mod sealed;

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use bytes::Bytes;
use roost_core::node::{Node, NodeCommand, Provider};
use roost_runtime::driver::Mailbox;
use roost_runtime::naming::NodeNames;
use roost_runtime::{DaemonContext, LogLimiter};
use roost_services::{Finished, MIN_PART_BYTES, ObjectIdentity, PartialFile, SinkError};
use roost_wire::messages::{
    DeliveryTerms, FlowDescription, Push, PushState, Reason, RequestMode, ResumePoint, ServiceRequest,
};
use roost_wire::{Area, NodeId, Service};

use crate::tickets::{Failure, Purpose, Reply, Tickets, open_ticket};
use names::{hidden, is_sane, named, sender_of_part};
use quota::{InboxQuota, Listed, on_disk};
use receipts::{ReceiptLog, TakenDelivery};

/// Longest time until the sender accepts the request for its offered file. After that its offer is answered as busy,
/// and the sender makes it again.
const PATIENCE: Duration = Duration::from_secs(5);

/// Longest time that a reading of the folder is trusted, since others add and remove files.
const READ_AGAIN: Duration = Duration::from_secs(60);

/// As [`READ_AGAIN`], while there is no room.
const READ_FOR_ROOM: Duration = Duration::from_secs(5);

/// Reading the folder takes at most this part of a processor's time.
const READ_SHARE: u32 = 20;

/// The most files of the folder that are looked at. An inbox with more files takes none.
const MAX_ENTRIES: usize = 2 * quota::MAX_FILES;

#[derive(Debug)]
pub(crate) struct Inbox {
    folder: PathBuf,
    limit: u64,
    room: Mutex<InboxQuota>,
    read: Mutex<Option<FolderScan>>,
    receipts: ReceiptLog,
}

/// The end of the folder's last reading, and the time that it took.
#[derive(Clone, Copy, Debug)]
struct FolderScan {
    at: Instant,
    took: Duration,
}

/// The inbox, and the handles that ask the machine for an offered file.
#[derive(Clone)]
pub(crate) struct InboxService {
    pub(crate) inbox: Option<Arc<Inbox>>,
    pub(crate) tickets: Arc<Tickets>,
    pub(crate) mailbox: Mailbox<Node>,
    pub(crate) shared: Arc<DaemonContext>,
    pub(crate) names: Arc<NodeNames>,
    /// Limits the lines about refused files: a member may offer thousands a second.
    pub(crate) refusals: Arc<LogLimiter>,
}

impl InboxService {
    /// Receives a file that a node offers, or refuses it, and tells the node.
    pub(crate) async fn receive_file(self, from: NodeId, push: Push) {
        let reception = match &self.inbox {
            Some(inbox) => inbox.receive_push(&self, from, &push).await,
            None => PushState::NoInbox,
        };
        let (name, bytes, sender) = (&push.name, push.bytes, self.names.who(&self.shared, from));
        if reception == PushState::Stored {
            tracing::info!(from = sender, name, bytes, "a file has come");
        } else if let Some(suppressed) = self.refusals.admit() {
            tracing::info!(from = sender, name, bytes, why = why(reception), suppressed, "a file was not taken");
        }
        // The machine is gone when the daemon ends; then nobody waits.
        let _ = self.mailbox.command(NodeCommand::PushEnded { from, id: push.id, state: reception }).await;
    }
}

impl Inbox {
    /// Makes an inbox whose files may take `limit` bytes of the folder's disk.
    pub(crate) fn new(folder: PathBuf, limit: u64) -> Self {
        Self {
            folder,
            limit,
            room: Mutex::new(InboxQuota::new(limit)),
            read: Mutex::default(),
            receipts: ReceiptLog::default(),
        }
    }

    /// Checks that the folder is writable; makes it if it is absent.
    ///
    /// # Errors
    /// A sentence with the reason.
    pub(crate) fn check(&self) -> Result<(), String> {
        let probe = self.folder.join(".inbox.part");
        let made = fs::create_dir_all(&self.folder);
        let written = made.and_then(|()| fs::write(&probe, "")).and_then(|()| fs::remove_file(&probe));
        let folder = self.folder.display();
        written.map_err(|error| {
            format!("the inbox {folder} cannot be written to: {error}; name a folder that this user may write to")
        })
    }

    async fn receive_push(self: &Arc<Self>, service: &InboxService, from: NodeId, push: &Push) -> PushState {
        match self.admit(from, push).await {
            Ok(incoming) => match (incoming.receive(service, push).await, push.delivery) {
                // From now on no hub may bring it, since the sender is told that it is not here.
                (PushState::Expired, Some(terms)) => {
                    let denied = self.take_delivery(from, DeliveryTerms { left_s: 0, ..terms }).await;
                    denied.err().unwrap_or(PushState::Expired)
                }
                (reception, _) => reception,
            },
            Err(reception) => reception,
        }
    }

    /// Makes place for an object.
    ///
    /// # Errors
    /// The answer for the sender.
    async fn admit(self: &Arc<Self>, from: NodeId, push: &Push) -> Result<Incoming, PushState> {
        if !is_sane(&push.name) {
            return Err(PushState::BadName);
        }
        self.look_again(READ_AGAIN).await;
        let delivery = match push.delivery {
            None => None,
            Some(terms) => Some(self.take_delivery(from, terms).await?),
        };
        if on_disk(push.bytes) > self.limit {
            return Err(PushState::TooLarge);
        }
        let whole = ObjectIdentity { digest: push.digest, length: push.bytes };
        let object = hidden(from, &whole);
        if !self.has_place(from, &object, push.bytes) {
            self.look_again(READ_FOR_ROOM).await;
        }
        if !self.has_place(from, &object, push.bytes) {
            return Err(PushState::NoRoom);
        }
        if !self.lock().enter(from, &object) {
            return Err(PushState::Busy);
        }
        let mut incoming =
            Incoming { inbox: Arc::clone(self), from, object, whole, part: None, has_begun: false, delivery };
        let path = self.folder.join(&incoming.object);
        let part = blocking(move || PartialFile::find(&path, |_| {})).await.map_err(|_| PushState::Busy)?;
        incoming.part = part.filter(|part| part.object() == whole);
        Ok(incoming)
    }

    async fn take_delivery(self: &Arc<Self>, from: NodeId, terms: DeliveryTerms) -> Result<TakenDelivery, PushState> {
        let inbox = Arc::clone(self);
        let taken = tokio::task::spawn_blocking(move || inbox.receipts.offer(from, &terms)).await;
        taken.unwrap_or(Err(PushState::Unwritable))
    }

    fn has_place(&self, from: NodeId, object: &str, length: u64) -> bool {
        self.lock().has_place(from, object, length)
    }

    /// Reads the folder, if the last reading is older than `age`: others take files out of it and put some in.
    async fn look_again(self: &Arc<Self>, age: Duration) {
        let inbox = Arc::clone(self);
        // A task that panics has read nothing.
        let _ = tokio::task::spawn_blocking(move || inbox.read(age)).await;
    }

    /// As [`Self::look_again`], but blocks. At most one reading runs.
    fn read(&self, age: Duration) {
        let mut last = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        if last.is_some_and(|last| last.at.elapsed() < age.max(last.took * READ_SHARE)) {
            return;
        }
        *last = Some(self.read_now());
    }

    fn read_now(&self) -> FolderScan {
        let began = Instant::now();
        if let Err(error) = self.receipts.load(&self.folder) {
            tracing::warn!(%error, "the list of deliveries cannot be read; no file of an outbox is taken");
        }
        self.lock().begin_reading();
        let entries = fs::read_dir(&self.folder).into_iter().flatten().take(MAX_ENTRIES).flatten();
        let listed = entries.filter_map(|entry| listed(&entry)).collect();
        let old = self.lock().read(listed, SystemTime::now());
        self.remove(&old);
        FolderScan { at: Instant::now(), took: began.elapsed() }
    }

    /// Removes parts. Blocks.
    fn remove(&self, objects: &[String]) {
        for object in objects {
            for end in [".part", ".part.json"] {
                // The file may be gone already.
                let _ = fs::remove_file(self.folder.join(format!("{object}{end}")));
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, InboxQuota> {
        self.room.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Describes an entry of the folder to the quota; `None` if it is no file.
fn listed(entry: &fs::DirEntry) -> Option<Listed> {
    let name = entry.file_name().to_string_lossy().into_owned();
    let metadata = entry.metadata().ok().filter(fs::Metadata::is_file)?;
    let bytes = on_disk(metadata.len()).max(metadata.blocks().saturating_mul(512));
    let part = sender_of_part(&name).map(|(object, from)| (object.to_owned(), from));
    Some(Listed { bytes, modified: metadata.modified().ok()?, part, name })
}

/// An object on its way into the inbox. Its claim on the quota ends when it is dropped.
struct Incoming {
    inbox: Arc<Inbox>,
    from: NodeId,
    object: String,
    whole: ObjectIdentity,
    /// The part on disk; `None` before the first data.
    part: Option<PartialFile>,
    has_begun: bool,
    /// Set if it comes from an outbox.
    delivery: Option<TakenDelivery>,
}

impl Incoming {
    /// Requests the offered object, from the end of the part on, and names it.
    async fn receive(mut self, service: &InboxService, push: &Push) -> PushState {
        let offset = self.come();
        let request = ServiceRequest {
            timeout: Some(PATIENCE),
            resume: Some(ResumePoint { digest: push.digest, offset }),
            pushed: true,
            ..ServiceRequest::new(Service::Image, Area::Anywhere)
        };
        let provider = Some(Provider { node: self.from, addresses: push.addresses.clone() });
        let purpose = Purpose::Request(Service::Image, RequestMode::Forward);
        let asked = open_ticket(&service.tickets, &service.mailbox, purpose, |ticket| NodeCommand::Request {
            ticket,
            request,
            provider,
            body: Bytes::new(),
        })
        .await;
        let Ok(mut replies) = asked else { return PushState::Busy };
        let mut is_accepted = false;
        loop {
            match replies.next().await {
                Some(Reply::Accepted(accepted)) => {
                    if !is_offered(&accepted.flow, push, offset) {
                        return PushState::Interrupted;
                    }
                    is_accepted = true;
                }
                Some(Reply::Data(data)) => {
                    if !std::mem::replace(&mut self.has_begun, true) {
                        service.mailbox.post(NodeCommand::PushStarted { from: self.from, id: push.id });
                    }
                    if let Err(reception) = self.add(&data).await {
                        return reception;
                    }
                }
                Some(Reply::Finished(summary)) if summary.complete || summary.digest_ok == Some(false) => {
                    if let Some(part) = self.part.as_mut().filter(|_| summary.digest_ok == Some(true)) {
                        part.mark_verified();
                    }
                    break;
                }
                Some(Reply::Failed(Failure { reason: Reason::TimedOut, .. })) if !is_accepted => {
                    return PushState::Busy;
                }
                Some(Reply::Finished(_) | Reply::Failed(_)) | None => return self.keep(),
                Some(_) => {}
            }
        }
        self.store(&push.name).await
    }

    /// Length of the part so far, bytes: the transfer resumes there.
    fn come(&self) -> u64 {
        self.part.as_ref().map_or(0, PartialFile::bytes)
    }

    /// Adds data, for which other parts may have to go.
    async fn add(&mut self, data: &[u8]) -> Result<(), PushState> {
        let come = self.come() + data.len() as u64;
        let gone = self.inbox.lock().claim(self.from, &self.object, self.whole.length, come);
        let gone = gone.ok_or(PushState::NoRoom)?;
        if !gone.is_empty() {
            let inbox = Arc::clone(&self.inbox);
            let removed = blocking(move || {
                inbox.remove(&gone);
                Ok(())
            });
            removed.await.map_err(|error| complain(&error))?;
        }
        self.begin().await?;
        PartialFile::add(&mut self.part, data).await.map_err(|error| complain(&error))
    }

    /// Makes the part, if there is none.
    async fn begin(&mut self) -> Result<(), PushState> {
        if self.part.is_none() {
            let (path, whole) = (self.inbox.folder.join(&self.object), self.whole);
            let part = blocking(move || PartialFile::create(&path, whole)).await;
            self.part = Some(part.map_err(|error| complain(&error))?);
        }
        Ok(())
    }

    /// Ends a transfer that broke off. A part of at least [`MIN_PART_BYTES`] stays.
    fn keep(self) -> PushState {
        if let Some(part) = self.part.as_ref().filter(|part| part.bytes() < MIN_PART_BYTES) {
            part.discard();
        }
        PushState::Interrupted
    }

    /// Ends a whole transfer: the part gets its name.
    async fn store(mut self, name: &str) -> PushState {
        // An empty file has no data.
        if let Err(reception) = self.begin().await {
            return reception;
        }
        let Some(part) = self.part.take() else { return PushState::Interrupted };
        let target = self.inbox.folder.join(name);
        let (inbox, delivery) = (Arc::clone(&self.inbox), self.delivery);
        let finished = blocking(move || {
            let mut refused = None;
            let name = |part: &Path, _: &Path| match &delivery {
                None => named(part, &target),
                Some(delivery) => match inbox.receipts.store(delivery, part, || named(part, &target))? {
                    Ok(path) => Ok(path),
                    Err(reception) => {
                        refused = Some(reception);
                        Err(io::Error::other("its delivery is over"))
                    }
                },
            };
            let finished = part.finish_as(name);
            Ok((finished, refused))
        });
        let (finished, refused) = match finished.await {
            Ok(finished) => finished,
            Err(error) => return complain(&error),
        };
        if let Some(reception) = refused {
            return reception;
        }
        match finished {
            Ok(Finished::Written { path, bytes }) => {
                let name = path.as_deref().and_then(Path::file_name).unwrap_or_default().to_string_lossy().into_owned();
                self.inbox.lock().store(self.from, name, bytes);
                PushState::Stored
            }
            Ok(_) => PushState::Interrupted,
            Err(error) => complain(&error),
        }
    }
}

impl Drop for Incoming {
    fn drop(&mut self) {
        // Writes the data that waits to be written.
        self.part = None;
        let part = self.inbox.folder.join(format!("{}.part", self.object));
        let mut left = fs::symlink_metadata(part).ok().map(|metadata| metadata.len());
        if left.take_if(|bytes| *bytes == 0).is_some() {
            self.inbox.remove(std::slice::from_ref(&self.object));
        }
        let left = left.map(on_disk);
        self.inbox.lock().release(self.from, &self.object, left, SystemTime::now());
    }
}

/// True if the sender accepts with the object that it has offered, from `offset` on.
fn is_offered(flow: &FlowDescription, push: &Push, offset: u64) -> bool {
    let FlowDescription::Object { bytes, digest, offset: at, .. } = flow else { return false };
    (*bytes, *digest, *at) == (push.bytes, push.digest, Some(offset))
}

/// The reason for which a file was refused, for the log.
const fn why(reception: PushState) -> &'static str {
    match reception {
        PushState::NoInbox => "this node has no inbox",
        PushState::TooLarge => "it is larger than inbox_limit",
        PushState::NoRoom => "the inbox or its disk has no room for it",
        PushState::BadName => "no file may have its name",
        PushState::Busy => "too many files are arriving, or this one already is",
        PushState::Damaged => "what came is not what was offered",
        PushState::Interrupted => "the transfer broke off; send the file again to resume",
        PushState::Forbidden => "the group's policy does not let the node send files here",
        PushState::Unwritable => "it cannot be written",
        PushState::Expired => "its delivery is over",
        _ => "the inbox gives no reason",
    }
}

/// Logs the error, and turns it into the answer for the sender.
fn complain(error: &SinkError) -> PushState {
    tracing::warn!(%error, "a file cannot be taken into the inbox");
    match error {
        SinkError::Damaged { .. } | SinkError::Overlong { .. } => PushState::Damaged,
        SinkError::InUse { .. } => PushState::Busy,
        SinkError::Full { .. } => PushState::NoRoom,
        _ => PushState::Unwritable,
    }
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, SinkError> + Send + 'static,
) -> Result<T, SinkError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|error| Err(SinkError::failed("the inbox", &io::Error::other(error))))
}

#[cfg(test)]
mod tests;
