//! Tests of `[motion]` and `[[radio]]`: they are read, written and refused.

use proptest::prelude::*;

use super::*;
use crate::model::{HostCourse, Position, RadioLinks, RadioRate};

const WHOLE: &str = r#"
name = "whole"

[motion]
origin = "47.37,8.54"
cell = "500m"
start = "2026-06-01T12:00:00Z"
step = "50ms"
ground = "400m"

[[host]]
name = ["mast", "a[1-3]", "sat"]

[[motion.host]]
name = "mast"
position = [0, 0, 30]

[[motion.host]]
name = ["a1", "a2"]
path = [{ at = "0s", position = [0, 0] }, { at = "1m0.000000001s", position = "47.4,8.6,900" }]

[[motion.host]]
name = "a3"
speed = "36km/h"
tour = [[0, 0], [100.5, -3]]

[[motion.host]]
name = "sat"
elements = ["1 25544U", "2 25544"]

[[radio]]
name = "near"
members = ["mast", "a[1-3]"]
links = "shared"
contention = { slot = "20us", window = 32, retries = 4, sense = "-95dBm", basic_rate = "1Mbit" }
model = "log-distance"
exponent = 2.7
shadowing = "4dB"
frequency = "2.4GHz"
bandwidth = "20MHz"
power = "20dBm"
rates = [{ snr = "5dB", rate = "6Mbit" }, { snr = "12.5dB", rate = "24Mbit" }]
losses = [{ distance = "1km", loss = 0.0 }, { distance = "3km", loss = 0.25 }]
horizon = false
queue = { limit = 20 }
cost = 2.0

[[radio]]
name = "far"
members = ["sat", "mast", "a[1-3]"]
links = "access"
access = "sat"
handover = "80ms"
model = "two-ray"
frequency = "1.6GHz"
bandwidth = "1MHz"
power = "-3dBm"
efficiency = 0.5
sensitivity = "-110dBm"
range = "2000km"
delay = "5ms"
addresses = ["10.9.0.1", "10.9.0.2", "10.9.0.3", "10.9.0.4", "10.9.0.5"]
station = [{ host = ["mast", "a1"], gain = "12dBi", height = "10m" }]
"#;

fn told(text: &str) -> Vec<String> {
    parse("test", text).unwrap_err().into_iter().map(|note| format!("{}: {}", note.line, note.text)).collect()
}

#[test]
fn motion_is_read_and_reads_back() {
    let topology = parse("test", WHOLE).unwrap();
    let motion = &topology.motion;
    assert_eq!((motion.origin, motion.cell_m, motion.ground_m), (Some((47.37, 8.54)), Some(500.0), 400.0));
    assert_eq!(motion.hosts.len(), 5);
    let HostCourse::Path(path) = &motion.hosts[1].course else { panic!("{motion:?}") };
    assert_eq!(path[1].at.as_nanos(), 60_000_000_001);
    assert_eq!(path[1].position, Position::Earth { lat: 47.4, lon: 8.6, altitude_m: 900.0 });
    let [near, far] = topology.radios.as_slice() else { panic!("{:?}", topology.radios) };
    assert_eq!((topology.nets[near.net].name.as_str(), near.horizon, far.horizon), ("near", None, Some(4.0 / 3.0)));
    assert!(matches!(&near.links, RadioLinks::Shared(rules) if rules.window == 32 && rules.difs.as_micros() == 56));
    assert!(matches!(&near.rate, RadioRate::Snr(rows) if rows.len() == 2));
    assert_eq!((far.stations.len(), far.power_dbm), (2, -3.0));
    let text = write(&topology, "");
    let mut back = parse("other", &text).unwrap_or_else(|problems| panic!("{problems:?}\n{text}"));
    back.notes.clone_from(&topology.notes);
    // Only the lines of the file differ.
    let lines: Vec<u32> = topology.motion.hosts.iter().map(|host| host.line).collect();
    back.motion.hosts.iter_mut().zip(lines).for_each(|(host, line)| host.line = line);
    assert_eq!(back, topology, "{text}");
}

#[test]
fn mistakes_are_told_with_their_lines() {
    let with = |line: &str, by: &str| {
        assert!(WHOLE.contains(line), "{line}");
        told(&WHOLE.replacen(line, by, 1))
    };
    assert_eq!(
        with("origin = \"47.37,8.54\"", "origin = [1, 2]"),
        ["5: `origin` is on the Earth: write \"47.37,8.54\""]
    );
    assert_eq!(
        with("\"47.4,8.6,900\"", "\"97.4,8.6\""),
        [
            "20: `position` of a path is meters as [120, 40, 30], or latitude, longitude and altitude as \"47.37,8.54,408\""
        ]
    );
    assert_eq!(
        with("name = [\"a1\", \"a2\"]", "name = [\"a1\", \"mast\"]")[0],
        "19: `mast` has a place already: give each host one"
    );
    assert_eq!(with("speed = \"36km/h\"\n", ""), ["22: a `tour` needs a `speed`, and nothing else has one"]);
    assert_eq!(with("power = \"20dBm\"", "power = 20"), ["41: `power` of a radio: `20` has no unit: write \"20dBm\""]);
    assert_eq!(with("{ snr = \"12.5dB\"", "{ snr = \"2dB\""), ["42: the rows of a table rise from row to row"]);
    assert_eq!(with("exponent = 2.7\n", ""), ["31: the log-distance model needs `exponent`: write exponent = 2.7"]);
    assert_eq!(
        with("access = \"sat\"\n", ""),
        ["48: a radio with links = \"access\" needs `access`: write access = [\"mast1\"]"]
    );
    assert_eq!(
        with("queue = { limit = 20 }", "queue = { limit = 20, red = true }"),
        ["31: a radio with links = \"shared\" has no RED: give its queue a limit alone"]
    );
    assert_eq!(with("links = \"shared\"\n", ""), ["31: `contention` belongs to a radio with links = \"shared\""]);
    assert_eq!(with("name = \"sat\"\nelements", "name = \"sat\"\nelement").len(), 1);
    let file = "elements = [\"1 25544U\", \"2 25544\"]";
    assert_eq!(
        with(file, "file = \"sat.txt\""),
        ["29: `sat.txt` ends in none of .movements, .gpx, .csv and .tle: add format = \"bonnmotion\""]
    );
}

proptest! {
    #[test]
    fn any_line_may_be_missing(at in 0_usize..70, word in "[a-z\"0-9=\\[\\]{} .-]{0,12}") {
        let lines: Vec<&str> = WHOLE.lines().enumerate()
            .map(|(number, line)| if number == at { word.as_str() } else { line }).collect();
        let _ = parse("test", &lines.join("\n"));
    }
}
