//! The client of a node: in a room, where it receives all other members' streams, or subscribed to one stream.
//! A request that is declined or ends is repeated.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use roost_api::{Client, ClientError, Member, RoomQuery};
use roost_experiment::Daemon;
use roost_wire::messages::{ReflectionPolicy, ServiceRequest};
use roost_wire::{Area, Cell, NodeId, Service};
use tokio::task::JoinSet;

use super::participants::RECORD;
use crate::testbed;

const ROOM: &str = "all";
/// The length of a request: longer than any measurement.
const ENDLESS: Duration = Duration::from_secs(3600);
/// The pause before a failed request is repeated, at first and at most: super nodes learn within a second of
/// the others' residual capacity.
const PAUSES: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(4)];
/// A stream is active if its last record is no older: several may be lost in a row, and wait for repair.
const FRESH: Duration = Duration::from_secs(1);
/// The position of the time in a record of the synthetic track, after `{"t":"`.
const TIME: std::ops::Range<usize> = 6..30;

#[derive(Debug, Default)]
struct ReceivedStream {
    /// The time of each record, milliseconds of the system's clock: some thousand in a measurement.
    records: Vec<u64>,
    /// The beginning of a record whose rest has not come.
    rest: Vec<u8>,
}

type ReceivedStreams = Arc<Mutex<BTreeMap<NodeId, ReceivedStream>>>;

type Provider = (NodeId, Cell);

/// A subscriber. Dropping it ends its requests.
pub(super) struct SubscriberClient {
    streams: ReceivedStreams,
    _tasks: JoinSet<()>,
}

impl SubscriberClient {
    pub(super) fn enter(daemon: &Daemon) -> Self {
        let (streams, mut tasks) = (ReceivedStreams::default(), JoinSet::new());
        let (socket, seen) = (daemon.launch.socket.clone(), Arc::clone(&streams));
        tasks.spawn(async move {
            // A member that was removed receives nothing, which shows in the results.
            let _ = stay(socket, &seen).await;
        });
        Self { streams, _tasks: tasks }
    }

    pub(super) fn subscribe(daemon: &Daemon, provider: Provider) -> Self {
        let (streams, mut tasks) = (ReceivedStreams::default(), JoinSet::new());
        tasks.spawn(receive(daemon.launch.socket.clone(), Arc::clone(&streams), provider));
        Self { streams, _tasks: tasks }
    }

    pub(super) fn active_streams(&self) -> usize {
        let fresh = now_ms().saturating_sub(FRESH.as_millis() as u64);
        let streams = lock(&self.streams);
        streams.values().filter(|stream| stream.records.last().is_some_and(|last| *last >= fresh)).count()
    }

    /// For each stream that was received, the fraction missing of the records made in the `span` from `begin`
    /// on, milliseconds of the system's clock.
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

/// Stays in the room, with a task for the stream of each member, until a failure.
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

/// Receives one stream, and repeats the request whenever it ends.
async fn receive(socket: PathBuf, streams: ReceivedStreams, provider: Provider) {
    let (node, cell) = provider;
    let request = ServiceRequest {
        provider: Some(node.into()),
        duration: Some(ENDLESS),
        reflect: ReflectionPolicy::Always,
        ..ServiceRequest::new(Service::Track, Area::Exact(cell))
    };
    let mut pause = PAUSES[0];
    loop {
        // The reason does not matter: only received records count.
        testbed::receive(&socket, &request, |data| lock(&streams).entry(node).or_default().append_data(data)).await;
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(PAUSES[1]);
    }
}

impl ReceivedStream {
    fn append_data(&mut self, data: &[u8]) {
        self.rest.extend_from_slice(data);
        let Some(end) = self.rest.iter().rposition(|byte| *byte == b'\n') else { return };
        let whole: Vec<u8> = self.rest.drain(..=end).collect();
        self.records.extend(whole.split(|byte| *byte == b'\n').filter_map(made));
    }
}

fn made(record: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(record.get(TIME)?).ok()?;
    millis(humantime::parse_rfc3339(text).ok()?)
}

/// The system's clock, by which records have their times.
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

    /// A record made `ms` milliseconds after midnight.
    fn record(ms: u32) -> String {
        format!("{{\"t\":\"2026-01-01T00:00:{:02}.{:03}Z\",\"pad\":\"\"}}\n", ms / 1000, ms % 1000)
    }

    #[test]
    fn loss_is_share_of_sent() {
        let midnight = made(record(0).as_bytes()).unwrap();
        let mut stream = ReceivedStream::default();
        let all: String = (0..60).filter(|number| *number != 30).map(|number| record(number * 50)).collect();
        // As it is received: in arbitrary parts, with a repetition.
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
