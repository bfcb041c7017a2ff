//! A member of a room at its daemon: it enters over the local API, and requests the stream of every other member.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use roost_api::{Client, ClientError, Frame, RequestEvent, RoomQuery};
use roost_results::record::Record;
use roost_wire::Time;
use roost_wire::messages::ServiceRequest;
use tokio::sync::{mpsc, watch};
use tokio::task::spawn_local;
use tokio::time::{sleep, sleep_until};

use super::abort_on_drop::AbortOnDrop;
use super::requester::{Phase, RequesterContext};
use super::room_recorder::{RoomRecorder, RoomStep, RoomStreamKey};
use super::rooms::RoomStay;

/// The most updates of streams that wait to be recorded: those of 64 members for half a second.
const MAX_UPDATES: usize = 4_096;
/// The pause before a member that has lost its room enters it again.
const PAUSE: Duration = Duration::from_secs(1);

pub(super) struct RoomVisitor {
    pub(super) stage: Rc<RequesterContext>,
    pub(super) stay: RoomStay,
    pub(super) socket: PathBuf,
    pub(super) phase: watch::Receiver<Phase>,
    pub(super) alive: watch::Receiver<bool>,
}

enum StreamUpdate {
    Packet(Time),
    /// Packets of the request that never came.
    Missing(Option<u64>),
    Broken(Time),
}

impl RoomVisitor {
    /// Stays in the room for its time; a member whose daemon was restarted enters again.
    pub(super) async fn run(mut self) {
        let from = self.stage.instant(self.stay.from);
        tokio::select! {
            () = sleep_until(from.into()) => {}
            () = over(&self.stage, &self.stay, self.phase.clone()) => return,
        }
        loop {
            tokio::select! {
                _ = self.alive.wait_for(|alive| *alive) => {}
                () = over(&self.stage, &self.stay, self.phase.clone()) => return,
            }
            let is_lost = self.visit().await;
            if !is_lost {
                return;
            }
            sleep(PAUSE).await;
        }
    }

    /// Enters, and records all streams until the stay is over. Returns true if the daemon ended it before.
    async fn visit(&self) -> bool {
        let Self { stage, stay, socket, .. } = self;
        let mut recorder = RoomRecorder::new(stage.now(), stay, &stage.ids);
        let lost = tokio::select! {
            biased;
            () = over(stage, stay, self.phase.clone()) => None,
            why = receive(stage, socket, &stay.room, &mut recorder) => Some(why),
        };
        let node = &stage.nodes[stay.node].name;
        if let Some(why) = &lost {
            stage.journal.incident(stage.seconds(), node, format!("is not in the room {} any more: {why}", stay.room));
        }
        for record in recorder.leave(stage.now().min(stay.until), &stage.nodes) {
            stage.journal.write(&Record::RoomStream(record));
        }
        lost.is_some()
    }
}

async fn over(stage: &RequesterContext, stay: &RoomStay, mut phase: watch::Receiver<Phase>) {
    tokio::select! {
        () = sleep_until(stage.instant(stay.until).into()) => {}
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
                RoomStep::Request(key, request) => {
                    let stream = receive_stream(Rc::clone(stage), client.clone(), (key, *request), told.clone());
                    streams.insert(key, AbortOnDrop(spawn_local(stream).abort_handle()));
                }
                RoomStep::Cancel(key) => drop(streams.remove(&key)),
            }
        }
        let due = recorder.deadline().map(|at| stage.instant(at));
        tokio::select! {
            roster = entered.next() => {
                let Some(roster) = roster? else { return Ok(()) };
                let members = roster.members.into_iter().map(|member| (member.node, member.cell, member.services));
                recorder.set_members(stage.now(), members);
            }
            Some((key, update)) = updates.recv() => match update {
                StreamUpdate::Packet(at) => recorder.count_packet(at, key, None),
                StreamUpdate::Missing(missing) => recorder.set_missing(key, missing),
                StreamUpdate::Broken(at) => recorder.handle_break(at, key),
            },
            () = async { sleep_until(due.unwrap_or_else(|| stage.origin).into()).await }, if due.is_some() => {}
        }
    }
}

/// Receives one stream until it breaks off.
async fn receive_stream(
    stage: Rc<RequesterContext>,
    client: Client,
    (key, request): (RoomStreamKey, ServiceRequest),
    told: mpsc::Sender<(RoomStreamKey, StreamUpdate)>,
) {
    if let Ok(mut stream) = client.request(&request).await {
        while let Ok(Some(frame)) = stream.next().await {
            let update = match frame {
                Frame::Data(_) => StreamUpdate::Packet(stage.now()),
                Frame::Event(RequestEvent::Progress(progress)) => StreamUpdate::Missing(progress.lost),
                Frame::Event(RequestEvent::Finished(summary)) => StreamUpdate::Missing(Some(summary.lost)),
                Frame::Event(RequestEvent::Failed { summary, .. }) => {
                    StreamUpdate::Missing(summary.map(|summary| summary.lost))
                }
                Frame::Event(_) => continue,
            };
            // The visit may be over.
            let _ = told.send((key, update)).await;
        }
    }
    let _ = told.send((key, StreamUpdate::Broken(stage.now()))).await;
}
