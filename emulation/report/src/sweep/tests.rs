use std::fs;

use roost_results::record::{MeasurementRecord, RoomStreamRecord};
use roost_results::testing::SyntheticShape;

use super::*;

/// Two architectures at two sizes, three seeds each.
fn sweep(folder: &Path) {
    for (nodes, topology) in [(10, "star-11"), (25, "star-26")] {
        for architecture in ["client-server", "super-node"] {
            for seed in 1..=3 {
                let shape =
                    SyntheticShape { nodes, topology, architecture, seed, requests: 60, ..SyntheticShape::default() };
                shape.make().write(&folder.join(format!("{architecture}/{nodes}/{seed}")));
            }
        }
    }
}

#[test]
fn runs_differing_in_seed_form_group() {
    let folder = tempfile::tempdir().unwrap();
    sweep(folder.path());
    let written = combine(folder.path()).unwrap();
    assert_eq!(written.headline[0].1, "12");
    assert_eq!(written.headline[2], ("cells".to_owned(), "4".to_owned()));
    let cells = fs::read_to_string(folder.path().join("cells.csv")).unwrap();
    let completed: Vec<&str> = cells.lines().filter(|line| line.contains(",completed services,")).collect();
    let starts: Vec<String> =
        completed.iter().map(|line| line.split(',').take(5).collect::<Vec<_>>().join(",")).collect();
    let expected = [
        "star,client-server,10,nodes,3",
        "star,client-server,25,nodes,3",
        "star,super-node,10,nodes,3",
        "star,super-node,25,nodes,3",
    ];
    assert_eq!(starts, expected);
    assert!(folder.path().join("figures/completed.svg").is_file());
    let page = fs::read_to_string(&written.page).unwrap();
    assert!(page.contains("href=\"./client-server/10/1/index.html\""));
}

#[test]
fn different_networks_never_share_group() {
    let folder = tempfile::tempdir().unwrap();
    for (seed, delay) in [(1, "50ms"), (2, "50ms"), (1, "300ms"), (2, "300ms")] {
        let mut run = SyntheticShape { seed, requests: 60, ..SyntheticShape::default() }.make();
        let network = format!("[topology.star]\nnodes = 11\nserver_delay = \"{delay}\"\n");
        run.results.plan = Some(format!("architecture = \"super-node\"\nseed = {seed}\n{network}"));
        run.write(&folder.path().join(format!("{delay}-{seed}")));
    }
    let written = combine(folder.path()).unwrap();
    assert_eq!(written.headline[2], ("cells".to_owned(), "2".to_owned()));
    let cells = fs::read_to_string(folder.path().join("cells.csv")).unwrap();
    assert!(cells.contains("star,super-node,300,\"server delay, ms\",2,completed services,"), "{cells}");
}

#[test]
fn same_named_networks_kept_apart() {
    let folder = tempfile::tempdir().unwrap();
    for (seed, network) in [(1, "a"), (2, "a"), (1, "b")] {
        let at = folder.path().join(format!("{network}-{seed}"));
        SyntheticShape { seed, requests: 60, ..SyntheticShape::default() }.make().write(&at);
        fs::write(at.join("topology.toml"), network).unwrap();
    }
    let written = combine(folder.path()).unwrap();
    assert_eq!(written.headline[2].1, "2");
    let page = fs::read_to_string(&written.page).unwrap();
    assert!(page.contains("super-node and super-node (2) on star-11 are kept apart: they differ in the file"));
}

#[test]
fn unusable_runs_excluded_from_mean() {
    let folder = tempfile::tempdir().unwrap();
    sweep(folder.path());
    let mean = |folder: &Path| -> String {
        combine(folder).unwrap();
        let cells = fs::read_to_string(folder.join("cells.csv")).unwrap();
        cells.lines().find(|line| line.starts_with("star,super-node,10,nodes,3,completed services,")).unwrap().into()
    };
    let before = mean(folder.path());
    let bad = SyntheticShape { seed: 4, valid: false, requests: 600, ..SyntheticShape::default() };
    bad.make().write(&folder.path().join("super-node/10/4"));
    let mut stopped = SyntheticShape { seed: 5, requests: 6, ..SyntheticShape::default() }.make();
    stopped.results.run.interrupted = true;
    stopped.results.run.ran_s = 7.0;
    stopped.write(&folder.path().join("super-node/10/5"));
    assert_eq!(mean(folder.path()), before);
    let written = combine(folder.path()).unwrap();
    assert!(written.distrust_reasons.is_empty());
    assert_eq!(written.headline[1], ("left out".to_owned(), "2".to_owned()));
    let page = fs::read_to_string(&written.page).unwrap();
    assert!(page.contains("Left out of all means") && page.contains("It was stopped after 7 of 60 s."));
}

#[test]
fn group_has_measures_of_all_runs() {
    let folder = tempfile::tempdir().unwrap();
    for seed in 1..=2 {
        let mut run = SyntheticShape { seed, requests: 60, ..SyntheticShape::default() }.make();
        if seed == 1 {
            run.results.requests.retain(|request| request.service != "image");
        }
        run.write(&folder.path().join(seed.to_string()));
    }
    combine(folder.path()).unwrap();
    let cells = fs::read_to_string(folder.path().join("cells.csv")).unwrap();
    let image = cells.lines().find(|line| line.contains(",completed image,")).unwrap();
    assert!(image.starts_with("star,super-node,10,nodes,1,"), "{image}");
}

