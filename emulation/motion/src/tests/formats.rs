use std::time::Duration;

use proptest::prelude::*;
use roost_topology::model::Position;

use super::{mistakes, s};
use crate::{read_bonnmotion, read_csv, read_gpx, read_tle};

fn local(position: Position) -> [f64; 3] {
    match position {
        Position::Local { east_m, north_m, up_m } => [east_m, north_m, up_m],
        Position::Earth { lat, lon, altitude_m } => [lat, lon, altitude_m],
    }
}

#[test]
fn movements_are_lines_of_waypoints() {
    let paths = read_bonnmotion("# scenario\n0.0 10 20 5 110 20\n\n0 1 2\n", None).unwrap();
    assert_eq!(paths.len(), 2);
    assert_eq!((paths[0].path[1].at, local(paths[0].path[1].position)), (s(5), [110.0, 20.0, 0.0]));
    let high = read_bonnmotion("0 10 20 30 5 110 20 31\n", None).unwrap();
    assert_eq!(local(high[0].path[1].position), [110.0, 20.0, 31.0]);
    let error = |text| read_bonnmotion(text, None).unwrap_err().to_string();
    assert_eq!(error("0 1 2\n0 1"), "line 2: ends within a waypoint: a time and 2 coordinates make one");
    assert_eq!(error("5 1 2 4 1 2"), "line 1: the time 4 comes after 5: put a host's times in order");
    assert_eq!(error("0 x 2"), "line 1: `x` is no number of a waypoint");
    assert_eq!(error("-1 1 2"), "line 1: -1 is no time from 0 to a year");
}

const GPX: &str = r#"<?xml version="1.0"?>
<gpx xmlns="http://www.topografix.com/GPX/1/1"><metadata><time>2020-01-01T00:00:00Z</time></metadata>
<trk><name>plane</name><trkseg>
<trkpt lat="47.0" lon="8.0"><ele>500</ele><time>2026-06-01T12:00:00Z</time></trkpt>
<trkpt lat="47.1" lon="8.0"><ele>600</ele><time>2026-06-01T14:01:00.5+02:00</time></trkpt>
</trkseg></trk></gpx>
"#;

#[test]
fn gpx_counts_from_its_first_point() {
    let read = read_gpx(GPX, None).unwrap();
    assert_eq!(read.tracks[0].name.as_deref(), Some("plane"));
    let path = &read.tracks[0].path;
    assert_eq!((path[0].at, path[1].at), (s(0), Duration::from_millis(60_500)));
    assert_eq!(local(path[1].position), [47.1, 8.0, 600.0]);
    let error = |from: &str, to: &str| read_gpx(&GPX.replace(from, to), None).unwrap_err().to_string();
    assert_eq!(error("lat=\"47.1\"", "lat=\"97.1\""), "line 5: the point has no `lat` from -90 to 90 degrees");
    assert_eq!(error("<ele>600</ele>", "<ele>high</ele>"), "line 5: `high` is no altitude");
    assert_eq!(error("14:01:00.5+02:00", "noon"), "line 5: `2026-06-01Tnoon` is no time: write 2026-06-01T12:00:00Z");
    assert_eq!(error("<time>2026-06-01T12:00:00Z</time>", ""), "line 4: the point has no <time>");
    assert!(error("</trk>", "</trkx>").starts_with("line 6: is no XML"));
    assert_eq!(read_gpx("<kml/>", None).unwrap_err().to_string(), "line 1: is no GPX: it has no element <gpx>");
}

#[test]
fn csv_has_rows_of_named_hosts() {
    let paths = read_csv("time,host,x,y,z\n0,a,1,2,3\n0,b,4,5,6\n10,a,7,8,9\n").unwrap();
    let names: Vec<_> = paths.iter().map(|path| path.name.as_deref().unwrap()).collect();
    assert_eq!((names, paths[0].path.len()), (vec!["a", "b"], 2));
    let earth = read_csv("Host, Time, lat, lon\na, 0, 47.1, 8.2\n").unwrap();
    assert_eq!(local(earth[0].path[0].position), [47.1, 8.2, 0.0]);
    let error = |text| read_csv(text).unwrap_err().to_string();
    assert_eq!(error("a,b\n1,2\n"), "line 1: has no heading `time,host,x,y,z` or `time,host,lat,lon,alt`");
    assert_eq!(error("time,host,x,y\n0,a,1,2\n1,a,one,2\n"), "line 3: `one` is no number of a waypoint");
    assert!(error("time,host,x,y\n0,a,1\n").starts_with("line 2: is no row"));
}

