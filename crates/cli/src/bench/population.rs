//! The nodes that fill the hub's directory and keep their leases.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use roost_identity::Identity;
use roost_transport::{Event, Transport};
use roost_wire::{Cell, Scheme};
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::task::JoinSet;

use super::node::{BenchNode, NodeFactory, wire_bytes};
use roost_terminal::Steps;

use crate::failure::{Failure, Outcome};

/// Nodes that join one after the other, each with nothing else going on.
const SAMPLE: u32 = 16;

/// The time for which a node of the sample may still get messages of its join: acknowledgements, session tickets.
const SETTLE: Duration = Duration::from_millis(150);

const HANDSHAKES: usize = 16;

/// Nodes at once that only publish; each of them waits [`SETTLE`].
const FALLING_SILENT: usize = 64;

const PUBLICATIONS: usize = 64;

/// The period of renewals, as in the daemons.
const RENEW: Duration = Duration::from_secs(20);

/// Columns of the grid over which the nodes are spread, one node to a cell.
const COLUMNS: u32 = 1_000;

pub(super) fn place(number: u32) -> Cell {
    // Both are far below the grid's edge for any population that fits a machine.
    Cell::new((number % COLUMNS).cast_signed(), (number / COLUMNS).cast_signed())
}

/// The average cost of a join over the sample.
#[derive(Clone, Copy, Debug)]
pub(super) struct Joins {
    pub(super) bytes: f64,
    pub(super) millis: f64,
}

/// Attaches a few nodes, one by one: first contact, mutual authentication, four services published. They stay in
/// `sample`.
pub(super) async fn sample_joins(maker: &NodeFactory, nodes: u32, sample: &mut Vec<BenchNode>) -> Outcome<Joins> {
    let count = SAMPLE.min(nodes);
    let (mut bytes, mut millis) = (0, 0.0);
    for number in 0..count {
        let start = Instant::now();
        let mut node = maker.attach(None).await?;
        node.publish_all(place(number)).await?;
        millis += start.elapsed().as_secs_f64() * 1e3;
        // The node still reads, as a daemon does.
        node.message(Instant::now() + SETTLE).await;
        bytes += node.bytes();
        sample.push(node);
    }
    let mean = f64::from(count);
    Ok(Joins { bytes: bytes as f64 / mean, millis: millis / mean })
}

/// The stage of all nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Keep the connection. Only nodes of the sample have published.
    Attached,
    /// Publish, and keep the lease.
    Published,
    Leaving,
}

/// All nodes of the population, each in its own task.
pub(super) struct Population {
    tasks: JoinSet<()>,
    transports: Vec<(Transport, Scheme)>,
    stage: watch::Sender<Stage>,
    slots: Arc<Semaphore>,
    done: mpsc::UnboundedSender<Outcome>,
    results: mpsc::UnboundedReceiver<Outcome>,
    lost: Arc<AtomicU64>,
}

impl Population {
    pub(super) fn new() -> Self {
        let (done, results) = mpsc::unbounded_channel();
        Self {
            tasks: JoinSet::new(),
            transports: Vec::new(),
            stage: watch::channel(Stage::Attached).0,
            slots: Arc::new(Semaphore::new(PUBLICATIONS)),
            done,
            results,
            lost: Arc::new(AtomicU64::new(0)),
        }
    }

    /// Takes the sample in, and attaches the rest of the population without publishing anything.
    pub(super) async fn attach(
        &mut self,
        maker: &Arc<NodeFactory>,
        sample: Vec<BenchNode>,
        count: u32,
        steps: &Steps,
    ) -> Outcome {
        let first = sample.len() as u32;
        for (number, node) in (0..first).zip(sample) {
            let phase = phase(number, first);
            self.keep(number, phase, node, Some(Instant::now() + phase));
            steps.advance();
        }
        let mut number = first;
        let mut joining = JoinSet::new();
        loop {
            while number < count && joining.len() < HANDSHAKES {
                let (maker, own) = (Arc::clone(maker), number);
                joining.spawn(async move { maker.attach(None).await.map(|node| (own, node)) });
                number += 1;
            }
            let Some(joined) = joining.join_next().await else { return Ok(()) };
            let (own, node) = joined.map_err(|error| Failure::failed(error.to_string()))??;
            self.keep(own, phase(own - first, count - first), node, None);
            steps.advance();
        }
    }

    /// Publishes four services for every node that has none, and waits until the hub holds all of them.
    pub(super) async fn publish(&mut self) -> Outcome {
        self.stage.send_replace(Stage::Published);
        for _ in 0..self.tasks.len() {
            match self.results.recv().await {
                Some(published) => published?,
                None => break,
            }
        }
        Ok(())
    }

    /// Withdraws every node, so that the hub is as it was.
    pub(super) async fn leave(mut self) {
        self.stage.send_replace(Stage::Leaving);
        while self.tasks.join_next().await.is_some() {}
    }

