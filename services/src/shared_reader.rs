//! Live sources: one socket for all requesters, each of them with its own bounded backlog.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{Mutex, Notify, broadcast};
use tokio::task::AbortHandle;
use tokio::time::Instant;

use crate::SourceError;

/// Datagrams kept for a slow requester, about three seconds of video; older ones are dropped and counted.
const BACKLOG: usize = 256;

/// A handle that requests a key frame from a live source. Sources that take no such requests ignore it.
#[derive(Clone, Debug, Default)]
pub struct KeyFrameRequester(Arc<Notify>);

impl KeyFrameRequester {
    pub fn request_key_frame(&self) {
        self.0.notify_one();
    }

    pub(crate) async fn wait_for_request(&self) {
        self.0.notified().await;
    }
}

/// The running reader of a spec's live source, if somebody listens to it.
#[derive(Clone, Debug, Default)]
pub(crate) struct ReaderSlot(Arc<Mutex<Weak<RunningReader>>>);

#[derive(Debug)]
struct RunningReader {
    /// Weak, so that listeners notice when the reader ends.
    sender: broadcast::WeakSender<Result<Bytes, SourceError>>,
    malformed: Arc<AtomicU64>,
    key_frames: KeyFrameRequester,
    task: AbortHandle,
}

impl Drop for RunningReader {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// A live source, read until it fails.
pub(crate) trait SourceReader: Send + 'static {
    fn run(self, outlet: Outlet) -> impl Future<Output = SourceError> + Send;
}

/// The channel through which a reader hands datagrams to its listeners.
#[derive(Clone, Debug)]
pub(crate) struct Outlet {
    sender: broadcast::Sender<Result<Bytes, SourceError>>,
    malformed: Arc<AtomicU64>,
    key_frames: KeyFrameRequester,
}

impl Outlet {
    pub(crate) fn put(&self, payload: Bytes) {
        // An error says that there is no listener at the moment; the datagram may be lost.
        let _ = self.sender.send(Ok(payload));
    }

    /// A handle on which the reader receives the listeners' requests for key frames.
    pub(crate) fn key_frames(&self) -> KeyFrameRequester {
        self.key_frames.clone()
    }

    /// Counts a datagram that was dropped as malformed or too large.
    pub(crate) fn malformed(&self) {
        self.malformed.fetch_add(1, Ordering::Relaxed);
    }
}

impl ReaderSlot {
    /// Joins the running source, or starts it with `start` if it has no listener yet.
    pub(crate) async fn join<R: SourceReader>(
        &self,
        address: &str,
        silence: Option<Duration>,
        start: impl Future<Output = Result<R, SourceError>>,
    ) -> Result<Live, SourceError> {
        let mut slot = self.0.lock().await;
        let running = slot.upgrade().and_then(|upstream| {
            let receiver = upstream.sender.upgrade()?.subscribe();
            Some((upstream, receiver))
        });
        let (upstream, receiver) = match running {
            Some(running) => running,
            None => {
                let (upstream, receiver) = spawn(start.await?);
                *slot = Arc::downgrade(&upstream);
                (upstream, receiver)
            }
        };
        Ok(Live { upstream, receiver, address: address.to_owned(), silence, dropped: 0, heard: None })
    }

    /// True if the source has a listener now.
    pub(crate) async fn is_running(&self) -> bool {
        self.0.lock().await.upgrade().is_some_and(|upstream| upstream.sender.upgrade().is_some())
    }
}

fn spawn<R: SourceReader>(reader: R) -> (Arc<RunningReader>, broadcast::Receiver<Result<Bytes, SourceError>>) {
    let (sender, receiver) = broadcast::channel(BACKLOG);
    let malformed = Arc::new(AtomicU64::new(0));
    let weak = sender.downgrade();
    let key_frames = KeyFrameRequester::default();
    let outlet = Outlet { sender, malformed: malformed.clone(), key_frames: key_frames.clone() };
    let task = tokio::spawn(async move {
        let last = outlet.sender.clone();
        let error = reader.run(outlet).await;
        tracing::debug!(%error, "live source ended");
        let _ = last.send(Err(error));
    });
    (Arc::new(RunningReader { sender: weak, malformed, key_frames, task: task.abort_handle() }), receiver)
}

/// A requester's subscription to a live source. The source closes when the last subscription is dropped.
#[derive(Debug)]
pub(crate) struct Live {
    upstream: Arc<RunningReader>,
    receiver: broadcast::Receiver<Result<Bytes, SourceError>>,
    address: String,
    /// The silence after which the source has failed.
    silence: Option<Duration>,
    /// Datagrams that newer ones overwrote before this requester read them.
    dropped: u64,
    heard: Option<Instant>,
}

