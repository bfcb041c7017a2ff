//! Lookups, a given number at once.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use roost_wire::messages::{DirectoryMessage, Message, Reason, Request, RequestMessage, RequestMode, ServiceRequest};
use roost_wire::{Area, Nonce, RequestId};
use tokio::task::JoinSet;

use super::node::{BenchNode, NodeFactory};
use super::population::place;
use super::probe::Probe;
use crate::failure::{Code, Failure, Outcome};

/// With few nodes, each has several lookups in flight: their packets travel together, which is the least that a lookup
/// costs a hub. With as many nodes as lookups nothing travels together, which is the most.
pub(super) const FEW_REQUESTERS: u32 = 4;

/// A lookup without an answer for this long is lost.
const LOST: Duration = Duration::from_millis(500);

/// Lookups before the measurement.
const WARM_UP: Duration = Duration::from_millis(300);

/// The error if the hub rate-limits lookups per node: the bench would measure that limit.
pub(super) const THROTTLED: &str =
    "the hub lets no node ask as fast as the bench does: start it with --lookups-per-second 10000000";

/// The longest time that a histogram holds, nanoseconds.
const LONGEST_NANOS: u64 = 10_000_000_000;

#[derive(Clone, Debug)]
pub(super) struct Lookups {
    pub(super) in_flight: u32,
    /// Nodes among which the lookups in flight are shared out.
    pub(super) requesters: u32,
    pub(super) answered: u64,
    pub(super) lost: u64,
    pub(super) wrong: u64,
    pub(super) per_second: f64,
    pub(super) nanos: Histogram<u64>,
    /// Processor time of the hub for each lookup, microseconds.
    pub(super) hub_micros: Option<f64>,
}

/// Fails if the hub rate-limits lookups per node. Called before the population attaches.
pub(super) async fn check(maker: &Arc<NodeFactory>, nodes: u32, in_flight: u32) -> Outcome {
    run(maker, nodes, LookupLoad { in_flight, requesters: 1, duration: WARM_UP }, None).await.map(drop)
}

/// Lookups in flight, shared out among at most `requesters` nodes.
#[derive(Clone, Copy)]
pub(super) struct LookupLoad {
    pub(super) in_flight: u32,
    pub(super) requesters: u32,
    pub(super) duration: Duration,
}

impl LookupLoad {
    /// Attaches the requesters, each with its share of the lookups.
    async fn attach(self, maker: &NodeFactory, nodes: u32) -> Outcome<Vec<Requester>> {
        let Self { in_flight, requesters, .. } = self;
        let count = requesters.min(in_flight);
        let mut ready = Vec::new();
        for requester in 0..count {
            let window = in_flight / count + u32::from(requester < in_flight % count);
            let node = maker.attach(None).await?;
            ready.push(Requester::new(node, window, nodes, requester)?);
        }
        Ok(ready)
    }
}

/// Looks nodes of the population up by cell and service.
pub(super) async fn run(
    maker: &Arc<NodeFactory>,
    nodes: u32,
    load: LookupLoad,
    probe: Option<&Probe>,
) -> Outcome<Lookups> {
    let ready = load.attach(maker, nodes).await?;
    let ready = ask(ready, WARM_UP).await?;
    let before = probe.map(Probe::processor).transpose()?;
    let start = Instant::now();
    let requesters = ask(ready.into_iter().map(Requester::reset).collect(), load.duration).await?;
    let took = start.elapsed();
    let after = probe.map(Probe::processor).transpose()?;

    let mut nanos = histogram()?;
    for requester in &requesters {
        nanos.add(&requester.nanos).map_err(|error| Failure::failed(error.to_string()))?;
    }
    let answered = nanos.len();
    if requesters.iter().any(|requester| requester.is_throttled) {
        return Err(Failure::new(Code::Refused, THROTTLED));
    }
    let (lost, wrong) = (
        requesters.iter().map(|requester| requester.lost).sum(),
        requesters.iter().map(|requester| requester.wrong).sum(),
    );
    for requester in requesters {
        requester.node.leave().await;
    }
    let spent = before.zip(after).map(|(before, after)| after.saturating_sub(before));
    Ok(Lookups {
        in_flight: load.in_flight,
        requesters: load.requesters.min(load.in_flight),
        answered,
        lost,
        wrong,
        per_second: answered as f64 / took.as_secs_f64(),
        nanos,
        hub_micros: spent.map(|spent| spent.as_secs_f64() * 1e6 / answered.max(1) as f64),
    })
}

