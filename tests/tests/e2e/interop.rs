//! Real programs at the edges: ffmpeg, gpsd and curl.

use std::fs;
use std::net::UdpSocket;
use std::process::{Command, Stdio};

use roost_services::video::keyframes;
use roost_tests::ffmpeg::{X264, ffmpeg, frame_hashes};
use roost_tests::network::{Daemon, Network, PATIENCE, text};
use roost_tests::process::{Process, free_port, wait_until};

fn with_provider(network: &Network, arguments: &[&str]) -> (Daemon, Daemon, Daemon) {
    let hub = network.supernode("sn1", &[]);
    let endpoint = hub.endpoint("udp");
    let provider = network.node("p", "27,92", &[&["--super", endpoint.as_str()], arguments].concat());
    let requester = network.node("r", "3,4", &["--super", &endpoint]);
    (hub, provider, requester)
}

#[test]
fn ffmpeg_frames_survive_transfer() {
    let network = Network::new();
    let clip = network.path("source.ts");
    let picture = "testsrc=size=320x240:rate=25:duration=4";
    let coding = ["-c:v", "mpeg2video", "-b:v", "500k", "-g", "10", "-f", "mpegts"];
    ffmpeg(&[&["-f", "lavfi", "-i", picture][..], &coding, &[&text(&clip)]].concat());
    let port = free_port();
    let source = format!("udp://127.0.0.1:{port}");
    let (_hub, _provider, requester) = with_provider(&network, &["--services", "video", "--sources-video", &source]);

    let received = network.path("received.ts");
    let mut request = Command::new(roost_tests::process::binary("roost"));
    request.arg("--socket").arg(&requester.socket);
    request.args(["request", "video", "--at", "27,92", "--for", "7s", "-o"]).arg(&received);
    let mut child = request.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    wait_until(PATIENCE, || requester.status()?["receiving"].as_array()?.first().map(|_| ())).unwrap();
    let to = format!("udp://127.0.0.1:{port}?pkt_size=1316");
    ffmpeg(&["-re", "-i", &text(&clip), "-map", "0:v", "-c", "copy", "-f", "mpegts", &to]);
    let code = child.wait().unwrap().code();
    assert!(received.exists() && code == Some(0), "the request ended with {code:?}");

    let (sent, got) = (frame_hashes(&clip), frame_hashes(&received));
    assert_eq!(sent.len(), 100);
    assert_eq!(got, sent);
}

#[test]
fn file_clip_arrives_unchanged() {
    let network = Network::new();
    let clip = network.path("source.ts");
    let picture = "testsrc=size=320x240:rate=25:duration=6";
    ffmpeg(&["-f", "lavfi", "-i", picture, "-c:v", "mpeg2video", "-muxrate", "700k", "-f", "mpegts", &text(&clip)]);
    let source = format!("file:{}", text(&clip));
    let (_hub, _provider, requester) = with_provider(&network, &["--services", "video", "--sources-video", &source]);
    let received = network.path("received.ts");
    requester.json(&["request", "video", "--at", "27,92", "--for", "3s", "-o", &text(&received)]);
    let got = fs::read(&received).unwrap();
    assert!(got.len() > 100_000, "{} bytes", got.len());
    assert!(fs::read(&clip).unwrap().starts_with(&got), "the stream is not the beginning of the file");
}

#[test]
fn gpsd_feeds_the_track_service() {
    let network = Network::new();
    let log = network.path("track.nmea");
    let sentence = |second: u32, body: &str| {
        format!("${body}*{:02X}\r\n", body.replace("SS", &format!("{second:02}")).bytes().fold(0, |a, b| a ^ b))
            .replace("SS", &format!("{second:02}"))
    };
    let body = "GPRMC,1235SS,A,4807.038,N,01131.000,E,022.4,084.4,230326,,,A";
    fs::write(&log, (0..60).map(|second| sentence(second, body)).collect::<String>()).unwrap();
    let port = free_port().to_string();
    let mut fake = Command::new("gpsfake");
    fake.args(["-q", "-c", "0.2", "-P", &port]).arg(&log);
    fake.env("PATH", format!("{}:/usr/sbin", std::env::var("PATH").unwrap_or_default()));
    let gpsfake = Process::start(fake, network.path("gpsfake.log")).unwrap();
    let up = wait_until(PATIENCE, || std::net::TcpStream::connect(format!("127.0.0.1:{port}")).ok());
    assert!(up.is_some(), "gpsd is not up: {}", gpsfake.log());

    let source = format!("gpsd://127.0.0.1:{port}");
    let (_hub, _provider, requester) = with_provider(&network, &["--services", "track", "--sources-track", &source]);
    let file = network.path("track.jsonl");
    requester.json(&["request", "track", "--at", "27,92", "--for", "4s", "-o", &text(&file)]);
    let lines = fs::read_to_string(&file).unwrap();
    let fix: serde_json::Value = serde_json::from_str(lines.lines().next().expect("a fix")).unwrap();
    assert!((fix["lat"].as_f64().unwrap() - 48.1173).abs() < 1e-3, "{fix}");
    assert!((fix["lon"].as_f64().unwrap() - 11.5167).abs() < 1e-3, "{fix}");
}

