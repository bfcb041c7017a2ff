//! The group's authority is replaced while its daemons run.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use roost_tests::network::{Daemon, Network, PATIENCE, text};
use roost_tests::process::wait_until;
use serde_json::Value;

use crate::joining::Authority;

/// An identity whose holder renews a few seconds after it has heard of a new authority.
fn identity(network: &Network, name: &str, role: &str) -> PathBuf {
    let folder = network.path(&format!("id-{name}"));
    let valid = ["--valid", "1h", "-o", &text(&folder)];
    network.roost_ok(&[&["group", "issue", &network.group(), name, "--role", role], &valid[..]].concat());
    folder
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        fs::copy(&path, to.join(path.file_name().unwrap())).unwrap();
    }
}

fn rollover(network: &Network, step: &str) -> Value {
    serde_json::from_str(&network.roost_ok(&["group", "rollover", step, &network.group(), "--json"])).unwrap()
}

fn wait_for_trust<'a>(daemons: impl IntoIterator<Item = &'a Daemon>, number: u64) {
    for daemon in daemons {
        daemon.wait_for("it has not heard", |status| (status["documents"]["trust"] == number).then_some(()));
    }
}

/// A camera, a viewer, and the stream between them, all over one transport.
struct Stream {
    camera: Daemon,
    viewer: Daemon,
    watched: Child,
}

impl Stream {
    fn start(network: &Network, authority: &Authority, hub: &Daemon, scheme: &str, at: &str) -> Self {
        let node = |name: &str, more: &[&str]| {
            let name = format!("{name}-{scheme}");
            let fixed = ["--at", at, "--super", &hub.endpoint(scheme), "--authority", &authority.address];
            network.start("overlay-node", &name, &identity(network, &name, "node"), &[&fixed, more].concat()).ready()
        };
        let (camera, viewer) = (node("camera", &["--services", "video"]), node("viewer", &[]));
        let request = ["request", "video", "--at", at, "--for", "40s", "--transport", scheme, "--json"];
        let watched = viewer.command(&request).stdout(Stdio::piped()).spawn().unwrap();
        camera.wait_for("no stream runs", |status| (!status["providing"].as_array()?.is_empty()).then_some(()));
        Self { camera, viewer, watched }
    }

    fn daemons(&self) -> [&Daemon; 2] {
        [&self.camera, &self.viewer]
    }
}

#[test]
fn authority_is_replaced_under_running_video() {
    let network = Network::new();
    let authority = Authority::start(&network);
    let hub = identity(&network, "sn1", "supernode");
    let hub = network.start("supernode", "sn1", &hub, &["--authority", &authority.address]).ready();
    let streams = [("udp", "5,5"), ("tcp", "20,20"), ("quic", "40,40")];
    let streams = streams.map(|(scheme, at)| Stream::start(&network, &authority, &hub, scheme, at));
    let members = || streams.iter().flat_map(Stream::daemons).chain([&hub]);
    let old = network.path("id-old");
    copy(&network.path("id-camera-udp"), &old);

    let started = rollover(&network, "start");
    assert_eq!((started["number"].as_u64(), started["behind"].as_array().map(Vec::len)), (Some(1), Some(7)));
    wait_for_trust(members(), 1);
    let is_ready = || rollover(&network, "status")["behind"].as_array()?.is_empty().then_some(());
    let renewed = wait_until(PATIENCE, is_ready);
    assert!(renewed.is_some(), "{:#}\n{}", rollover(&network, "status"), authority.process.log());
    let finished = rollover(&network, "finish");
    assert_eq!((finished["number"].as_u64(), &finished["former"]), (Some(2), &Value::Null));
    wait_for_trust(members(), 2);
    for daemon in members() {
        daemon.wait_for("it is not attached", |status| {
            (status["state"] == "attached" || status["state"] == "listening").then_some(())
        });
    }
    for stream in streams {
        let output = stream.watched.wait_with_output().unwrap();
        assert!(output.status.success(), "{}\n{}", String::from_utf8_lossy(&output.stdout), stream.viewer.log());
    }

    let late = network.start("overlay-node", "old", &old, &["--at", "1,1", "--super", &hub.endpoint("udp")]);
    let is_refused = || late.log().contains("authority").then_some(());
    assert!(wait_until(PATIENCE, is_refused).is_some(), "{}", late.log());
    assert!(late.status().is_none_or(|status| status["state"] != "attached"));
}

#[test]
fn revocation_at_the_authority_reaches_members() {
    let network = Network::new();
    let authority = Authority::start(&network);
    let hub = identity(&network, "sn1", "supernode");
    let hub = network.start("supernode", "sn1", &hub, &["--authority", &authority.address]).ready();
    let node = |name: &str| network.node(name, "1,1", &["--super", &hub.endpoint("udp")]);
    let (good, lost) = (node("good"), node("lost"));
    network.roost_ok(&["group", "revoke", &network.group(), "lost"]);
    for daemon in [&hub, &good] {
        daemon.wait_for("the list has not come", |status| (status["documents"]["revocations"] == 2).then_some(()));
    }
    lost.wait_for("it is still attached", |status| status["hub"].is_null().then_some(()));
}

#[test]
fn absent_authority_costs_one_line() {
    let network = Network::new();
    let mut authority = Authority::start(&network);
    let hub = identity(&network, "sn1", "supernode");
    let hub = network.start("supernode", "sn1", &hub, &["--authority", &authority.address]).ready();
    authority.process.kill();
    hub.wait_for("it has not noticed", |status| status["authority_away_since_unix_s"].as_u64());
    let screen = String::from_utf8(hub.roost(&["status"]).stdout).unwrap();
    assert!(screen.contains("all goes on until"), "{screen}");
    assert_eq!(hub.log().matches("the authority tells no documents").count(), 1, "{}", hub.log());
}

#[test]
fn rotated_key_serves_after_a_restart() {
    let network = Network::new();
    let authority = Authority::start(&network);
    let hub = network.supernode("sn1", &[]);
    let folder = identity(&network, "uav7", "node");
    let arguments = ["--at", "1,1", "--services", "sensor", "--super", &hub.endpoint("udp")];
    let mut node = network.start("overlay-node", "uav7", &folder, &arguments).ready();
    let rotated =
        network.roost_ok(&["identity", "rotate", "--authority", &authority.address, "--to", &text(&folder), "--json"]);
    let rotated: Value = serde_json::from_str(&rotated).unwrap();
    assert_eq!(rotated["former"], node.status().unwrap()["node"]);
    node.process.kill();
    let node = network.start("overlay-node", "uav7-again", &folder, &arguments).ready();
    assert_eq!(node.status().unwrap()["node"], rotated["node"]);
    let asking = network.node("asking", "2,2", &["--super", &hub.endpoint("udp")]);
    let answer = asking.json(&["request", "sensor", "--from", rotated["node"].as_str().unwrap()]);
    assert_eq!(answer["summary"]["complete"], true, "{answer:#}");
}
