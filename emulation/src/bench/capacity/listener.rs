//! The user of a node: in a room, where it receives what everybody else sends, or
//! subscribed to one stream. What is refused or ends is asked for again.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use roost_control::{Client, ClientError, Frame, Member, RoomQuery};
use roost_proto::wire::{ReflectionPolicy, ServiceRequest};
use roost_proto::{Area, Cell, NodeId, Service};
use tokio::task::JoinSet;

use super::participants::RECORD;
use crate::experiment::Daemon;

const ROOM: &str = "all";
/// How long a request lasts: longer than any measurement.
const ENDLESS: Duration = Duration::from_secs(3600);
/// The pause before what failed is asked for again, at first and at most: super
/// nodes hear within a second what the others have left.
const PAUSES: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(4)];
/// A stream comes if its last record is no older: some may be lost on end, and wait to be repaired.
const FRESH: Duration = Duration::from_secs(1);
/// Where a record of the synthetic track has its time, after `{"t":"`.
const TIME: std::ops::Range<usize> = 6..30;

/// What has come of one stream.
#[derive(Debug, Default)]
struct ReceivedStream {
    /// When each record was made, milliseconds of the system's clock: some thousand in a measurement.
    records: Vec<u64>,
    /// What has come of a record whose rest has not.
    rest: Vec<u8>,
}

type ReceivedStreams = Arc<Mutex<BTreeMap<NodeId, ReceivedStream>>>;

/// Whose stream, and where that one is.
type Provider = (NodeId, Cell);

/// Receives. Dropped, it leaves.
pub(super) struct SubscriberClient {
    streams: ReceivedStreams,
    _tasks: JoinSet<()>,
}

impl SubscriberClient {
    /// Enters the room.
    pub(super) fn enter(daemon: &Daemon) -> Self {
        let (streams, mut tasks) = (ReceivedStreams::default(), JoinSet::new());
        let (socket, seen) = (daemon.launch.socket.clone(), Arc::clone(&streams));
        tasks.spawn(async move {
            // Whoever is put out receives nothing, which is seen.
            let _ = stay(socket, &seen).await;
        });
        Self { streams, _tasks: tasks }
    }

    /// Subscribes to one stream.
    pub(super) fn subscribe(daemon: &Daemon, provider: Provider) -> Self {
        let (streams, mut tasks) = (ReceivedStreams::default(), JoinSet::new());
        tasks.spawn(receive(daemon.launch.socket.clone(), Arc::clone(&streams), provider));
        Self { streams, _tasks: tasks }
    }

    /// How many streams come.
    pub(super) fn active_streams(&self) -> usize {
        let fresh = now_ms().saturating_sub(FRESH.as_millis() as u64);
        let streams = lock(&self.streams);
        streams.values().filter(|stream| stream.records.last().is_some_and(|last| *last >= fresh)).count()
    }

    /// Of each stream of which something came, the part that is missing of what was made
    /// in the `span` from `begin` on, milliseconds of the system's clock.
    pub(super) fn lost(&self, begin: u64, span: Duration) -> Vec<f64> {
        let expected = (span.as_secs_f64() / RECORD.as_secs_f64()).floor();
        let window = begin..begin + span.as_millis() as u64;
        let came = |stream: &ReceivedStream| {
            let mut came: Vec<u64> = stream.records.iter().copied().filter(|at| window.contains(at)).collect();
            came.sort_unstable();
            came.dedup();
            came.len() as f64
        };
        let all: Vec<f64> = lock(&self.streams).values().map(came).collect();
        all.into_iter().filter(|came| *came > 0.0).map(|came| (1.0 - came / expected).max(0.0)).collect()
    }
}

