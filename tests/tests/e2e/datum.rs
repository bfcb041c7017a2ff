//! Groups whose grid lies on the Earth, with the real binaries.

use std::fs;
use std::path::Path;
use std::time::Duration;

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, KeyPair, KeyUsagePurpose};
use roost_tests::network::{Daemon, Network, text};
use roost_tests::process::{Process, run, wait_until};
use serde_json::Value;

/// A triangle in which 47.5,8.9 lies, and 47.38,8.54 and the corner 47.59,8.81 do not.
const ZONE: &str = r#"{"type":"Polygon","coordinates":[[[8.8,47.45],[9.05,47.45],[8.9,47.6],[8.8,47.45]]]}"#;

/// A hub, node `a` near the lake at an MGRS square, node `b` in the triangle, and a requester without services.
fn valley(network: &Network) -> [Daemon; 4] {
    let hub = network.supernode("sn1", &[]);
    let endpoint = hub.endpoint("udp");
    let offers = ["--super", endpoint.as_str(), "--services", "sensor"];
    let a = network.node("a", "32T MT 65403 47150", &offers);
    let b = network.node("b", "47.5,8.9", &offers);
    let requester = network.node("r", "geo:47.36,8.54;u=5", &["--super", &endpoint]);
    let both = || {
        let found = requester.roost(&["lookup", "sensor", "--near", "0,0", "--json"]);
        let found: Value = serde_json::from_slice(&found.stdout).ok()?;
        (found["candidates"].as_array()?.len() == 2).then_some(())
    };
    assert!(wait_until(Duration::from_secs(20), both).is_some(), "{}", requester.log());
    [hub, a, b, requester]
}

fn names(found: &Value) -> Vec<&str> {
    let candidates = found["candidates"].as_array().unwrap();
    candidates.iter().map(|candidate| candidate["name"].as_str().unwrap()).collect()
}

#[test]
fn lookups_take_places_in_each_notation() {
    let network = Network::at("47.0,8.0");
    let [hub, a, _b, requester] = valley(&network);
    let zone = network.path("zone.geojson");
    fs::write(&zone, ZONE).unwrap();
    let zone = format!("@{}", text(&zone));
    let found = |flags: &[&str]| requester.json(&[&["lookup", "sensor"], flags].concat());
    for near in ["47.3769,8.5417", "geo:47.3769,8.5417;u=20", "32TMT6547", "40,42"] {
        assert_eq!(names(&found(&["--near", near, "--within", "5km"])), ["a"], "{near}");
        assert_eq!(names(&found(&["--near", near])), ["a", "b"], "{near}");
    }
    assert_eq!(names(&found(&["--near", "47.5,8.91"])), ["b", "a"]);
    assert_eq!(names(&found(&["--at", "47.3769,8.5417"])), ["a"]);
    assert_eq!(names(&found(&["--within", "10km"])), ["a"], "of the requester itself");
    assert_eq!(names(&found(&["--area", "47.3,8.4..47.4,8.6"])), ["a"]);
    assert_eq!(names(&found(&["--area", &zone])), ["b"]);
    let nearest = found(&["--near", "47.3769,8.5417"]);
    let place = &nearest["candidates"][0]["place"];
    assert!(place["lat"].as_f64().is_some_and(|lat| (lat - 47.3769).abs() < 0.01), "{nearest}");
    assert!(place["distance_m"].as_f64().is_some_and(|distance| distance < 1000.0), "{nearest}");
    let rows = requester.roost(&["lookup", "sensor", "--near", "47.3,8.5417", "--within", "20km"]);
    let rows = String::from_utf8(rows.stdout).unwrap();
    assert!(rows.contains("lat 47.3") && rows.contains("(cell 40, 42)") && rows.contains(" km, bearing "), "{rows}");
    // A hub has no place of its own, and the same notations.
    let at_hub = hub.json(&["lookup", "sensor", "--near", "47.3769,8.5417", "--within", "5km"]);
    assert_eq!(names(&at_hub), ["a"]);
    assert!(hub.fails(2, &["lookup", "sensor", "--within", "5km"]).contains("no place of its own"));
    assert!(a.json(&["status"])["datum"] == serde_json::json!({ "origin": "47.0,8.0", "cell": "1km" }));
}

