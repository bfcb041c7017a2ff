//! The faults that are known before a run: those of links and of daemons.

use std::collections::{BTreeSet, VecDeque};

use roost_experiment::describe_change;
use roost_experiment::plan::{DaemonAction, DaemonRef, FaultKind};
use roost_topology::model::Action;

use crate::description::Description;
use crate::wires::WireChange;

/// A scheduled fault, at its time in milliseconds.
#[derive(Clone, Debug)]
pub(crate) struct ScheduledFault {
    pub(crate) at_ms: u64,
    pub(crate) object: String,
    pub(crate) what: String,
    pub(crate) act: FaultAct,
}

#[derive(Clone, Debug)]
pub(crate) enum FaultAct {
    Wire(WireChange),
    Daemon(DaemonRef, DaemonAction),
}

/// The scheduled faults by time, and the sentences that records have for them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Schedule {
    faults: VecDeque<ScheduledFault>,
    sentences: BTreeSet<String>,
}

impl Schedule {
    pub(crate) fn new(description: &Description) -> Self {
        let topology = &description.topology;
        // An event that waits for a program has no time of its own: its record tells it.
        let events = topology.events.iter().filter(|event| event.after.is_none()).filter_map(|event| {
            let Action::Net { net, from, change } = event.action else { return None };
            Some(ScheduledFault {
                at_ms: event.at.as_millis() as u64,
                object: topology.nets.get(net).map(|net| net.name.clone()).unwrap_or_default(),
                what: describe_change(topology, net, from, change),
                act: FaultAct::Wire(WireChange { net, from, change }),
            })
        });
        let plan = description.prepared.iter().flat_map(|prepared| &prepared.plan.faults);
        let daemons = plan.filter_map(|fault| {
            let FaultKind::Daemon(daemon, action) = &fault.kind else { return None };
            Some(ScheduledFault {
                at_ms: fault.at.as_millis() as u64,
                object: daemon.host.name.clone(),
                what: daemon.describe_action(*action),
                act: FaultAct::Daemon(daemon.clone(), *action),
            })
        });
        let mut faults: Vec<ScheduledFault> = events.chain(daemons).collect();
        faults.sort_by_key(|fault| fault.at_ms);
        let sentences = faults.iter().map(|fault| fault.what.clone()).collect();
        Self { faults: faults.into(), sentences }
    }

    /// The next fault that is due by `now_ms`.
    pub(crate) fn next(&mut self, now_ms: u64) -> Option<ScheduledFault> {
        let is_due = self.faults.front().is_some_and(|fault| fault.at_ms <= now_ms);
        is_due.then(|| self.faults.pop_front()).flatten()
    }

    /// True if a record with this sentence repeats a scheduled fault.
    pub(crate) fn has(&self, what: &str) -> bool {
        self.sentences.contains(what)
    }
}
