//! Search for hosts: the p-median of a network, and related problems.
//!
//! An optimal choice of hosts lies on hosts (Hakimi 1964), and finding it is hard for a network in general
//! (Kariv and Hakimi 1979). If there are few choices, all are evaluated, which is exact. Otherwise hosts are
//! added one by one, each the best beside those before it (Kuehn and Hamburger 1963), and then exchanged one
//! for one while that helps (Teitz and Bart 1968): for medians the result is at most five times as costly as
//! the best (Arya et al. 2004), and on real networks mostly within some per cent. Both go through hosts in
//! their order, and effort is counted and not timed, so a result repeats.

use roost_topology::model::HostIndex;

/// The most effort for evaluating all choices, in the caller's units.
const EXACT: f64 = 2e8;
/// The most effort for adding and exchanging.
const EFFORT: f64 = 4e9;
/// The number of choices that are kept.
const KEPT: usize = 3;

/// The cost of a choice: overload compares first.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct PlacementCost {
    /// The overload of a link: the load over its rate, at least 1.
    pub(super) over: f64,
    pub(super) seconds: f64,
}

impl PlacementCost {
    fn is_below(&self, other: &Self) -> bool {
        self.over.total_cmp(&other.over).then(self.seconds.total_cmp(&other.seconds)).is_lt()
    }
}

#[derive(Debug)]
pub(super) struct SearchResult {
    /// The best choices, best first, each in ascending order.
    pub(super) best: Vec<(PlacementCost, Vec<HostIndex>)>,
    /// True if there is no better one.
    pub(super) exact: bool,
}

/// Searches for the choices of `count` hosts of `candidates` of least cost; `effort` is the effort of one
/// evaluation.
pub(super) fn search(
    candidates: &[HostIndex],
    count: usize,
    effort: f64,
    cost: impl Fn(&[HostIndex]) -> PlacementCost,
) -> SearchResult {
    let mut found = SearchResult { best: Vec::new(), exact: choices(candidates.len(), count) * effort <= EXACT };
    if found.exact {
        all(candidates, count, |choice| found.consider(cost(choice), choice));
    } else {
        exchange(candidates, count, EFFORT / effort, &mut found, cost);
    }
    found
}

fn choices(of: usize, count: usize) -> f64 {
    (0..count).map(|at| (of - at) as f64 / (at + 1) as f64).product()
}

fn all(candidates: &[HostIndex], count: usize, mut look: impl FnMut(&[HostIndex])) {
    let mut places: Vec<usize> = (0..count).collect();
    loop {
        look(&places.iter().map(|place| candidates[*place]).collect::<Vec<_>>());
        let movable = (0..count).rev().find(|at| places[*at] < candidates.len() - count + at);
        let Some(at) = movable else { return };
        places[at] += 1;
        for next in at + 1..count {
            places[next] = places[next - 1] + 1;
        }
    }
}

/// Adds the best one by one, then exchanges while that helps, for at most `looks` evaluations.
fn exchange(
    candidates: &[HostIndex],
    count: usize,
    mut looks: f64,
    found: &mut SearchResult,
    cost: impl Fn(&[HostIndex]) -> PlacementCost,
) {
    let mut chosen: Vec<HostIndex> = Vec::with_capacity(count);
    for at in 0..count {
        chosen.push(candidates[0]);
        looks -= candidates.len() as f64;
        let mut report = |cost, choice: &[HostIndex]| {
            if choice.len() == count {
                found.consider(cost, choice);
            }
        };
        improve(candidates, &mut chosen, at, None, &cost, &mut report);
    }
    let mut now = cost(&chosen);
    let mut unimproved = 0;
    for at in (0..count).cycle() {
        looks -= candidates.len() as f64;
        if unimproved == count || looks < 0.0 {
            return;
        }
        let after = improve(candidates, &mut chosen, at, Some(now), &cost, &mut |cost, choice| {
            found.consider(cost, choice);
        });
        unimproved = if after.is_below(&now) { 0 } else { unimproved + 1 };
        now = after;
    }
}