    /// Hands a node to a task that keeps its lease. `renew` is the time of the first renewal, if it has one already.
    fn keep(&mut self, number: u32, phase: Duration, node: BenchNode, renew: Option<Instant>) {
        self.transports.push((node.transport.clone(), node.scheme()));
        let mut member = Member { node, number, phase, renew, slots: Arc::clone(&self.slots) };
        let (mut stage, done, lost) = (self.stage.subscribe(), self.done.clone(), Arc::clone(&self.lost));
        self.tasks.spawn(async move {
            // The receivers live as long as the population does.
            let _ = done.send(member.wait(&mut stage).await);
            if member.live(&mut stage).await {
                member.node.leave().await;
            } else {
                lost.fetch_add(1, Ordering::Relaxed);
            }
        });
    }

    /// Bytes a second that a node and the hub exchange while nothing is asked.
    pub(super) async fn idle_rate(&self, over: Duration) -> f64 {
        let start = Instant::now();
        let before = self.bytes();
        tokio::time::sleep(over).await;
        let bytes = self.bytes() - before;
        bytes as f64 / start.elapsed().as_secs_f64() / self.transports.len() as f64
    }

    /// Nodes whose connection to the hub has gone down.
    pub(super) fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    fn bytes(&self) -> u64 {
        self.transports.iter().map(|(transport, scheme)| wire_bytes(transport, *scheme)).sum()
    }
}

/// A node of the population, in its task.
struct Member {
    node: BenchNode,
    number: u32,
    /// The time from the publication to the first renewal.
    phase: Duration,
    /// The time of the next renewal; `None` before the node has published.
    renew: Option<Instant>,
    slots: Arc<Semaphore>,
}

impl Member {
    /// Keeps the connection until the stage is to publish, and publishes.
    async fn wait(&mut self, stage: &mut watch::Receiver<Stage>) -> Outcome {
        while *stage.borrow_and_update() == Stage::Attached {
            tokio::select! {
                event = self.node.next(self.renew.unwrap_or_else(far_future)) => self.renew_if_due(event.as_ref()),
                _ = stage.changed() => {}
            }
        }
        if self.renew.is_none() && *stage.borrow() == Stage::Published {
            let _slot = self.slots.acquire().await;
            self.node.publish_all(place(self.number)).await?;
            self.renew = Some(Instant::now() + self.phase);
        }
        Ok(())
    }

    /// Keeps the lease. Returns true at the stage to leave, and false when the connection is down.
    async fn live(&mut self, stage: &mut watch::Receiver<Stage>) -> bool {
        while *stage.borrow_and_update() != Stage::Leaving {
            tokio::select! {
                event = self.node.next(self.renew.unwrap_or_else(far_future)) => {
                    if matches!(event, Some(Event::Down { .. })) {
                        return false;
                    }
                    self.renew_if_due(event.as_ref());
                }
                _ = stage.changed() => {}
            }
        }
        true
    }

    /// Renews the lease if no event came before it was due.
    fn renew_if_due(&mut self, event: Option<&Event>) {
        if let (None, Some(due)) = (event, self.renew) {
            self.node.renew();
            self.renew = Some(due + RENEW);
        }
    }
}

/// Publishes further nodes, which then fall silent because there is no file descriptor for them. Over UDP the hub does
/// not notice, so their records last as long as a lease, which is longer than the measurements. Their identities are in
/// `silent`.
pub(super) async fn publish_and_fall_silent(
    maker: &Arc<NodeFactory>,
    numbers: Range<u32>,
    silent: &mut Vec<Arc<Identity>>,
    steps: &Steps,
) -> Outcome {
    let mut joining = JoinSet::new();
    let mut numbers = numbers.into_iter();
    loop {
        while joining.len() < FALLING_SILENT
            && let Some(number) = numbers.next()
        {
            joining.spawn(publish_once(Arc::clone(maker), number));
        }
        let Some(joined) = joining.join_next().await else { return Ok(()) };
        silent.push(joined.map_err(|error| Failure::failed(error.to_string()))??);
        steps.advance();
    }
}

/// Withdraws the silent nodes that the hub admits again.
pub(super) async fn recall(maker: &Arc<NodeFactory>, silent: Vec<Arc<Identity>>) {
    let (mut leaving, mut silent) = (JoinSet::new(), silent.into_iter());
    loop {
        while leaving.len() < FALLING_SILENT
            && let Some(identity) = silent.next()
        {
            let maker = Arc::clone(maker);
            leaving.spawn(async move {
                // The record of a node that the hub does not admit expires.
                if let Ok(node) = maker.attach_as(identity, None).await {
                    node.leave().await;
                }
            });
        }
        if leaving.join_next().await.is_none() {
            return;
        }
    }
}

async fn publish_once(maker: Arc<NodeFactory>, number: u32) -> Outcome<Arc<Identity>> {
    let mut node = maker.attach(maker.lonely_host(number)).await?;
    node.publish_all(place(number)).await?;
    // The hub gives up a connection that leaves something unacknowledged.
    let end = Instant::now() + SETTLE;
    while node.message(end).await.is_some() {}
    Ok(node.identity)
}

/// The time from the publication to the first renewal of one of `count` nodes, so that renewals are spread evenly.
fn phase(index: u32, count: u32) -> Duration {
    RENEW.mul_f64(f64::from(index + 1) / f64::from(count.max(1)))
}

fn far_future() -> Instant {
    Instant::now() + Duration::from_secs(24 * 60 * 60)
}
