//! Queues with a limit, for the bytes of a connection and of a program's messages.
//!
//! Nothing between machines waits without limit: bytes that do not fit are dropped, and the run is not valid.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::Duration;

/// Bytes that wait for one reader: three minutes of video of 700 kbit/s, or a file of a hundred images.
const MAX_BYTES: usize = 16 << 20;
/// The cost of a message beside its bytes, so that small ones have a limit, too.
const MESSAGE_BYTES: usize = 64;

pub(super) trait Queued {
    fn bytes(&self) -> usize;
}

impl Queued for Vec<u8> {
    fn bytes(&self) -> usize {
        self.len()
    }
}

#[derive(Debug)]
pub(super) struct ByteQueue<T = Vec<u8>> {
    sender: Sender<T>,
    waiting: Arc<AtomicUsize>,
    most: usize,
}

/// The reader's end: it ends when the queue is dropped.
#[derive(Debug)]
pub(super) struct QueuedBytes<T = Vec<u8>> {
    /// Dropped before the receiver: a queue that holds it alone has no reader.
    waiting: Arc<AtomicUsize>,
    receiver: Receiver<T>,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Overflow;

pub(super) fn byte_queue() -> (ByteQueue, QueuedBytes) {
    queue_of(MAX_BYTES)
}

pub(super) fn queue_of<T: Queued>(most: usize) -> (ByteQueue<T>, QueuedBytes<T>) {
    let (sender, receiver) = mpsc::channel();
    let waiting = Arc::new(AtomicUsize::new(0));
    (ByteQueue { sender, waiting: Arc::clone(&waiting), most }, QueuedBytes { waiting, receiver })
}

fn cost(item: &impl Queued) -> usize {
    item.bytes() + MESSAGE_BYTES
}

impl<T: Queued> ByteQueue<T> {
    /// Adds bytes. Without a reader any more, nothing is missing.
    pub(super) fn push(&self, item: T) -> Result<(), Overflow> {
        if !self.has_reader() {
            return Ok(());
        }
        let cost = cost(&item);
        if self.waiting.load(Relaxed) + cost > self.most {
            // A reader that has gone just now left all that waited.
            return if self.has_reader() { Err(Overflow) } else { Ok(()) };
        }
        self.waiting.fetch_add(cost, Relaxed);
        if self.sender.send(item).is_err() {
            self.waiting.fetch_sub(cost, Relaxed);
        }
        Ok(())
    }

    fn has_reader(&self) -> bool {
        Arc::strong_count(&self.waiting) > 1
    }
}

impl<T: Queued> QueuedBytes<T> {
    pub(super) fn next_within(&self, time: Duration) -> Result<T, RecvTimeoutError> {
        self.receiver.recv_timeout(time).inspect(|item| self.forget(item))
    }

    fn forget(&self, item: &T) {
        self.waiting.fetch_sub(cost(item), Relaxed);
    }
}

impl<T: Queued> Iterator for QueuedBytes<T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        self.receiver.recv().ok().inspect(|item| self.forget(item))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn full_queue_refuses_until_read() {
        let (queue, mut bytes) = byte_queue();
        let half = vec![7; MAX_BYTES / 2 - MESSAGE_BYTES];
        assert_eq!((queue.push(half.clone()), queue.push(half.clone())), (Ok(()), Ok(())));
        assert_eq!(queue.push(Vec::new()), Err(Overflow));
        assert_eq!(bytes.next(), Some(half));
        assert_eq!(queue.push(vec![1]), Ok(()));
    }

    #[test]
    fn queue_without_reader_never_overflows() {
        for waiting in [0, MAX_BYTES / 2] {
            let (queue, bytes) = byte_queue();
            queue.push(vec![0; waiting]).unwrap();
            drop(bytes);
            assert!((0..40).all(|_| queue.push(vec![0; 1 << 20]).is_ok()), "{waiting}");
        }
    }

    #[test]
    fn small_messages_are_limited() {
        let (queue, _bytes) = byte_queue();
        let fitting = std::iter::repeat_with(|| queue.push(vec![1])).take_while(Result::is_ok).count();
        assert_eq!(fitting, MAX_BYTES / (MESSAGE_BYTES + 1));
    }

    #[test]
    fn reader_gets_all_then_ends() {
        let (queue, bytes) = byte_queue();
        [vec![1], vec![2, 3]].into_iter().for_each(|bytes| queue.push(bytes).unwrap());
        drop(queue);
        assert_eq!(bytes.flatten().collect::<Vec<u8>>(), [1, 2, 3]);
    }
}
