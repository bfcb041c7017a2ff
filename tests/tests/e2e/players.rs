//! Video for players by RTSP, and the page of a daemon, as ffmpeg and curl get them.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use roost_tests::ffmpeg::{X264, ffmpeg, frame_hashes, listed};
use roost_tests::network::{Daemon, Network, PATIENCE, text};
use roost_tests::process::{binary, free_port, wait_until};

/// A clip of 4 s that is sent over and over, 25 frames a second.
fn clip(network: &Network) -> PathBuf {
    let clip = network.path("source.ts");
    let picture = ["-f", "lavfi", "-i", "testsrc2=size=320x180:rate=25:duration=4"];
    ffmpeg(&[&picture[..], &X264, &["-bf", "0", "-f", "mpegts", &text(&clip)]].concat());
    clip
}

/// A node with a camera, and one that serves players, at this hub.
fn nodes(network: &Network, hub: [&str; 2], more: &[&str]) -> ([Daemon; 2], u16) {
    let source = format!("file:{}", clip(network).display());
    let camera = network.node("cam", "27,92", &[&hub[..], &["--sources-video", &source]].concat());
    let port = free_port();
    let address = format!("127.0.0.1:{port}");
    let viewer = network.node("viewer", "3,4", &[&hub[..], &["--rtsp", &address], more].concat());
    ([camera, viewer], port)
}