#[test]
fn geojson_has_features_with_distances() {
    let network = Network::at("47.0,8.0");
    let [_hub, _a, _b, requester] = valley(&network);
    let zone = network.path("zone.geojson");
    fs::write(&zone, format!("{{\"type\":\"Feature\",\"properties\":null,\"geometry\":{ZONE}}}")).unwrap();
    let zone = format!("@{}", text(&zone));
    let output = requester.roost(&["lookup", "sensor", "--area", &zone, "--format", "geojson"]);
    let collection: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(collection["type"], "FeatureCollection");
    let [feature] = collection["features"].as_array().unwrap().as_slice() else { panic!("{collection}") };
    assert_eq!(
        (&feature["properties"]["name"], &feature["properties"]["services"][0]),
        (&"b".into(), &"sensor".into())
    );
    let coordinates = &feature["geometry"]["coordinates"];
    let is_near = |axis: usize, degrees: f64| coordinates[axis].as_f64().is_some_and(|at| (at - degrees).abs() < 0.01);
    assert!(is_near(0, 8.9) && is_near(1, 47.5), "{feature}");
    // By geodesics of pyproj, to a cell.
    assert!(
        feature["properties"]["distance_m"].as_f64().is_some_and(|m| (30_000.0..33_000.0).contains(&m)),
        "{feature}"
    );
}

#[test]
fn requests_and_watches_know_regions() {
    let network = Network::at("47.0,8.0");
    let [_hub, _a, _b, requester] = valley(&network);
    let zone = network.path("zone.geojson");
    fs::write(&zone, ZONE).unwrap();
    let zone = format!("@{}", text(&zone));
    let provider = |flags: &[&str]| {
        let got = requester.json(&[&["request", "sensor"], flags].concat());
        got["summary"]["provider_name"].as_str().unwrap_or_default().to_owned()
    };
    assert_eq!(provider(&["--near", "47.3769,8.5417", "--within", "5km"]), "a");
    assert_eq!(provider(&["--near", "47.5,8.91"]), "b");
    assert_eq!(provider(&["--area", &zone]), "b");
    let nobody = requester.fails(4, &["request", "sensor", "--area", "47.0,8.0..47.1,8.1"]);
    assert!(nobody.contains("in that region"), "{nobody}");
    let log = network.path("watch.log");
    let watch = requester.command(&["watch", "sensor", "--area", &zone]);
    let watcher = Process::start(watch, log).unwrap();
    let sees = |line: &str| {
        let seen = wait_until(Duration::from_secs(20), || watcher.log().contains(line).then_some(()));
        assert!(seen.is_some(), "{line}: {}", watcher.log());
    };
    sees("(cell 67, 55)");
    let b = network.client("b");
    // In the rectangle around the triangle, and not in the triangle.
    assert!(b.roost(&["move", "--at", "47.59,8.81"]).status.success());
    sees("- b (");
    assert!(!watcher.log().contains("47.59"), "{}", watcher.log());
}

