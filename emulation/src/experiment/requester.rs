//! Carries out one node's workload: asks its daemon, and keeps what came of it.

use std::cell::Cell;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::{Duration, Instant};

use roost_control::error::Code;
use roost_control::{Client, ClientError, Frame, RequestEvent, RequestQuery, RequestStream, Summary};
use roost_proto::{Area, NodeId, Time};
use tokio::sync::watch;

use super::journal::Journal;
use super::placement::NodePlace;
use super::plan::Transport;
use super::workload::{Ended, Step, Wanted, Workload};
use crate::report::record::{Outcome, Record, Request};

/// How far a run is; it only goes forward.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Phase {
    /// Nodes ask.
    Asking,
    /// What is under way may end.
    Draining,
    /// All is over.
    Over,
}

/// What all requesters of a run share.
#[derive(Debug)]
pub(super) struct Stage {
    /// Time 0 of the run.
    pub(super) origin: Instant,
    pub(super) journal: Rc<Journal>,
    pub(super) transport: Transport,
    pub(super) stream: Duration,
    pub(super) nodes: Vec<NodePlace>,
    /// The ids of the nodes, which a daemon keeps when it is started again.
    pub(super) ids: Vec<NodeId>,
    /// Requests under way.
    pub(super) active: Cell<u32>,
}

impl Stage {
    /// The time of the run.
    pub(super) fn now(&self) -> Time {
        Time::ZERO + self.origin.elapsed()
    }

    /// The same in seconds, for records.
    pub(super) fn seconds(&self) -> f64 {
        self.origin.elapsed().as_secs_f64()
    }

    fn instant(&self, time: Time) -> tokio::time::Instant {
        (self.origin + Duration::from_nanos(time.as_nanos())).into()
    }
}

/// One node's requester.
pub(super) struct Requester {
    pub(super) stage: Rc<Stage>,
    /// Its place among the nodes.
    pub(super) node: usize,
    pub(super) socket: PathBuf,
    pub(super) phase: watch::Receiver<Phase>,
    /// Whether its daemon runs.
    pub(super) alive: watch::Receiver<bool>,
}

/// What has come of a request so far.
#[derive(Default)]
struct Progress {
    provider: Option<NodeId>,
    transport: Option<&'static str>,
    relayed: bool,
    bytes: u64,
    first_byte: Option<Duration>,
    summary: Option<Summary>,
}

/// How a request ended, and why if not well.
struct End(Outcome, Option<String>);

impl Requester {
    /// Asks until the workload is done, or all is over.
    pub(super) async fn run(mut self, mut workload: Workload) {
        loop {
            if *self.phase.borrow() > Phase::Asking {
                workload.stop(self.stage.now());
            }
            match workload.poll(self.stage.now()) {
                Step::Done => return,
                Step::Wait(until) => self.wait(until).await,
                // Each request is ended below, before the next poll.
                Step::Busy => return,
                Step::Request(wanted) => {
                    let ended = self.request(wanted).await;
                    workload.ended(self.stage.now(), ended);
                    self.wait_for_daemon().await;
                }
            }
        }
    }

    async fn wait(&mut self, until: Time) {
        tokio::select! {
            () = tokio::time::sleep_until(self.stage.instant(until)) => {}
            _ = self.phase.wait_for(|phase| *phase > Phase::Asking) => {}
        }
    }

    /// While its daemon is dead a node does not ask.
    async fn wait_for_daemon(&mut self) {
        tokio::select! {
            _ = self.alive.wait_for(|alive| *alive) => {}
            _ = self.phase.wait_for(|phase| *phase > Phase::Asking) => {}
        }
    }

    async fn request(&mut self, wanted: Wanted) -> Ended {
        let stage = Rc::clone(&self.stage);
        let began = stage.now();
        let mut progress = Progress::default();
        stage.active.set(stage.active.get() + 1);
        let over = async { self.phase.wait_for(|phase| *phase == Phase::Over).await.map(drop) };
        let End(outcome, error) = tokio::select! {
            biased;
            _ = over => End(Outcome::Cut, None),
            end = receive(&stage, &self.socket, wanted, began, &mut progress) => end,
            () = tokio::time::sleep_until(stage.instant(wanted.deadline)) => End(Outcome::TimedOut, None),
        };
        stage.active.set(stage.active.get() - 1);
        let drained = *self.phase.borrow() == Phase::Draining;
        let record = self.record(wanted, began, progress, outcome, error, drained);
        stage.journal.write(&Record::Request(record));
        if outcome == Outcome::Failed { Ended::TurnedDown } else { Ended::AsPublished }
    }

