//! What one node asks for and when: a state machine without a clock.
//!
//! The workload is that of Sproull et al. 2007: a node asks for a service,
//! waits until it is complete or its time is up, then asks for the next one,
//! or with the probability of its class pauses for a second first. When the
//! workload's time is up what is under way ends, and the node is done.
//!
//! The driver calls [`Workload::poll`], does what it says, and calls it again
//! at the deadline that it was given, or after [`Workload::ended`].

use std::time::Duration;

use roost_proto::random::SplitMix64;
use roost_proto::{Service, Time};

use super::placement::{NodePlace, Targets};
use super::plan::{Draw, Mix, Plan};

/// What a node's workload is made from.
#[derive(Clone, Debug)]
pub struct WorkloadSettings {
    /// What its class asks for.
    pub mix: Mix,
    /// The hosts that it may ask, at least one.
    pub targets: Targets,
    /// How long a pause is.
    pub idle: Duration,
    /// How long a request may take, beyond the length of a stream.
    pub timeout: Duration,
    /// How long a stream lasts.
    pub stream: Duration,
    /// When no further request is made.
    pub end: Time,
}

impl WorkloadSettings {
    fn until(plan: &Plan, node: &NodePlace, end: Duration) -> Self {
        Self {
            mix: node.mix,
            targets: node.targets.clone(),
            idle: plan.idle,
            timeout: plan.timeout,
            stream: plan.stream,
            end: Time::ZERO + end,
        }
    }
}

/// The generator of the node `name` in a run with this seed. Names, not
/// positions, are mixed in, so that a node asks for the same in a topology
/// with more hosts.
pub fn generator(seed: u64, name: &str) -> SplitMix64 {
    let mut state = SplitMix64::new(seed).next_u64();
    for byte in name.bytes() {
        state = SplitMix64::new(state ^ u64::from(byte)).next_u64();
    }
    SplitMix64::new(state)
}

/// One request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkloadRequest {
    /// What is asked for.
    pub service: Service,
    /// The host whose cell is asked for.
    pub target: usize,
    /// When it is given up.
    pub deadline: Time,
}

/// What the driver has to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkloadStep {
    /// Ask for this, and say when it has ended.
    Request(WorkloadRequest),
    /// A request is under way: nothing before it ends.
    Busy,
    /// Nothing before this time.
    Wait(Time),
    /// The node is done.
    Done,
}

/// How a request ended, as far as the next one depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestEnding {
    /// It was completed or its time was up: the next one follows at once.
    Finished,
    /// It was turned down. The publication knows no such case; the node pauses,
    /// since one that is told "no" at once would do nothing but ask.
    Declined,
}

/// The workload of one node.
#[derive(Clone, Debug)]
pub struct Workload {
    settings: WorkloadSettings,
    random: SplitMix64,
    state: WorkloadState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WorkloadState {
    Choosing,
    Pausing(Time),
    Busy,
    Done,
}

impl Workload {
    /// What a plan has a node do; time 0 is when all nodes are ready.
    pub fn from_plan(plan: &Plan, node: &NodePlace) -> Self {
        Self::new(WorkloadSettings::until(plan, node, plan.duration), generator(plan.seed, &node.name))
    }

    /// What a plan has a node do before anything counts. Its draws are its own,
    /// so that a plan asks for the same with a warm-up and without.
    pub fn warm_up_from_plan(plan: &Plan, node: &NodePlace) -> Self {
        let random = generator(plan.seed, &format!("{} before", node.name));
        Self::new(WorkloadSettings::until(plan, node, plan.warm_up), random)
    }

    /// A node that has not asked for anything yet.
    pub fn new(settings: WorkloadSettings, random: SplitMix64) -> Self {
        let state = if settings.targets.is_empty() { WorkloadState::Done } else { WorkloadState::Choosing };
        Self { settings, random, state }
    }