#[test]
fn wrong_places_are_refused_with_a_remedy() {
    let network = Network::at("47.0,8.0");
    let hub = network.supernode("sn1", &[]);
    let node = network.node("n", "40,42", &["--super", &hub.endpoint("udp")]);
    let bow = network.path("bow.geojson");
    fs::write(&bow, r#"{"type":"Polygon","coordinates":[[[8,47],[8.1,47.1],[8.1,47],[8,47.1],[8,47]]]}"#).unwrap();
    let bow = format!("@{}", text(&bow));
    let swapped = network.path("swapped.geojson");
    fs::write(&swapped, r#"{"type":"Polygon","coordinates":[[[47,8],[47.1,8],[47.1,8.1],[47,8.1],[47,8]]]}"#).unwrap();
    let swapped = format!("@{}", text(&swapped));
    for (flags, part) in [
        (["--near", "8.5417,47.3769"], "did you mean 47.3769,8.5417?"),
        (["--near", "-47.3769,-171.5"], "beyond the 2000 km"),
        (["--near", "91.0,8.0"], "beyond a pole"),
        (["--near", "99TMT6547"], "is no MGRS square"),
        (["--within", "2001km"], "choose a smaller one"),
        (["--area", &bow], "crosses itself"),
        (["--area", &swapped], "the numbers of each point swapped?"),
        (["--area", "47.1,8.1..10.0,8.1"], "beyond the 2000 km"),
    ] {
        let why = node.fails(2, &["lookup", "sensor", flags[0], flags[1]]);
        assert!(why.contains(part) && !why.contains("panicked"), "{flags:?}: {why}");
    }
    let moved = node.roost(&["move", "--at", "47.5,8.9"]);
    let said = String::from_utf8_lossy(&moved.stdout).into_owned();
    assert!(said.contains("moved from 40,42 to lat 47.5, lon 8.9 (cell 6"), "{said}");
    assert!(node.fails(2, &["move", "--at", "8.9,47.5"]).contains("did you mean"));
    let again = run("roost", &["group", "init", &network.group(), "--origin", "46.0,7.0", "--cell", "1km"]);
    assert!(String::from_utf8_lossy(&again.stderr).contains("make a new group"), "{again:?}");
    let shown = network.roost_ok(&["group", "show", &network.group()]);
    assert!(shown.contains("origin lat 47, lon 8, cells of 1km") && shown.contains("1.7 %"), "{shown}");
}

#[test]
fn check_tries_the_place() {
    let network = Network::at("47.0,8.0");
    let identity = text(&network.identity("n", "node"));
    for (at, code, part) in [("47.5,8.9", 0, ""), ("8.9,47.5", 78, "did you mean"), ("tle:/dev/null", 64, "/dev/null")]
    {
        let arguments = ["--identity", &identity, "--super", "udp://127.0.0.1:1", "--at", at, "--check"];
        let checked = run("overlay-node", &arguments);
        let said = String::from_utf8_lossy(&checked.stderr).into_owned();
        assert_eq!(checked.status.code(), Some(code), "{at}: {said}");
        assert!(said.contains(part), "{at}: {said}");
    }
}

#[test]
fn plain_group_stays_as_it_was() {
    let network = Network::new();
    let hub = network.supernode("sn1", &[]);
    let endpoint = hub.endpoint("udp");
    let node = network.node("n", "27,92", &["--super", &endpoint, "--services", "sensor"]);
    let found = || node.roost(&["lookup", "sensor", "--any"]).status.success().then_some(());
    assert!(wait_until(Duration::from_secs(20), found).is_some());
    let rows = node.roost(&["lookup", "sensor", "--near", "27,93"]);
    let rows = String::from_utf8(rows.stdout).unwrap();
    assert!(rows.contains("CELL") && rows.contains("27,92") && !rows.contains("lat"), "{rows}");
    let status = node.json(&["status"]);
    assert!(status["datum"].is_null() && status["place"].is_null(), "{status}");
    for flags in [["--near", "47.1,8.1"], ["--within", "5km"]] {
        let why = node.fails(2, &["lookup", "sensor", flags[0], flags[1]]);
        assert!(why.contains("has no datum") && why.contains("roost group init --origin"), "{why}");
    }
    assert!(node.fails(2, &["lookup", "sensor", "--any", "--format", "geojson"]).contains("has no datum"));
    let identity = network.identity("m", "node");
    let mut lost = network.start("overlay-node", "m", &identity, &["--at", "47.1,8.1", "--super", &endpoint]);
    assert_eq!(lost.process.wait(Duration::from_secs(20)), Some(78));
    assert!(lost.log().contains("has no datum"), "{}", lost.log());
}

/// Puts another certificate of the same authority into an identity: one without the datum, as an older program sees
/// it, or with another one.
fn with_datum(network: &Network, identity: &Path, datum: Option<&str>) {
    let key = fs::read_to_string(Path::new(&network.group()).join("group.key")).unwrap();
    let key = KeyPair::from_pem(&key).unwrap();
    let mut params = CertificateParams::default();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, "grove");
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params.custom_extensions.extend(datum.map(|datum| {
        let content = [&[0x0c, datum.len() as u8], datum.as_bytes()].concat();
        rcgen::CustomExtension::from_oid_content(&[2, 25, 1_093_518_226], content)
    }));
    fs::write(identity.join("group.pem"), params.self_signed(&key).unwrap().pem()).unwrap();
}

#[test]
fn another_datum_is_refused_at_both_ends() {
    let network = Network::at("47.0,8.0");
    let hub = network.supernode("sn1", &[]);
    for (scheme, datum, named) in [
        ("udp", None, "a plain grid"),
        ("tcp", Some("46.0,7.0 1km"), "the datum 46.0,7.0 with cells of 1000 m"),
        ("quic", Some("47.0,8.0 100m"), "the datum 47.0,8.0 with cells of 100 m"),
    ] {
        let identity = network.identity(scheme, "node");
        with_datum(&network, &identity, datum);
        let node = network.start("overlay-node", scheme, &identity, &["--at", "1,2", "--super", &hub.endpoint(scheme)]);
        let why = node.wait_for("no refusal", |status| {
            let error = status["last_error"].as_str()?;
            error.contains("so a cell would be two places").then(|| error.to_owned())
        });
        assert!(why.contains(named) && why.contains("the datum 47.0,8.0 with cells of 1000 m"), "{why}");
        let told = || (hub.log().contains("a remote was refused") && hub.log().contains(named)).then_some(());
        assert!(wait_until(Duration::from_secs(20), told).is_some(), "{}", hub.log());
        let doctor = node.roost(&["doctor"]);
        assert!(String::from_utf8_lossy(&doctor.stdout).contains("two places"), "{doctor:?}");
    }
}
