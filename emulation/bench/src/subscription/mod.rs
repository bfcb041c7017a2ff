//! Measures a reflected stream at its receivers, with the real daemons: the time until a picture, the
//! interruption when a super node leaves, and the load of the provider's uplink for all of them together.
//!
//! Two super nodes, a provider at the one and the receivers at the other, share one LAN. The stream has 1.3
//! Mbit/s with a key frame every two seconds, and every datagram has a number. Receivers read through the local
//! API, like `roost subscribe`; the daemons' processor time is part of all figures.

mod row;
mod video;

use std::ffi::OsString;
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use roost_experiment::Daemon;
use roost_lab::Lab;
use roost_topology::model::HostIndex;
use roost_wire::messages::{ReflectionPolicy, ServiceRequest};
use roost_wire::{Area, Cell, Service};
use tokio::task::JoinHandle;

pub use self::row::SubscriptionRow;
use self::video::VideoArrivals;
use super::frame::{Bench, BenchContext, CaseError, named};
use super::tally::Arrivals;
use super::testbed::{self, Testbed, TestbedRole};
use super::{in_host, join, networks};

/// The provider's super node, and that of the receivers.
const HUBS: [HostIndex; 2] = [0, 1];
const PROVIDER: HostIndex = 2;
/// The provider's cell; the others are elsewhere.
const PROVIDER_CELL: Cell = Cell::new(2, 1);
const FIRST_WATCHER: HostIndex = 3;
/// Delay between any two hosts.
const ONE_WAY: Duration = Duration::from_millis(20);
/// The longest wait for an expected event.
const PATIENCE: Duration = Duration::from_secs(20);
const LOOK: Duration = Duration::from_millis(20);
/// The time of a stream before and after an event.
const STEADY: Duration = Duration::from_secs(4);
/// The longest time for a super node to leave.
const LEAVE: Duration = Duration::from_secs(12);
/// The length of a request: longer than any case.
const WATCH: Duration = Duration::from_secs(600);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SubscriptionCase {
    JoinFirst,
    /// A subscriber joins at a super node that already reflects the stream.
    JoinReflected,
    JoinAgain,
    LeaveSubscribers,
    LeaveProviders,
    Uplink1,
    Uplink4,
    Uplink8,
    /// Four receivers, each with a stream of its own.
    Direct4,
    /// Eight receivers, each with a stream of its own.
    Direct8,
}

named!(
    SubscriptionCase,
    "nothing that can be measured",
    Self::JoinFirst => "join-first",
    Self::JoinReflected => "join-reflected",
    Self::JoinAgain => "join-again",
    Self::LeaveSubscribers => "leave-subscribers",
    Self::LeaveProviders => "leave-providers",
    Self::Uplink1 => "uplink-1",
    Self::Uplink4 => "uplink-4",
    Self::Uplink8 => "uplink-8",
    Self::Direct4 => "direct-4",
    Self::Direct8 => "direct-8",
);

impl SubscriptionCase {
    const fn subscribers(self) -> usize {
        match self {
            Self::JoinFirst | Self::Uplink1 => 1,
            Self::JoinReflected | Self::JoinAgain | Self::LeaveSubscribers | Self::LeaveProviders => 2,
            Self::Uplink4 | Self::Direct4 => 4,
            Self::Uplink8 | Self::Direct8 => 8,
        }
    }

    const fn reflection(self) -> ReflectionPolicy {
        match self {
            Self::Direct4 | Self::Direct8 => ReflectionPolicy::Never,
            _ => ReflectionPolicy::Always,
        }
    }
}

/// Measures each case with daemons of its own.
pub struct SubscriptionBench;

impl Bench for SubscriptionBench {
    type Case = SubscriptionCase;
    type Run = SubscriptionRow;
    type Row = SubscriptionRow;

    const NAME: &'static str = "bench subscription";

    fn run(&mut self, context: &mut BenchContext<'_>, case: &SubscriptionCase) -> Result<SubscriptionRow, CaseError> {
        Ok(measure(context, *case)?)
    }

    fn rows(_case: &SubscriptionCase, runs: Vec<SubscriptionRow>, _failed: usize) -> Vec<SubscriptionRow> {
        runs
    }
}

