//! Places of hosts, where a topology gives them: cells, or the first positions of hosts that move in meters.

use roost_topology::Topology;
use roost_topology::model::{HostCourse, Position};

use crate::apart::{APART, apart};
use crate::disks::Spot;
use crate::lan_places::{MOST_FOLLOWED, lan_places};

/// Meters of a degree of a meridian, on average.
const METERS_PER_DEGREE: f64 = 111_195.0;
/// The longer side of a drawing of few hosts.
const LEAST_SIDE: f64 = 14.0;
/// A drawing grows up to this many times, if fewer hosts then need to be moved apart.
const MOST_GROWTH: f64 = 2.0;
/// The side of the square that each vertex of many has on average.
const HOST_SIDE: f64 = 4.0;

/// The place of each host to scale, y to the north, and the unit: cells, or meters where no host has a cell and all
/// have positions.
pub(crate) fn host_places(topology: &Topology) -> (Vec<Option<Spot>>, PlaceUnit) {
    let cell = |(x, y)| Spot { x: f64::from(x), y: f64::from(y) };
    let cells: Vec<Option<Spot>> = topology.hosts.iter().map(|host| host.cell.map(cell)).collect();
    let mut starts: Vec<Option<Position>> = vec![None; topology.hosts.len()];
    for motion in &topology.motion.hosts {
        let start = match &motion.course {
            HostCourse::Path(path) => path.first().map(|waypoint| waypoint.position),
            HostCourse::Tour { points, .. } => points.first().copied(),
            HostCourse::Orbit(_) => None,
        };
        if let Some(place) = starts.get_mut(motion.host) {
            *place = start;
        }
    }
    let first = starts.first().copied().flatten();
    let meters: Vec<Option<Spot>> = starts.iter().map(|start| from_first(first?, (*start)?)).collect();
    if cells.iter().any(Option::is_some) || meters.iter().any(Option::is_none) {
        return (cells, PlaceUnit::Cells);
    }
    (meters, PlaceUnit::Meters)
}

