//! LANs whose members hear each other by radio, and the changes of their links as hosts move.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use roost_motion::{LinkChange, LinkCourse, LinkState};
use roost_topology::model::TopologyChange;
use roost_wire::Time;

use super::medium::Medium;
use super::{PipeChange, PipeId, Port};

/// The way of packets between the members of a radio.
#[derive(Clone, Debug)]
pub(super) enum LanRadio {
    /// A pipe for each pair, by sender and receiver; the sender's own place is unused.
    Pairs(Vec<PipeId>),
    Shared(usize),
}

/// The links of all radios over time.
#[derive(Clone, Debug)]
pub(super) struct RadioCourse {
    pub(super) course: LinkCourse,
    /// By radio: the ports of its members.
    pub(super) ports: Vec<Vec<Port>>,
    pub(super) begin: Option<Time>,
}

impl RadioCourse {
    pub(super) fn deadline(&self) -> Option<Time> {
        Some(self.begin? + self.course.deadline()?)
    }

    pub(super) fn step(&mut self, now: Time) -> Vec<LinkChange> {
        let passed = self.begin.map_or(Duration::ZERO, |begin| now.since(begin));
        self.course.step(passed)
    }
}

/// The changes that give a pipe the state of a link.
pub(super) fn pipe_changes(pipe: PipeId, state: &LinkState) -> Vec<PipeChange> {
    let change = |change| PipeChange { pipe, change };
    if !state.is_up {
        return vec![change(TopologyChange::Down)];
    }
    vec![
        change(TopologyChange::Rate(state.rate)),
        change(TopologyChange::Delay(state.delay)),
        change(TopologyChange::Loss(state.loss)),
        change(TopologyChange::Up),
    ]
}

/// The air of the network: LANs by radio, shared channels, and what moves.
#[derive(Clone, Debug)]
pub(super) struct Air<P> {
    pub(super) lans: Vec<Option<LanRadio>>,
    pub(super) media: Vec<Medium<P>>,
    pub(super) points: BTreeSet<Port>,
    /// The access point whose link a leg has now.
    pub(super) serving: BTreeMap<PipeId, Port>,
    pub(super) course: Option<Box<RadioCourse>>,
}

impl<P: Clone> Air<P> {
    pub(super) const fn empty() -> Self {
        Self { lans: Vec::new(), media: Vec::new(), points: BTreeSet::new(), serving: BTreeMap::new(), course: None }
    }

    pub(super) fn lan(&self, lan: usize) -> Option<&LanRadio> {
        self.lans.get(lan)?.as_ref()
    }

    /// Keeps which access point a leg belongs to; true if the change of the link to this one is the leg's.
    pub(super) fn serves(&mut self, leg: PipeId, point: Port, state: &LinkState) -> bool {
        let current = self.serving.get(&leg).copied();
        if state.is_up {
            self.serving.insert(leg, point);
        } else if current == Some(point) {
            self.serving.remove(&leg);
        }
        state.is_up || current.is_none_or(|current| current == point)
    }

    pub(super) fn deadline(&self) -> Option<Time> {
        if self.course.is_none() && self.media.is_empty() {
            return None;
        }
        let course = self.course.as_ref().and_then(|course| course.deadline());
        self.media.iter().filter_map(Medium::deadline).chain(course).min()
    }
}
