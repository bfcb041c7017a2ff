//! Deaths, starts and searches with their times: the same for all systems.

use std::time::Duration;

use roost_dht::Circle;
use roost_wire::Cell;
use roost_wire::random::SplitMix64;

/// The time under churn before anything counts.
pub(super) const WARM_UP: Duration = Duration::from_secs(180);
/// The time that the last search has for its answer, a little longer than either system gives it.
pub(super) const LAST_ANSWER: Duration = Duration::from_secs(21);
/// The mean pause between two searches of a node.
const BETWEEN_SEARCHES: Duration = Duration::from_secs(60);
/// Half of the searches are for the surroundings: their center is at most as many cells away in each direction.
const SURROUNDINGS: u64 = 8;
/// The time until a dead node starts again, as a fraction of the time that it lives.
const ABSENCE: f64 = 1.0 / 3.0;

#[derive(Clone, Copy, Debug)]
pub(super) struct ScenarioShape {
    /// The number of hubs that come and go, too.
    pub(super) churning_hubs: usize,
    pub(super) radius: u32,
    pub(super) session: Duration,
    pub(super) length: Duration,
    pub(super) seed: u64,
}

/// A node, or a hub, by its index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Participant {
    Node(usize),
    Hub(usize),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ScenarioEvent {
    Kill(Participant),
    Start(Participant),
    Search { node: usize, circle: Circle },
    Count,
    CountNoMore,
}

/// Events with their times since the churn began, in order.
#[derive(Clone, Debug)]
pub(super) struct Scenario {
    pub(super) events: Vec<(Duration, ScenarioEvent)>,
    pub(super) end: Duration,
}

impl Scenario {
    pub(super) fn draw(cells: &[Cell], shape: &ScenarioShape) -> Self {
        let counted_until = WARM_UP + shape.length;
        let end = counted_until + LAST_ANSWER;
        let mut events = vec![(WARM_UP, ScenarioEvent::Count), (counted_until, ScenarioEvent::CountNoMore)];
        let nodes = (0..cells.len()).map(Participant::Node);
        for participant in nodes.chain((0..shape.churning_hubs).map(Participant::Hub)) {
            events.extend(life(participant, shape, end));
        }
        for node in 0..cells.len() {
            events.extend(searches(node, cells, shape));
        }
        // Equal times keep this order.
        events.sort_by_key(|(at, _)| *at);
        Self { events, end }
    }
}

/// The deaths and starts of a participant. One in four is dead at the beginning, as at any later time.
fn life(participant: Participant, shape: &ScenarioShape, end: Duration) -> Vec<(Duration, ScenarioEvent)> {
    let mut random = stream(shape.seed, participant, "life");
    let mut is_alive = fraction(&mut random) >= ABSENCE / (1.0 + ABSENCE);
    let (mut events, mut at) = (Vec::new(), Duration::ZERO);
    if !is_alive {
        events.push((at, ScenarioEvent::Kill(participant)));
    }
    loop {
        let mean = if is_alive { shape.session } else { shape.session.mul_f64(ABSENCE) };
        at += exponential(&mut random, mean);
        if at >= end {
            return events;
        }
        let event = if is_alive { ScenarioEvent::Kill(participant) } else { ScenarioEvent::Start(participant) };
        events.push((at, event));
        is_alive = !is_alive;
    }
}

fn searches(node: usize, cells: &[Cell], shape: &ScenarioShape) -> Vec<(Duration, ScenarioEvent)> {
    let mut random = stream(shape.seed, Participant::Node(node), "searches");
    let (mut events, mut at) = (Vec::new(), WARM_UP);
    loop {
        at += exponential(&mut random, BETWEEN_SEARCHES);
        if at >= WARM_UP + shape.length {
            return events;
        }
        let center = if random.below(2) == 0 {
            let mut shift = || random.below(2 * SURROUNDINGS + 1) as i32 - SURROUNDINGS as i32;
            Cell::new(cells[node].x + shift(), cells[node].y + shift())
        } else {
            cells[random.below(cells.len() as u64) as usize]
        };
        events.push((at, ScenarioEvent::Search { node, circle: Circle { center, radius: shape.radius } }));
    }
}

/// Chance of its own for each participant and purpose, so that one draw shifts no other.
fn stream(seed: u64, participant: Participant, purpose: &str) -> SplitMix64 {
    let name = match participant {
        Participant::Node(node) => format!("node {node} {purpose}"),
        Participant::Hub(hub) => format!("hub {hub} {purpose}"),
    };
    roost_experiment::workload::generator(seed, &name)
}

/// A number from 0 to below 1.
fn fraction(random: &mut SplitMix64) -> f64 {
    random.below(1 << 53) as f64 / (1_u64 << 53) as f64
}

/// An exponentially distributed duration in whole microseconds, since logarithms differ in their last digit
/// between machines.
fn exponential(random: &mut SplitMix64, mean: Duration) -> Duration {
    let drawn = -(1.0 - fraction(random)).ln() * mean.as_secs_f64();
    Duration::from_micros((drawn * 1e6) as u64 + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(churning_hubs: usize) -> ScenarioShape {
        let (session, length) = (Duration::from_secs(600), Duration::from_secs(600));
        ScenarioShape { churning_hubs, radius: 4, session, length, seed: 1 }
    }

    fn cells() -> Vec<Cell> {
        (0..400).map(|place| Cell::new(place % 20, place / 20)).collect()
    }

    #[test]
    fn a_quarter_is_always_dead() {
        let scenario = Scenario::draw(&cells(), &shape(0));
        let mut dead = 0_i32;
        let mut seen = Vec::new();
        for (at, event) in &scenario.events {
            match event {
                ScenarioEvent::Kill(_) => dead += 1,
                ScenarioEvent::Start(_) => dead -= 1,
                _ => {}
            }
            if *at > Duration::ZERO {
                seen.push(f64::from(dead));
            }
        }
        let mean = seen.iter().sum::<f64>() / seen.len() as f64;
        assert!((80.0..120.0).contains(&mean), "{mean} of 400");
    }

    #[test]
    fn churn_of_hubs_changes_nothing_else() {
        let [stay, churn] = [0, 5].map(|hubs| Scenario::draw(&cells(), &shape(hubs)).events);
        let is_hubs = |event: &ScenarioEvent| {
            matches!(event, ScenarioEvent::Kill(Participant::Hub(_)) | ScenarioEvent::Start(Participant::Hub(_)))
        };
        assert!(churn.iter().any(|(_, event)| is_hubs(event)));
        assert_eq!(stay, churn.into_iter().filter(|(_, event)| !is_hubs(event)).collect::<Vec<_>>());
    }

    #[test]
    fn each_node_searches_once_a_minute() {
        let events = Scenario::draw(&cells(), &shape(0)).events;
        let searches = events.iter().filter(|(_, event)| matches!(event, ScenarioEvent::Search { .. })).count();
        assert!((3_700..4_300).contains(&searches), "{searches} of 400 nodes in ten minutes");
        assert!(events.is_sorted_by_key(|(at, _)| *at));
    }
}