#[test]
fn curl_drives_the_local_api() {
    let network = Network::new();
    let (hub, _provider, requester) = with_provider(&network, &["--services", "sensor,image"]);
    let curl = |daemon: &Daemon, arguments: &[&str]| {
        Command::new("curl")
            .args(["-sS", "--fail-with-body", "--unix-socket"])
            .arg(&daemon.socket)
            .args(arguments)
            .output()
            .unwrap()
    };
    let status: serde_json::Value =
        serde_json::from_slice(&curl(&requester, &["http://roost/v1/status"]).stdout).unwrap();
    assert_eq!(status["schema"], 2);
    assert_eq!(status["state"], "attached");

    let object = curl(&requester, &["-d", r#"{"service":"image","area":{"at":"27,92"}}"#, "http://roost/v1/request"]);
    assert!(object.status.success());
    assert_eq!(object.stdout.len(), 100_000);
    assert!(object.stdout.starts_with(&[0xff, 0xd8]), "not a JPEG");

    let found = curl(&requester, &["-X", "POST", "http://roost/v1/lookup?service=sensor&near=0,0"]);
    let found: serde_json::Value = serde_json::from_slice(&found.stdout).unwrap();
    assert_eq!(found["candidates"][0]["cell"], "27,92");

    let missing = curl(&requester, &["-d", r#"{"service":"video","area":{"at":"0,0"}}"#, "http://roost/v1/request"]);
    assert!(!missing.status.success());
    let error: serde_json::Value = serde_json::from_slice(&missing.stdout).unwrap();
    assert_eq!(error["error"]["code"], "not-yet-known", "the hub is younger than a lease");

    for path in ["/metrics", "/healthz", "/readyz"] {
        assert!(curl(&hub, &[&format!("http://roost{path}")]).status.success(), "{path}");
    }
}

#[test]
fn ffmpeg_key_frames_found_in_ts() {
    let folder = tempfile::tempdir().unwrap();
    let clip = folder.path().join("clip.ts");
    let mpeg2 = ["-c:v", "mpeg2video", "-g", "10", "-sc_threshold", "1000000000"];
    for coding in [&X264[..], &mpeg2] {
        let picture = ["-y", "-f", "lavfi", "-i", "testsrc=size=320x240:rate=25:duration=2"];
        ffmpeg(&[&picture, coding, &["-f", "mpegts", &text(&clip)]].concat());
        let bytes = fs::read(&clip).unwrap();
        let mut reader = keyframes::TransportStream::default();
        let marks: Vec<_> = bytes.chunks(1128).map(|datagram| reader.mark(datagram)).collect();
        assert_eq!(marks.iter().filter(|marks| marks.key_frame).count(), 5, "{coding:?}");
        assert_eq!(marks.last().unwrap().frame, 50);
        assert!(marks[0].parameters, "the tables come first");
    }
}

#[test]
fn ffmpeg_key_frames_found_in_rtp() {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let port = socket.local_addr().unwrap().port();
    let picture = ["-re", "-f", "lavfi", "-i", "testsrc=size=320x240:rate=25:duration=1"];
    let to = format!("rtp://127.0.0.1:{port}?pkt_size=1200");
    // The frames wait in the socket: 25 of them are some ten kilobytes.
    ffmpeg(&[&picture[..], &X264, &["-f", "rtp", &to]].concat());
    socket.set_nonblocking(true).unwrap();
    let (mut reader, mut buffer, mut marks) = (keyframes::RtpH264::default(), [0; 2000], Vec::new());
    while let Ok(length) = socket.recv(&mut buffer) {
        marks.push(reader.mark(&buffer[..length]));
    }
    let count = |is: fn(&keyframes::FrameMarks) -> bool| marks.iter().filter(|marks| is(marks)).count();
    assert_eq!((count(|marks| marks.key_frame), count(|marks| marks.frame_end)), (3, 25), "{marks:?}");
    assert_eq!(marks.last().unwrap().frame, 25);
    assert!(count(|marks| marks.parameters) >= 1);
}
