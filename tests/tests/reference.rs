//! The reference pages say what the programs say.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may stop where it stands")]

use std::path::Path;
use std::process::Command;

use roost_tests::network::Network;
use roost_tests::process::binary;

#[test]
fn the_reference_pages_are_what_the_programs_print() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let fresh = tempfile::tempdir().unwrap();
    let binaries = binary("roost").parent().unwrap().to_owned();
    for program in ["overlay-node", "supernode", "cs-server", "emulate"] {
        binary(program);
    }
    let status = Command::new(root.join("scripts/reference")).arg(&binaries).arg(fresh.path()).status().unwrap();
    assert!(status.success());
    for page in ["cli.md", "configuration.md", "emulate.md"] {
        let written = std::fs::read_to_string(root.join("docs/src/reference").join(page)).unwrap();
        let printed = std::fs::read_to_string(fresh.path().join(page)).unwrap();
        assert!(written == printed, "docs/src/reference/{page} is out of date: run scripts/reference");
    }
}

#[test]
fn every_metric_is_documented() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let page = std::fs::read_to_string(root.join("docs/src/reference/metrics.md")).unwrap();
    let network = Network::new();
    let hub = network.supernode("sn1", &[]);
    let node = network.node("n", "1,1", &["--super", &hub.endpoint("udp"), "--services", "sensor"]);
    for daemon in [&hub, &node] {
        let output = Command::new("curl")
            .args(["-sS", "--fail", "--unix-socket"])
            .arg(&daemon.socket)
            .arg("http://roost/metrics")
            .output()
            .unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let names: Vec<&str> =
            text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next()).collect();
        assert!(names.len() > 10, "{text}");
        for name in names {
            assert!(page.contains(&format!("`{name}`")), "{name} is not in docs/src/reference/metrics.md");
        }
    }
}

#[test]
fn every_daemon_lets_the_variables_of_the_others_be() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let page = std::fs::read_to_string(root.join("docs/src/reference/configuration.md")).unwrap();
    let variables: Vec<&str> = page.split('`').filter(|word| word.starts_with("ROOST_")).collect();
    assert!(variables.len() > 20, "{variables:?}");
    for daemon in ["overlay-node", "supernode", "cs-server"] {
        let mut command = Command::new(binary(daemon));
        command.args(["--print-config", "--origin"]).env("ROOST_BOGUS", "1").env("ROOST_LOG", "info");
        command.envs(variables.iter().map(|variable| (variable, "x")));
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(78), "{said}");
        let unknown: Vec<&str> = said.lines().filter(|line| line.contains("unknown variable")).collect();
        assert!(matches!(unknown[..], [line] if line.contains("ROOST_BOGUS")), "{unknown:?}");
    }
}
