//! Places for LANs among hosts that have places: no leg goes through the mark of another host, as it would seem to end
//! there.

use std::collections::BTreeMap;

use roost_topology::Topology;
use roost_topology::model::{Net, NetKind};

use crate::apart::{APART, square, squares_around};
use crate::disks::Spot;

/// The angle by which each next spot around the middle is turned, so that all directions come up: the golden one.
const TURN: f64 = 2.399_963;
/// Spots tried for a clear one, up to seven units away, and for one that covers nothing.
const CLEAR_TRIES: u32 = 600;
const FREE_TRIES: u32 = 20_000;
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
    is_followed: bool,
}

impl<'a> Ground<'a> {
    fn new(topology: &Topology, hosts: &'a [Spot]) -> Self {
        let links = topology.nets.iter().filter(|net| is_link(net));
        let lines = links.map(|net| [hosts[net.members[0].host], hosts[net.members[1].host]]).collect();
        let is_followed = hosts.len() + topology.nets.len() <= MOST_FOLLOWED;
        let mut ground = Self { hosts, marks: BTreeMap::new(), lines, is_followed };
        hosts.iter().for_each(|spot| ground.add_mark(*spot));
        ground
    }

    fn add_mark(&mut self, spot: Spot) {
        self.marks.entry(square(spot)).or_default().push(spot);
    }

    /// Puts a LAN near the middle of its hosts, at the first spot where no line misleads or else where the fewest do.
    fn add_lan(&mut self, net: &Net) -> Spot {
        let ends: Vec<Spot> = net.members.iter().map(|member| self.hosts[member.host]).collect();
        let sum = ends.iter().copied().fold(Spot::default(), Spot::plus);
        let count = ends.len().max(1) as f64;
        let middle = Spot { x: sum.x / count, y: sum.y / count };
        let around = |step| middle.plus(Spot::at(f64::from(step) * TURN, APART / 2.0 * f64::from(step).sqrt()));
        let free = |tries| (0..tries).map(around).filter(|spot| self.is_free(*spot));
        let mut best: Option<(usize, Spot)> = None;
        for spot in free(if self.is_followed { CLEAR_TRIES } else { 0 }) {
            let misleading = self.misleading(spot, &ends);
            if best.is_none_or(|(fewest, _)| misleading < fewest) {
                best = Some((misleading, spot));
            }
            if misleading == 0 {
                break;
            }
        }
        let spot = best.map(|(_, spot)| spot).or_else(|| free(FREE_TRIES).next()).unwrap_or(middle);
        self.add_mark(spot);
        self.lines.extend(ends.into_iter().map(|end| [spot, end]));
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

/// The distance of a spot from a line between two others.
fn distance(spot: Spot, [one, other]: [Spot; 2]) -> f64 {
    let (along, offset) = (other.minus(one), spot.minus(one));
    let square = along.x * along.x + along.y * along.y;
    let part = if square > 0.0 { ((offset.x * along.x + offset.y * along.y) / square).clamp(0.0, 1.0) } else { 0.0 };
    offset.minus(Spot { x: along.x * part, y: along.y * part }).length()
}
