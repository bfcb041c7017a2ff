//! Places of hosts, where a topology gives them: cells, or the first positions of hosts that move in meters.

use std::collections::BTreeMap;

use roost_topology::Topology;
use roost_topology::model::{HostCourse, Position};

use crate::disks::Spot;
use crate::ground::ground;
use crate::layout::neighbors;

/// Meters of a degree of a meridian, on average.
const METERS_PER_DEGREE: f64 = 111_195.0;
/// The least distance of two hosts, as in a layout.
const APART: f64 = 2.0;
/// The longer side of a drawing of few hosts.
const LEAST_SIDE: f64 = 14.0;
/// The angle by which the next free spot around a taken one is turned, so that all directions come up: the golden one.
const TURN: f64 = 2.399_963;

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
/// and hosts at one place beside one another. `None` if a host has no place, or all have the same.
pub fn by_place(topology: &Topology) -> Option<Vec<Spot>> {
    let (mut places, _) = host_places(topology);
    if places.iter().any(Option::is_none) {
        return None;
    }
    let size = extent(places.iter().flatten());
    let longer = size.x.max(size.y);
    if longer <= 0.0 {
        return None;
    }
    let neighbors = neighbors(topology);
    places.resize(neighbors.len(), None);
    let side = LEAST_SIDE.max(APART * 2.0 * (neighbors.len() as f64).sqrt());
    let unit = |spot: Spot| Spot { x: spot.x / longer * side, y: -spot.y / longer * side };
    let scaled: Vec<Option<Spot>> = places.into_iter().map(|place| place.map(unit)).collect();
    Some(apart(&ground(&scaled, &neighbors)))
}

/// Moves each spot to the nearest one that is free of those before it. The nets that are links have none.
fn apart(spots: &[Option<Spot>]) -> Vec<Spot> {
    let square = |spot: Spot| ((spot.x / APART).floor() as i64, (spot.y / APART).floor() as i64);
    let mut taken = BTreeMap::<(i64, i64), Vec<Spot>>::new();
    // The next of a crowd at one spot goes on where the last one found room.
    let mut tried = BTreeMap::<(u64, u64), u32>::new();
    let mut put = |spot: &Spot| {
        let around = |step: u32| {
            let distance = APART / 2.0 * f64::from(step).sqrt();
            spot.plus(Spot::at(f64::from(step) * TURN, distance))
        };
        let is_free = |spot: &Spot| {
            let (column, row) = square(*spot);
            let squares = (-1..=1).flat_map(|dx| (-1..=1).map(move |dy| (column + dx, row + dy)));
            let near = squares.filter_map(|square| taken.get(&square)).flatten();
            near.into_iter().all(|other| spot.minus(*other).length() >= APART)
        };
        let step = tried.entry((spot.x.to_bits(), spot.y.to_bits())).or_default();
        let free = (*step..).map(|step| (step, around(step))).find(|(_, spot)| is_free(spot));
        let (last, free) = free.unwrap_or((*step, *spot));
        *step = last;
        taken.entry(square(free)).or_default().push(free);
        free
    };
    spots.iter().map(|spot| spot.as_ref().map(&mut put).unwrap_or_default()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use roost_topology::file::parse;

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

    #[test]
    fn crowd_takes_few_steps() {
        let spots = apart(&vec![Some(Spot::default()); 20_000]);
        let radius = spots.iter().map(|spot| spot.length()).fold(0.0, f64::max);
        assert!(radius < 2.0 * APART * 20_000_f64.sqrt(), "{radius}");
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