#[test]
fn page_explains_factors_and_words() {
    let folder = tempfile::tempdir().unwrap();
    for (delay, architecture) in
        [("5ms", "client-server"), ("5ms", "super-node"), ("50ms", "client-server"), ("50ms", "super-node")]
    {
        let mut run = SyntheticShape { architecture, requests: 60, ..SyntheticShape::default() }.make();
        let varied = [("delay", delay), ("architecture", architecture)];
        run.results.run.varied = varied.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
        run.write(&folder.path().join(format!("{architecture}_{delay}")));
    }
    let page = fs::read_to_string(combine(folder.path()).unwrap().page).unwrap();
    for text in ["<b>Cell.</b>", "<b>Overhead.</b>", "<th scope=\"col\">delay 50 ms</th>"] {
        assert!(page.contains(text), "{text}");
    }
    let effects = fs::read_to_string(folder.path().join("figures/effects-completed.svg")).unwrap();
    assert!(effects.contains("\ndelay\n") && effects.contains("\n50 ms\n"), "{effects}");
}

#[test]
fn rooms_of_runs_are_compared() {
    let folder = tempfile::tempdir().unwrap();
    let stream = |first_packet_ms| RoomStreamRecord { first_packet_ms, ..RoomStreamRecord::default() };
    for seed in 1..=2 {
        let mut run = SyntheticShape { seed, requests: 60, ..SyntheticShape::default() }.make();
        run.results.room_streams = vec![stream(Some(100.0 * seed as f64)), stream(None)];
        run.write(&folder.path().join(seed.to_string()));
    }
    let written = combine(folder.path()).unwrap();
    let read = |file: &str| fs::read_to_string(folder.path().join(file)).unwrap();
    let cells = read("cells.csv");
    assert!(cells.contains(",2,streams of rooms that came,0.5,"), "{cells}");
    assert!(cells.contains(",2,\"first packet in rooms, latest\",150,"), "{cells}");
    assert_eq!(read("runs.csv").matches("longest gap in rooms").count(), 0, "no gap was seen");
    assert_eq!(read("runs.csv").matches("packets missing in rooms").count(), 2);
    let page = fs::read_to_string(&written.page).unwrap();
    assert!(page.contains("streams of rooms that came"));
    assert!(folder.path().join("figures/rooms-came.svg").is_file());
}

/// Words for programs name the lines, and what the programs measured is compared.
#[test]
fn words_for_programs_name_lines() {
    let folder = tempfile::tempdir().unwrap();
    for (system, seed) in [("a", 1), ("a", 2), ("b", 1), ("b", 2)] {
        let shape = SyntheticShape { architecture: "programs", seed, requests: 0, ..SyntheticShape::default() };
        let mut run = shape.make();
        run.results.plan =
            Some(format!("architecture = \"programs\"\nseed = {seed}\n[environment]\nsystem = \"{system}\"\n"));
        run.results.measurements = (1..=40).map(|n| delay(f64::from(n) * seed as f64)).collect();
        run.write(&folder.path().join(format!("{system}-{seed}")));
    }
    let written = combine(folder.path()).unwrap();
    assert_eq!(written.headline[2].1, "2");
    let cells = fs::read_to_string(folder.path().join("cells.csv")).unwrap();
    assert!(cells.contains("star,system a,10,nodes,2,\"delay, median\",30.75,"), "{cells}");
    assert!(!cells.contains("completed services"), "{cells}");
    assert!(folder.path().join("figures/delay-median.svg").is_file());
    let page = fs::read_to_string(&written.page).unwrap();
    assert!(page.contains("Delay, median: about 30.8 ms for all"), "{page}");
}

fn delay(value: f64) -> MeasurementRecord {
    MeasurementRecord { measure: "delay".into(), value, unit: "ms".into(), ..MeasurementRecord::default() }
}

#[test]
fn unreadable_run_reported_and_skipped() {
    let folder = tempfile::tempdir().unwrap();
    sweep(folder.path());
    fs::write(folder.path().join("super-node/10/1/events.jsonl"), "{}\n").unwrap();
    let written = combine(folder.path()).unwrap();
    assert_eq!((written.headline[0].1.as_str(), written.remarks.len()), ("11", 1));
    assert!(written.remarks[0].starts_with("super-node/10/1 is left out:"), "{:?}", written.remarks);
    for entry in runs(folder.path()).unwrap() {
        fs::write(entry.join("run.json"), "{}").unwrap();
    }
    assert!(matches!(combine(folder.path()), Err(WriteError::Read(_))));
}

#[test]
fn all_untrusted_runs_are_shown() {
    let folder = tempfile::tempdir().unwrap();
    SyntheticShape { valid: false, ..SyntheticShape::default() }.make().write(&folder.path().join("only"));
    let written = combine(folder.path()).unwrap();
    assert_eq!(written.distrust_reasons.len(), 1);
    let page = fs::read_to_string(&written.page).unwrap();
    assert!(page.contains("These figures cannot be trusted") && page.contains("One run each"));
}

#[test]
fn folder_without_runs_is_error() {
    let folder = tempfile::tempdir().unwrap();
    assert!(matches!(combine(folder.path()), Err(WriteError::NoRun { .. })));
}
