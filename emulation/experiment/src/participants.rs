//! The nodes of a run as requesters that move, from the first request to the last.

use std::path::PathBuf;
use std::rc::Rc;

use roost_api::{Client, ClientError};
use roost_results::record::{PositionRecord, Record};
use roost_wire::Cell;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{sleep_until, timeout};

use super::fleet::Fleet;
use super::prepare::Prepared;
use super::requester::{ANSWER, NodeRequester, Phase, RequesterContext};
use super::room_stays::RoomStays;
use super::room_visitor::RoomVisitor;
use super::workload::{Workload, WorkloadPhase};

/// All requesters, and the phase of the run.
pub(super) struct RequesterTasks {
    requesters: JoinSet<()>,
    phase: watch::Sender<Phase>,
}

impl RequesterTasks {
    /// Starts the requesters of every node of a plan. Call it on a local task set. Without a plan there are
    /// none.
    pub(super) fn spawn_requesters(prepared: Option<&Prepared>, fleet: &Fleet, stage: &Rc<RequesterContext>) -> Self {
        let mut cast = Self { requesters: JoinSet::new(), phase: watch::Sender::new(Phase::Asking) };
        let Some(prepared) = prepared else { return cast };
        let sockets = fleet.nodes();
        let phase = if stage.is_warm_up { WorkloadPhase::WarmUp } else { WorkloadPhase::Measured };
        for (index, workload) in Workload::all(prepared, phase) {
            let (socket, alive) = sockets[index].clone();
            let (stage, phase) = (Rc::clone(stage), cast.phase.subscribe());
            let requester = NodeRequester { stage, node: index, socket, phase, alive, notes: JoinSet::new() };
            cast.requesters.spawn_local(requester.run(workload));
        }
        if !stage.is_warm_up {
            cast.requesters.spawn_local(publish_moves(Rc::clone(stage), fleet.nodes(), cast.phase.subscribe()));
            cast.spawn_members(prepared, fleet, stage);
        }
        cast
    }

    fn spawn_members(&mut self, prepared: &Prepared, fleet: &Fleet, stage: &Rc<RequesterContext>) {
        for stay in prepared.room_stays() {
            let (socket, alive) = fleet.nodes().swap_remove(stay.node);
            let stays = RoomStays::new(stay);
            let (stage, phase) = (Rc::clone(stage), self.phase.subscribe());
            self.requesters.spawn_local(RoomVisitor { stage, stays, socket, phase, alive }.run());
        }
    }

    /// Stops new requests and ends all rooms; requests in progress may end.
    pub(super) fn drain(&self) {
        self.phase.send_replace(Phase::Draining);
    }

    /// Waits until all requesters are done. Cancel safe.
    pub(super) async fn done(&mut self) {
        while self.requesters.join_next().await.is_some() {}
    }

    pub(super) async fn leave(mut self) {
        self.phase.send_replace(Phase::Over);
        self.done().await;
    }
}

/// Publishes the positions of moving nodes while requests are sent.
async fn publish_moves(
    stage: Rc<RequesterContext>,
    nodes: Vec<(PathBuf, watch::Receiver<bool>)>,
    mut phase: watch::Receiver<Phase>,
) {
    let mut calls = JoinSet::new();
    let write = |t: f64, node: usize, cell: Cell| {
        let node = stage.nodes[node].name.clone();
        stage.journal.write(&Record::Position(PositionRecord { t, node, x: cell.x, y: cell.y }));
    };
    if stage.walk.borrow().deadline().is_some() {
        (0..nodes.len()).for_each(|node| write(0.0, node, stage.walk.borrow().cell(node)));
    }
    loop {
        let Some(next) = stage.walk.borrow().deadline() else { break };
        tokio::select! {
            () = sleep_until((stage.origin + next).into()) => {}
            _ = phase.wait_for(|phase| *phase > Phase::Asking) => break,
        }
        let step = || stage.walk.borrow_mut().step(stage.origin.elapsed());
        while let Some((node, cell)) = step() {
            write(stage.seconds(), node, cell);
            let (socket, alive) = &nodes[node];
            if *alive.borrow() {
                calls.spawn_local(publish_position(Rc::clone(&stage), node, socket.clone(), cell));
            }
        }
        while calls.try_join_next().is_some() {}
    }
    while calls.join_next().await.is_some() {}
}

/// Sends its position to a node's daemon.
async fn publish_position(stage: Rc<RequesterContext>, node: usize, socket: PathBuf, cell: Cell) {
    let moved = async { Client::connect(&socket).await?.move_to(cell).await };
    let why = match timeout(ANSWER, moved).await {
        Ok(Ok(_)) => return,
        Ok(Err(error)) => ClientError::to_string(&error),
        Err(_) => format!("it did not answer within {ANSWER:?}"),
    };
    let what = format!("could not be told that it stands at {cell}: {why}");
    stage.journal.incident(stage.seconds(), &stage.nodes[node].name, what);
}
