//! The requester of one node: it sends requests to its daemon, and records the results.

use std::cell::{Cell, RefCell};
use std::path::PathBuf;
use std::rc::Rc;
use std::time::{Duration, Instant};

use roost_api::{Client, ClientError, ConnectionRow, Frame, RequestEvent, RequestStream, TransferSummary};
use roost_results::record::{Record, RequestOutcome, RequestRecord};
use roost_wire::{NodeId, Time};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet, spawn_local};
use tokio::time::sleep_until;

use super::journal::Journal;
use super::mobility::Mobility;
use super::placement::PlacedNode;
use super::request_recorder::{RequestEnd, RequestRecorder, RequestSettings, TransferFigures};
use super::workload::{RequestEnding, Workload, WorkloadRequest, WorkloadStep};

/// The longest time for a daemon to list its connections, and to take a position.
pub(super) const ANSWER: Duration = Duration::from_secs(1);

/// The phase of a run; it only moves forward.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Phase {
    /// Nodes ask.
    Asking,
    /// Requests in progress may end.
    Draining,
    Over,
}

/// Shared state of all requesters of a run.
#[derive(Debug)]
pub(super) struct RequesterContext {
    /// Time 0 of the workload: of the run, or of its warm-up.
    pub(super) origin: Instant,
    /// True in the warm-up, whose requests are not recorded.
    pub(super) is_warm_up: bool,
    pub(super) journal: Rc<Journal>,
    pub(super) settings: RequestSettings,
    pub(super) nodes: Vec<PlacedNode>,
    pub(super) walk: RefCell<Mobility>,
    /// The ids of the nodes, which a restarted daemon keeps.
    pub(super) ids: Vec<NodeId>,
    pub(super) active: Cell<u32>,
}

impl RequesterContext {
    pub(super) fn now(&self) -> Time {
        Time::ZERO + self.origin.elapsed()
    }

    /// The time of the run in seconds, for records.
    pub(super) fn seconds(&self) -> f64 {
        self.origin.elapsed().as_secs_f64()
    }

    pub(super) fn instant(&self, time: Time) -> Instant {
        self.origin + Duration::from_nanos(time.as_nanos())
    }
}

pub(super) struct NodeRequester {
    pub(super) stage: Rc<RequesterContext>,
    /// Index among the nodes.
    pub(super) node: usize,
    pub(super) socket: PathBuf,
    pub(super) phase: watch::Receiver<Phase>,
    /// True while its daemon runs.
    pub(super) alive: watch::Receiver<bool>,
    /// Records that wait for the daemon's list of connections.
    pub(super) notes: JoinSet<()>,
}

#[derive(Debug)]
struct ConnectionList {
    asked: Instant,
    answered: Instant,
    rows: Vec<ConnectionRow>,
}

struct ReceiveProgress {
    /// Requested when the offer was accepted.
    connections: Option<JoinHandle<Option<ConnectionList>>>,
    recorder: RequestRecorder,
}

impl NodeRequester {
    /// Sends requests until the workload is done, or the run is over.
    pub(super) async fn run(mut self, mut workload: Workload) {
        loop {
            if *self.phase.borrow() > Phase::Asking {
                workload.stop(self.stage.now());
            }
            match workload.poll(self.stage.now()) {
                // Each request is ended below, before the next poll.
                WorkloadStep::Done | WorkloadStep::Busy => break,
                WorkloadStep::Wait(until) => self.wait(until).await,
                WorkloadStep::Request(wanted) => {
                    let ended = self.request(wanted).await;
                    workload.ended(self.stage.now(), ended);
                    self.wait_for_daemon().await;
                }
            }
        }
        while self.notes.join_next().await.is_some() {}
    }

    async fn wait(&mut self, until: Time) {
        tokio::select! {
            () = sleep_until(self.stage.instant(until).into()) => {}
            _ = self.phase.wait_for(|phase| *phase > Phase::Asking) => {}
        }
    }

    /// A node sends no requests while its daemon is dead.
    async fn wait_for_daemon(&mut self) {
        tokio::select! {
            _ = self.alive.wait_for(|alive| *alive) => {}
            _ = self.phase.wait_for(|phase| *phase > Phase::Asking) => {}
        }
    }

