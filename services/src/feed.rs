//! Datagrams of a stream, each handed out when it is due.

use std::time::Duration;

use bytes::Bytes;
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::pace::{Due, Pacer};
use crate::shared_reader::{KeyFrameRequester, Live};
use crate::{SourceError, StoredFile};

#[derive(Debug)]
pub enum OpenedSource {
    Stream {
        /// Payload rate to expect, bits per second.
        bits_per_second: u32,
        format: String,
        feed: Feed,
    },
    Object {
        bytes: Bytes,
        format: String,
    },
    /// An object that stays on disk and is read chunk by chunk while it is sent: image.
    Stored {
        file: StoredFile,
        format: String,
    },
}

/// A stream in progress. Dropping it stops its source.
///
/// Time starts with the first call of [`Feed::next`].
#[derive(Debug)]
pub struct Feed {
    items: Items,
    /// The end of the stream, since its start: nothing is handed out at or after it.
    length: Duration,
    /// The silence after which an empty datagram shows that the source is alive.
    keepalive: Option<Duration>,
    started: Option<Instant>,
    spoke: Option<Instant>,
    pending: Option<Due>,
    pacer: Pacer,
    done: bool,
}

/// A piece of what a program gives.
#[derive(Debug)]
pub enum FeedItem {
    Payload(Bytes),
    /// The stream has ended well.
    End,
    Failed(SourceError),
}

enum Items {
    /// By a program, as they come. Without [`FeedItem::End`] the program has broken off.
    Given {
        first: Option<FeedItem>,
        items: mpsc::Receiver<FeedItem>,
    },
    Planned(Box<dyn Iterator<Item = Due> + Send>),
    /// Read by a thread of its own.
    Read(mpsc::Receiver<Result<Due, SourceError>>),
    Live(Box<Live>),
}

impl Feed {
    pub(crate) fn planned(plan: impl Iterator<Item = Due> + Send + 'static, length: Duration) -> Self {
        Self::from_items(Items::Planned(Box::new(plan)), length)
    }

    pub(crate) fn read(items: mpsc::Receiver<Result<Due, SourceError>>, length: Duration) -> Self {
        Self::from_items(Items::Read(items), length)
    }

    /// Data that comes from elsewhere, of which the `first` may be here already.
    pub fn given(first: Option<FeedItem>, items: mpsc::Receiver<FeedItem>, length: Duration) -> Self {
        Self::from_items(Items::Given { first, items }, length)
    }

    pub(crate) fn live(live: Live, length: Duration) -> Self {
        Self::from_items(Items::Live(Box::new(live)), length)
    }

    fn from_items(items: Items, length: Duration) -> Self {
        Self {
            items,
            length,
            keepalive: None,
            started: None,
            spoke: None,
            pending: None,
            pacer: Pacer::default(),
            done: false,
        }
    }

    /// Adds an empty datagram after every `silence` without one, for services whose data comes seldom.
    pub(crate) fn with_keepalive(mut self, silence: Duration) -> Self {
        self.keepalive = Some(silence);
        self
    }

    /// A handle to request key frames, if the source is live.
    pub fn key_frames(&self) -> Option<KeyFrameRequester> {
        match &self.items {
            Items::Live(live) => Some(live.key_frames()),
            Items::Given { .. } | Items::Planned(_) | Items::Read(_) => None,
        }
    }

    /// Waits until the next datagram is due and returns its payload; `None` at the end. After an error the feed
    /// is at its end. An empty payload carries no data: it shows that a silent source is alive.
    ///
    /// Cancel safe: a call that is dropped loses nothing.
    pub async fn next(&mut self) -> Option<Result<Bytes, SourceError>> {
        if self.done {
            return None;
        }
        let start = *self.started.get_or_insert_with(Instant::now);
        let spoke = self.spoke.unwrap_or(start);
        let item = match self.keepalive {
            Some(silence) => match tokio::time::timeout_at(spoke + silence, self.due(start)).await {
                Ok(item) => item,
                Err(_) => Some(Ok(Bytes::new())),
            },
            None => self.due(start).await,
        };
        self.spoke = Some(Instant::now());
        self.done = !matches!(item, Some(Ok(_)));
        item
    }