/// Stays in the room, with a task for the stream of each member, until something breaks.
async fn stay(socket: PathBuf, streams: &ReceivedStreams) -> Result<(), ClientError> {
    let client = Client::connect(&socket).await?;
    let mut entered = client.room(&RoomQuery { name: ROOM.to_owned(), names: false }).await?;
    let mut running: BTreeMap<NodeId, JoinSet<()>> = BTreeMap::new();
    while let Some(roster) = entered.next().await? {
        running.retain(|node, _| roster.members.iter().any(|member| member.node == *node));
        for Member { node, cell, .. } in roster.members {
            running.entry(node).or_insert_with(|| {
                let mut task = JoinSet::new();
                task.spawn(receive(socket.clone(), Arc::clone(streams), (node, cell)));
                task
            });
        }
    }
    Ok(())
}

/// Receives one stream, and asks for it again whenever it ends.
async fn receive(socket: PathBuf, streams: ReceivedStreams, provider: Provider) {
    let mut pause = PAUSES[0];
    loop {
        // Why it ended, or was refused, does not matter: what comes is counted.
        let _ = attempt(&socket, &streams, provider).await;
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(PAUSES[1]);
    }
}

/// One request, to its end.
async fn attempt(socket: &PathBuf, streams: &ReceivedStreams, (node, cell): Provider) -> Result<(), ClientError> {
    let request = ServiceRequest {
        provider: Some(node.into()),
        duration: Some(ENDLESS),
        reflect: ReflectionPolicy::Always,
        ..ServiceRequest::new(Service::Track, Area::Exact(cell))
    };
    let mut frames = Client::connect(socket).await?.request(&request).await?;
    while let Some(frame) = frames.next().await? {
        if let Frame::Data(data) = frame {
            lock(streams).entry(node).or_default().append_data(&data);
        }
    }
    Ok(())
}

impl ReceivedStream {
    fn append_data(&mut self, data: &[u8]) {
        self.rest.extend_from_slice(data);
        let Some(end) = self.rest.iter().rposition(|byte| *byte == b'\n') else { return };
        let whole: Vec<u8> = self.rest.drain(..=end).collect();
        self.records.extend(whole.split(|byte| *byte == b'\n').filter_map(made));
    }
}

/// When a record was made.
fn made(record: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(record.get(TIME)?).ok()?;
    millis(humantime::parse_rfc3339(text).ok()?)
}

/// The system's clock, which tells when records are made.
pub(super) fn now_ms() -> u64 {
    millis(SystemTime::now()).unwrap_or_default()
}

fn millis(time: SystemTime) -> Option<u64> {
    time.duration_since(UNIX_EPOCH).ok()?.as_millis().try_into().ok()
}

fn lock(streams: &ReceivedStreams) -> MutexGuard<'_, BTreeMap<NodeId, ReceivedStream>> {
    streams.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A record that is made `ms` milliseconds after midnight.
    fn record(ms: u32) -> String {
        format!("{{\"t\":\"2026-01-01T00:00:{:02}.{:03}Z\",\"pad\":\"\"}}\n", ms / 1000, ms % 1000)
    }

    #[test]
    fn loss_is_share_of_sent() {
        let midnight = made(record(0).as_bytes()).unwrap();
        let mut stream = ReceivedStream::default();
        let all: String = (0..60).filter(|number| *number != 30).map(|number| record(number * 50)).collect();
        // As it comes: in pieces, and something again.
        all.as_bytes().chunks(33).for_each(|piece| stream.append_data(piece));
        stream.append_data(record(500).as_bytes());
        assert_eq!(stream.records.len(), 60);
        let streams = Arc::new(Mutex::new(BTreeMap::from([(NodeId::from_bytes([1; 16]), stream)])));
        let listener = SubscriberClient { streams, _tasks: JoinSet::new() };
        let lost = |from, ms| listener.lost(midnight + from, Duration::from_millis(ms));
        assert_eq!((lost(0, 1_000), lost(7, 1_000)), (vec![0.0], vec![0.0]));
        assert!((lost(1_000, 1_000)[0] - 0.05).abs() < 1e-9, "{:?}", lost(1_000, 1_000));
        assert!(lost(9_000, 1_000).is_empty(), "nothing has come of it then");
    }
}
