//! Hosts moved apart where they would cover each other: columns and rows widen, and each host keeps its side of all.

use std::collections::BTreeMap;

use crate::disks::Spot;

/// The least distance of two hosts with places: the marks of hosts, LANs and hubs do not touch there.
pub(crate) const APART: f64 = 0.6;
/// The width of a column of hosts at one place: a name stands beside each.
const COLUMN: f64 = 2.0;
/// The most close places that one place moves away from. A drawing with more of them is legible in no way.
const MOST_CLOSE: usize = 64;

/// Moves hosts that would cover each other apart. A host north of another stays north of it, and east stays east; two
/// in one column or row stay in it, unless they are at one place. Where there is room, hosts stay.
pub(crate) fn apart(places: &[Spot]) -> Vec<Spot> {
    let crowds = Crowd::all(places);
    let (mut columns, mut rows) = (Axis::new(places, |spot| spot.x), Axis::new(places, |spot| spot.y));
    crowds.iter().for_each(|crowd| crowd.seat(&mut columns, &mut rows));
    let mut squares = BTreeMap::<(i64, i64), Vec<&Crowd>>::new();
    for crowd in &crowds {
        let near = squares_around(crowd.place).filter_map(|square| squares.get(&square)).flatten();
        let close = near.filter(|other| other.place.minus(crowd.place).length() < APART).take(MOST_CLOSE);
        close.for_each(|other| crowd.part(other, &mut columns, &mut rows));
        squares.entry(square(crowd.place)).or_default().push(crowd);
    }
    columns.spread().into_iter().zip(rows.spread()).map(|(x, y)| Spot { x, y }).collect()
}

pub(crate) fn square(spot: Spot) -> (i64, i64) {
    ((spot.x / APART).floor() as i64, (spot.y / APART).floor() as i64)
}

pub(crate) fn squares_around(spot: Spot) -> impl Iterator<Item = (i64, i64)> {
    let (column, row) = square(spot);
    (-1..=1).flat_map(move |dx| (-1..=1).map(move |dy| (column + dx, row + dy)))
}

/// The hosts at one place, which stand in columns and rows, one row after another.
struct Crowd {
    place: Spot,
    hosts: Vec<usize>,
    columns: usize,
}

impl Crowd {
    fn all(places: &[Spot]) -> Vec<Self> {
        let mut found = BTreeMap::<(u64, u64), Vec<usize>>::new();
        for (host, spot) in places.iter().enumerate() {
            // A zero has two signs.
            found.entry(((spot.x + 0.0).to_bits(), (spot.y + 0.0).to_bits())).or_default().push(host);
        }
        let crowd = |hosts: Vec<usize>| {
            let columns = (hosts.len() as f64 * APART / COLUMN).sqrt().ceil() as usize;
            Self { place: places[hosts[0]], hosts, columns }
        };
        found.into_values().map(crowd).collect()
    }

    /// Seats the hosts in columns and rows around their place.
    fn seat(&self, columns: &mut Axis, rows: &mut Axis) {
        let middle = |count: usize| (count - 1) as f64 / 2.0;
        for (number, host) in self.hosts.iter().enumerate() {
            let (column, row) = (number % self.columns, number / self.columns);
            columns.keys[*host].1 = column as f64 - middle(self.columns);
            rows.keys[*host].1 = row as f64 - middle(self.hosts.len().div_ceil(self.columns));
            if column > 0 {
                columns.gaps.push(Gap { low: self.hosts[number - 1], high: *host, least: COLUMN });
            }
            if row > 0 {
                rows.gaps.push(Gap { low: self.hosts[number - self.columns], high: *host, least: APART });
            }
        }
    }

    /// Parts two close crowds along the axis on which they are farther from each other already.
    fn part(&self, other: &Self, columns: &mut Axis, rows: &mut Axis) {
        let step = other.place.minus(self.place);
        let is_wide = step.x.abs() >= step.y.abs();
        let (along, across) = if is_wide { (step.x, step.y) } else { (step.y, step.x) };
        let (low, high) = if along < 0.0 { (other, self) } else { (self, other) };
        let last = if is_wide { low.columns } else { low.hosts.len() } - 1;
        let gap = Gap { low: low.hosts[last], high: high.hosts[0], least: (APART * APART - across * across).sqrt() };
        if is_wide { columns.gaps.push(gap) } else { rows.gaps.push(gap) }
    }
}

/// The least distance of two hosts along an axis.
#[derive(Clone, Copy)]
struct Gap {
    low: usize,
    high: usize,
    least: f64,
}

