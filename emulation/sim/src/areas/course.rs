//! A scenario, step by step, with either system.

use std::time::Duration;

use roost_dht::Circle;
use roost_wire::{Cell, Time};

use super::AreaFigures;
use super::scenario::{Participant, Scenario, ScenarioEvent};
use super::tally::{AreaTally, AreaTraffic, Presence};

/// A system whose nodes can be searched for. All its nodes live when a course begins.
pub(super) trait SearchedSystem {
    fn now(&self) -> Time;
    /// Handles the next event that is due by `until`; `false` if there is none.
    fn step(&mut self, until: Time) -> bool;
    fn wait_until(&mut self, until: Time);
    fn start(&mut self, participant: Participant);
    fn kill(&mut self, participant: Participant);
    fn search(&mut self, ticket: u64, node: usize, circle: Circle);
    /// The ticket of a search that has ended, and the nodes that it found.
    fn poll_found(&mut self) -> Option<(u64, Vec<usize>)>;
    fn traffic(&self) -> AreaTraffic;
    fn steps(&self) -> u64;
    fn violations(&self) -> usize;
    fn overflows(&mut self) -> u64;
}

pub(super) struct Course<'a, S> {
    scenario: &'a Scenario,
    system: S,
    tally: AreaTally,
    begin: Time,
}

impl<'a, S: SearchedSystem> Course<'a, S> {
    pub(super) fn new(scenario: &'a Scenario, cells: &[Cell], system: S) -> Self {
        let begin = system.now();
        Self { scenario, system, tally: AreaTally::new(Presence::new(cells, begin)), begin }
    }

    pub(super) fn run(mut self) -> AreaFigures {
        for (at, event) in &self.scenario.events {
            self.go_on(*at);
            self.act(*event);
        }
        self.go_on(self.scenario.end);
        let (steps, violations) = (self.system.steps(), self.system.violations());
        let overflows = self.system.overflows();
        AreaFigures { steps, violations, overflows, ..self.tally.figures(self.system.now(), &self.system.traffic()) }
    }

    fn go_on(&mut self, to: Duration) {
        let until = self.begin + to;
        while self.system.step(until) {
            self.collect();
        }
        self.system.wait_until(until);
    }

    fn collect(&mut self) {
        while let Some((ticket, found)) = self.system.poll_found() {
            self.tally.end_search(self.system.now(), ticket, &found);
        }
    }

    fn act(&mut self, event: ScenarioEvent) {
        let now = self.system.now();
        match event {
            ScenarioEvent::Kill(participant) => {
                self.system.kill(participant);
                if let Participant::Node(node) = participant {
                    self.tally.kill(now, node);
                }
            }
            ScenarioEvent::Start(participant) => {
                if let Participant::Node(node) = participant {
                    self.tally.presence.start(now, node);
                }
                self.system.start(participant);
            }
            ScenarioEvent::Search { node, circle } => {
                if self.tally.presence.lives(node) {
                    let ticket = self.tally.begin_search(now, node, &circle);
                    self.system.search(ticket, node, circle);
                }
            }
            ScenarioEvent::Count => self.tally.count_from(now, self.system.traffic()),
            ScenarioEvent::CountNoMore => self.tally.count_until(now, self.system.traffic()),
        }
        self.collect();
    }
}
