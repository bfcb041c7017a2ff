//! A thread that writes audit records, with a queue of limited size before it.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, SyncSender, TrySendError};
use std::thread;
use std::time::{Duration, Instant};

use crate::log::{AuditLog, Limits};
use crate::record::AuditEvent;

const QUEUE: usize = 4_096;

/// Records that are written under one lock.
const BATCH: usize = 256;

/// The pause before a queue that is full is tried again.
const RETRY: Duration = Duration::from_millis(5);

enum Message {
    Event(AuditEvent),
    /// Asks for the number of records that are lost without a record of that.
    Finish(SyncSender<u64>),
}

/// Takes events from a daemon's loop, which it never blocks. Clones share the thread. The default one writes nothing.
#[derive(Clone, Debug, Default)]
pub struct AuditRecorder(Option<Arc<Queue>>);

#[derive(Debug)]
struct Queue {
    path: PathBuf,
    sender: SyncSender<Message>,
    counts: Arc<Counts>,
}

/// Records that are not on the disk.
#[derive(Debug, Default)]
struct Counts {
    /// Records that found the queue full, until the log counts them.
    dropped: AtomicU64,
    /// Records that the thread has not written yet.
    waiting: AtomicU64,
}

impl Counts {
    fn unwritten(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed) + self.waiting.load(Ordering::Relaxed)
    }
}

impl AuditRecorder {
    /// Starts the thread of the log at `path`.
    ///
    /// # Errors
    /// The file cannot be used.
    pub fn start(path: &Path, limits: Limits) -> io::Result<Self> {
        let log = AuditLog::open(path, limits)?;
        let (sender, receiver) = mpsc::sync_channel(QUEUE);
        let counts = Arc::<Counts>::default();
        let shared = Arc::clone(&counts);
        thread::Builder::new().name("audit".to_owned()).spawn(move || write_all(log, &receiver, &shared))?;
        Ok(Self(Some(Arc::new(Queue { path: path.to_owned(), sender, counts }))))
    }

    /// The file in use; `None` if nothing is written.
    pub fn path(&self) -> Option<&Path> {
        self.0.as_ref().map(|queue| queue.path.as_path())
    }

    /// Records an event. If the queue is full, it is counted only.
    pub fn record(&self, event: AuditEvent) {
        let Some(queue) = &self.0 else { return };
        queue.counts.waiting.fetch_add(1, Ordering::Relaxed);
        if let Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) = queue.sender.try_send(Message::Event(event))
        {
            queue.counts.waiting.fetch_sub(1, Ordering::Relaxed);
            queue.counts.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Waits until all that was recorded so far is on the disk, for so long at most. Returns the number of records that
    /// are neither there nor counted there as lost.
    pub fn finish(&self, within: Duration) -> u64 {
        let Some(queue) = &self.0 else { return 0 };
        let end = Instant::now() + within;
        let (done, finished) = mpsc::sync_channel(1);
        let mut message = Message::Finish(done);
        loop {
            match queue.sender.try_send(message) {
                Ok(()) => break,
                Err(TrySendError::Full(unsent)) if Instant::now() < end => message = unsent,
                Err(_) => return queue.counts.unwritten(),
            }
            thread::sleep(RETRY);
        }
        let left = end.saturating_duration_since(Instant::now());
        finished.recv_timeout(left).unwrap_or_else(|_| queue.counts.unwritten())
    }
}

fn write_all(mut log: AuditLog, receiver: &Receiver<Message>, counts: &Counts) {
    while let Ok(first) = receiver.recv() {
        let mut events = Vec::new();
        let mut finished = None;
        for message in std::iter::once(first).chain(receiver.try_iter()) {
            match message {
                Message::Event(event) => events.push(event),
                Message::Finish(done) => finished = Some(done),
            }
            if finished.is_some() || events.len() >= BATCH {
                break;
            }
        }
        let dropped = counts.dropped.load(Ordering::Relaxed);
        log.add_lost(dropped);
        // The log counts what it cannot write.
        let _ = log.append(&events);
        // Whoever asks while the disk waits still counts them.
        counts.dropped.fetch_sub(dropped, Ordering::Relaxed);
        counts.waiting.fetch_sub(events.len() as u64, Ordering::Relaxed);
        if let Some(done) = finished {
            let _ = done.try_send(log.lost());
        }
    }
}
