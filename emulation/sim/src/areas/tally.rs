//! The nodes that are there, and the part of them that searches found.

use std::collections::{BTreeMap, BTreeSet};

use roost_dht::Circle;
use roost_results::metrics::Distribution;
use roost_wire::{Cell, Time};

use super::AreaFigures;

/// The nodes that live, each with the time since which it does.
#[derive(Clone, Debug)]
pub(super) struct Presence {
    cells: Vec<Cell>,
    since: Vec<Option<Time>>,
    /// The sum of lives that count, seconds.
    node_seconds: f64,
    counts_from: Option<Time>,
}

impl Presence {
    pub(super) fn new(cells: &[Cell], now: Time) -> Self {
        Self { cells: cells.to_vec(), since: vec![Some(now); cells.len()], node_seconds: 0.0, counts_from: None }
    }

    pub(super) fn lives(&self, node: usize) -> bool {
        self.since[node].is_some()
    }

    pub(super) fn start(&mut self, now: Time, node: usize) {
        self.since[node].get_or_insert(now);
    }

    pub(super) fn kill(&mut self, now: Time, node: usize) {
        if let (Some(since), Some(from)) = (self.since[node].take(), self.counts_from) {
            self.node_seconds += now.since(since.max(from)).as_secs_f64();
        }
    }

    pub(super) fn count_from(&mut self, now: Time) {
        (self.counts_from, self.node_seconds) = (Some(now), 0.0);
    }

    /// The number of nodes that were there on average since counting began.
    fn mean(&self, now: Time) -> f64 {
        let Some(from) = self.counts_from else { return 0.0 };
        let alive = self.since.iter().flatten().map(|since| now.since((*since).max(from)).as_secs_f64());
        (self.node_seconds + alive.sum::<f64>()) / now.since(from).as_secs_f64().max(f64::MIN_POSITIVE)
    }

    /// The living nodes in a circle other than one, with the begins of their lives.
    fn inside(&self, circle: &Circle, except: usize) -> Vec<(usize, Time)> {
        let alive = self.since.iter().enumerate().filter_map(|(node, since)| Some((node, (*since)?)));
        alive.filter(|(node, _)| *node != except && circle.contains(self.cells[*node])).collect()
    }
}

#[derive(Clone, Debug)]
struct OpenSearch {
    node: usize,
    begun: Time,
    inside: Vec<(usize, Time)>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct AreaTraffic {
    /// Bytes of all packets when they were sent, with all headers.
    pub(super) bytes: u64,
    /// Bytes that each machine sent and received.
    pub(super) machines: Vec<u64>,
    /// Messages of searches, over all hops, and their bytes without headers.
    pub(super) search_messages: u64,
    pub(super) search_bytes: u64,
}

#[derive(Clone, Debug)]
pub(super) struct AreaTally {
    pub(super) presence: Presence,
    open: BTreeMap<u64, OpenSearch>,
    begun: u64,
    searches: u64,
    successes: u64,
    whole: u64,
    recalls: f64,
    inside: u64,
    found: u64,
    stale: u64,
    latencies: Vec<f64>,
    began: (Time, AreaTraffic),
    ended: (Time, AreaTraffic),
    online: f64,
}

impl AreaTally {
    pub(super) fn new(presence: Presence) -> Self {
        Self {
            presence,
            open: BTreeMap::new(),
            begun: 0,
            searches: 0,
            successes: 0,
            whole: 0,
            recalls: 0.0,
            inside: 0,
            found: 0,
            stale: 0,
            latencies: Vec::new(),
            began: Default::default(),
            ended: Default::default(),
            online: 0.0,
        }
    }

    pub(super) fn count_from(&mut self, now: Time, traffic: AreaTraffic) {
        self.presence.count_from(now);
        self.began = (now, traffic);
    }

    pub(super) fn count_until(&mut self, now: Time, traffic: AreaTraffic) {
        self.online = self.presence.mean(now);
        self.ended = (now, traffic);
    }

    /// A node begins a search; the result is its ticket.
    pub(super) fn begin_search(&mut self, now: Time, node: usize, circle: &Circle) -> u64 {
        self.begun += 1;
        let inside = self.presence.inside(circle, node);
        self.open.insert(self.begun, OpenSearch { node, begun: now, inside });
        self.begun
    }

    /// Nobody waits for the searches of a dead node.
    pub(super) fn kill(&mut self, now: Time, node: usize) {
        self.presence.kill(now, node);
        self.open.retain(|_, search| search.node != node);
    }

    /// Counts a search that has ended, unless nobody stayed in its area.
    pub(super) fn end_search(&mut self, now: Time, ticket: u64, found: &[usize]) {
        let Some(OpenSearch { node, begun, inside }) = self.open.remove(&ticket) else { return };
        let found: BTreeSet<usize> = found.iter().copied().filter(|found| *found != node).collect();
        self.found += found.len() as u64;
        let was_there = |node: &usize| inside.iter().any(|(one, _)| one == node);
        self.stale += found.iter().filter(|node| !was_there(node) && !self.presence.lives(**node)).count() as u64;
        let stayed = inside.iter().filter(|(node, since)| self.presence.since[*node] == Some(*since));
        let stayed: Vec<usize> = stayed.map(|(node, _)| *node).collect();
        if stayed.is_empty() {
            return;
        }
        let hits = stayed.iter().filter(|node| found.contains(node)).count();
        self.searches += 1;
        self.inside += stayed.len() as u64;
        self.recalls += hits as f64 / stayed.len() as f64;
        self.whole += u64::from(hits == stayed.len());
        if hits > 0 {
            self.successes += 1;
            self.latencies.push(now.since(begun).as_secs_f64() * 1e3);
        }
    }