/// A position in meters, seen from the first one; `None` if one of them is in degrees and the other is not. Degrees
/// are taken as on a plane, which suits a drawing.
fn from_first(first: Position, position: Position) -> Option<Spot> {
    match (first, position) {
        (Position::Local { .. }, Position::Local { east_m, north_m, .. }) => Some(Spot { x: east_m, y: north_m }),
        (Position::Earth { lat: first_lat, lon: first_lon, .. }, Position::Earth { lat, lon, .. }) => {
            let east = (lon - first_lon + 540.0).rem_euclid(360.0) - 180.0;
            let x = east * METERS_PER_DEGREE * first_lat.to_radians().cos();
            Some(Spot { x, y: (lat - first_lat) * METERS_PER_DEGREE })
        }
        _ => None,
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PlaceUnit {
    Cells,
    Meters,
}

/// The width and the height of spots.
pub(crate) fn extent<'a>(spots: impl Iterator<Item = &'a Spot> + Clone) -> Spot {
    let range = |of: fn(&Spot) -> f64| {
        let values = spots.clone().map(of);
        values.clone().fold(f64::NEG_INFINITY, f64::max) - values.fold(f64::INFINITY, f64::min)
    };
    Spot { x: range(|spot| spot.x).max(0.0), y: range(|spot| spot.y).max(0.0) }
}

/// The spot of each vertex by the places of hosts, north above, in units of a layout. LANs stand between their hosts,
/// and hosts that would cover each other apart. `None` if a host has no place, or all have the same.
pub fn by_place(topology: &Topology) -> Option<Vec<Spot>> {
    let mut spots = apart(&scaled_places(topology)?);
    let lans = lan_places(topology, &spots);
    spots.extend(lans);
    Some(spots)
}

/// True if hosts would cover each other at their places, so that [`by_place`] moves them apart.
pub(crate) fn is_moved_apart(topology: &Topology) -> bool {
    scaled_places(topology).is_some_and(|places| {
        let spots = apart(&places);
        spots.iter().zip(&places).any(|(spot, place)| spot.minus(*place).length() > 1e-6)
    })
}

/// The places of hosts in units of a layout, y to the south.
fn scaled_places(topology: &Topology) -> Option<Vec<Spot>> {
    let places = host_places(topology).0.into_iter().collect::<Option<Vec<Spot>>>()?;
    let size = extent(places.iter());
    let longer = size.x.max(size.y);
    if longer <= 0.0 {
        return None;
    }
    let vertices = topology.hosts.len() + topology.nets.len();
    let usual = LEAST_SIDE.max(HOST_SIDE * (vertices as f64).sqrt());
    let side = (APART * longer / nearest(&places)).clamp(usual, MOST_GROWTH * usual);
    Some(places.into_iter().map(|spot| Spot { x: spot.x / longer * side, y: -spot.y / longer * side }).collect())
}

/// The least distance of two places; infinite among so many that those near each other would set the size.
fn nearest(places: &[Spot]) -> f64 {
    let pairs =
        places.iter().enumerate().flat_map(|(n, one)| places[..n].iter().map(|other| one.minus(*other).length()));
    let count = if places.len() > MOST_FOLLOWED { 0 } else { usize::MAX };
    pairs.take(count).filter(|distance| *distance > 0.0).fold(f64::INFINITY, f64::min)
}

#[cfg(test)]
mod tests {
    use roost_topology::file::parse;
    use roost_topology::generate::Star;

    use super::*;
    use crate::{layout, lines, neighbors};

    const LINK: &str = "[[link]]\nbetween = ['a', 'b']\nrate = '1Mbit'\n";

    #[test]
    fn north_is_above_and_distances_hold() {
        let text = format!(
            "[[host]]\nname = 'a'\ncell = [0, 0]\n[[host]]\nname = 'b'\ncell = [0, 4]\n[[host]]\nname = 'c'\ncell = [2, 0]\n{LINK}"
        );
        let spots = by_place(&parse("three", &text).unwrap()).unwrap();
        let [a, b, c] = [0, 1, 2].map(|host| spots[host]);
        assert!(b.y < a.y && (b.x - a.x).abs() < 1e-9, "{spots:?}");
        assert!(c.x > a.x && (c.y - a.y).abs() < 1e-9, "{spots:?}");
        assert!((a.minus(b).length() - 2.0 * a.minus(c).length()).abs() < 1e-9, "{spots:?}");
    }

    #[test]
    fn degrees_are_drawn_on_a_plane() {
        let text = format!(
            "[[host]]\nname = ['a', 'b']\n{LINK}[[motion.host]]\nname = 'a'\nposition = '60,179.9'\n\
            [[motion.host]]\nname = 'b'\nposition = '60.1,-179.9'\n"
        );
        let topology = parse("earth", &text).unwrap_or_else(|problems| panic!("{problems:?}"));
        let spots = by_place(&topology).unwrap();
        let step = spots[1].minus(spots[0]);
        // 0.2 degrees of longitude are as long there as 0.1 of latitude.
        assert!((step.x + step.y).abs() < 0.05 && step.x > 0.0, "{spots:?}");
    }

    #[test]
    fn hosts_at_one_place_stand_apart() {
        let text = "[[host]]\nname = ['a', 'b', 'n[1-40]']\ncell = [3, 3]\n[[host]]\nname = 'far'\ncell = [9, 3]\n\
            [[lan]]\nname = 'net'\nmembers = ['a', 'b', 'n[1-40]', 'far']\nrate = '1Mbit'\n";
        let spots = by_place(&parse("crowd", text).unwrap()).unwrap();
        assert_eq!(spots.len(), 44);
        for (n, one) in spots.iter().enumerate() {
            assert!(spots[n + 1..].iter().all(|other| one.minus(*other).length() >= APART - 1e-9), "{spots:?}");
        }
    }

    /// A camp of hosts on two LANs, with a host at `far`, and cells seen from the first one.
    fn camp(far: i32) -> (Topology, Vec<Spot>) {
        let cells = [(0, 0), (1, 0), (4, -2), (3, 1), (1, 2), (0, -3), (2, 4), (far, far)];
        let host =
            |(number, (x, y)): (usize, &(i32, i32))| format!("[[host]]\nname = 'h{number}'\ncell = [{x}, {y}]\n");
        let mut text = cells.iter().enumerate().map(host).collect::<String>();
        text += "[[lan]]\nname = 'camp'\nmembers = 'h[0-1]'\nrate = '1Mbit'\n[[lan]]\nname = 'air'\n\
            members = 'h[1-6]'\nrate = '1Mbit'\n[[link]]\nbetween = ['h0', 'h7']\nrate = '1Mbit'\n";
        let topology = parse("camp", &text).unwrap_or_else(|problems| panic!("{problems:?}"));
        (topology, cells.map(|(x, y)| Spot { x: f64::from(x), y: f64::from(-y) }).to_vec())
    }

    #[test]
    fn hosts_beside_lans_are_to_scale() {
        for far in [6, 40] {
            let (topology, cells) = camp(far);
            let spots = by_place(&topology).unwrap();
            let cell = (spots[7].x - spots[0].x) / f64::from(far);
            for (spot, Spot { x, y }) in spots.iter().zip(cells) {
                let place = spots[0].plus(Spot { x: x * cell, y: y * cell });
                assert!(spot.minus(place).length() < 1e-6, "({x}, {y}) at {spot:?}, not {place:?}");
            }
            assert_eq!(lines(&topology).sentences.len(), 1, "no sentence about moved hosts");
        }
    }

    #[test]
    fn crowded_hosts_keep_their_order() {
        let (topology, cells) = camp(200);
        let spots = by_place(&topology).unwrap();
        for one in 0..8 {
            for other in 0..8 {
                let (cells, spots) = (cells[one].minus(cells[other]), spots[one].minus(spots[other]));
                assert!(cells.x <= 0.0 || spots.x > 0.0, "{one} is not east of {other}: {spots:?}");
                assert!(cells.y <= 0.0 || spots.y > 0.0, "{one} is not south of {other}: {spots:?}");
            }
        }
        let sentences = lines(&topology).sentences;
        assert_eq!(sentences.last().map(String::as_str), Some("Hosts that would cover each other were moved apart."));
    }

    #[test]
    fn lines_of_stars_meet_ends_alone() {
        for topology in (2..=12).map(|nodes| Star::published(nodes).topology().unwrap()) {
            for spots in [by_place(&topology).unwrap(), layout(&neighbors(&topology))] {
                for line in lines(&topology).lines {
                    let [one, other] = line.ends.map(|end| spots[end]);
                    let along = other.minus(one);
                    let way = (0..=1000).map(|part| f64::from(part) / 1000.0);
                    let way: Vec<Spot> =
                        way.map(|part| one.plus(Spot { x: along.x * part, y: along.y * part })).collect();
                    for mark in (0..spots.len()).filter(|vertex| !line.ends.contains(vertex)) {
                        let nearest = way.iter().map(|spot| spot.minus(spots[mark]).length()).fold(9.0, f64::min);
                        assert!(nearest > 0.39, "{}: {} is {nearest} from {mark}", topology.name, line.title);
                    }
                }
            }
        }
    }

    #[test]
    fn networks_without_places_have_none() {
        let one = format!("[[host]]\nname = 'a'\ncell = [1, 2]\n[[host]]\nname = 'b'\n{LINK}");
        assert_eq!(by_place(&parse("one", &one).unwrap()), None);
        let none = format!("[[host]]\nname = ['a', 'b']\n{LINK}");
        assert_eq!(by_place(&parse("none", &none).unwrap()), None);
        let same = format!("[[host]]\nname = ['a', 'b']\ncell = [1, 2]\n{LINK}");
        assert_eq!(by_place(&parse("same", &same).unwrap()), None);
    }
}