/// Runs one case from its daemons' start to their end; a failure is a sentence.
fn measure(bench: &mut BenchContext<'_>, case: SubscriptionCase) -> Result<SubscriptionRow, String> {
    let parts = parts(case.subscribers());
    let mut stage = Testbed::make(bench, &networks::lan(parts.len(), ONE_WAY), &parts)?;
    let (over, sent) = (AtomicBool::new(false), AtomicU64::new(0));
    let Testbed { daemons, lab, .. } = &mut stage;
    thread::scope(|scope| {
        let sender = scope.spawn(|| in_host(lab, PROVIDER, || video::send(&over, &sent)));
        let mut scene = SubscriptionScene { daemons, lab, sent: &sent, reflect: case.reflection() };
        let seen = testbed::play(bench, scene.play(case));
        over.store(true, Relaxed);
        let sending = join(sender).map_err(|error| error.to_string());
        seen.and_then(|row| sending.map(|()| row))
    })
}

/// Two super nodes, a provider at the one, receivers at the other.
fn parts(watchers: usize) -> Vec<TestbedRole> {
    let source = format!("udp://{}:{}", Ipv4Addr::LOCALHOST, video::PORT);
    let settings = ["--services", "video", "--sources-video", &source].map(OsString::from).to_vec();
    let provider = TestbedRole::Node { hubs: HUBS.to_vec(), cell: PROVIDER_CELL, settings };
    let watcher = || TestbedRole::Node { hubs: vec![HUBS[1], HUBS[0]], cell: Cell::new(0, 0), settings: Vec::new() };
    let hubs = HUBS.map(|_| TestbedRole::Hub(Vec::new()));
    hubs.into_iter().chain([provider]).chain((0..watchers).map(|_| watcher())).collect()
}

struct SubscriptionScene<'a> {
    daemons: &'a mut [Daemon],
    lab: &'a Lab,
    /// Datagrams that were sent to the provider's source.
    sent: &'a AtomicU64,
    reflect: ReflectionPolicy,
}

impl SubscriptionScene<'_> {
    async fn play(&mut self, case: SubscriptionCase) -> Result<SubscriptionRow, String> {
        Testbed::start(self.daemons, self.lab).await?;
        match case {
            SubscriptionCase::JoinFirst => self.join(case, 0).await,
            SubscriptionCase::JoinReflected => {
                let _other = self.watching(1).await?;
                self.join(case, 0).await
            }
            SubscriptionCase::JoinAgain => {
                let _other = self.watching(1).await?;
                drop(self.watching(0).await?);
                tokio::time::sleep(STEADY / 2).await;
                self.join(case, 0).await
            }
            SubscriptionCase::LeaveSubscribers => self.leave(case, HUBS[1]).await,
            SubscriptionCase::LeaveProviders => self.leave(case, HUBS[0]).await,
            SubscriptionCase::Uplink1
            | SubscriptionCase::Uplink4
            | SubscriptionCase::Uplink8
            | SubscriptionCase::Direct4
            | SubscriptionCase::Direct8 => self.uplink(case).await,
        }
    }

    fn ask(&self, watcher: usize) -> StreamSubscriber {
        StreamSubscriber::ask(&self.daemons[FIRST_WATCHER + watcher], self.reflect)
    }

    /// Subscribes, and waits until the stream has arrived for a while.
    async fn watching(&self, watcher: usize) -> Result<StreamSubscriber, String> {
        let mut watcher = self.ask(watcher);
        watcher.until("a picture", |arrivals| arrivals.first_picture).await?;
        tokio::time::sleep(STEADY / 2).await;
        Ok(watcher)
    }

    async fn join(&self, case: SubscriptionCase, watcher: usize) -> Result<SubscriptionRow, String> {
        let mut watcher = self.ask(watcher);
        let at = watcher.until("a picture", |arrivals| arrivals.first_picture).await?;
        Ok(SubscriptionRow::joined(case, at - watcher.asked))
    }

    /// Subscribes all receivers, and waits until each has a picture.
    async fn all_watching(&self, case: SubscriptionCase) -> Result<Vec<StreamSubscriber>, String> {
        let mut all = Vec::new();
        for watcher in 0..case.subscribers() {
            all.push(self.watching(watcher).await?);
        }
        Ok(all)
    }

    async fn leave(&mut self, case: SubscriptionCase, hub: usize) -> Result<SubscriptionRow, String> {
        let watchers = self.all_watching(case).await?;
        watchers.iter().for_each(|watcher| watcher.lock().tally = Arrivals::default());
        tokio::time::sleep(STEADY).await;
        let left = Instant::now();
        let steady = watchers.iter().map(|watcher| watcher.lock().take_gap(left)).max();
        self.daemons[hub].leave();
        while self.daemons[hub].is_running() {
            if left.elapsed() > LEAVE {
                return Err(format!("the super node has not left after {} s", LEAVE.as_secs()));
            }
            tokio::time::sleep(LOOK).await;
        }
        tokio::time::sleep(STEADY).await;
        let end = Instant::now();
        let (mut gap, mut counts) = (Duration::ZERO, (0, 0));
        for watcher in watchers {
            watcher.still_receives()?;
            let mut arrivals = watcher.lock();
            gap = gap.max(arrivals.take_gap(end));
            counts = (counts.0 + arrivals.tally.missing(), counts.1 + arrivals.tally.duplicated);
        }
        Ok(SubscriptionRow::moved(case, [steady.unwrap_or_default(), gap], counts))
    }

    async fn uplink(&self, case: SubscriptionCase) -> Result<SubscriptionRow, String> {
        let watchers = self.all_watching(case).await?;
        let before = (self.uplink_bytes()?, self.sent.load(Relaxed));
        tokio::time::sleep(STEADY).await;
        let after = (self.uplink_bytes()?, self.sent.load(Relaxed));
        for watcher in watchers {
            // A stream that has ended would cost nothing.
            watcher.still_receives()?;
        }
        let payload = (after.1 - before.1).max(1) * video::DATAGRAM_BYTES as u64;
        Ok(SubscriptionRow::sent(case, (after.0 - before.0) as f64 / payload as f64))
    }

    /// Bytes of whole frames that the provider's host has sent.
    fn uplink_bytes(&self) -> Result<u64, String> {
        let links = self.lab.counters().map_err(|error| error.to_string())?;
        let host = &self.lab.topology().hosts[PROVIDER].name;
        Ok(links.iter().filter(|link| link.host == *host && link.direction == "to-net").map(|link| link.bytes_in).sum())
    }
}