    /// What to do now.
    pub fn poll(&mut self, now: Time) -> WorkloadStep {
        match self.state {
            WorkloadState::Done => return WorkloadStep::Done,
            WorkloadState::Busy => return WorkloadStep::Busy,
            _ if now >= self.settings.end => {
                self.state = WorkloadState::Done;
                return WorkloadStep::Done;
            }
            WorkloadState::Pausing(until) if now < until => return WorkloadStep::Wait(until.min(self.settings.end)),
            WorkloadState::Choosing | WorkloadState::Pausing(_) => {}
        }
        match self.settings.mix.draw(&mut self.random) {
            Draw::Ask(service) => self.ask(now, service),
            Draw::Pause => self.pause(now),
        }
    }

    /// The request under way has ended.
    pub fn ended(&mut self, now: Time, how: RequestEnding) {
        debug_assert_eq!(self.state, WorkloadState::Busy);
        self.state = match how {
            RequestEnding::Finished => WorkloadState::Choosing,
            RequestEnding::Declined => WorkloadState::Pausing(now + self.settings.idle),
        };
    }

    /// Asks for nothing from now on: the run is over before its time.
    pub fn stop(&mut self, now: Time) {
        self.settings.end = self.settings.end.min(now);
    }

    fn ask(&mut self, now: Time, service: Service) -> WorkloadStep {
        // Below the number of targets, which is a `usize`.
        let chosen = self.random.below(self.settings.targets.len() as u64) as usize;
        let stream = if service.is_stream() { self.settings.stream } else { Duration::ZERO };
        self.state = WorkloadState::Busy;
        let deadline = now + self.settings.timeout + stream;
        WorkloadStep::Request(WorkloadRequest { service, target: self.settings.targets.get(chosen), deadline })
    }

