//! A member of a room at its daemon: it enters over the local API, and requests the stream of every other member.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use roost_api::{Client, ClientError, Frame, RequestEvent, RoomQuery, TransferSummary};
use roost_results::record::Record;
use roost_wire::Time;
use roost_wire::messages::ServiceRequest;
use tokio::sync::{mpsc, watch};
use tokio::task::spawn_local;
use tokio::time::{sleep, sleep_until};

use super::abort_on_drop::AbortOnDrop;
use super::requester::{Phase, RequesterContext};
use super::room_recorder::{RoomRecorder, RoomRequestId, RoomStep};
use super::room_stays::{REENTRY_PAUSE, RoomStays, StayEnd};

/// The most updates of streams that wait to be recorded: those of 64 members for half a second.
const MAX_UPDATES: usize = 4_096;

pub(super) struct RoomVisitor {
    pub(super) stage: Rc<RequesterContext>,
    pub(super) stays: RoomStays,
    pub(super) socket: PathBuf,
    pub(super) phase: watch::Receiver<Phase>,
    pub(super) alive: watch::Receiver<bool>,
}

enum StreamUpdate {
    Packet(Time),
    /// Packets of the request that never came.
    Missing(Option<u64>),
    /// Packets of the request that came, and that were read too late.
    DroppedByReader(u64),
    Broken(Time),
}

impl RoomVisitor {
    /// Is in the room for its time; a member whose daemon was restarted, or has ended its stay, enters again.
    pub(super) async fn run(mut self) {
        let over = over(Rc::clone(&self.stage), self.stays.planned().until, self.phase.clone());
        tokio::select! {
            biased;
            () = over => {}
            () = self.visit() => {}
        }
        self.end_stay(None);
    }

    /// Visits the room again and again. Cancel safe: [`Self::end_stay`] ends a visit in progress.
    async fn visit(&mut self) {
        let from = self.stage.instant(self.stays.planned().from);
        sleep_until(from.into()).await;
        // The run is over when nobody tells any more.
        while self.alive.wait_for(|alive| *alive).await.is_ok() {
            let room = self.stays.planned().room.clone();
            let recorder = self.stays.enter(self.stage.now(), &self.stage.ids);
            let lost = receive(&self.stage, &self.socket, &room, recorder).await;
            self.end_stay(Some(&lost));
            sleep(REENTRY_PAUSE).await;
        }
    }

    fn end_stay(&mut self, lost: Option<&str>) {
        let stage = &self.stage;
        let StayEnd { records, incident } = self.stays.leave(stage.now(), lost, &stage.nodes);
        let node = &stage.nodes[self.stays.planned().node].name;
        incident.into_iter().for_each(|what| stage.journal.incident(stage.seconds(), node, what));
        records.into_iter().for_each(|record| stage.journal.write(&Record::RoomStream(record)));
    }
}

/// Waits until the time is up, or nodes send no more requests.
async fn over(stage: Rc<RequesterContext>, until: Time, mut phase: watch::Receiver<Phase>) {
    tokio::select! {
        () = sleep_until(stage.instant(until).into()) => {}
        _ = phase.wait_for(|phase| *phase > Phase::Asking) => {}
    }
}

/// Receives the streams of all members. Returns the reason for which the daemon ends it.
async fn receive(stage: &Rc<RequesterContext>, socket: &Path, room: &str, recorder: &mut RoomRecorder) -> String {
    let Err(error) = try_receive(stage, socket, room, recorder).await else {
        return "its daemon has left".to_owned();
    };
    error.to_string()
}

async fn try_receive(
    stage: &Rc<RequesterContext>,
    socket: &Path,
    room: &str,
    recorder: &mut RoomRecorder,
) -> Result<(), ClientError> {
    let client = Client::connect(socket).await?;
    let mut entered = client.room(&RoomQuery { name: room.to_owned(), names: false }).await?;
    let (told, mut updates) = mpsc::channel(MAX_UPDATES);
    // At most as many as the members have streams.
    let mut streams = BTreeMap::new();
    loop {
        while let Some(step) = recorder.poll(stage.now()) {
            match step {
                RoomStep::Request(id, request) => {
                    let updates = StreamUpdates { id, told: told.clone() };
                    let stream = receive_stream(Rc::clone(stage), client.clone(), *request, updates);
                    streams.insert(id.stream, AbortOnDrop(spawn_local(stream).abort_handle()));
                }
                RoomStep::Cancel(id) => drop(streams.remove(&id.stream)),
            }
        }
        let due = recorder.deadline().map(|at| stage.instant(at));
        tokio::select! {
            roster = entered.next() => {
                let Some(roster) = roster? else { return Ok(()) };
                let members = roster.members.into_iter().map(|member| (member.node, member.cell, member.services));
                recorder.set_members(stage.now(), members);
            }
            Some((id, update)) = updates.recv() => match update {
                StreamUpdate::Packet(at) => recorder.count_packet(at, id, None),
                StreamUpdate::Missing(missing) => recorder.set_missing(id, missing),
                StreamUpdate::DroppedByReader(packets) => recorder.count_dropped_by_reader(id, packets),
                StreamUpdate::Broken(at) => recorder.handle_break(at, id),
            },
            () = async { sleep_until(due.unwrap_or_else(|| stage.origin).into()).await }, if due.is_some() => {}
        }
    }
}

/// The way of a request's updates to its recorder.
struct StreamUpdates {
    id: RoomRequestId,
    told: mpsc::Sender<(RoomRequestId, StreamUpdate)>,
}

impl StreamUpdates {
    async fn send(&self, update: StreamUpdate) {
        // The visit may be over.
        let _ = self.told.send((self.id, update)).await;
    }

    async fn send_summary(&self, summary: &TransferSummary) {
        self.send(StreamUpdate::Missing(Some(summary.lost))).await;
        self.send(StreamUpdate::DroppedByReader(summary.unread)).await;
    }
}

/// Receives one stream until it breaks off.
async fn receive_stream(stage: Rc<RequesterContext>, client: Client, request: ServiceRequest, updates: StreamUpdates) {
    if let Ok(mut stream) = client.request(&request).await {
        while let Ok(Some(frame)) = stream.next().await {
            match frame {
                Frame::Data(_) => updates.send(StreamUpdate::Packet(stage.now())).await,
                Frame::Event(RequestEvent::Progress(progress)) => {
                    updates.send(StreamUpdate::Missing(progress.lost)).await;
                }
                Frame::Event(RequestEvent::Finished(summary) | RequestEvent::Failed { summary: Some(summary), .. }) => {
                    updates.send_summary(&summary).await
                }
                Frame::Event(_) => {}
            }
        }
    }
    updates.send(StreamUpdate::Broken(stage.now())).await;
}