    /// The figures; searches without an answer have found nothing. The last searches have sent some of their
    /// messages after counting ended: those are in the traffic so far.
    pub(super) fn figures(mut self, now: Time, so_far: &AreaTraffic) -> AreaFigures {
        for ticket in self.open.keys().copied().collect::<Vec<_>>() {
            self.end_search(now, ticket, &[]);
        }
        let ((began, before), (ended, after)) = (self.began, self.ended);
        let seconds = ended.since(began).as_secs_f64();
        let fraction = |some: f64, all: u64| some / all as f64;
        let machines = after.machines.iter().zip(before.machines.iter().chain(std::iter::repeat(&0)));
        let busiest = machines.map(|(after, before)| after - before).max().unwrap_or(0);
        let latency = Distribution::from_values(self.latencies);
        AreaFigures {
            searches: self.searches,
            success: fraction(self.successes as f64, self.searches),
            recall: fraction(self.recalls, self.searches),
            whole: fraction(self.whole as f64, self.searches),
            stale: fraction(self.stale as f64, self.found),
            inside: fraction(self.inside as f64, self.searches),
            mean_ms: latency.mean.unwrap_or(f64::NAN),
            p50_ms: latency.p50.unwrap_or(f64::NAN),
            p95_ms: latency.p95.unwrap_or(f64::NAN),
            messages: fraction((so_far.search_messages - before.search_messages) as f64, self.begun),
            bytes: fraction((so_far.search_bytes - before.search_bytes) as f64, self.begun),
            node_bytes_s: (after.bytes - before.bytes) as f64 / seconds / self.online,
            busiest_bytes_s: busiest as f64 / seconds,
            online: self.online,
            steps: 0,
            wall_s: 0.0,
            violations: 0,
            overflows: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Time {
        Time::from_nanos(seconds * 1_000_000_000)
    }

    fn tally() -> AreaTally {
        let cells: Vec<Cell> = (0..6).map(|x| Cell::new(x, 0)).collect();
        let mut tally = AreaTally::new(Presence::new(&cells, at(0)));
        tally.count_from(at(10), AreaTraffic::default());
        tally
    }

    const CIRCLE: Circle = Circle { center: Cell::new(1, 0), radius: 2 };

    #[test]
    fn recall_is_of_those_that_stay() {
        let mut tally = tally();
        let ticket = tally.begin_search(at(20), 0, &CIRCLE);
        tally.kill(at(21), 3);
        // Of 1, 2 and 3 the last has died, and 3 was there when the search began.
        tally.end_search(at(22), ticket, &[0, 1, 3]);
        tally.count_until(at(30), AreaTraffic { bytes: 1_160, machines: vec![40, 70], ..AreaTraffic::default() });
        let figures = tally.figures(at(40), &AreaTraffic::default());
        assert_eq!((figures.searches, figures.success, figures.recall, figures.whole), (1, 1.0, 0.5, 0.0));
        assert_eq!((figures.stale, figures.p50_ms, figures.inside), (0.0, 2_000.0, 2.0));
        // Five nodes and a part of one, for twenty seconds.
        assert_eq!((figures.online, figures.busiest_bytes_s), (5.55, 3.5));
    }

    #[test]
    fn dead_nodes_in_answers_are_stale() {
        let mut tally = tally();
        tally.kill(at(11), 2);
        let ticket = tally.begin_search(at(20), 0, &CIRCLE);
        tally.end_search(at(21), ticket, &[1, 2]);
        assert_eq!(tally.figures(at(30), &AreaTraffic::default()).stale, 0.5);
    }

    #[test]
    fn searches_without_answer_fail() {
        let mut tally = tally();
        tally.begin_search(at(20), 0, &CIRCLE);
        tally.begin_search(at(20), 5, &CIRCLE);
        // This one dies with its node.
        tally.kill(at(21), 5);
        let figures = tally.figures(at(40), &AreaTraffic::default());
        assert_eq!((figures.searches, figures.success, figures.recall), (1, 0.0, 0.0));
    }

    #[test]
    fn late_messages_of_searches_count() {
        let traffic = |bytes, search_messages, search_bytes| {
            let machines = vec![bytes];
            AreaTraffic { bytes, machines, search_messages, search_bytes }
        };
        let mut tally = tally();
        tally.begin_search(at(20), 0, &CIRCLE);
        tally.begin_search(at(29), 5, &CIRCLE);
        tally.count_until(at(30), traffic(2_000, 6, 600));
        let figures = tally.figures(at(40), &traffic(3_000, 10, 1_000));
        assert_eq!((figures.messages, figures.bytes), (5.0, 500.0));
        // Rates are of the time that counts.
        assert_eq!(figures.busiest_bytes_s, 100.0);
    }

    #[test]
    fn search_among_nobody_counts_nothing() {
        let mut tally = tally();
        let ticket = tally.begin_search(at(20), 0, &Circle { center: Cell::new(90, 0), radius: 2 });
        tally.end_search(at(21), ticket, &[]);
        assert_eq!(tally.figures(at(30), &AreaTraffic::default()).searches, 0);
    }
}
