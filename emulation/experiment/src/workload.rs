//! The requests of one node: a state machine without a clock.
//!
//! The workload is that of Sproull et al. 2007: a node requests a service, waits until the request is complete
//! or times out, then makes the next one, or with the probability of its class pauses for a second first. At
//! the end of the workload the current request ends, and the node is done.
//!
//! The driver calls [`Workload::poll`], carries out its result, and calls it again at the deadline it returned,
//! or after [`Workload::ended`].

use std::time::Duration;

use roost_wire::random::SplitMix64;
use roost_wire::{Scheme, Service, Time};

use super::placement::{PlacedNode, Targets};
use super::plan::{Draw, Mix, Plan};
use super::prepare::Prepared;
use super::replay::ReplayedRequest;
pub use super::replay::WorkloadPhase;

#[derive(Clone, Debug)]
pub struct WorkloadSettings {
    pub mix: Mix,
    /// The hosts to which it may send requests, at least one.
    pub targets: Targets,
    pub idle: Duration,
    /// The time-out of a request, beyond the length of a stream.
    pub timeout: Duration,
    pub stream: Duration,
    /// No request begins at or after this time.
    pub end: Time,
}

impl WorkloadSettings {
    fn until(plan: &Plan, node: &PlacedNode, end: Duration) -> Self {
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

/// The generator of the node `name` in a run with this seed. It mixes names and not positions, so that a node
/// makes the same requests in a topology with more hosts.
pub fn generator(seed: u64, name: &str) -> SplitMix64 {
    let mut state = SplitMix64::new(seed).next_u64();
    for byte in name.bytes() {
        state = SplitMix64::new(state ^ u64::from(byte)).next_u64();
    }
    SplitMix64::new(state)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkloadRequest {
    pub service: Service,
    /// The host whose cell the request names.
    pub target: usize,
    pub deadline: Time,
    pub stream: Duration,
    /// The only transport, if it is not that of the plan.
    pub transport: Option<Scheme>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkloadStep {
    /// Send this request, and report its end.
    Request(WorkloadRequest),
    /// A request is in progress: wait for its end.
    Busy,
    Wait(Time),
    Done,
}

/// The end of a request, as far as the next one depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestEnding {
    /// Completed or timed out: the next request follows at once.
    Finished,
    /// Declined. The paper has no such case. The node pauses, since after an immediate decline it would
    /// otherwise request in a tight loop.
    Declined,
}

#[derive(Clone, Debug)]
pub struct Workload {
    settings: WorkloadSettings,
    random: SplitMix64,
    state: WorkloadState,
    /// Requests at given times, in place of drawn ones.
    replay: Option<std::vec::IntoIter<ReplayedRequest>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WorkloadState {
    Choosing,
    Pausing(Time),
    Busy,
    Done,
}

impl Workload {
    /// The workloads of all nodes, each with the index of its node and in their order; time 0 is when all nodes are
    /// ready. A node has one, or one for each lane of its replay.
    pub fn all(prepared: &Prepared, phase: WorkloadPhase) -> Vec<(usize, Self)> {
        let Prepared { plan, placement, replay, .. } = prepared;
        let mut workloads = Vec::new();
        for (index, node) in placement.nodes.iter().enumerate() {
            let drawn = match phase {
                WorkloadPhase::WarmUp => Self::warm_up_from_plan(plan, node),
                WorkloadPhase::Measured => Self::from_plan(plan, node),
            };
            let Some(replay) = replay else {
                workloads.push((index, drawn));
                continue;
            };
            let lanes = replay.lanes(plan, index, phase).into_iter();
            workloads.extend(lanes.map(|lane| (index, drawn.clone().replaying(lane))));
        }
        workloads
    }

    fn replaying(self, lane: Vec<ReplayedRequest>) -> Self {
        Self { replay: Some(lane.into_iter()), state: WorkloadState::Choosing, ..self }
    }

    /// A node's workload in a plan; time 0 is when all nodes are ready.
    pub fn from_plan(plan: &Plan, node: &PlacedNode) -> Self {
        Self::new(WorkloadSettings::until(plan, node, plan.duration), generator(plan.seed, &node.name))
    }

    /// A node's workload in the warm-up. It has a random stream of its own, so that a plan makes the same
    /// requests with and without a warm-up.
    pub fn warm_up_from_plan(plan: &Plan, node: &PlacedNode) -> Self {
        let random = generator(plan.seed, &format!("{} before", node.name));
        Self::new(WorkloadSettings::until(plan, node, plan.warm_up), random)
    }

    pub fn new(settings: WorkloadSettings, random: SplitMix64) -> Self {
        let state = if settings.targets.is_empty() { WorkloadState::Done } else { WorkloadState::Choosing };
        Self { settings, random, state, replay: None }
    }

    /// The next step at the time `now`.
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
        if self.replay.is_some() {
            return self.replay_next(now);
        }
        match self.settings.mix.draw(&mut self.random) {
            Draw::Ask(service) => self.ask(now, service),
            Draw::Pause => self.pause(now),
        }
    }

    fn replay_next(&mut self, now: Time) -> WorkloadStep {
        let next = self.replay.as_ref().and_then(|requests| requests.as_slice().first().copied());
        let Some(ReplayedRequest { at, service, target, stream, transport, timeout, .. }) = next else {
            self.state = WorkloadState::Done;
            return WorkloadStep::Done;
        };
        if now < Time::ZERO + at {
            return WorkloadStep::Wait(Time::ZERO + at);
        }
        self.replay.as_mut().and_then(Iterator::next);
        self.state = WorkloadState::Busy;
        let stream = if service.is_stream() { stream.unwrap_or(self.settings.stream) } else { Duration::ZERO };
        let deadline = now + timeout.unwrap_or(self.settings.timeout) + stream;
        WorkloadStep::Request(WorkloadRequest { service, target, deadline, stream, transport })
    }

    pub fn ended(&mut self, now: Time, how: RequestEnding) {
        debug_assert_eq!(self.state, WorkloadState::Busy);
        self.state = match how {
            _ if self.replay.is_some() => WorkloadState::Choosing,
            RequestEnding::Finished => WorkloadState::Choosing,
            RequestEnding::Declined => WorkloadState::Pausing(now + self.settings.idle),
        };
    }

    /// Makes no more requests: the run ends early.
    pub fn stop(&mut self, now: Time) {
        self.settings.end = self.settings.end.min(now);
    }

    fn ask(&mut self, now: Time, service: Service) -> WorkloadStep {
        // Fits usize: it is below the number of targets.
        let chosen = self.random.below(self.settings.targets.len() as u64) as usize;
        let stream = if service.is_stream() { self.settings.stream } else { Duration::ZERO };
        self.state = WorkloadState::Busy;
        let deadline = now + self.settings.timeout + stream;
        let target = self.settings.targets.get(chosen);
        WorkloadStep::Request(WorkloadRequest { service, target, deadline, stream, transport: None })
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

    /// Runs a workload in which every request takes `took`. Returns the requests with their times, and the time
    /// when it was done.
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
    fn replay_keeps_its_times() {
        let request = |ms, service| ReplayedRequest {
            at: Duration::from_millis(ms),
            phase: WorkloadPhase::Measured,
            service,
            target: 5,
            stream: Some(Duration::from_secs(3)),
            transport: None,
            timeout: None,
        };
        let image = ReplayedRequest { timeout: Some(Duration::from_secs(12)), ..request(7_000, Service::Image) };
        let lane = vec![request(0, Service::Video), image, request(59_999, Service::Track)];
        let workload = Workload::new(settings(Mix::LOW), generator(1, "n1")).replaying(lane);
        let (asked, done) = run(workload, Duration::from_millis(250), RequestEnding::Declined);
        assert_eq!(asked.iter().map(|(time, _)| *time).collect::<Vec<_>>(), [at(0), at(7_000), at(59_999)]);
        assert_eq!(asked[0].1.deadline - asked[0].0, Duration::from_secs(33));
        assert_eq!(asked[1].1.deadline - asked[1].0, Duration::from_secs(12));
        assert_eq!(done, at(60_249));
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