    fn record(
        &self,
        wanted: Wanted,
        began: Time,
        progress: Progress,
        outcome: Outcome,
        error: Option<String>,
        drained: bool,
    ) -> Request {
        let Stage { nodes, ids, .. } = &*self.stage;
        let node = &nodes[self.node];
        let provider = progress.provider.and_then(|id| ids.iter().position(|known| *known == id));
        let ms = |duration: Duration| duration.as_secs_f64() * 1e3;
        let summary = progress.summary.as_ref();
        // The daemon's own times where it gives them: this process may have
        // been late in reading what it says.
        let own_elapsed = ms(self.stage.now() - began);
        Request {
            t: began.as_nanos() as f64 / 1e9,
            node: node.name.clone(),
            class: node.class.clone(),
            service: wanted.service.name().to_owned(),
            target: nodes[wanted.target].name.clone(),
            provider: provider.map(|place| nodes[place].name.clone()),
            outcome,
            error,
            first_byte_ms: summary.map(|summary| summary.first_byte_ms).or(progress.first_byte.map(ms)),
            elapsed_ms: summary.map_or(own_elapsed, |summary| summary.elapsed_ms),
            bytes: summary.map_or(progress.bytes, |summary| summary.bytes),
            packets: summary.map_or(0, |summary| summary.packets),
            lost: summary.map_or(0, |summary| summary.lost),
            transport: progress.transport.map(str::to_owned),
            relayed: progress.relayed,
            drained,
        }
    }
}

async fn receive(stage: &Stage, socket: &PathBuf, wanted: Wanted, began: Time, progress: &mut Progress) -> End {
    let mut stream = match open(stage, socket, wanted, began).await {
        Ok(stream) => stream,
        Err(error) => return end_of(&error),
    };
    loop {
        match stream.next().await {
            Ok(Some(Frame::Data(data))) => {
                progress.first_byte.get_or_insert_with(|| stage.now() - began);
                progress.bytes += data.len() as u64;
            }
            Ok(Some(Frame::Event(event))) => {
                if let Some(end) = progress.take(event) {
                    return end;
                }
            }
            Ok(None) => return End(Outcome::Failed, Some("daemon-gone".to_owned())),
            Err(error) => return end_of(&error),
        }
    }
}

async fn open(stage: &Stage, socket: &PathBuf, wanted: Wanted, began: Time) -> Result<RequestStream, ClientError> {
    let is_stream = wanted.service.is_stream();
    let cell = stage.nodes[wanted.target].cell;
    let query = RequestQuery {
        duration: is_stream.then_some(stage.stream),
        transport: Some(stage.transport.of(is_stream)),
        timeout: wanted.deadline - began,
        ..RequestQuery::new(wanted.service, Area::At(cell))
    };
    Client::connect(socket).await?.request(&query).await
}

fn end_of(error: &ClientError) -> End {
    match error {
        ClientError::Api(error) => end_of_api(error.code),
        _ => End(Outcome::Failed, Some("daemon-gone".to_owned())),
    }
}

/// A daemon that says that the time is up was given that time here.
fn end_of_api(code: Code) -> End {
    let name = serde_json::to_value(code).ok().and_then(|value| value.as_str().map(str::to_owned));
    End(if code == Code::TimedOut { Outcome::TimedOut } else { Outcome::Failed }, name)
}

impl Progress {
    /// Takes note of an event; the last one ends the request.
    fn take(&mut self, event: RequestEvent) -> Option<End> {
        match event {
            RequestEvent::Accepted(accepted) => {
                self.provider = Some(accepted.provider);
                self.transport = Some(accepted.transport.name());
                self.relayed = accepted.relayed;
                None
            }
            RequestEvent::Finished(summary) => {
                self.conclude(Some(summary));
                Some(End(Outcome::Completed, None))
            }
            RequestEvent::Failed { error, summary } => {
                self.conclude(summary);
                Some(end_of_api(error.code))
            }
            _ => None,
        }
    }

    fn conclude(&mut self, summary: Option<Summary>) {
        if let Some(summary) = &summary {
            self.provider = Some(summary.provider);
            self.transport = Some(summary.transport.name());
            self.relayed = summary.relayed;
        }
        self.summary = summary;
    }
}
