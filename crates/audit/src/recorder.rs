//! A thread that writes audit records, with a queue of limited size before it.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, SyncSender, TrySendError};
use std::thread;
use std::time::Duration;

use crate::log::{AuditLog, Limits};
use crate::record::AuditEvent;

const QUEUE: usize = 4_096;

/// Records that are written under one lock.
const BATCH: usize = 256;

enum Message {
    Event(AuditEvent),
    Finish(SyncSender<()>),
}

/// Takes events from a daemon's loop, which it never blocks. Clones share the thread. The default one writes nothing.
#[derive(Clone, Debug, Default)]
pub struct AuditRecorder(Option<Arc<Queue>>);

#[derive(Debug)]
struct Queue {
    sender: SyncSender<Message>,
    dropped: Arc<AtomicU64>,
}

impl AuditRecorder {
    /// Starts the thread of the log at `path`.
    ///
    /// # Errors
    /// The file cannot be used.
    pub fn start(path: &Path, limits: Limits) -> io::Result<Self> {
        let log = AuditLog::open(path, limits)?;
        let (sender, receiver) = mpsc::sync_channel(QUEUE);
        let dropped = Arc::<AtomicU64>::default();
        let lost = Arc::clone(&dropped);
        thread::Builder::new().name("audit".to_owned()).spawn(move || write_all(log, &receiver, &lost))?;
        Ok(Self(Some(Arc::new(Queue { sender, dropped }))))
    }

    /// Records an event. If the queue is full, it is counted only.
    pub fn record(&self, event: AuditEvent) {
        let Some(queue) = &self.0 else { return };
        if let Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) = queue.sender.try_send(Message::Event(event))
        {
            queue.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Waits until all that was recorded so far is on the disk, for so long at most.
    pub fn finish(&self, within: Duration) {
        let Some(queue) = &self.0 else { return };
        let (done, finished) = mpsc::sync_channel(1);
        if queue.sender.try_send(Message::Finish(done)).is_ok() {
            // Whatever the outcome is, the daemon ends now.
            let _ = finished.recv_timeout(within);
        }
    }
}

fn write_all(mut log: AuditLog, receiver: &Receiver<Message>, dropped: &AtomicU64) {
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
        log.add_lost(dropped.swap(0, Ordering::Relaxed));
        // The log counts what it cannot write.
        let _ = log.append(&events);
        if let Some(done) = finished {
            let _ = done.try_send(());
        }
    }
}
