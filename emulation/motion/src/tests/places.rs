use std::time::Duration;

use proptest::prelude::*;
use roost_topology::model::{HostCourse, HostMotion, Motion, Position, Topology, Waypoint};

use super::{s, topology};
use crate::{CellCourse, Courses, distance_m};

#[test]
fn hosts_are_between_their_waypoints() {
    let topology = topology(
        "[[motion.host]]\nname = 'a'\n\
         path = [{ at = '10s', position = [0, 0, 100] }, { at = '20s', position = [100, 0, 200] }]\n\
         [[motion.host]]\nname = 'b'\nspeed = '10m/s'\ntour = [[0, 0], [0, 50], [30, 50]]\n",
    );
    let courses = Courses::new(&topology).unwrap();
    let at = |host, seconds| courses.place(host, s(seconds)).unwrap().local_m.unwrap();
    assert_eq!([at(0, 0), at(0, 15), at(0, 99)], [[0.0, 0.0, 100.0], [50.0, 0.0, 150.0], [100.0, 0.0, 200.0]]);
    assert_eq!([at(1, 5), at(1, 8), at(1, 60)], [[0.0, 50.0, 0.0], [30.0, 50.0, 0.0], [30.0, 50.0, 0.0]]);
    assert_eq!((courses.rest(0), courses.rest(1), courses.has(2)), (Some(s(20)), Some(s(8)), false));
}

#[test]
fn meters_and_degrees_meet_at_origin() {
    let topology = topology(
        "[motion]\norigin = '47.0,8.0'\n[[motion.host]]\nname = 'a'\nposition = [0, 111_000]\n\
         [[motion.host]]\nname = 'b'\nposition = '47,8,0'\n",
    );
    let courses = Courses::new(&topology).unwrap();
    let [lat, lon, _] = courses.place(0, s(0)).unwrap().earth.unwrap();
    assert!((lat - 47.998).abs() < 0.001 && (lon - 8.0).abs() < 1e-9, "{lat} {lon}");
    let apart = distance_m(&courses.spot(0, s(0)).unwrap(), &courses.spot(1, s(0)).unwrap());
    // The chord of an arc of 111 km is a meter or two shorter.
    assert!((110_995.0..111_000.0).contains(&apart), "{apart}");
}

#[test]
fn satellite_goes_around_the_earth() {
    let elements = "elements = ['1 25544U 98067A   08264.51782528 -.00002182  00000-0 -11606-4 0  2927', \
                    '2 25544  51.6416 247.4627 0006703 130.5360 325.0288 15.72125391563537']";
    let topology =
        topology(&format!("[motion]\nstart = '2008-09-20T12:25:00Z'\n[[motion.host]]\nname = 'a'\n{elements}\n"));
    let courses = Courses::new(&topology).unwrap();
    let place = |seconds| courses.place(0, s(seconds)).unwrap().earth.unwrap();
    assert!((340_000.0..370_000.0).contains(&place(0)[2]), "{:?}", place(0));
    // 7.7 km in a second.
    let moved = distance_m(&courses.spot(0, s(100)).unwrap(), &courses.spot(0, s(101)).unwrap());
    assert!((7_000.0..7_800.0).contains(&moved), "{moved}");
    assert_eq!(courses.rest(0), None);
}

#[test]
fn cells_follow_and_are_never_shared() {
    let topology = topology(
        "[motion]\ncell = '100m'\n[[motion.host]]\nname = ['a', 'b']\n\
         path = [{ at = '0s', position = [50, 50] }, { at = '10s', position = [1050, 50] }]\n\
         [[motion.host]]\nname = 'c'\nposition = [550, 50]\n",
    );
    assert_eq!(topology.hosts[0].cell, Some((0, 0)));
    assert_ne!(topology.hosts[1].cell, Some((0, 0)));
    let mut course = CellCourse::new(&topology).unwrap();
    let mut moves = 0;
    while let Some(at) = course.deadline() {
        moves += course.step(at).len();
        let mut cells: Vec<_> = (0..3).map(|host| course.cell(host).unwrap()).collect();
        cells.sort();
        cells.dedup();
        assert_eq!(cells.len(), 3);
    }
    assert_eq!((course.cell(0).unwrap().x, moves >= 18), (10, true));
}

fn any_position(is_earth: bool) -> BoxedStrategy<Position> {
    match is_earth {
        true => (-80.0..80.0_f64, -179.0..179.0_f64, 0.0..1e5_f64)
            .prop_map(|(lat, lon, altitude_m)| Position::Earth { lat, lon, altitude_m })
            .boxed(),
        false => (-1e5..1e5_f64, -1e5..1e5_f64, 0.0..1e4_f64)
            .prop_map(|(east_m, north_m, up_m)| Position::Local { east_m, north_m, up_m })
            .boxed(),
    }
}

fn any_path() -> impl Strategy<Value = Vec<Waypoint>> {
    any::<bool>().prop_flat_map(|is_earth| {
        prop::collection::vec((1_u64..100, any_position(is_earth)), 1..8).prop_map(|steps| {
            let mut at = Duration::ZERO;
            let waypoint = |(pause, position)| {
                at += s(pause);
                Waypoint { at, position }
            };
            steps.into_iter().map(waypoint).collect()
        })
    })
}

proptest! {
    /// In a hundredth of a second a host goes about a hundredth of its leg's distance in a second.
    #[test]
    fn places_are_continuous(path in any_path(), at_ms in 0_u64..800_000) {
        let hosts = vec![HostMotion { host: 0, course: HostCourse::Path(path.clone()), line: 0 }];
        let topology = Topology { motion: Motion { hosts, ..Motion::default() }, ..Topology::default() };
        let courses = Courses::new(&topology).unwrap();
        let spot = |ms| courses.spot(0, Duration::from_millis(ms)).unwrap();
        // No leg is longer than half around the Earth, and none is shorter than a second.
        let most_m = 21e6 * 1.02 / 100.0;
        prop_assert!(distance_m(&spot(at_ms), &spot(at_ms + 10)) < most_m);
        for waypoint in &path {
            let at = u64::try_from(waypoint.at.as_millis()).unwrap();
            prop_assert!(distance_m(&spot(at - 1), &spot(at)) < most_m / 5.0);
            prop_assert!(distance_m(&spot(at), &spot(at + 1)) < most_m / 5.0);
        }
    }
}

#[test]
fn taken_cell_yields_one_beside() {
    let text = "[[host]]\nname = ['a', 'b']\n[[link]]\nbetween = ['a', 'b']\nrate = '1Mbit'\n[motion]\ncell = '500m'\n\
        [[motion.host]]\nname = ['a', 'b']\nposition = [200, 100]\n";
    let topology = roost_topology::file::parse("two", text).unwrap_or_else(|problems| panic!("{problems:?}"));
    let cells = CellCourse::new(&topology).unwrap();
    let [one, other] = [0, 1].map(|host| cells.cell(host).unwrap());
    assert_eq!((one.x - other.x).abs() + (one.y - other.y).abs(), 1, "{one:?} {other:?}");
}
