//! Queues with a limit, for the bytes of a connection and of a program's messages.
//!
//! Nothing between machines waits without limit: bytes that do not fit are dropped, and the run is not valid.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::{self, Receiver, Sender};

/// Bytes that wait for one reader: three minutes of video of 700 kbit/s, or a file of a hundred images.
const MAX_BYTES: usize = 16 << 20;
/// The cost of a message beside its bytes, so that small ones have a limit, too.
const MESSAGE_BYTES: usize = 64;

#[derive(Debug)]
pub(super) struct ByteQueue {
    sender: Sender<Vec<u8>>,
    waiting: Arc<AtomicUsize>,
}

/// The reader's end: it ends when the queue is dropped.
#[derive(Debug)]
pub(super) struct QueuedBytes {
    receiver: Receiver<Vec<u8>>,
    waiting: Arc<AtomicUsize>,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Overflow;

pub(super) fn byte_queue() -> (ByteQueue, QueuedBytes) {
    let (sender, receiver) = mpsc::channel();
    let waiting = Arc::new(AtomicUsize::new(0));
    (ByteQueue { sender, waiting: Arc::clone(&waiting) }, QueuedBytes { receiver, waiting })
}

impl ByteQueue {
    /// Adds bytes. Without a reader any more, nothing is missing.
    pub(super) fn push(&self, bytes: Vec<u8>) -> Result<(), Overflow> {
        let cost = bytes.len() + MESSAGE_BYTES;
        if self.waiting.load(Relaxed) + cost > MAX_BYTES {
            return Err(Overflow);
        }
        self.waiting.fetch_add(cost, Relaxed);
        let _ = self.sender.send(bytes);
        Ok(())
    }
}

impl Iterator for QueuedBytes {
    type Item = Vec<u8>;

    fn next(&mut self) -> Option<Vec<u8>> {
        let bytes = self.receiver.recv().ok()?;
        self.waiting.fetch_sub(bytes.len() + MESSAGE_BYTES, Relaxed);
        Some(bytes)
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
