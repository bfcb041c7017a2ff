//! Video of ffmpeg, reflected by super nodes: what arrives is what was sent.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use roost_tests::ffmpeg::{X264, ffmpeg, frame_hashes, listed};
use roost_tests::lab::Lab;
use roost_tests::network::{Client, Network, PATIENCE, text};
use roost_tests::process::{Process, free_port, wait_until};
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

fn subscribe(node: &Client, to: &Path, more: &[&str]) -> Child {
    let mut roost = node.command(&["subscribe", "video", "--at", "5,5", "--json", "-o"]);
    roost.arg(to).args(more).stdout(Stdio::piped()).spawn().unwrap()
}

fn summary(watcher: Child) -> Value {
    let output = watcher.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
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
fn frames_cross_two_hubs_unchanged() {
    let network = Network::new();
    let clip = clip(&network);
    let [first, second] = network.pair();
    let port = free_port();
    let source = format!("udp://127.0.0.1:{port}");
    let offer = ["--services", "video", "--sources-video", &source];
    let (one, two) = (first.endpoint("udp"), second.endpoint("udp"));
    let _provider = network.node("p", "5,5", &[&["--super", &one][..], &offer].concat());
    let nodes = ["a", "b"].map(|name| network.node(name, "1,1", &["--super", &two]));
    let files = ["early.ts", "late.ts"].map(|name| network.path(name));
    let early = subscribe(&nodes[0], &files[0], &["--for", "9s"]);
    is_served(&nodes[0]);
    let to = format!("udp://127.0.0.1:{port}?pkt_size=1316");
    let send = || ffmpeg(&["-re", "-i", &text(&clip), "-map", "0:v", "-c", "copy", "-f", "mpegts", &to]);
    let late = std::thread::scope(|scope| {
        scope.spawn(send);
        has(&nodes[0], 100);
        subscribe(&nodes[1], &files[1], &["--for", "6s"])
    });
    let sent = frame_hashes(&clip);
    assert_eq!(sent.len(), FRAMES);
    let said = summary(early);
    assert_eq!((said["reflected"].as_bool(), said["lost"].as_u64()), (Some(true), Some(0)), "{said}");
    assert!(frame_hashes(&files[0]) == sent, "other frames have come");
    // A later watcher has all from a key frame on.
    summary(late);
    let decoded = ffmpeg(&["-i", &text(&files[1]), "-map", "0:v", "-f", "null", "-"]);
    let said = String::from_utf8_lossy(&decoded.stderr);
    assert!(said.is_empty(), "it does not begin with its key frame: {said}");
    let got = frame_hashes(&files[1]);
    assert!(got.len() >= 10 && got.len() < FRAMES && got.len().is_multiple_of(10), "{} frames", got.len());
    assert!(sent.ends_with(&got), "other frames have come");
}

/// Watches the clip over links that lose packets, some of which have to be repaired. Returns the summary, and true if all
/// frames have come.
fn watch_over_lossy_links() -> (Value, bool) {
    let network = Network::new();
    let clip = clip(&network);
    let lossy = "delay = \"10ms\"\nloss = 0.01";
    let mut lab = Lab::new(&network, &[("camera", "sn1", lossy), ("sn1", "sn2", lossy), ("sn2", "viewer", lossy)]);
    let hub = lab.supernode("sn1", &[]);
    lab.supernode("sn2", &["--sibling", "udp://sn1:7700"]);
    hub.wait_for("the hubs have not met", |status| (status["index"]["hubs"] == 1).then_some(()));
    let source = ["--services", "video", "--sources-video", "udp://127.0.0.1:5004"];
    let provider = lab.node("camera", "5,5", &[&["--super", "udp://sn1:7700"][..], &source].concat());
    let viewer = lab.node("viewer", "1,1", &["--super", "udp://sn2:7700"]);
    let file = network.path("got.ts");
    let watcher = subscribe(&viewer, &file, &["--for", "9s"]);
    is_served(&viewer);
    let (from, to) = (text(&clip), "udp://127.0.0.1:5004?pkt_size=1316");
    // The source has failed after four seconds of silence, by when the watcher has enough.
    lab.run(&format!("camera ffmpeg -nostdin -loglevel error -re -i {from} -map 0:v -c copy -f mpegts '{to}'"));
    let repaired = |node: &Client| node.metric("roost_media_receivers_packets", "fate=\"repaired\"");
    let repairs = repaired(&provider) + repaired(&hub);
    let said = summary(watcher);
    assert!(repairs > 0.0, "nothing was lost: {said}");
    let (sent, got) = (frame_hashes(&clip), frame_hashes(&file));
    // A slow start leaves no time for the end.
    let is_begun = got.split_last().is_some_and(|(_, whole)| sent.starts_with(whole));
    assert!(is_begun || said["lost"] != 0, "other frames have come: {said}");
    (said, sent == got)
}

#[test]
fn loss_between_hubs_is_repaired() {
    let mut said = Vec::new();
    // A packet is of use for 0.3 s. A busy machine may hold a daemon up for longer, but not each time.
    let is_repaired = (0..3).any(|_| {
        let (summary, is_whole) = watch_over_lossy_links();
        let has_lost = summary["lost"] != 0;
        said.push(summary);
        is_whole && !has_lost
    });
    assert!(is_repaired, "packets were lost each time: {said:#?}");
}

/// A player gets what a sender gives to a node at another place, as RTP.
fn plays(source: &str, sending: &[&str]) {
    let network = Network::new();
    let clip = clip(&network);
    let hub = network.supernode("sn1", &[]);
    let endpoint = hub.endpoint("udp");
    let offer = ["--services", "video", "--sources-video", source];
    let _provider = network.node("p", "5,5", &[&["--super", endpoint.as_str()][..], &offer].concat());
    let node = network.node("a", "1,1", &["--super", &endpoint]);
    let (sdp, played) = (network.path("player.sdp"), network.path("played"));
    let player = format!("rtp://127.0.0.1:{}", free_port());
    let watcher = subscribe(&node, Path::new(&player), &["--sdp", &text(&sdp), "--for", "9s"]);
    is_served(&node);
    std::thread::scope(|scope| {
        scope.spawn(|| ffmpeg(&[&["-re", "-i", &text(&clip), "-map", "0:v", "-c", "copy"], sending].concat()));
        wait_until(PATIENCE, || sdp.exists().then_some(())).expect("a description for players");
        let from = ["-protocol_whitelist", "file,udp,rtp", "-i", &text(&sdp), "-map", "0:v"];
        let to = ["-fps_mode", "passthrough", "-frames:v", "60", "-f", "framemd5", &text(&played)];
        ffmpeg(&[&from[..], &to].concat());
    });
    summary(watcher);
    let (sent, got) = (frame_hashes(&clip), listed(&std::fs::read_to_string(&played).unwrap()));
    // The player has begun somewhere in the middle; from the second key frame on all is clear.
    let clear = &got[20..];
    assert!(clear.len() >= 30 && sent.windows(clear.len()).any(|frames| frames == clear), "other frames were played");
}

#[test]
fn player_gets_h264_rtp_unchanged() {
    let port = free_port();
    let to = format!("rtp://127.0.0.1:{port}?pkt_size=1200");
    plays(&format!("rtp://127.0.0.1:{port}?encoding=h264"), &["-f", "rtp", &to]);
}

#[test]
fn players_get_transport_streams_in_rtp() {
    let port = free_port();
    let to = format!("rtp://127.0.0.1:{port}?pkt_size=1328");
    plays(&format!("rtp://127.0.0.1:{port}"), &["-f", "rtp_mpegts", &to]);
}

#[test]
fn gstreamer_plays_across_two_hubs() {
    let network = Network::new();
    let (clip, video, played) = (clip(&network), network.path("source.mp4"), network.path("played.h264"));
    ffmpeg(&["-i", &text(&clip), "-map", "0:v", "-c", "copy", &text(&video)]);
    let [first, second] = network.pair();
    let (camera, player) = (free_port(), free_port());
    let source = format!("rtp://127.0.0.1:{camera}?encoding=h264");
    let offer = ["--services", "video", "--sources-video", &source];
    let _provider = network.node("p", "5,5", &[&["--super", first.endpoint("udp").as_str()][..], &offer].concat());
    let node = network.node("a", "1,1", &["--super", &second.endpoint("udp")]);
    let form = "application/x-rtp,media=video,clock-rate=90000,encoding-name=H264,payload=96";
    let takes = format!("udpsrc address=127.0.0.1 port={player} caps={form} ! rtpjitterbuffer ! rtph264depay");
    let keeps = format!("video/x-h264,stream-format=byte-stream,alignment=au ! filesink location={}", text(&played));
    let mut playing = gstreamer(&format!("-e {takes} ! {keeps}"), &network.path("playing.log"));
    let watcher = subscribe(&node, Path::new(&format!("rtp://127.0.0.1:{player}")), &["--for", "9s"]);
    is_served(&node);
    let pays = "rtph264pay pt=96 mtu=1200 config-interval=-1";
    let sends = format!("filesrc location={} ! qtdemux ! {pays} ! udpsink host=127.0.0.1 port={camera}", text(&video));
    let mut sending = gstreamer(&sends, &network.path("sending.log"));
    assert_eq!(sending.wait(PATIENCE), Some(0), "{}", sending.log());
    let said = summary(watcher);
    assert_eq!((said["reflected"].as_bool(), said["lost"].as_u64()), (Some(true), Some(0)), "{said}");
    assert!(said["jitter_ms"].as_f64() > Some(0.0), "{said}");
    // The player writes what it holds back, and ends.
    playing.signal("INT");
    assert_eq!(playing.wait(PATIENCE), Some(0), "{}", playing.log());
    assert!(frame_hashes(&played) == frame_hashes(&clip), "other frames were played");
}

/// A pipeline of GStreamer.
fn gstreamer(pipeline: &str, log: &Path) -> Process {
    let mut command = Command::new("gst-launch-1.0");
    command.args(pipeline.split(' '));
    Process::start(command, log.to_owned()).unwrap()
}