    async fn due(&mut self, start: Instant) -> Option<Result<Bytes, SourceError>> {
        if self.pending.is_none() {
            let due = match &mut self.items {
                Items::Live(live) => return live.next(start, self.length).await,
                Items::Given { first, items } => {
                    // The time is up when nothing comes before the end.
                    return tokio::time::timeout_at(start + self.length, given(first, items)).await.unwrap_or(None);
                }
                Items::Planned(plan) => plan.next()?,
                Items::Read(items) => match items.recv().await? {
                    Ok(due) => due,
                    Err(error) => return Some(Err(error)),
                },
            };
            self.pending = Some(due);
        }
        let at = self.pending.as_ref()?.at;
        if at >= self.length {
            // A stream of ten seconds takes ten seconds, even if its last datagram came long before.
            tokio::time::sleep_until(start + self.length).await;
            return None;
        }
        tokio::time::sleep_until(start + self.pacer.release(at)).await;
        self.pacer.left(at, start.elapsed());
        self.pending.take().map(|due| Ok(due.payload))
    }
}

async fn given(
    first: &mut Option<FeedItem>,
    items: &mut mpsc::Receiver<FeedItem>,
) -> Option<Result<Bytes, SourceError>> {
    let item = match first.take() {
        Some(first) => Some(first),
        None => items.recv().await,
    };
    match item {
        Some(FeedItem::Payload(payload)) => Some(Ok(payload)),
        Some(FeedItem::End) => None,
        Some(FeedItem::Failed(error)) => Some(Err(error)),
        None => Some(Err(SourceError::Program { reason: "broke off".to_owned() })),
    }
}

impl std::fmt::Debug for Items {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Given { .. } => "Given",
            Self::Planned(_) => "Planned",
            Self::Read(_) => "Read",
            Self::Live(_) => "Live",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic;
    use roost_wire::Service;

    fn video() -> Feed {
        let length = Duration::from_secs(10);
        Feed::planned(synthetic::stream(Service::Video, length, 0), length)
    }

    #[tokio::test(start_paused = true)]
    async fn program_that_breaks_off_is_an_error() {
        let (give, items) = mpsc::channel(4);
        let mut feed = Feed::given(None, items, Duration::from_secs(1));
        give.send(FeedItem::Payload(Bytes::from_static(b"a"))).await.unwrap();
        assert_eq!(feed.next().await, Some(Ok(Bytes::from_static(b"a"))));
        drop(give);
        assert!(matches!(feed.next().await, Some(Err(SourceError::Program { .. }))));
        let (give, items) = mpsc::channel(4);
        let mut feed = Feed::given(None, items, Duration::from_secs(1));
        assert_eq!(feed.next().await, None, "the time is up");
        drop(give);
    }

    #[tokio::test(start_paused = true)]
    async fn synthetic_video_keeps_its_rate() {
        let mut feed = video();
        let start = Instant::now();
        let (mut bytes, mut packets) = (0_u64, 0_u32);
        while let Some(payload) = feed.next().await {
            assert!(start.elapsed() < Duration::from_nanos(15_040_000) * packets + Duration::from_millis(2));
            bytes += payload.unwrap().len() as u64;
            packets += 1;
        }
        assert_eq!(bytes, 875_000);
        assert!(start.elapsed() > Duration::from_millis(9_980) && start.elapsed() < Duration::from_secs(10));
    }

    #[tokio::test(start_paused = true)]
    async fn stalled_reader_catches_up_without_loss() {
        let mut feed = video();
        let mut bytes = feed.next().await.unwrap().unwrap().len();
        tokio::time::advance(Duration::from_secs(60)).await;
        let late = Instant::now();
        while let Some(payload) = feed.next().await {
            bytes += payload.unwrap().len();
        }
        assert_eq!(bytes, 875_000);
        let pauses = late.elapsed().as_millis();
        assert!((40..100).contains(&pauses), "{pauses}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_dropped_call_loses_nothing() {
        let mut feed = video();
        let mut bytes = 0;
        loop {
            match tokio::time::timeout(Duration::from_millis(7), feed.next()).await {
                Ok(Some(payload)) => bytes += payload.unwrap().len(),
                Ok(None) => break,
                Err(_) => {}
            }
        }
        assert_eq!(bytes, 875_000);
    }

    #[tokio::test(start_paused = true)]
    async fn keepalives_fill_silence() {
        let plan = [Due { at: Duration::from_secs(5), payload: Bytes::from_static(b"x") }];
        let mut feed = Feed::planned(plan.into_iter(), Duration::from_secs(10)).with_keepalive(Duration::from_secs(2));
        let mut got = Vec::new();
        while let Some(payload) = feed.next().await {
            got.push(payload.unwrap().len());
        }
        assert_eq!(got, [0, 0, 1]);
    }
}
