//! The nodes of a run as those who ask, from their first request to their last.

use std::rc::Rc;

use tokio::sync::watch;
use tokio::task::JoinSet;

use super::fleet::Fleet;
use super::prepare::Prepared;
use super::requester::{Phase, Requester, Stage};
use super::workload::Workload;

/// All requesters, and how far the run is for them.
pub(super) struct Cast {
    requesters: JoinSet<()>,
    phase: watch::Sender<Phase>,
}

impl Cast {
    /// Lets every node of a plan ask from now on. Must be called on a local
    /// task set. Without a plan nobody asks.
    pub(super) fn enter(prepared: Option<&Prepared>, fleet: &Fleet, stage: &Rc<Stage>) -> Self {
        let mut cast = Self { requesters: JoinSet::new(), phase: watch::Sender::new(Phase::Asking) };
        let Some(Prepared { plan, .. }) = prepared else { return cast };
        for (index, (socket, alive)) in fleet.nodes().into_iter().enumerate() {
            let node = &stage.nodes[index];
            let of = if stage.is_warm_up { Workload::of_warm_up } else { Workload::of };
            let workload = of(plan, node);
            let (stage, phase) = (Rc::clone(stage), cast.phase.subscribe());
            let requester = Requester { stage, node: index, socket, phase, alive, notes: JoinSet::new() };
            cast.requesters.spawn_local(requester.run(workload));
        }
        cast
    }

    /// Nobody asks any more; what is under way may end.
    pub(super) fn drain(&self) {
        self.phase.send_replace(Phase::Draining);
    }

    /// Waits until all are done; safe to be broken off.
    pub(super) async fn done(&mut self) {
        while self.requesters.join_next().await.is_some() {}
    }

    /// Cuts what is under way off.
    pub(super) async fn leave(mut self) {
        self.phase.send_replace(Phase::Over);
        self.done().await;
    }
}