impl Live {
    /// Waits for the next datagram; `None` when `length` has passed since `start`.
    pub(crate) async fn next(&mut self, start: Instant, length: Duration) -> Option<Result<Bytes, SourceError>> {
        let end = start + length;
        let patience = self.silence.map(|silence| self.heard.unwrap_or(start) + silence);
        let until = patience.map_or(end, |patience| patience.min(end));
        loop {
            match tokio::time::timeout_at(until, self.receiver.recv()).await {
                Ok(Ok(Ok(payload))) => {
                    self.heard = Some(Instant::now());
                    return (Instant::now() < end).then_some(Ok(payload));
                }
                Ok(Ok(Err(error))) => return Some(Err(error)),
                Ok(Err(broadcast::error::RecvError::Lagged(count))) => self.dropped += count,
                Ok(Err(broadcast::error::RecvError::Closed)) => {
                    let reason = "its reader has stopped".to_owned();
                    return Some(Err(SourceError::Unreachable { address: self.address.clone(), reason }));
                }
                Err(_) if until < end || self.heard.is_none() => {
                    let waited = until - self.heard.unwrap_or(start);
                    let (address, malformed) = (self.address.clone(), self.malformed());
                    return Some(Err(SourceError::Silent { address, waited, malformed }));
                }
                Err(_) => return None,
            }
        }
    }

    /// A handle to request key frames from the source.
    pub(crate) fn key_frames(&self) -> KeyFrameRequester {
        self.upstream.key_frames.clone()
    }

    /// Datagrams that were malformed or too large, since the source was opened.
    pub(crate) fn malformed(&self) -> u64 {
        self.upstream.malformed.load(Ordering::Relaxed)
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        let (dropped, malformed) = (self.dropped, self.malformed());
        if dropped + malformed > 0 {
            tracing::info!(address = self.address, dropped, malformed, "not all of a live source was sent");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::sync::mpsc;

    struct Fake(mpsc::UnboundedReceiver<Bytes>);

    impl SourceReader for Fake {
        async fn run(mut self, outlet: Outlet) -> SourceError {
            while let Some(payload) = self.0.recv().await {
                outlet.put(payload);
            }
            SourceError::Unreachable { address: "fake".to_owned(), reason: "it ended".to_owned() }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn last_listener_closes_shared_reader() {
        let shared = ReaderSlot::default();
        let (sender, receiver) = mpsc::unbounded_channel();
        let mut one = shared.join("fake", None, async { Ok(Fake(receiver)) }).await.unwrap();
        let never = async { Err::<Fake, _>(SourceError::NoPicture { path: "never".to_owned() }) };
        let mut two = shared.join("fake", None, never).await.unwrap();
        sender.send(Bytes::from_static(b"a")).unwrap();
        let (start, length) = (Instant::now(), Duration::from_secs(1));
        assert_eq!(one.next(start, length).await, Some(Ok(Bytes::from_static(b"a"))));
        assert_eq!(two.next(start, length).await, Some(Ok(Bytes::from_static(b"a"))));
        assert_eq!(two.next(start, length).await, None, "the time is up");
        drop(one);
        assert!(shared.is_running().await);
        drop(two);
        sender.closed().await;
        assert!(!shared.is_running().await);
    }

    #[tokio::test(start_paused = true)]
    async fn slow_listener_drops_oldest() {
        let shared = ReaderSlot::default();
        let (sender, receiver) = mpsc::unbounded_channel();
        let mut live = shared.join("fake", None, async { Ok(Fake(receiver)) }).await.unwrap();
        for number in 0..(BACKLOG as u32 + 10) {
            sender.send(Bytes::from(number.to_be_bytes().to_vec())).unwrap();
        }
        // The reader runs while this task yields.
        tokio::time::sleep(Duration::from_millis(1)).await;
        let first = live.next(Instant::now(), Duration::from_secs(1)).await.unwrap().unwrap();
        assert_eq!(&first[..], 10_u32.to_be_bytes());
        assert_eq!(live.dropped, 10);
    }

    #[tokio::test]
    async fn panicked_reader_is_restarted() {
        struct Broken;
        impl SourceReader for Broken {
            async fn run(self, _: Outlet) -> SourceError {
                panic!("on purpose")
            }
        }
        let shared = ReaderSlot::default();
        let mut live = shared.join("fake", None, async { Ok(Broken) }).await.unwrap();
        let ended = live.next(Instant::now(), Duration::from_secs(10)).await;
        assert!(matches!(ended, Some(Err(SourceError::Unreachable { .. }))));
        let (_sender, receiver) = mpsc::unbounded_channel();
        shared.join("fake", None, async { Ok(Fake(receiver)) }).await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn silence_says_what_came_instead() {
        struct Garbled;
        impl SourceReader for Garbled {
            async fn run(self, outlet: Outlet) -> SourceError {
                outlet.malformed();
                std::future::pending().await
            }
        }
        let shared = ReaderSlot::default();
        let silence = Some(Duration::from_secs(4));
        let mut live = shared.join("fake", silence, async { Ok(Garbled) }).await.unwrap();
        let error = live.next(Instant::now(), Duration::from_secs(10)).await.unwrap().unwrap_err().to_string();
        assert_eq!(
            error,
            "nothing usable came from fake for 4 s, only malformed data (1 times); check what its sender sends"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn silence_and_source_end_are_errors() {
        let shared = ReaderSlot::default();
        let (sender, receiver) = mpsc::unbounded_channel();
        let silence = Some(Duration::from_secs(4));
        let mut live = shared.join("fake", silence, async { Ok(Fake(receiver)) }).await.unwrap();
        let (start, length) = (Instant::now(), Duration::from_secs(10));
        assert!(matches!(live.next(start, length).await, Some(Err(SourceError::Silent { .. }))));
        drop(sender);
        assert!(matches!(live.next(Instant::now(), length).await, Some(Err(SourceError::Unreachable { .. }))));
    }
}