async fn ask(requesters: Vec<Requester>, during: Duration) -> Outcome<Vec<Requester>> {
    let end = Instant::now() + during;
    let mut tasks: JoinSet<Requester> = requesters.into_iter().map(|requester| requester.ask_until(end)).collect();
    let mut done = Vec::new();
    while let Some(requester) = tasks.join_next().await {
        done.push(requester.map_err(|error| Failure::failed(error.to_string()))?);
    }
    Ok(done)
}

fn histogram() -> Outcome<Histogram<u64>> {
    Histogram::new_with_max(LONGEST_NANOS, 3).map_err(|error| Failure::failed(error.to_string()))
}

/// A node with its share of the lookups in flight.
struct Requester {
    node: BenchNode,
    window: u32,
    nodes: u32,
    /// The position in a full-period walk over the population.
    cursor: u64,
    next_id: u32,
    waiting: HashMap<RequestId, Instant>,
    nanos: Histogram<u64>,
    lost: u64,
    wrong: u64,
    is_throttled: bool,
}

impl Requester {
    fn new(node: BenchNode, window: u32, nodes: u32, seed: u32) -> Outcome<Self> {
        let (cursor, waiting, nanos) = (u64::from(seed) * 7_919, HashMap::new(), histogram()?);
        Ok(Self { node, window, nodes, cursor, next_id: 1, waiting, nanos, lost: 0, wrong: 0, is_throttled: false })
    }

    /// Forgets the counts so far.
    fn reset(mut self) -> Self {
        self.nanos.reset();
        (self.lost, self.wrong) = (0, 0);
        self
    }

    /// Keeps the window full until `end`, then waits for the lookups in flight.
    async fn ask_until(mut self, end: Instant) -> Self {
        loop {
            let now = Instant::now();
            while now < end && self.waiting.len() < self.window as usize {
                self.send();
            }
            self.node.transport.flush();
            if self.waiting.is_empty() {
                return self;
            }
            match self.node.message(now + LOST).await {
                Some((_, message)) => self.record_reply(&message),
                None => self.give_up(),
            }
            // All replies that came together are read before more lookups leave, so that packets travel together in
            // both directions.
            while self.node.has_more() {
                match self.node.message(Instant::now()).await {
                    Some((_, message)) => self.record_reply(&message),
                    None => break,
                }
            }
        }
    }

    fn send(&mut self) {
        /// Odd and not near a power of two: steps over the whole population.
        const STRIDE: u64 = 2_654_435_761;
        self.cursor = self.cursor.wrapping_add(STRIDE);
        // The remainder is below a 32-bit number.
        let number = (self.cursor % u64::from(self.nodes)) as u32;
        let service = self.node.services[(self.cursor >> 7) as usize % self.node.services.len()];
        let id = RequestId(self.next_id);
        self.next_id = self.next_id.wrapping_add(1);
        let area = Area::Exact(place(number));
        let spec = ServiceRequest { mode: RequestMode::Lookup, ..ServiceRequest::new(service, area) };
        let request = Request::new(id, Nonce::from_u64(self.cursor), spec, 2_000);
        self.waiting.insert(id, Instant::now());
        self.node.send(self.node.hub, &Message::Request(RequestMessage::Request(request)));
    }

    fn record_reply(&mut self, message: &Message) {
        let (id, right) = match message {
            Message::Directory(DirectoryMessage::LookupResult(found)) => (found.id, !found.candidates.is_empty()),
            Message::Request(RequestMessage::Decline(decline)) => {
                self.is_throttled |= decline.reason == Reason::TooMany;
                (decline.id, false)
            }
            _ => return,
        };
        let Some(sent) = self.waiting.remove(&id) else { return };
        if right {
            self.nanos.saturating_record(u64::try_from(sent.elapsed().as_nanos()).unwrap_or(u64::MAX));
        } else {
            self.wrong += 1;
        }
    }

    fn give_up(&mut self) {
        self.lost += self.waiting.len() as u64;
        self.waiting.clear();
    }
}
