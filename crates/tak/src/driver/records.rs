//! The requesters of contacts: each gets every record, or misses some if it is slow.

use std::time::{Duration, Instant};

use bytes::Bytes;
use roost_client::IncomingRequest;
use tokio::sync::mpsc;

const BACKLOG: usize = 32;

/// Requesters give a stream up after 5 s of silence, and count 2 s as an interruption.
const SILENCE: Duration = Duration::from_secs(1);

/// A line that is no record, and that no reader takes for one.
const SIGN_OF_LIFE: &[u8] = b"\n";

const FORMAT: &str = "application/jsonl";

#[derive(Default)]
pub(super) struct Requesters {
    requesters: Vec<mpsc::Sender<Bytes>>,
    spoke: Option<Instant>,
}

impl Requesters {
    pub(super) fn serve(&mut self, request: IncomingRequest) {
        let (give, records) = mpsc::channel(BACKLOG);
        tokio::spawn(answer(request, records));
        // The provider's source has to give something soon.
        let _ = give.try_send(Bytes::from_static(SIGN_OF_LIFE));
        self.requesters.push(give);
        self.spoke.get_or_insert_with(Instant::now);
    }

    pub(super) fn send(&mut self, record: &Bytes, now: Instant) {
        self.spoke = Some(now);
        for requester in &self.requesters {
            let _ = requester.try_send(record.clone());
        }
    }

    /// Sends a sign of life if it is due, and forgets requesters that have gone.
    pub(super) fn keep_alive(&mut self, now: Instant) {
        self.requesters.retain(|requester| !requester.is_closed());
        if !self.is_empty() && self.deadline() <= now {
            self.send(&Bytes::from_static(SIGN_OF_LIFE), now);
        }
    }

    pub(super) fn deadline(&self) -> Instant {
        let last = self.spoke.filter(|_| !self.is_empty());
        last.map_or_else(|| Instant::now() + SILENCE, |last| last + SILENCE)
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.requesters.is_empty()
    }
}

async fn answer(mut request: IncomingRequest, mut records: mpsc::Receiver<Bytes>) {
    let mut answer = request.stream(FORMAT);
    let give = async {
        while let Some(record) = records.recv().await {
            if !answer.send(record).await.unwrap_or(false) {
                break;
            }
        }
    };
    tokio::select! {
        () = give => {}
        () = request.gone() => {}
    }
    // The requester may have gone.
    let _ = answer.finish().await;
}