    fn pause(&mut self, now: Time) -> WorkloadStep {
        let until = now + self.settings.idle;
        self.state = WorkloadState::Pausing(until);
        WorkloadStep::Wait(until.min(self.settings.end))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(ms: u64) -> Time {
        Time::from_nanos(ms * 1_000_000)
    }

    fn settings(mix: Mix) -> WorkloadSettings {
        WorkloadSettings {
            mix,
            targets: Targets::from_iter([3, 5, 8]),
            idle: Duration::from_secs(1),
            timeout: Duration::from_secs(30),
            stream: Duration::from_secs(10),
            end: at(60_000),
        }
    }

    /// Runs a workload in which every request takes `took`; the times of the
    /// requests, the requests, and when it was done.
    fn run(mut workload: Workload, took: Duration, how: RequestEnding) -> (Vec<(Time, WorkloadRequest)>, Time) {
        let (mut now, mut asked) = (Time::ZERO, Vec::new());
        loop {
            match workload.poll(now) {
                WorkloadStep::Request(wanted) => {
                    asked.push((now, wanted));
                    assert_eq!(workload.poll(now), WorkloadStep::Busy);
                    now = now + took;
                    workload.ended(now, how);
                }
                WorkloadStep::Wait(until) => {
                    assert!(until > now);
                    now = until;
                }
                WorkloadStep::Busy => unreachable!("each request is ended"),
                WorkloadStep::Done => return (asked, now),
            }
        }
    }

    #[test]
    fn next_request_immediate_or_after_pauses() {
        let workload = Workload::new(settings(Mix::LOW), generator(1, "n1"));
        let (asked, _) = run(workload, Duration::from_millis(250), RequestEnding::Finished);
        let mut pauses = 0;
        for pair in asked.windows(2) {
            let gap = (pair[1].0 - pair[0].0).as_millis();
            assert_eq!(gap % 1000, 250, "{gap}");
            pauses += u32::from(gap > 250);
        }
        assert!(asked.len() > 100 && pauses > 5, "{} asked, {pauses} pauses", asked.len());
    }

    #[test]
    fn active_request_finishes_after_end() {
        let workload = Workload::new(settings(Mix::X45), generator(4, "n1"));
        let (asked, done) = run(workload, Duration::from_millis(7_000), RequestEnding::Finished);
        assert!(asked.iter().all(|(time, _)| *time < at(60_000)));
        let last = asked.last().unwrap().0 + Duration::from_millis(7_000);
        assert_eq!(done, last.max(at(60_000)));
    }

    #[test]
    fn pause_ends_with_workload() {
        let mut workload = Workload::new(WorkloadSettings { end: at(400), ..settings(Mix::X45) }, generator(1, "n1"));
        while let WorkloadStep::Request(_) = workload.poll(Time::ZERO) {
            workload.ended(Time::ZERO, RequestEnding::Finished);
        }
        assert_eq!(workload.poll(Time::ZERO), WorkloadStep::Wait(at(400)));
        assert_eq!(workload.poll(at(400)), WorkloadStep::Done);
    }

    #[test]
    fn who_is_turned_down_pauses() {
        let workload = Workload::new(settings(Mix::LOW), generator(9, "n1"));
        let (asked, _) = run(workload, Duration::from_millis(1), RequestEnding::Declined);
        assert!(asked.len() <= 60 && asked.windows(2).all(|pair| pair[1].0 - pair[0].0 > Duration::from_secs(1)));
    }

    #[test]
    fn stream_deadline_adds_stream_length() {
        let workload = Workload::new(settings(Mix::LOW), generator(2, "n1"));
        for (time, wanted) in run(workload, Duration::from_millis(50), RequestEnding::Finished).0 {
            let allowed = if wanted.service.is_stream() { 40 } else { 30 };
            assert_eq!(wanted.deadline - time, Duration::from_secs(allowed));
        }
    }

    #[test]
    fn requests_cover_exactly_the_targets() {
        let workload = Workload::new(settings(Mix::LOW), generator(7, "n1"));
        let (asked, _) = run(workload, Duration::from_millis(50), RequestEnding::Finished);
        let mut seen = [0; 9];
        asked.iter().for_each(|(_, wanted)| seen[wanted.target] += 1);
        let expected = asked.len() as f64 / 3.0;
        let chi_square: f64 = [3, 5, 8].iter().map(|host| (f64::from(seen[*host]) - expected).powi(2) / expected).sum();
        // 13.8 is exceeded by chance once in a thousand, with 2 degrees of freedom.
        assert_eq!(seen[3] + seen[5] + seen[8], asked.len() as i32);
        assert!(chi_square < 13.8, "{seen:?}");
    }

    #[test]
    fn draws_depend_on_seed_and_name() {
        let asked = |seed, name| {
            let workload = Workload::new(settings(Mix::LOW), generator(seed, name));
            run(workload, Duration::from_millis(250), RequestEnding::Finished).0
        };
        assert_eq!(asked(1, "n1"), asked(1, "n1"));
        assert_ne!(asked(1, "n1"), asked(1, "n2"));
        assert_ne!(asked(1, "n1"), asked(2, "n1"));
    }

    #[test]
    fn node_without_targets_is_done() {
        let mut workload = Workload::new(
            WorkloadSettings { targets: Targets::from_iter([]), ..settings(Mix::LOW) },
            generator(1, "n1"),
        );
        assert_eq!(workload.poll(Time::ZERO), WorkloadStep::Done);
    }

    #[test]
    fn stopped_workload_finishes_active_request() {
        let mut workload = Workload::new(settings(Mix::LOW), generator(3, "n1"));
        while !matches!(workload.poll(at(10)), WorkloadStep::Request(_)) {
            workload = Workload::new(settings(Mix::LOW), generator(workload.random.next_u64(), "n1"));
        }
        workload.stop(at(20));
        assert_eq!(workload.poll(at(30)), WorkloadStep::Busy);
        workload.ended(at(40), RequestEnding::Finished);
        assert_eq!(workload.poll(at(40)), WorkloadStep::Done);
    }
}