/// Each host has a key: the coordinate of its place, and the seat among hosts at one place.
struct Axis {
    keys: Vec<(f64, f64)>,
    gaps: Vec<Gap>,
}

impl Axis {
    fn new(places: &[Spot], value: fn(&Spot) -> f64) -> Self {
        Self { keys: places.iter().map(|spot| (value(spot), 0.0)).collect(), gaps: Vec::new() }
    }

    /// The coordinates between those pushed upwards alone and those pushed downwards alone: both keep all gaps.
    fn spread(&self) -> Vec<f64> {
        let keys = self.keys.iter().map(|(place, seat)| (-place, -seat)).collect();
        let gaps = self.gaps.iter().map(|gap| Gap { low: gap.high, high: gap.low, ..*gap }).collect();
        let mirrored = Self { keys, gaps };
        self.pushed().into_iter().zip(mirrored.pushed()).map(|(up, down)| f64::midpoint(up, -down)).collect()
    }

    /// The coordinates, pushed upwards as far as gaps need it. A later free way takes up the push.
    fn pushed(&self) -> Vec<f64> {
        let mut below = vec![Vec::new(); self.keys.len()];
        self.gaps.iter().for_each(|gap| below[gap.high].push(*gap));
        let key = |host: usize| (self.keys[host].0 + 0.0, self.keys[host].1 + 0.0);
        let mut order: Vec<usize> = (0..self.keys.len()).collect();
        let compared = |one: (f64, f64), other: (f64, f64)| one.0.total_cmp(&other.0).then(one.1.total_cmp(&other.1));
        order.sort_by(|one, other| compared(key(*one), key(*other)));
        let mut pushed = vec![0.0; order.len()];
        let mut last = None;
        for equal in order.chunk_by(|one, other| key(*one) == key(*other)) {
            let (place, _) = key(equal[0]);
            // Hosts that were apart stay apart, and others keep their distance at least.
            let behind = last.map(|(last_place, last_pushed): (f64, f64)| last_pushed + APART.min(place - last_place));
            let gaps = equal.iter().flat_map(|host| &below[*host]).map(|gap| pushed[gap.low] + gap.least);
            let free = gaps.chain(behind).fold(place, f64::max);
            equal.iter().for_each(|host| pushed[*host] = free);
            last = Some((place, free));
        }
        pushed
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Asserts that no two hosts cover each other, and that each stays on its side of all others.
    fn assert_in_order(places: &[Spot]) {
        let spots = apart(places);
        for one in 0..places.len() {
            for other in 0..one {
                let (before, after) = (places[one].minus(places[other]), spots[one].minus(spots[other]));
                assert!(after.length() >= APART - 1e-9, "{one} and {other}: {after:?}");
                let is_kept = |before: f64, after: f64| before == 0.0 || before * after > 0.0;
                assert!(is_kept(before.x, after.x) && is_kept(before.y, after.y), "{before:?} became {after:?}");
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn order_is_kept(places in prop::collection::vec((0..12_i32, 0..12_i32), 1..60), side in 0.05..3.0_f64) {
            let spot = |(x, y): (i32, i32)| Spot { x: f64::from(x) * side, y: f64::from(y) * side };
            assert_in_order(&places.into_iter().map(spot).collect::<Vec<_>>());
        }

        #[test]
        fn apart_hosts_stay(places in prop::collection::btree_set((-9..9_i32, -9..9_i32), 1..60)) {
            let spot = |(x, y): (i32, i32)| Spot { x: f64::from(x) * 0.7, y: f64::from(y) * 0.7 };
            let places: Vec<Spot> = places.into_iter().map(spot).collect();
            for (place, spot) in places.iter().zip(apart(&places)) {
                prop_assert!(place.minus(spot).length() < 1e-9);
            }
        }
    }

    #[test]
    fn far_hosts_take_up_the_push() {
        let at = |x, y| Spot { x, y };
        let places = [at(0.0, 0.0), at(0.0, 0.0), at(0.0, 0.1), at(3.0, 3.0), at(0.0, -3.0)];
        assert_in_order(&places);
        let spots = apart(&places);
        assert!(spots[3..].iter().zip(&places[3..]).all(|(spot, place)| spot.minus(*place).length() < 1e-9));
    }

    #[test]
    fn crowd_needs_little_room() {
        let spots = apart(&vec![Spot::default(); 20_000]);
        let radius = spots.iter().map(|spot| spot.length()).fold(0.0, f64::max);
        assert!(radius < (20_000.0 * APART * COLUMN).sqrt(), "{radius}");
    }
}