/// Has ffmpeg play 40 frames, and lists the hashes of what it decodes.
fn play(url: &str, way: &str) -> Child {
    let mut player = Command::new("ffmpeg");
    player.args(["-nostdin", "-loglevel", "error", "-rtsp_transport", way, "-i", url, "-map", "0:v"]);
    player.args(["-fps_mode", "passthrough", "-frames:v", "40", "-f", "framemd5", "-"]);
    player.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// The hashes that a player has listed, without those of its first frames: it may have begun with what it missed.
fn played(player: Child) -> Vec<String> {
    let output = player.wait_with_output().unwrap();
    let hashes = listed(&String::from_utf8_lossy(&output.stdout));
    assert_eq!(hashes.len(), 40, "{}", String::from_utf8_lossy(&output.stderr));
    hashes[20..].to_vec()
}

#[test]
fn players_share_one_copy() {
    let network = Network::new();
    let hub = network.supernode("sn1", &["--listen", "udp://127.0.0.1:0"]);
    let ([_camera, viewer], port) = nodes(&network, ["--super", &hub.endpoint("udp")], &[]);
    let sent = frame_hashes(&network.path("source.ts"));
    let players: Vec<Child> = [("27,92", "tcp"), ("27,92", "udp"), ("from/cam", "tcp"), ("any", "udp")]
        .into_iter()
        .map(|(place, way)| play(&format!("rtsp://127.0.0.1:{port}/video/{place}"), way))
        .collect();
    let streams = || viewer.json(&["streams"])["streams"].as_array().map(Vec::len);
    assert!(wait_until(PATIENCE, || (streams() == Some(1)).then_some(())).is_some(), "{}", viewer.log());
    for player in players {
        let hashes = played(player);
        assert!(hashes.iter().all(|hash| sent.contains(hash)), "other frames have come");
    }
    assert!(wait_until(PATIENCE, || (streams() == Some(0)).then_some(())).is_some(), "nobody plays any more");
}

#[test]
fn players_get_video_through_the_server() {
    let network = Network::new();
    let server = network.server("cs1");
    let ([_camera, _viewer], port) = nodes(&network, ["--server", &server.endpoint("udp")], &[]);
    let sent = frame_hashes(&network.path("source.ts"));
    let hashes = played(play(&format!("rtsp://127.0.0.1:{port}/video/27,92"), "tcp"));
    assert!(hashes.iter().all(|hash| sent.contains(hash)), "other frames have come");
}

/// The answer to a message, as far as it has come by the first pause.
fn ask(port: u16, message: &[u8]) -> String {
    let mut player = TcpStream::connect(("127.0.0.1", port)).unwrap();
    player.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    // A connection that is refused may be closed already.
    let _ = player.write_all(message);
    let mut answer = vec![0; 4096];
    let bytes = player.read(&mut answer).unwrap_or(0);
    String::from_utf8_lossy(&answer[..bytes]).into_owned()
}

fn options(port: u16) -> String {
    ask(port, b"OPTIONS * RTSP/1.0\r\nCSeq: 1\r\n\r\n")
}

#[test]
fn hostile_players_leave_room_for_others() {
    let network = Network::new();
    let hub = network.supernode("sn1", &["--listen", "udp://127.0.0.1:0"]);
    let ([_camera, viewer], port) = nodes(&network, ["--super", &hub.endpoint("udp")], &[]);
    let endless = [b"OPTIONS * RTSP/1.0\r\nX: ".as_slice(), &[b'x'; 100_000]].concat();
    let long_body = b"DESCRIBE rtsp://h/video/any RTSP/1.0\r\nCSeq: 1\r\nContent-Length: 999999999\r\n\r\n";
    for message in [b"\0\0\0\0".as_slice(), b"GET / HTTP/1.1\r\n\r\n", &endless, &[b'$', 0, 255, 255]] {
        assert!(!ask(port, message).contains("200"), "{message:?}");
    }
    assert_eq!(ask(port, &[long_body.as_slice(), &[b'x'; 40_000]].concat()), "");
    // Silent ones take all places, until they go.
    let silent: Vec<TcpStream> = (0..40).map(|_| TcpStream::connect(("127.0.0.1", port)).unwrap()).collect();
    let refused = || options(port).is_empty().then_some(());
    assert!(wait_until(PATIENCE, refused).is_some(), "{}", viewer.log());
    drop(silent);
    let served = || options(port).contains("RTSP/1.0 200 ").then_some(());
    assert!(wait_until(PATIENCE, served).is_some(), "{}", viewer.log());
    assert!(viewer.status().is_some());
}

#[test]
fn players_need_the_token() {
    let network = Network::new();
    let hub = network.supernode("sn1", &["--listen", "udp://127.0.0.1:0"]);
    let token = text(&network.path("token"));
    let ([_camera, viewer], port) = nodes(&network, ["--super", &hub.endpoint("udp")], &["--rtsp-token", &token]);
    assert!(options(port).starts_with("RTSP/1.0 401 "), "{}", options(port));
    let token = std::fs::read_to_string(token).unwrap();
    let hashes = played(play(&format!("rtsp://viewer:{}@127.0.0.1:{port}/video/any", token.trim()), "tcp"));
    assert_eq!(hashes.len(), 20);
    let wrong = play(&format!("rtsp://viewer:{}@127.0.0.1:{port}/video/any", "0".repeat(32)), "tcp");
    assert!(!wrong.wait_with_output().unwrap().status.success(), "{}", viewer.log());
}

#[test]
fn viewers_elsewhere_need_a_token() {
    let network = Network::new();
    let identity = network.identity("hub", "supernode");
    let mut hub = Command::new(binary("supernode"));
    hub.args(["--identity", &text(&identity), "--socket", &text(&network.path("hub.sock"))]);
    let ended = hub.args(["--listen", "udp://127.0.0.1:0", "--http", "0.0.0.0:0"]).output().unwrap();
    let said = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert_eq!(ended.status.code(), Some(78), "{said}");
    assert!(said.contains("http = 0.0.0.0:0 is open to other hosts: give http_token a file"), "{said}");
}

/// The status that curl gets, and what comes with it.
fn curl(url: &str, more: &[&str]) -> String {
    let output = Command::new("curl").args(["-sk", "-i", "--max-time", "20"]).args(more).arg(url).output().unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn the_page_needs_the_token() {
    let network = Network::new();
    let (port, token) = (free_port(), text(&network.path("token")));
    let page = ["--http", &format!("0.0.0.0:{port}"), "--http-token", &token];
    let hub = network.supernode("sn1", &[&["--listen", "udp://127.0.0.1:0"][..], &page].concat());
    let url = format!("https://127.0.0.1:{port}");
    let token = std::fs::read_to_string(token).unwrap();
    let bearer = format!("Authorization: Bearer {}", token.trim());
    let opened = || curl(&url, &["-H", &bearer]).contains("<title>Roost</title>").then_some(());
    assert!(wait_until(PATIENCE, opened).is_some(), "{}", hub.log());
    for (path, headers, status) in [
        ("/", vec![], "401"),
        ("/api/events", vec![], "401"),
        ("/?token=guess", vec![], "401"),
        ("/api/history", vec!["-H", &bearer], "200"),
        ("/api/history", vec!["-H", &bearer, "-H", "Origin: https://evil.example"], "403"),
        ("/api/history", vec!["-H", &bearer, "-H", "Origin: https://127.0.0.1"], "403"),
        ("/api/object?service=image", vec!["-H", &bearer], "404"),
    ] {
        let answer = curl(&format!("{url}{path}"), &headers);
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{path} {headers:?}: {answer}");
        assert!(answer.contains("content-security-policy: default-src 'none'"), "{path}: {answer}");
    }
    // Silent connections keep nobody out.
    let silent: Vec<TcpStream> = (0..300).map(|_| TcpStream::connect(("127.0.0.1", port)).unwrap()).collect();
    let kept = curl(&format!("{url}/?token={}", token.trim()), &[]);
    drop(silent);
    assert!(kept.starts_with("HTTP/1.1 303") && kept.contains("HttpOnly; SameSite=Strict"), "{kept}");
    assert!(curl(&format!("http://127.0.0.1:{port}/"), &[]).is_empty(), "it is served without TLS, too");
}

/// The certificate that the page shows has the daemon's name.
#[test]
fn the_page_shows_the_daemons_certificate() {
    let network = Network::new();
    let (port, token) = (free_port(), text(&network.path("token")));
    let address = format!("0.0.0.0:{port}");
    let hub = network.supernode("sn1", &["--listen", "udp://127.0.0.1:0", "--http", &address, "--http-token", &token]);
    let shown = || {
        let url = format!("https://127.0.0.1:{port}/");
        let output = Command::new("curl").args(["-skv", "--max-time", "20", &url]).output().ok()?;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        said.contains("subject:").then_some(said)
    };
    let said = wait_until(PATIENCE, shown).unwrap_or_else(|| panic!("{}", hub.log()));
    let subject = said.lines().find(|line| line.contains("subject:")).unwrap();
    assert!(subject.contains("sn1"), "{subject}");
}
