//! A queue of commands to a task or thread, for senders that can wait for room and senders that cannot. Commands come
//! out in the order in which they went in.

use std::sync::Arc;

use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::log_limiter::LogLimiter;

/// The most commands that wait. [`CommandSender::send`] waits for room before it adds one more.
pub(crate) const MAX_QUEUED: usize = 1024;

/// The most further commands of [`CommandSender::post`], some megabytes. More are dropped and logged: a receiver so far
/// behind stands still.
const MAX_POSTED: usize = 1 << 16;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct QueueClosed;

/// A command and its place in the queue.
struct Envelope<T> {
    command: T,
    _slot: OwnedSemaphorePermit,
}

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

pub(crate) struct CommandReceiver<T> {
    commands: UnboundedReceiver<Envelope<T>>,
    envelopes: Vec<Envelope<T>>,
    room: Arc<Semaphore>,
}

pub(crate) fn command_queue<T>() -> (CommandSender<T>, CommandReceiver<T>) {
    let (sender, receiver) = mpsc::unbounded_channel();
    let (room, reserve) = (Arc::new(Semaphore::new(MAX_QUEUED)), Arc::new(Semaphore::new(MAX_POSTED)));
    let sender = CommandSender { commands: sender, room: Arc::clone(&room), reserve, dropped: Arc::default() };
    (sender, CommandReceiver { commands: receiver, envelopes: Vec::new(), room })
}

impl<T> CommandSender<T> {
    /// Adds a command; waits while there is no room.
    pub(crate) async fn send(&self, command: T) -> Result<(), QueueClosed> {
        let place = Arc::clone(&self.room).acquire_owned().await.map_err(|_| QueueClosed)?;
        self.commands.send(Envelope { command, _slot: place }).map_err(|_| QueueClosed)
    }

    pub(crate) fn is_gone(&self) -> bool {
        self.room.is_closed()
    }

    /// Adds a command without waiting. Does nothing if the receiver is gone. Drops the command if [`MAX_POSTED`] wait
    /// beyond the room for [`Self::send`].
    pub(crate) fn post(&self, command: T) {
        let place = Arc::clone(&self.room).try_acquire_owned();
        let Ok(place) = place.or_else(|_| Arc::clone(&self.reserve).try_acquire_owned()) else {
            if let Some(suppressed) = self.dropped.admit() {
                tracing::error!(suppressed, "a task of this daemon hangs; its commands are dropped");
            }
            return;
        };
        // Fails if the receiver is gone.
        let _ = self.commands.send(Envelope { command, _slot: place });
    }
}

impl<T> CommandReceiver<T> {
    /// Waits for commands and adds at most `max`. Returns their number: 0 once all senders are gone. Loses nothing when
    /// dropped.
    pub(crate) async fn recv_many(&mut self, into: &mut Vec<T>, max: usize) -> usize {
        let count = self.commands.recv_many(&mut self.envelopes, max).await;
        into.extend(self.envelopes.drain(..).map(|envelope| envelope.command));
        count
    }
}

impl<T> CommandReceiver<T> {
    /// Adds at most `max` of the commands that wait.
    pub(crate) fn try_recv_many(&mut self, into: &mut Vec<T>, max: usize) {
        into.extend(std::iter::from_fn(|| self.commands.try_recv().ok()).take(max).map(|envelope| envelope.command));
    }
}

impl<T> Drop for CommandReceiver<T> {
    fn drop(&mut self) {
        // Ends the wait of senders.
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
