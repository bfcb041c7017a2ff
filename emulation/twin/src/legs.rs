//! Legs of a star that explain distances between hosts, if there are any.

use std::collections::BTreeMap;

/// Passes over all hosts; each brings the legs closer to the best ones.
const PASSES: usize = 400;
/// The parts of distances, and the milliseconds, by which most of them may miss the sum of two legs.
const MISS: f64 = 0.03;
const MISS_MS: f64 = 1.0;
/// The part of distances that must fit.
const FITTING: f64 = 0.95;

/// Milliseconds from one host to the other, by the two of them.
pub(crate) type Distances = BTreeMap<(usize, usize), f64>;

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct StarFit {
    pub(crate) legs: Vec<f64>,
    /// The greatest miss of those that fit.
    pub(crate) miss_ms: f64,
    /// True for each host whose leg the distances tell.
    pub(crate) is_told: Vec<bool>,
}

/// The legs that come closest to the distances in the sense of least squares, if they fit.
pub(crate) fn fit(hosts: usize, distances: &Distances) -> Option<StarFit> {
    if distances.is_empty() {
        return None;
    }
    let legs = least_squares(hosts, distances);
    let mut misses: Vec<(f64, f64)> =
        distances.iter().map(|((a, b), distance)| ((legs[*a] + legs[*b] - distance).abs(), *distance)).collect();
    misses.sort_by(|a, b| a.0.total_cmp(&b.0));
    let fitting = misses.iter().filter(|(miss, distance)| *miss <= MISS_MS.max(MISS * distance));
    let count = fitting.clone().count();
    let miss_ms = fitting.map(|(miss, _)| *miss).fold(0.0, f64::max);
    (count as f64 >= FITTING * misses.len() as f64).then(|| StarFit {
        legs,
        miss_ms,
        is_told: told_legs(hosts, distances),
    })
}

/// Which legs distances tell: those of hosts that an odd cycle of distances connects, such as a triangle. Otherwise what
/// each second leg loses the others win, and all sums stay the same.
fn told_legs(hosts: usize, distances: &Distances) -> Vec<bool> {
    let mut of: Vec<Vec<usize>> = vec![Vec::new(); hosts];
    for (a, b) in distances.keys() {
        of[*a].push(*b);
        of[*b].push(*a);
    }
    let mut is_told = vec![false; hosts];
    let mut sides: Vec<Option<bool>> = vec![None; hosts];
    for first in 0..hosts {
        if sides[first].is_some() {
            continue;
        }
        sides[first] = Some(false);
        let (mut found, mut next, mut is_odd) = (vec![first], 0, false);
        while let Some(host) = found.get(next).copied() {
            next += 1;
            for other in &of[host] {
                match sides[*other] {
                    None => {
                        sides[*other] = sides[host].map(|side| !side);
                        found.push(*other);
                    }
                    side => is_odd |= side == sides[host],
                }
            }
        }
        found.into_iter().for_each(|host| is_told[host] = is_odd);
    }
    is_told
}

/// A share for each host, so that the sums of two come closest to the values of their pairs.
pub(crate) fn least_squares(hosts: usize, values: &Distances) -> Vec<f64> {
    let mut of: Vec<Vec<(usize, f64)>> = vec![Vec::new(); hosts];
    for ((a, b), value) in values {
        of[*a].push((*b, *value));
        of[*b].push((*a, *value));
    }
    // Half of the least value is a share that no value refutes.
    let least = |others: &Vec<(usize, f64)>| others.iter().map(|(_, value)| value / 2.0).reduce(f64::min);
    let mut shares: Vec<f64> = of.iter().map(|others| least(others).unwrap_or(0.0)).collect();
    for _ in 0..PASSES {
        for host in 0..hosts {
            let rest = of[host].iter().map(|(other, value)| value - shares[*other]).sum::<f64>();
            if !of[host].is_empty() {
                shares[host] = (rest / of[host].len() as f64).max(0.0);
            }
        }
    }
    shares
}

/// Distances between all hosts: known ones, and along the shortest way of known ones.
pub(crate) fn fill(hosts: usize, distances: &Distances) -> Vec<Vec<Option<f64>>> {
    let mut all = vec![vec![None; hosts]; hosts];
    for ((a, b), distance) in distances {
        all[*a][*b] = Some(*distance);
        all[*b][*a] = Some(*distance);
    }
    let known = all.clone();
    for via in 0..hosts {
        let onward = all[via].clone();
        for (from, row) in all.iter_mut().enumerate() {
            let Some(first) = row[via] else { continue };
            for (to, (known, second)) in row.iter_mut().zip(&onward).enumerate() {
                let Some(length) = second.filter(|_| from != to).map(|second| first + second) else { continue };
                *known = Some(known.map_or(length, |known| known.min(length)));
            }
        }
    }
    // What was measured stays, though a detour be shorter.
    for (row, measured) in all.iter_mut().zip(&known) {
        row.iter_mut().zip(measured).for_each(|(value, measured)| *value = measured.or(*value));
    }
    all
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn star(legs: &[f64], noise: impl Fn(usize, usize) -> f64) -> Distances {
        let pairs = (0..legs.len()).flat_map(|a| (a + 1..legs.len()).map(move |b| (a, b)));
        pairs.map(|(a, b)| ((a, b), legs[a] + legs[b] + noise(a, b))).collect()
    }

    #[test]
    fn hierarchy_is_no_star() {
        // Two pairs of near hosts, far from each other.
        let distances =
            [((0, 1), 10.0), ((2, 3), 10.0), ((0, 2), 90.0), ((0, 3), 90.0), ((1, 2), 90.0), ((1, 3), 90.0)];
        assert_eq!(fit(4, &distances.into()), None);
    }

    #[test]
    fn only_odd_cycles_tell_legs() {
        let path = Distances::from([((0, 1), 5.0), ((1, 2), 7.0), ((2, 3), 9.0)]);
        assert_eq!(fit(5, &path).unwrap().is_told, [false; 5]);
        let even: Distances = path.clone().into_iter().chain([((0, 3), 7.0)]).collect();
        assert_eq!(fit(4, &even).unwrap().is_told, [false; 4]);
        let odd: Distances = path.into_iter().chain([((0, 2), 8.0)]).collect();
        assert_eq!(fit(5, &odd).unwrap().is_told, [true, true, true, true, false]);
    }

    #[test]
    fn unknown_distances_follow_known_ones() {
        let all = fill(4, &[((0, 1), 5.0), ((1, 2), 7.0), ((0, 2), 30.0)].into());
        assert_eq!((all[0][2], all[2][0], all[0][3]), (Some(30.0), Some(30.0), None));
        let all = fill(3, &[((0, 1), 5.0), ((1, 2), 7.0)].into());
        assert_eq!(all[2][0], Some(12.0));
    }

    proptest! {
        #[test]
        fn legs_of_a_star_are_found(legs in proptest::collection::vec(1.0_f64..500.0, 3..12)) {
            let found = fit(legs.len(), &star(&legs, |a, b| 0.3 * ((a * 7 + b) % 3) as f64)).unwrap();
            for (leg, was) in found.legs.iter().zip(&legs) {
                prop_assert!((leg - was).abs() < 1.0, "{found:?} of {legs:?}");
            }
        }

        #[test]
        fn any_distances_are_survived(distances in proptest::collection::btree_map((0_usize..5, 5_usize..9), 0.0..1e6_f64, 0..20)) {
            let _ = fit(9, &distances);
            let _ = fill(9, &distances);
        }
    }
}