    async fn request(&mut self, wanted: WorkloadRequest) -> RequestEnding {
        let stage = Rc::clone(&self.stage);
        let began = stage.now();
        let recorder = RequestRecorder::new(self.node, wanted, began);
        let mut progress = ReceiveProgress { connections: None, recorder };
        stage.active.set(stage.active.get() + 1);
        let over = async { self.phase.wait_for(|phase| *phase == Phase::Over).await.map(drop) };
        let end = tokio::select! {
            biased;
            _ = over => RequestEnd::new(RequestOutcome::Cut),
            end = receive(&stage, &self.socket, wanted, &mut progress) => end,
            () = sleep_until(stage.instant(wanted.deadline).into()) => RequestEnd::new(RequestOutcome::TimedOut),
        };
        let outcome = end.outcome;
        stage.active.set(stage.active.get() - 1);
        if !stage.is_warm_up {
            let index_of = |id| stage.ids.iter().position(|known| *known == id);
            let record = progress.recorder.record(stage.now(), end, &stage.nodes, index_of);
            let drained = *self.phase.borrow() == Phase::Draining;
            self.write_record(RequestRecord { drained, ..record }, stage.instant(began), progress);
        }
        if outcome == RequestOutcome::Failed { RequestEnding::Declined } else { RequestEnding::Finished }
    }

    /// Records a request once its daemon has listed its connections. This runs as a task, so that the next
    /// request does not wait for it.
    fn write_record(&mut self, mut record: RequestRecord, began: Instant, mut progress: ReceiveProgress) {
        let stage = Rc::clone(&self.stage);
        while self.notes.try_join_next().is_some() {}
        self.notes.spawn_local(async move {
            if let Some(asked) = progress.connections.take()
                && let Ok(Some(listed)) = asked.await
            {
                record.first_contact = progress.is_first_contact(began, &listed);
            }
            stage.journal.write(&Record::Request(record));
        });
    }
}

async fn receive(
    stage: &RequesterContext,
    socket: &PathBuf,
    wanted: WorkloadRequest,
    progress: &mut ReceiveProgress,
) -> RequestEnd {
    let mut stream = match open(stage, socket, wanted, progress.recorder.began()).await {
        Ok(stream) => stream,
        Err(error) => return end_of(&error),
    };
    loop {
        match stream.next().await {
            Ok(Some(Frame::Data(data))) => progress.recorder.record_data(stage.now(), data.len()),
            Ok(Some(Frame::Event(event))) => {
                let is_accepted = matches!(event, RequestEvent::Accepted(_));
                let end = progress.apply_event(event);
                if is_accepted && !stage.is_warm_up {
                    progress.connections = Some(spawn_local(list_connections(socket.clone())));
                }
                if let Some(end) = end {
                    return end;
                }
            }
            Ok(None) => return RequestEnd::daemon_gone(),
            Err(error) => return end_of(&error),
        }
    }
}

async fn list_connections(socket: PathBuf) -> Option<ConnectionList> {
    let asked = Instant::now();
    let ask = async { Client::connect(&socket).await?.connections().await };
    let rows = tokio::time::timeout(ANSWER, ask).await.ok()?.ok()?.connections;
    Some(ConnectionList { asked, answered: Instant::now(), rows })
}

async fn open(
    stage: &RequesterContext,
    socket: &PathBuf,
    wanted: WorkloadRequest,
    began: Time,
) -> Result<RequestStream, ClientError> {
    let cell = stage.walk.borrow().cell(wanted.target);
    let request = stage.settings.service_request(wanted, began, cell);
    Client::connect(socket).await?.request(&request).await
}

fn end_of(error: &ClientError) -> RequestEnd {
    match error {
        ClientError::Api(error) => RequestEnd::from_code(error.code, Some(error.message.clone())),
        _ => RequestEnd::daemon_gone(),
    }
}

