//! The script of docs/src/howto/places.md that follows a receiver, as it stands there.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use roost_tests::network::{Network, text};
use roost_tests::process::{Process, binary};

/// A receiver that says a place, waits for a file, says another, and goes on until a second file is there.
const RECEIVER: &str = r#"#!/bin/sh
place() { printf '{"class":"TPV","mode":3,"lat":%s,"lon":%s}\n' "$1" "$2"; }
until_there() { n=0; until [ -e "$1" ] || [ $n -gt 3000 ]; do sleep 0.02; n=$((n + 1)); done; }
echo '{"class":"VERSION"}'
place 47.5 9.25; place 47.5001 9.2501
until_there "$FOLDER/moved"
place 47.6 9.25
until_there "$FOLDER/over"
"#;

/// The page's block of shell.
fn script() -> String {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/src/howto/places.md");
    let page = fs::read_to_string(page).unwrap();
    page.split("```sh\n").nth(1).unwrap().split("```").next().unwrap().to_owned()
}

#[test]
fn node_follows_receiver_positions() {
    let network = Network::at("47.0,9.0");
    let hub = network.supernode("sn1", &[]);
    let node = network.node("n", "0,0", &["--super", &hub.endpoint("udp")]);
    let tools = network.path("tools");
    fs::create_dir(&tools).unwrap();
    fs::write(tools.join("gpspipe"), RECEIVER).unwrap();
    fs::set_permissions(tools.join("gpspipe"), fs::Permissions::from_mode(0o755)).unwrap();
    let built = binary("roost").parent().unwrap().to_owned();
    let path = format!("{}:{}:{}", text(&tools), text(&built), std::env::var("PATH").unwrap());
    let mut command = Command::new("sh");
    command.args(["-c", &script()]).env("PATH", path).env("ROOST_SOCKET", &node.socket);
    command.env("FOLDER", network.path(""));
    let mut follower = Process::start(command, network.path("follower.log")).unwrap();
    let at = |cell: &str| node.wait_for(cell, |status| (status["cell"] == cell).then_some(()));
    at("18,55");
    fs::write(network.path("moved"), "").unwrap();
    at("18,66");
    fs::write(network.path("over"), "").unwrap();
    assert_eq!(follower.wait(roost_tests::network::PATIENCE), Some(0), "{}", follower.log());
    assert_eq!(node.log().matches("moved").count(), 3, "{}", node.log());
}
