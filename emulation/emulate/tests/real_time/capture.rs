//! Captures of links, read by the real programs of Wireshark.

use std::path::Path;
use std::process::Command;

use crate::common::{Folder, json, said};

const PAIR: &str = r#"
[[host]]
name = ["a", "b"]
[[link]]
name = "thin"
between = ["a", "b"]
rate = "100kbit"
delay = "20ms"
queue = { limit = 3 }
"#;

/// The fields of each packet as `tshark` prints them; `None` if it is not installed.
fn fields(file: &Path, filter: &str, fields: &[&str]) -> Option<Vec<Vec<String>>> {
    let mut tshark = Command::new("tshark");
    tshark.arg("-r").arg(file).args(["-n", "-Y", filter, "-T", "fields"]);
    tshark.args(fields.iter().flat_map(|field| ["-e", field]));
    let Ok(output) = tshark.output() else {
        eprintln!("skipped: tshark is not installed");
        return None;
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    Some(text.lines().map(|line| line.split('\t').map(str::to_owned).collect()).collect())
}

#[test]
fn both_ends_and_drops_are_captured() {
    let folder = Folder::with("pair.toml", PAIR);
    // Eight packets at once, where three have room: the others are dropped.
    let burst = "ping -n -c 8 -l 8 -s 472 -W 1 b || true";
    let output = folder.emulate(&["exec", "pair.toml", "--capture", "thin", "a", "--", "sh", "-c", burst]);
    assert!(output.status.success(), "{}", said(&output));
    assert!(said(&output).starts_with("Wrote captures/thin.pcapng: "), "{}", said(&output));
    let file = folder.path().join("captures/thin.pcapng");
    let names = ["frame.interface_name", "frame.packet_flags_direction", "frame.time_epoch", "frame.packet_id"];
    let Some(packets) = fields(&file, "icmp.type == 8", &names) else { return };
    let at = |packet: &[String]| packet[2].parse::<f64>().unwrap();
    let inbound: Vec<_> = packets.iter().filter(|packet| packet[1].ends_with('1')).collect();
    let outbound: Vec<_> = packets.iter().filter(|packet| packet[1].ends_with('2')).collect();
    assert!(packets.iter().all(|packet| packet[0] == "thin a to-net"), "{packets:?}");
    assert_eq!((inbound.len(), outbound.len()), (8, 3), "{packets:?}");
    for left in &outbound {
        let entered =
            inbound.iter().find(|entered| entered[3] == left[3]).expect("the number of a packet that entered");
        // 514 bytes take 41.12 ms on the link, and 20 ms to the other end.
        assert!(at(left) - at(entered) > 0.061, "{left:?} {entered:?}");
    }
    let dropped = fields(&file, "frame.comment", &["frame.comment"]).unwrap();
    assert_eq!(dropped.concat(), ["dropped: queue"; 5]);
}

#[test]
fn plan_captures_into_its_results() {
    let plan = "topology = 'pair.toml'\narchitecture = 'multicast'\nduration = '2s'\ndrain = '2s'\nlinktest = false\n\
                capture = { links = 'all', snap = 60 }\n";
    let folder = Folder::with("plan.toml", plan);
    folder.write("pair.toml", PAIR);
    let output = folder.emulate(&["run", "plan.toml", "-o", "run"]);
    // A busy machine may not keep up, which is no matter here.
    assert!(matches!(output.status.code(), Some(0 | 4)), "{}", said(&output));
    let told = json(&std::fs::read(folder.path().join("run/captures/captures.json")).unwrap());
    assert_eq!((&told[0]["link"], &told[0]["not_written"]), (&"thin".into(), &0.into()));
    assert!(told[0]["packets"].as_u64() > Some(0) && told[0]["zero_unix_ns"].as_u64() > Some(0), "{told}");
    let kept = std::fs::read_to_string(folder.path().join("run/plan.toml")).unwrap();
    assert!(kept.contains("capture = { links = [\"all\"]") && kept.contains("snap = 60"), "{kept}");
    let file = folder.path().join("run/captures/thin.pcapng");
    let Some(lengths) = fields(&file, "frame", &["frame.cap_len"]) else { return };
    assert_eq!(lengths.len() as u64, told[0]["packets"].as_u64().unwrap());
    assert!(lengths.iter().all(|length| length[0].parse::<u32>().unwrap() <= 60));
}

#[test]
fn unknown_link_is_refused() {
    let folder = Folder::with("pair.toml", PAIR);
    let output = folder.emulate(&["exec", "pair.toml", "--capture", "thick", "a", "--", "true"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(said(&output).contains("no link or LAN `thick`"), "{}", said(&output));
}

#[test]
fn shell_captures_on_demand() {
    let folder = Folder::with("pair.toml", PAIR);
    let lines = "a ping -n -c 1 b\ncapture thin\na ping -n -c 1 b\ncapture off\na ping -n -c 1 b\n";
    let output = folder.emulate_with(&["shell", "pair.toml"], lines);
    assert!(output.status.success(), "{}", said(&output));
    // A request and its answer, each entering and leaving.
    assert!(said(&output).contains("Wrote captures/thin.pcapng: 4 packets"), "{}", said(&output));
}
