//! A network in parts against the whole.

use std::path::Path;

use roost_results::record::{Record, RequestRecord};

use super::*;

const FOREST: &str = "
topology = { forest = { nodes = 60, per_home = 15, per_middle = 2, roots = 2, area = 4 } }
architecture = 'super-node'
duration = '20s'
stream = '2s'
timeout = '10s'
";

fn prepared(more: &str) -> Prepared {
    Prepared::from_text(&format!("{FOREST}{more}"), Path::new("p.toml")).unwrap()
}

fn outcome(prepared: &Prepared, partition: &Partition) -> SimOutcome {
    let mut recorder = Recorder::new(&prepared.topology);
    let outcome = run_in_parts(prepared, Detail::Message, partition, &mut recorder, |_| {}).unwrap();
    assert_eq!((&outcome.violations[..], outcome.overflows), (&[][..], 0));
    outcome
}

fn halves(prepared: &Prepared) -> SimOutcome {
    outcome(prepared, &Partition::halves(&prepared.topology, &hosts_of_machines(prepared)).unwrap())
}

fn requests(records: &[Record]) -> impl Iterator<Item = &RequestRecord> {
    records.iter().filter_map(|record| if let Record::Request(request) = record { Some(request) } else { None })
}

#[test]
fn parts_agree_with_the_whole() {
    let (mut whole, mut parts) = ([0.0; 3], [0.0; 3]);
    for seed in 1..=6 {
        let prepared = prepared(&format!("seed = {seed}\n"));
        let figures = |sums: &mut [f64; 3], outcome: &SimOutcome| {
            sums[0] += outcome.requested as f64;
            sums[1] += outcome.completed as f64;
            sums[2] += outcome.by_service["track"].p50_ms.unwrap();
        };
        figures(&mut whole, &outcome(&prepared, &Partition::whole(&prepared.topology)));
        figures(&mut parts, &halves(&prepared));
    }
    for (whole, parts) in whole.iter().zip(parts) {
        assert!((whole / parts - 1.0).abs() < 0.05, "{whole} and {parts}");
    }
}

#[test]
fn runs_in_parts_repeat_exactly() {
    let prepared = prepared("warm_up = '5s'\n");
    let (first, again) = (halves(&prepared), halves(&prepared));
    assert_eq!(
        (first.trace_hash, &first.by_service, first.shares),
        (again.trace_hash, &again.by_service, again.shares)
    );
    assert!(first.completed > 30, "{first:?}");
}

#[test]
fn faults_reach_their_part() {
    let faults = "[[faults]]\nat = '5s'\nkill = 'home1'\nhub = true\n[[faults]]\nat = '6s'\nkill = 'n59'\n\
                  [[faults]]\nat = '9s'\nstart = 'home1'\nhub = true\n[[faults]]\nat = '12s'\nstop = 'n1'\n\
                  [[faults]]\nat = '13s'\nfreeze = 'n40'\n[[faults]]\nat = '15s'\nthaw = 'n40'\n";
    let quiet = halves(&prepared(""));
    let broken = halves(&prepared(faults));
    assert!(broken.completed < quiet.completed && broken.completed * 2 > quiet.completed, "{quiet:?} {broken:?}");
    let records = |partition: &Partition| {
        let prepared = prepared(faults);
        let mut recorder = Recorder::keeping(&prepared.topology);
        run_in_parts(&prepared, Detail::Message, partition, &mut recorder, |_| {}).unwrap();
        recorder.into_records()
    };
    let prepared = prepared(faults);
    let (whole, parts) = (
        records(&Partition::whole(&prepared.topology)),
        records(&Partition::halves(&prepared.topology, &hosts_of_machines(&prepared)).unwrap()),
    );
    for (node, from, to) in [("n59", 6.0, 99.0), ("n1", 12.5, 99.0), ("n40", 13.0, 15.0)] {
        for records in [&whole, &parts] {
            let begun: Vec<f64> =
                requests(records).filter(|request| request.node == node).map(|request| request.t).collect();
            let is_late = |t: &f64| (from..to).contains(t);
            assert!(begun.iter().any(|t| *t < from) && !begun.iter().any(is_late), "{node}: {begun:?}");
        }
    }
    let incidents = |records: &[Record]| -> Vec<Record> {
        records.iter().filter(|record| matches!(record, Record::Incident { .. })).cloned().collect()
    };
    assert_eq!(incidents(&whole), incidents(&parts));
    let sent = |records: &[Record]| {
        let bytes = |record: &Record| if let Record::Link(link) = record { link.bytes_out as f64 } else { 0.0 };
        records.iter().map(bytes).sum::<f64>()
    };
    assert!((sent(&whole) / sent(&parts) - 1.0).abs() < 0.1, "{} {}", sent(&whole), sent(&parts));
}

#[test]
fn requests_are_recorded_by_time() {
    let prepared = prepared("");
    let mut recorder = Recorder::keeping(&prepared.topology);
    let partition = Partition::halves(&prepared.topology, &hosts_of_machines(&prepared)).unwrap();
    run_in_parts(&prepared, Detail::Message, &partition, &mut recorder, |_| {}).unwrap();
    let records = recorder.into_records();
    let end = |request: &RequestRecord| ((request.t + request.elapsed_ms / 1e3) * 1e6).round();
    let ends: Vec<f64> = requests(&records).map(end).collect();
    assert!(ends.len() > 50 && ends.is_sorted(), "{ends:?}");
}
