//! Video of ffmpeg, reflected by super nodes: what arrives is what was sent.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may stop where it stands")]

use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use roost_tests::ffmpeg::{X264, ffmpeg, frame_hashes};
use roost_tests::network::{Client, Network, PATIENCE, text};
use roost_tests::process::wait_until;
use serde_json::Value;

/// Frames of the clip, 25 a second.
const FRAMES: usize = 150;

/// A clip of H.264 with a key frame every ten frames, of about a megabit a second.
fn clip(network: &Network) -> PathBuf {
    let clip = network.path("source.ts");
    let picture = ["-f", "lavfi", "-i", "testsrc2=size=640x360:rate=25:duration=6"];
    let form = ["-bf", "0", "-qp", "26", "-f", "mpegts"];
    ffmpeg(&[&picture[..], &X264, &form, &[&text(&clip)]].concat());
    clip
}

fn subscribe(node: &Client, file: &Path, length: &str) -> Child {
    let mut roost = node.command(&["subscribe", "video", "--at", "5,5", "--for", length, "--json", "-o"]);
    roost.arg(file).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn summary(watcher: Child) -> Value {
    let output = watcher.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    report["summary"].clone()
}

/// Waits until a node has a stream of which so much has come.
fn has(node: &Client, packets: u64) {
    let there = || node.json(&["streams"])["streams"].as_array()?.first()?["packets"].as_u64();
    let there = wait_until(PATIENCE, || there().filter(|there| *there >= packets));
    assert!(there.is_some(), "{:#}\n{}", node.json(&["streams"]), node.log());
}

/// Waits until a stream is offered to a node, of which nothing may have come.
fn is_served(node: &Client) {
    node.wait_for("it is served", |status| status["receiving"].as_array()?.first().map(|_| ()));
    has(node, 0);
}

#[test]
fn frames_come_through_two_super_nodes_as_they_were_sent() {
    let network = Network::new();
    let clip = clip(&network);
    let first = network.supernode("sn1", &[]);
    let second = network.supernode("sn2", &["--peer", &first.endpoint("udp")]);
    let port = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let source = format!("udp://127.0.0.1:{port}");
    let offer = ["--services", "video", "--sources-video", &source];
    let (one, two) = (first.endpoint("udp"), second.endpoint("udp"));
    let _provider = network.node("p", "5,5", &[&["--super", &one][..], &offer].concat());
    let nodes = ["a", "b"].map(|name| network.node(name, "1,1", &["--super", &two]));
    let files = ["early.ts", "late.ts"].map(|name| network.path(name));
    let early = subscribe(&nodes[0], &files[0], "9s");
    is_served(&nodes[0]);
    let to = format!("udp://127.0.0.1:{port}?pkt_size=1316");
    let send = || ffmpeg(&["-re", "-i", &text(&clip), "-map", "0:v", "-c", "copy", "-f", "mpegts", &to]);
    let late = std::thread::scope(|scope| {
        scope.spawn(send);
        has(&nodes[0], 100);
        subscribe(&nodes[1], &files[1], "6s")
    });
    let sent = frame_hashes(&clip);
    assert_eq!(sent.len(), FRAMES);
    let said = summary(early);
    assert_eq!((said["reflected"].as_bool(), said["lost"].as_u64()), (Some(true), Some(0)), "{said}");
    assert!(frame_hashes(&files[0]) == sent, "other frames have come");
    // Who comes later has all from a key frame on.
    summary(late);
    let got = frame_hashes(&files[1]);
    assert!(got.len() >= 10 && got.len() < FRAMES && got.len().is_multiple_of(10), "{} frames", got.len());
    assert!(sent.ends_with(&got), "other frames have come");
}
