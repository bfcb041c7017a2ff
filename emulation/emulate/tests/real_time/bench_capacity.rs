//! The measurement of a mesh's capacity, run like by a user: the real daemons in a lab with links for few
//! streams. Losses on a busy machine are not tested; the size of a room, and that its members receive all
//! streams, are.

use std::process::{Command, Stdio};

use serde_json::Value;

#[test]
fn room_capacity_matches_hub_links() {
    let _turn = crate::beside();
    let streams = 6.2;
    let mut command = Command::new(assert_cmd::cargo::cargo_bin!("emulate"));
    command.args(["bench", "reflect", "--capacity", "--mesh", "1,2", "--mode", "residual", "--seconds", "3", "--json"]);
    command.args(["--streams", &streams.to_string()]).stdin(Stdio::null()).env("TERM", "dumb");
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {said}"));
    // The daemons exist only if the whole workspace was built.
    if report["notes"].to_string().contains("install it there") {
        assert_eq!(output.status.code(), Some(3), "{report}");
        return;
    }
    assert_eq!(output.status.code(), Some(0), "{report}");
    let rows = report["rows"].as_array().unwrap();
    assert_eq!(rows.iter().map(|row| row["hubs"].as_u64().unwrap()).collect::<Vec<_>>(), [1, 2], "{report}");
    for row in rows {
        let (most, beyond) = (&row["most"], &row["beyond"]);
        let count = most["count"].as_u64().unwrap();
        assert_eq!((&most["missing"], &beyond["count"]), (&0.into(), &(count + 1).into()), "{row}");
        assert!(beyond["missing"].as_u64().unwrap() > 0 || beyond["lost"].as_f64().unwrap() >= 0.01, "{row}");
        // With one super node three members need six copies. Two super nodes carry nine, and could carry twelve.
        assert!((2..=4).contains(&count), "{row}");
        assert!(most["sent"].as_f64().unwrap() < 1.1 * streams, "{row}");
    }
    let [one, two] = [0, 1].map(|row: usize| rows[row]["most"]["count"].as_u64().unwrap());
    assert!(two >= one, "a second super node makes a room smaller: {report}");
}