const ISS: &str = "ISS (ZARYA)
1 25544U 98067A   08264.51782528 -.00002182  00000-0 -11606-4 0  2927
2 25544  51.6416 247.4627 0006703 130.5360 325.0288 15.72125391563537
";

#[test]
fn elements_have_names_and_check_sums() {
    let sets = read_tle(ISS).unwrap();
    assert_eq!(sets[0].name.as_deref(), Some("ISS (ZARYA)"));
    let error = read_tle(&ISS.replace("0  2927", "0  2928")).unwrap_err().to_string();
    assert!(error.starts_with("line 2: the element set cannot be read"), "{error}");
    assert_eq!(read_tle("2 25544\n").unwrap_err().to_string(), "line 1: a line 2 without its line 1 before");
}

#[test]
fn mistakes_of_files_name_both_lines() {
    let lines = "[motion]\n[[motion.host]]\nname = ['a', 'b']\nfile = 'x.movements'\n";
    assert_eq!(
        mistakes(lines, "0 1 2\n0 1\n"),
        ["7: x.movements: line 2: ends within a waypoint: a time and 2 coordinates make one"]
    );
    assert_eq!(mistakes(lines, "0 1 2\n"), ["7: x.movements: has 1 courses for 2 hosts"]);
    let csv = lines.replace("movements", "csv");
    assert_eq!(mistakes(&csv, "time,host,x,y\n0,a,1,2\n"), ["7: x.csv: has no row of `b`: it has a"]);
    let tle = lines.replace("movements", "tle").replace("['a', 'b']", "'a'");
    assert_eq!(
        mistakes(&tle, ISS),
        ["7: `a` is on an orbit: say when the run starts, as start = \"2026-06-01T12:00:00Z\" in [motion]"]
    );
    let old = tle.replace("[motion]\n", "[motion]\nstart = '2026-06-01T12:00:00Z'\n");
    assert!(mistakes(&old, ISS)[0].contains("days away from that time"), "{:?}", mistakes(&old, ISS));
    let mixed = "[[motion.host]]\nname = 'a'\nposition = [0, 0]\n[[motion.host]]\nname = 'b'\nposition = '47,8'\n";
    assert!(mistakes(mixed, "")[0].starts_with("4: `a` is in meters while others are in degrees"));
}

proptest! {
    #[test]
    fn garbage_never_panics(text in any::<String>(), near in "[-0-9. \n#,;xyhosttimelatlon12ABU]{0,80}") {
        for text in [text.as_str(), near.as_str()] {
            let _ = read_bonnmotion(text, None);
            let _ = read_gpx(text, None);
            let _ = read_csv(text);
            let _ = read_tle(text);
            let _ = read_csv(&format!("time,host,x,y\n{text}"));
        }
    }

    #[test]
    fn torn_files_never_panic(cut in 0_usize..500, at in 0_usize..500, put in "[<>\"/0-9a-z&;-]{0,6}") {
        for whole in [GPX, ISS] {
            let mut text = whole.to_owned();
            let (at, cut) = (at % text.len(), cut % text.len());
            text.replace_range(at.min(cut)..at.max(cut).min(at + 8).max(at.min(cut)), &put);
            let _ = read_gpx(&text, None);
            let _ = read_tle(&text);
        }
    }

    #[test]
    fn movements_read_back(points in prop::collection::vec((0_u32..1000, -1e5..1e5_f64, -1e5..1e5_f64), 1..20)) {
        let mut at = 0;
        let words: Vec<String> = points.iter().map(|(pause, x, y)| {
            at += pause;
            format!("{at} {x} {y}")
        }).collect();
        let paths = read_bonnmotion(&words.join(" "), Some(2)).unwrap();
        let places: Vec<[f64; 3]> = paths[0].path.iter().map(|waypoint| local(waypoint.position)).collect();
        prop_assert_eq!(places, points.iter().map(|(_, x, y)| [*x, *y, 0.0]).collect::<Vec<_>>());
    }
}