/// A request with its arrivals. Dropping it ends the request.
struct StreamSubscriber {
    asked: Instant,
    name: String,
    arrivals: Arc<Mutex<VideoArrivals>>,
    task: JoinHandle<String>,
}

impl StreamSubscriber {
    fn ask(daemon: &Daemon, reflect: ReflectionPolicy) -> Self {
        let asked = Instant::now();
        let arrivals = Arc::new(Mutex::new(VideoArrivals::since(asked)));
        let (socket, noted) = (daemon.launch.socket.clone(), Arc::clone(&arrivals));
        let task = tokio::spawn(async move {
            let request = ServiceRequest {
                duration: Some(WATCH),
                reflect,
                ..ServiceRequest::new(Service::Video, Area::Exact(PROVIDER_CELL))
            };
            let on_data = |data: &[u8]| lock(&noted).record_datagrams(Instant::now(), data);
            testbed::receive(&socket, &request, on_data).await
        });
        Self { asked, name: daemon.launch.name.clone(), arrivals, task }
    }

    /// Waits until `look` finds its result among the arrivals.
    async fn until<T>(&mut self, what: &str, look: impl Fn(&VideoArrivals) -> Option<T>) -> Result<T, String> {
        loop {
            if let Some(seen) = look(&self.lock()) {
                return Ok(seen);
            }
            if self.task.is_finished() {
                let why = (&mut self.task).await.unwrap_or_else(|error| error.to_string());
                return Err(format!("{} has lost its stream: {why}", self.name));
            }
            if self.asked.elapsed() > PATIENCE {
                return Err(format!("{} has not got {what} after {} s", self.name, PATIENCE.as_secs()));
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, VideoArrivals> {
        lock(&self.arrivals)
    }

    /// An error once the stream has ended.
    fn still_receives(&self) -> Result<(), String> {
        if self.task.is_finished() { Err(format!("{} has lost its stream", self.name)) } else { Ok(()) }
    }
}

fn lock(arrivals: &Mutex<VideoArrivals>) -> MutexGuard<'_, VideoArrivals> {
    arrivals.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Drop for StreamSubscriber {
    fn drop(&mut self) {
        self.task.abort();
    }
}
