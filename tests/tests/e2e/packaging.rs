//! The units of `packaging/systemd`: the daemons find there what the documentation says.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use roost_tests::process::binary;

const DAEMONS: [&str; 3] = ["cs-server", "overlay-node", "supernode"];

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

fn unit(daemon: &str) -> String {
    fs::read_to_string(repository().join(format!("packaging/systemd/{daemon}.service"))).unwrap()
}

/// The values of a key of the unit.
fn values<'a>(unit: &'a str, key: &str) -> Vec<&'a str> {
    let assigned = unit.lines().filter_map(|line| line.strip_prefix(key)?.strip_prefix('='));
    assigned.flat_map(str::split_whitespace).collect()
}

#[test]
fn units_wait_for_time_sync() {
    for daemon in DAEMONS {
        let unit = unit(daemon);
        let has = |key: &str, value: &str| assert!(values(&unit, key).contains(&value), "{daemon}: {key}={value}");
        has("After", "time-sync.target");
        has("After", "network-online.target");
        has("StateDirectory", "roost");
        has("Type", "notify");
        has("Restart", "on-failure");
        // Of what no restart makes better; a certificate that is not valid at the time is not among it.
        assert_eq!(values(&unit, "RestartPreventExitStatus"), ["64", "78"], "{daemon}");
        let start = values(&unit, "ExecStart").join(" ");
        assert!(start.starts_with(&format!("/usr/bin/{daemon} --config /etc/roost/{daemon}.toml")), "{start}");
        assert!(start.ends_with(&format!("--socket /run/roost/{daemon}.sock")), "{start}");
    }
}

/// The group's key is for nobody else on the authority's host.
#[test]
fn authority_has_its_own_user() {
    let unit = unit("roost-authority");
    assert_eq!(values(&unit, "User"), ["roost-authority"]);
    assert_eq!(values(&unit, "StateDirectoryMode"), ["0700"]);
    assert_eq!(values(&unit, "Type"), ["notify"]);
    assert!(values(&unit, "ExecStart").contains(&"/var/lib/roost-authority/group"));
    let users = fs::read_to_string(repository().join("packaging/systemd/roost.sysusers")).unwrap();
    assert!(users.lines().any(|line| line.starts_with("u roost-authority ")), "{users}");
}

/// With the rest of the system read-only, an inbox is where the unit lets the node write.
#[test]
fn documented_inbox_is_writable_under_unit() {
    let unit = unit("overlay-node");
    assert_eq!(values(&unit, "ProtectSystem"), ["strict"]);
    let state = Path::new("/var/lib").join(values(&unit, "StateDirectory")[0]);
    let mut named = 0;
    for page in ["service.md", "files.md"] {
        let text = fs::read_to_string(repository().join("docs/src/howto").join(page)).unwrap();
        let folders = text.split('"').filter(|quoted| quoted.starts_with("/var/lib/") && quoted.contains("inbox"));
        let folders: Vec<&str> = folders.collect();
        assert!(folders.iter().all(|folder| Path::new(folder).starts_with(&state)), "{page}: {folders:?}");
        named += folders.len();
    }
    assert!(named > 0, "a page names an inbox for the unit");
}

/// As systemd itself reads the units, with the programs where they were built.
#[test]
fn systemd_finds_no_fault() {
    if Command::new("systemd-analyze").arg("--version").output().is_err() {
        eprintln!("there is no systemd-analyze here");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let programs = DAEMONS.map(|daemon| (daemon, daemon)).into_iter().chain([("roost-authority", "roost")]);
    for (daemon, program) in programs {
        let built = binary(program).display().to_string();
        let text = unit(daemon).replace(&format!("/usr/bin/{program}"), &built);
        let path = folder.path().join(format!("{daemon}.service"));
        fs::write(&path, text).unwrap();
        let output = Command::new("systemd-analyze").args(["verify", "--man=no"]).arg(&path).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let faults = said.lines().filter(|line| line.contains(&format!("{daemon}.service")));
        assert_eq!(faults.collect::<Vec<_>>(), [""; 0], "{said}");
    }
}
