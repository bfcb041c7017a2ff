//! One queue to a task or thread, for those who can wait for room and those who cannot.
//!
//! Whatever is given to it comes out in the order in which it went in, however full it was.

use std::sync::Arc;

use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::log_limiter::LogLimiter;

/// The most letters that wait. Who can wait waits for room before giving one more.
pub(crate) const MAX_QUEUED: usize = 1024;

/// The most letters beyond that of those who cannot wait: some megabytes. More are dropped, which
/// the log says: whoever is so far behind stands still, and nobody knows for how long.
const MAX_POSTED: usize = 1 << 16;

/// Nobody takes letters any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct QueueClosed;

/// A letter, and the place that it takes.
struct Envelope<T> {
    command: T,
    _slot: OwnedSemaphorePermit,
}

/// The end where letters go in. Clones are of the same queue.
pub(crate) struct CommandSender<T> {
    commands: UnboundedSender<Envelope<T>>,
    room: Arc<Semaphore>,
    reserve: Arc<Semaphore>,
    dropped: Arc<LogLimiter>,
}

impl<T> Clone for CommandSender<T> {
    fn clone(&self) -> Self {
        let (commands, dropped) = (self.commands.clone(), Arc::clone(&self.dropped));
        Self { commands, room: Arc::clone(&self.room), reserve: Arc::clone(&self.reserve), dropped }
    }
}

/// The end where they come out.
pub(crate) struct CommandReceiver<T> {
    commands: UnboundedReceiver<Envelope<T>>,
    envelopes: Vec<Envelope<T>>,
    room: Arc<Semaphore>,
}

/// A queue.
pub(crate) fn command_queue<T>() -> (CommandSender<T>, CommandReceiver<T>) {
    let (sender, receiver) = mpsc::unbounded_channel();
    let (room, reserve) = (Arc::new(Semaphore::new(MAX_QUEUED)), Arc::new(Semaphore::new(MAX_POSTED)));
    let sender = CommandSender { commands: sender, room: Arc::clone(&room), reserve, dropped: Arc::default() };
    (sender, CommandReceiver { commands: receiver, envelopes: Vec::new(), room })
}

impl<T> CommandSender<T> {
    /// Gives a letter, waiting while there is no room.
    ///
    /// # Errors
    /// [`QueueClosed`].
    pub(crate) async fn send(&self, command: T) -> Result<(), QueueClosed> {
        let place = Arc::clone(&self.room).acquire_owned().await.map_err(|_| QueueClosed)?;
        self.commands.send(Envelope { command, _slot: place }).map_err(|_| QueueClosed)
    }

    /// Whether nobody takes letters any more.
    pub(crate) fn is_gone(&self) -> bool {
        self.room.is_closed()
    }

    /// Gives a letter from where one cannot wait. If nobody takes any it is void; if 65,536 of
    /// such letters wait beyond the room that there is, it is dropped.
    pub(crate) fn post(&self, command: T) {
        let place = Arc::clone(&self.room).try_acquire_owned();
        let Ok(place) = place.or_else(|_| Arc::clone(&self.reserve).try_acquire_owned()) else {
            if let Some(suppressed) = self.dropped.admit() {
                tracing::error!(suppressed, "a task of this daemon hangs; its commands are dropped");
            }
            return;
        };
        // Void, if it is gone.
        let _ = self.commands.send(Envelope { command, _slot: place });
    }
}

impl<T> CommandReceiver<T> {
    /// Waits for letters, and adds at most so many. Answers how many: none once nobody can give
    /// any. Loses nothing when dropped.
    pub(crate) async fn recv_many(&mut self, into: &mut Vec<T>, max: usize) -> usize {
        let count = self.commands.recv_many(&mut self.envelopes, max).await;
        into.extend(self.envelopes.drain(..).map(|envelope| envelope.command));
        count
    }
}

impl<T> CommandReceiver<T> {
    /// Adds at most so many of the letters that are there.
    pub(crate) fn try_recv_many(&mut self, into: &mut Vec<T>, max: usize) {
        into.extend(std::iter::from_fn(|| self.commands.try_recv().ok()).take(max).map(|envelope| envelope.command));
    }
}

impl<T> Drop for CommandReceiver<T> {
    fn drop(&mut self) {
        // Who waits for room waits in vain.
        self.room.close();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn all(receiver: &mut CommandReceiver<usize>, count: usize) -> Vec<usize> {
        let mut taken = Vec::new();
        while taken.len() < count {
            receiver.recv_many(&mut taken, 64).await;
        }
        taken
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn posts_to_full_queue_keep_order() {
        let (sender, mut receiver) = command_queue();
        (0..10 * MAX_QUEUED).for_each(|number| sender.post(number));
        assert!(all(&mut receiver, 10 * MAX_QUEUED).await.is_sorted());
    }

    #[tokio::test]
    async fn waiting_send_follows_earlier_posts() {
        let (sender, mut receiver) = command_queue();
        (0..MAX_QUEUED + 5).for_each(|number| sender.post(number));
        let waiter = sender.clone();
        let waits = tokio::spawn(async move { waiter.send(MAX_QUEUED + 5).await });
        tokio::task::yield_now().await;
        assert!(!waits.is_finished(), "there is no room for who can wait");
        assert!(all(&mut receiver, MAX_QUEUED + 6).await.is_sorted());
        assert_eq!(waits.await.unwrap(), Ok(()));
    }

    #[tokio::test]
    async fn no_more_wait_than_may() {
        let (sender, mut receiver) = command_queue();
        let limit = MAX_QUEUED + MAX_POSTED;
        (0..2 * limit).for_each(|number| sender.post(number));
        assert_eq!(receiver.commands.len(), limit);
        all(&mut receiver, limit).await;
        sender.post(7);
        assert_eq!(all(&mut receiver, 1).await, [7]);
    }

    #[tokio::test]
    async fn nobody_waits_for_who_is_gone() {
        let (sender, receiver) = command_queue();
        (0..MAX_QUEUED).for_each(|number| sender.post(number));
        let waiter = sender.clone();
        let waits = tokio::spawn(async move { waiter.send(1).await });
        tokio::task::yield_now().await;
        drop(receiver);
        assert_eq!(waits.await.unwrap(), Err(QueueClosed));
        sender.post(2);
    }
}