impl ReceiveProgress {
    /// Records an event; the last one ends the request.
    fn apply_event(&mut self, event: RequestEvent) -> Option<RequestEnd> {
        match event {
            RequestEvent::Accepted(accepted) => {
                self.recorder.record_acceptance(accepted.provider, accepted.transport, accepted.relayed);
                None
            }
            RequestEvent::Finished(summary) => {
                self.conclude(&summary);
                Some(RequestEnd::new(RequestOutcome::Completed))
            }
            RequestEvent::Failed { error, summary } => {
                summary.iter().for_each(|summary| self.conclude(summary));
                Some(RequestEnd::from_code(error.code, Some(error.message)))
            }
            _ => None,
        }
    }

    /// True if the connection to the provider over this transport came up after the request began. Relayed data
    /// needs no such connection.
    fn is_first_contact(&self, began: Instant, listed: &ConnectionList) -> Option<bool> {
        let RequestRecorder { provider, scheme, relayed, .. } = self.recorder;
        let (provider, scheme) = provider.zip(scheme).filter(|_| !relayed)?;
        let is_it = |row: &&ConnectionRow| row.node == provider && row.transport == scheme;
        let up = listed.rows.iter().filter(is_it).map(|row| row.since_s).reduce(f64::max)?;
        let since_began = |at: Instant| at.saturating_duration_since(began).as_secs_f64();
        match up {
            // The daemon answered at some time between these.
            up if up <= since_began(listed.asked) => Some(true),
            up if up > since_began(listed.answered) => Some(false),
            _ => None,
        }
    }

    fn conclude(&mut self, summary: &TransferSummary) {
        self.recorder.record_acceptance(summary.provider, summary.transport, summary.relayed);
        self.recorder.record_figures(TransferFigures {
            first_byte_ms: summary.first_byte_ms,
            // The end may have been read late.
            elapsed_ms: Some(summary.elapsed_ms),
            bytes: summary.bytes,
            packets: summary.packets,
            lost: summary.lost,
            dropped_by_reader: summary.unread,
        });
    }
}

#[cfg(test)]
mod tests {
    use roost_wire::{Labels, Role, Scheme, Service};

    use super::*;

    const fn node(number: u8) -> NodeId {
        NodeId::from_bytes([number; 16])
    }

    fn row(number: u8, since_s: f64) -> ConnectionRow {
        ConnectionRow {
            node: node(number),
            name: String::new(),
            role: Role::Node,
            labels: Labels::default(),
            relation: None,
            tier: None,
            transport: Scheme::Udp,
            address: String::new(),
            dialed: true,
            rtt_ms: 0.0,
            sent_bytes: 0,
            received_bytes: 0,
            sent_messages: 0,
            received_messages: 0,
            retransmissions: 0,
            sent_packets: None,
            certificate_not_after_unix_s: None,
            since_s,
            clock_ahead_s: None,
            paths: Vec::new(),
        }
    }

    #[test]
    fn first_contact_needs_new_connection() {
        let began = Instant::now();
        let at = |ms| began + Duration::from_millis(ms);
        let request = WorkloadRequest {
            service: Service::Video,
            target: 0,
            deadline: Time::ZERO,
            stream: Duration::ZERO,
            transport: None,
        };
        let recorder = RequestRecorder::new(0, request, Time::ZERO);
        let mut progress = ReceiveProgress { connections: None, recorder };
        progress.recorder.record_acceptance(node(1), Scheme::Udp, false);
        // Asked 300 ms after the beginning, answered after 310 ms.
        let first = |rows: &[(u8, f64)], progress: &ReceiveProgress| {
            let rows = rows.iter().map(|(number, since_s)| row(*number, *since_s)).collect();
            progress.is_first_contact(began, &ConnectionList { asked: at(300), answered: at(310), rows })
        };
        assert_eq!(first(&[(1, 0.2)], &progress), Some(true));
        assert_eq!(first(&[(1, 0.4), (2, 0.1)], &progress), Some(false));
        assert_eq!(first(&[(1, 0.305)], &progress), None, "it may have come up just before or just after");
        assert_eq!(first(&[(2, 0.2)], &progress), None, "it has gone");
        assert_eq!(first(&[(1, 0.2), (1, 9.0)], &progress), Some(false), "there were two, and the older was there");
        progress.recorder.record_acceptance(node(1), Scheme::Udp, true);
        assert_eq!(first(&[(1, 0.2)], &progress), None);
    }
}