/// Puts the best candidate in one place of a choice; returns the cost. With a cost `before` only a better one
/// takes the place.
fn improve(
    candidates: &[HostIndex],
    chosen: &mut [HostIndex],
    at: usize,
    before: Option<PlacementCost>,
    cost: &impl Fn(&[HostIndex]) -> PlacementCost,
    report: &mut impl FnMut(PlacementCost, &[HostIndex]),
) -> PlacementCost {
    let (mut best, mut least) = (before.map(|_| chosen[at]), before);
    for candidate in candidates {
        // The first pass fills the place; its present content is no choice yet.
        let others = if before.is_some() { &chosen[..] } else { &chosen[..at] };
        if others.contains(candidate) {
            continue;
        }
        let held = std::mem::replace(&mut chosen[at], *candidate);
        let found = cost(chosen);
        report(found, chosen);
        chosen[at] = held;
        if least.is_none_or(|least| found.is_below(&least)) {
            (best, least) = (Some(*candidate), Some(found));
        }
    }
    if let Some(best) = best {
        chosen[at] = best;
    }
    least.unwrap_or_else(|| cost(chosen))
}

impl SearchResult {
    fn consider(&mut self, cost: PlacementCost, choice: &[HostIndex]) {
        let place = self.best.iter().position(|(other, _)| cost.is_below(other)).unwrap_or(self.best.len());
        if place >= KEPT {
            return;
        }
        let mut choice = choice.to_vec();
        choice.sort_unstable();
        if self.best.iter().any(|(_, other)| *other == choice) {
            return;
        }
        self.best.insert(place, (cost, choice));
        self.best.truncate(KEPT);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The median on a line of points: the sum of distances to the nearest chosen one.
    fn on_a_line(points: &[f64]) -> impl Fn(&[HostIndex]) -> PlacementCost + '_ {
        |choice| {
            let nearest =
                |point: &f64| choice.iter().map(|host| (points[*host] - point).abs()).fold(f64::MAX, f64::min);
            PlacementCost { over: 1.0, seconds: points.iter().map(nearest).sum() }
        }
    }

    #[test]
    fn few_choices_are_all_looked_at() {
        let points = [0.0, 1.0, 2.0, 10.0, 11.0, 13.0];
        let found = search(&[0, 1, 2, 3, 4, 5], 2, 1.0, on_a_line(&points));
        assert!(found.exact);
        assert_eq!(found.best[0], (PlacementCost { over: 1.0, seconds: 5.0 }, vec![1, 4]));
        assert_eq!((found.best.len(), found.best[1].0.seconds), (3, 6.0));
        let mut seen = 0;
        all(&[0, 1, 2, 3, 4, 5], 3, |_| seen += 1);
        assert_eq!((seen, choices(6, 3)), (20, 20.0));
    }

    #[test]
    fn exchange_search_matches_exhaustive_search() {
        // Scattered evenly but irregularly: the fractional parts of multiples of the golden ratio.
        let points: Vec<f64> = (1..=40).map(|n| (f64::from(n) * 0.618_034).fract() * f64::from(n % 7 + 1)).collect();
        let candidates: Vec<usize> = (0..points.len()).collect();
        let exact = search(&candidates, 3, 1.0, on_a_line(&points));
        let swapped = search(&candidates, 3, 3e4, on_a_line(&points));
        assert!(exact.exact && !swapped.exact);
        let (best, near) = (exact.best[0].0.seconds, swapped.best[0].0.seconds);
        assert!(near <= 1.05 * best, "{near} {best}");
    }

    #[test]
    fn what_cannot_be_borne_comes_last() {
        let over = |choice: &[HostIndex]| PlacementCost {
            over: if choice == [0] { 2.0 } else { 1.0 },
            seconds: choice[0] as f64,
        };
        let found = search(&[0, 1, 2], 1, 1.0, over);
        assert_eq!(found.best.iter().map(|(_, choice)| choice[0]).collect::<Vec<_>>(), [1, 2, 0]);
    }
}
