//! Places for LANs among hosts that have places: where possible, no leg goes through the mark of another host, as it would
//! seem to end there.

use std::collections::BTreeMap;

use roost_topology::Topology;
use roost_topology::model::{Net, NetKind};

use crate::apart::{APART, square, squares_around};
use crate::disks::Spot;

/// The angle by which each next spot around the middle is turned, so that all directions come up: the golden one.
const TURN: f64 = 2.399_963;
/// Spots tried for a clear one, up to seven units away, and for one that covers nothing.
const CLEAR_TRIES: usize = 600;
const FREE_TRIES: u32 = 20_000;
/// The distances computed for the clear spots of a drawing: a tenth of a second.
const MOST_DISTANCES: usize = 4_000_000;
/// The most hosts and nets among which a line is followed by eye.
pub(crate) const MOST_FOLLOWED: usize = 150;
/// The least distance of a line from the middle of a mark that is not its end.
const CLEAR: f64 = 0.4;

/// The spot of each net among these hosts. The nets that are links have none.
pub(crate) fn lan_places(topology: &Topology, hosts: &[Spot]) -> Vec<Spot> {
    let mut ground = Ground::new(topology, hosts);
    topology.nets.iter().map(|net| if is_link(net) { Spot::default() } else { ground.add_lan(net) }).collect()
}

fn is_link(net: &Net) -> bool {
    net.kind == NetKind::Link && net.members.len() == 2
}

/// The marks and lines of a drawing so far.
struct Ground<'a> {
    hosts: &'a [Spot],
    marks: BTreeMap<(i64, i64), Vec<Spot>>,
    lines: Vec<[Spot; 2]>,
    /// The distances that may be computed for each LAN.
    distances: usize,
    /// The last spot around each middle, by its number: the next LAN with this middle goes on there.
    tried: BTreeMap<(u64, u64), u32>,
}

impl<'a> Ground<'a> {
    fn new(topology: &Topology, hosts: &'a [Spot]) -> Self {
        let links = topology.nets.iter().filter(|net| is_link(net));
        let lines = links.map(|net| [hosts[net.members[0].host], hosts[net.members[1].host]]).collect();
        let is_followed = hosts.len() + topology.nets.len() <= MOST_FOLLOWED;
        let distances = if is_followed { MOST_DISTANCES / topology.nets.len().max(1) } else { 0 };
        let mut ground = Self { hosts, marks: BTreeMap::new(), lines, distances, tried: BTreeMap::new() };
        hosts.iter().for_each(|spot| ground.add_mark(*spot));
        ground
    }

    fn add_mark(&mut self, spot: Spot) {
        self.marks.entry(square(spot)).or_default().push(spot);
    }

    /// Puts a LAN near the middle of its hosts.
    fn add_lan(&mut self, net: &Net) -> Spot {
        let ends: Vec<Spot> = net.members.iter().map(|member| self.hosts[member.host]).collect();
        let sum = ends.iter().copied().fold(Spot::default(), Spot::plus);
        let count = ends.len().max(1) as f64;
        let middle = Spot { x: sum.x / count, y: sum.y / count };
        let spot = self.clear_spot(middle, &ends).unwrap_or_else(|| self.free_spot(middle));
        self.add_mark(spot);
        self.lines.extend(ends.into_iter().map(|end| [spot, end]));
        spot
    }

    /// The nearest free spot where no line misleads, or else where the fewest do; `None` among too many lines and marks.
    fn clear_spot(&self, middle: Spot, ends: &[Spot]) -> Option<Spot> {
        let marks = self.marks.values().map(Vec::len).sum::<usize>();
        let tries = (self.distances / (ends.len() * marks + self.lines.len()).max(1)).min(CLEAR_TRIES);
        let mut best: Option<(usize, Spot)> = None;
        for spot in (0..tries as u32).map(|step| around(middle, step)).filter(|spot| self.is_free(*spot)) {
            let misleading = self.misleading(spot, ends);
            if best.is_none_or(|(fewest, _)| misleading < fewest) {
                best = Some((misleading, spot));
            }
            if misleading == 0 {
                break;
            }
        }
        best.map(|(_, spot)| spot)
    }

    /// The nearest free spot, from the last one around this middle on.
    fn free_spot(&mut self, middle: Spot) -> Spot {
        let place = (middle.x.to_bits(), middle.y.to_bits());
        let start = self.tried.get(&place).copied().unwrap_or_default();
        let mut spots = (start..start.saturating_add(FREE_TRIES)).map(|step| (step, around(middle, step)));
        let (last, spot) = spots.find(|(_, spot)| self.is_free(*spot)).unwrap_or((start, middle));
        self.tried.insert(place, last);
        spot
    }

    fn is_free(&self, spot: Spot) -> bool {
        let near = squares_around(spot).filter_map(|square| self.marks.get(&square)).flatten();
        near.into_iter().all(|mark| mark.minus(spot).length() >= APART)
    }

    /// The number of lines through marks that are not their ends, with a LAN here.
    fn misleading(&self, lan: Spot, ends: &[Spot]) -> usize {
        let through = |end: &Spot| {
            let marks = self.marks.values().flatten().filter(|mark| *mark != end);
            marks.filter(|mark| distance(**mark, [lan, *end]) < CLEAR).count()
        };
        let under = self.lines.iter().filter(|line| distance(lan, **line) < CLEAR).count();
        under + ends.iter().map(through).sum::<usize>()
    }
}

/// The spots around a middle, ever farther away and in all directions.
fn around(middle: Spot, step: u32) -> Spot {
    middle.plus(Spot::at(f64::from(step) * TURN, APART / 2.0 * f64::from(step).sqrt()))
}

/// The distance of a spot from a line between two others.
fn distance(spot: Spot, [one, other]: [Spot; 2]) -> f64 {
    let (along, offset) = (other.minus(one), spot.minus(one));
    let square = along.x * along.x + along.y * along.y;
    let part = if square > 0.0 { ((offset.x * along.x + offset.y * along.y) / square).clamp(0.0, 1.0) } else { 0.0 };
    offset.minus(Spot { x: along.x * part, y: along.y * part }).length()
}

#[cfg(test)]
mod tests {
    use roost_topology::testing;

    use super::*;

    /// LANs of all hosts each, among hosts in a row.
    fn places(hosts: usize, lans: usize) -> Vec<Spot> {
        let row: Vec<Spot> = (0..hosts).map(|host| Spot { x: host as f64, y: 0.0 }).collect();
        let all: Vec<usize> = (0..hosts).collect();
        let topology = testing::nets(hosts, &vec![&all[..]; lans]);
        let spots = lan_places(&topology, &row);
        [row, spots].concat()
    }

    #[test]
    fn lans_at_one_middle_spread() {
        for (hosts, lans) in [(4, 3), (75, 75), (5, 3000)] {
            let mut ground = Ground::new(&Topology::default(), &[]);
            for spot in places(hosts, lans) {
                assert!(ground.is_free(spot), "{lans} LANs cover each other");
                ground.add_mark(spot);
            }
        }
    }

    #[test]
    fn lines_through_marks_mislead() {
        let at = |x, y| Spot { x, y };
        let hosts = [at(0.0, 0.0), at(2.0, 0.0), at(4.0, 0.0)];
        let ground = Ground::new(&testing::nets(3, &[]), &hosts);
        assert_eq!(ground.misleading(at(3.0, 0.0), &hosts), 1, "the leg of the first host passes the second");
        assert_eq!(ground.misleading(at(2.0, 2.0), &hosts), 0);
    }
}
