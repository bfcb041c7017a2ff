//! The measurement of reflectors, run like by a user. The speed depends on this machine; the test checks that
//! arrivals are counted, and in order.

use std::process::Command;

use serde_json::Value;

#[test]
fn c_reference_runs_or_explains() {
    let _turn = crate::beside();
    let cell = ["--implementation", "c-gso,c-naive", "--targets", "3", "--bytes", "300", "--trial", "200"];
    let cell = [&cell[..], &["--offload", "on,off", "--json"]].concat();
    let output =
        Command::new(assert_cmd::cargo::cargo_bin!("emulate")).args(["bench", "reflect"]).args(cell).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {said}"));
    let (rows, notes) = (report["rows"].as_array().unwrap(), report["notes"].as_array().unwrap());
    assert_eq!(output.status.success(), notes.is_empty(), "{report}");
    // A busy machine may lose some at any rate, and one without gcc measures nothing.
    assert!(rows.len() == 4 || !notes.is_empty(), "{report}");
    let with = rows.iter().filter(|row| row["offload"] == true).count();
    assert!(with == 2 || !notes.is_empty(), "{report}");
    for row in rows {
        assert_eq!((&row["targets"], &row["bytes"], &row["reordered"]), (&3.into(), &300.into(), &0.into()), "{row}");
        for figure in ["delivered_pps", "ns_per_packet"] {
            assert!(row[figure].as_f64().unwrap() > 0.0, "{figure}: {row}");
        }
        assert!(row["p50_us"].as_u64() <= row["p99_us"].as_u64(), "{row}");
    }
}
