use bytes::Bytes;
use roost_wait::{all_read, eventually, free_port};
use tokio::net::UdpSocket;

use super::*;
use crate::SourceSpec;
use crate::testing::any_request;

fn parse(text: &str) -> Result<SourceSpec, String> {
    SourceSpec::parse(Service::Video, text).map_err(|error| error.to_string())
}

async fn feed(text: &str, duration: Duration) -> (Feed, String) {
    match parse(text).unwrap().open(&any_request(Some(duration))).await.unwrap() {
        OpenedSource::Stream { feed, format, .. } => (feed, format),
        OpenedSource::Object { .. } | OpenedSource::Stored { .. } => panic!("video is a stream"),
    }
}

/// A second of a transport stream from a real encoder.
fn clip(folder: &tempfile::TempDir) -> PathBuf {
    let path = folder.path().join("clip.ts");
    let status = std::process::Command::new("ffmpeg")
        .args(["-hide_banner", "-loglevel", "error", "-f", "lavfi", "-i", "testsrc=size=320x240:rate=25", "-t", "1"])
        .args(["-c:v", "mpeg2video", "-b:v", "600k", "-f", "mpegts"])
        .arg(&path)
        .status()
        .expect("ffmpeg is installed");
    assert!(status.success());
    path
}

#[test]
fn bad_specs_say_what_is_accepted() {
    for (text, reason) in [
        ("", "unknown"),
        ("file:", "names no file"),
        ("udp://127.0.0.1", "no port"),
        ("udp://127.0.0.1:x", "port is not a number"),
        ("rtp://h:1?encoding=vp8", "encoding"),
        ("udp://h:1?rate=fast", "rate"),
        ("udp://h:1?colour=red", "colour"),
        ("http://h:1", "unknown"),
        ("file:a.ts?loop=maybe", "loop"),
    ] {
        let error = parse(text).unwrap_err();
        assert!(error.contains(reason) && error.contains("expected synthetic, file:CLIP.ts"), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn clip_plays_once_at_own_pace() {
    let folder = tempfile::tempdir().unwrap();
    let path = clip(&folder);
    let (mut feed, format) = feed(&format!("file:{}?loop=no", path.display()), Duration::from_secs(10)).await;
    assert_eq!(format, "video/mp2t");
    let start = tokio::time::Instant::now();
    let mut got = Vec::new();
    while let Some(payload) = feed.next().await {
        got.extend_from_slice(&payload.unwrap());
    }
    assert_eq!(got, std::fs::read(&path).unwrap());
    let took = start.elapsed();
    assert!((Duration::from_millis(800)..Duration::from_millis(1300)).contains(&took), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn clip_loops_until_duration_ends() {
    let folder = tempfile::tempdir().unwrap();
    let path = clip(&folder);
    let size = std::fs::metadata(&path).unwrap().len() as usize;
    let (mut feed, _) = feed(&format!("file:{}", path.display()), Duration::from_secs(5)).await;
    let start = tokio::time::Instant::now();
    let mut got = 0;
    while let Some(payload) = feed.next().await {
        let payload = payload.unwrap();
        assert_eq!(payload.len(), 1128);
        got += payload.len();
    }
    assert!((4 * size..6 * size).contains(&got), "{got} of {size}");
    assert!(start.elapsed().abs_diff(Duration::from_secs(5)) < Duration::from_millis(100));
}

#[tokio::test]
async fn missing_or_wrong_file_is_error() {
    let error = parse("file:/no/such.ts").unwrap().check().await.unwrap_err().to_string();
    assert!(error.starts_with("cannot read /no/such.ts: no such file or directory;"), "{error}");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("clip.mp4");
    std::fs::write(&path, [0; 1000]).unwrap();
    let error =
        parse(&format!("file:{}", path.display())).unwrap().open(&any_request(None)).await.unwrap_err().to_string();
    assert!(error.contains("gave no MPEG transport stream") && error.contains("ffmpeg"), "{error}");
}

fn free_address() -> String {
    format!("127.0.0.1:{}", free_port())
}

#[tokio::test]
async fn live_datagrams_reach_every_requester_unchanged() {
    let address = free_address();
    let spec = parse(&format!("udp://{address}?rate=900kbit/s")).unwrap();
    let mut feeds = Vec::new();
    for _ in 0..2 {
        let OpenedSource::Stream { bits_per_second, feed, .. } = spec.open(&any_request(None)).await.unwrap() else {
            panic!()
        };
        assert_eq!(bits_per_second, 900_000);
        feeds.push(feed);
    }
    spec.check().await.unwrap();
    let camera = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let datagram = Bytes::from([0x47; 188].repeat(7));
    camera.send_to(b"rubbish", &address).await.unwrap();
    camera.send_to(&datagram, &address).await.unwrap();
    for feed in &mut feeds {
        assert_eq!(feed.next().await, Some(Ok(datagram.clone())));
    }
    drop(feeds);
    spec.open(&any_request(None)).await.expect("the port is free again");
}

#[tokio::test]
async fn rtp_is_unpacked_other_types_explained() {
    let header = |payload_type: u8| [0x80, payload_type, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0];
    let packet = |payload_type: u8| [&header(payload_type)[..], &[0x47; 188]].concat();
    let camera = UdpSocket::bind("127.0.0.1:0").await.unwrap();

    let address = free_address();
    let (mut mp2t, format) = feed(&format!("rtp://{address}"), Duration::from_secs(10)).await;
    camera.send_to(&packet(33), &address).await.unwrap();
    assert_eq!(mp2t.next().await, Some(Ok(Bytes::from_static(&[0x47; 188]))));
    assert_eq!(format, "video/mp2t");

    let address = free_address();
    let (mut h264, format) = feed(&format!("rtp://{address}?encoding=h264"), Duration::from_secs(10)).await;
    camera.send_to(&packet(96), &address).await.unwrap();
    assert_eq!(h264.next().await, Some(Ok(Bytes::from(packet(96)))));
    assert_eq!(format, format::RTP_H264);

    let address = free_address();
    let (mut wrong, _) = feed(&format!("rtp://{address}"), Duration::from_secs(10)).await;
    for _ in 0..20 {
        camera.send_to(&packet(96), &address).await.unwrap();
    }
    let error = wrong.next().await.unwrap().unwrap_err().to_string();
    assert!(error.contains("payload type is 96") && error.contains("encoding=h264"), "{error}");
    assert_eq!(wrong.next().await, None);
}

#[test]
fn ffmpeg_reads_synthetic_stream() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("synthetic.ts");
    let stream = crate::synthetic::stream(Service::Video, Duration::from_secs(2), 0);
    std::fs::write(&path, stream.flat_map(|due| due.payload).collect::<Vec<u8>>()).unwrap();
    let probe = std::process::Command::new("ffprobe")
        .args(["-hide_banner", "-loglevel", "error", "-f", "mpegts", "-show_programs"])
        .arg(&path)
        .output()
        .expect("ffprobe is installed");
    let text = String::from_utf8_lossy(&probe.stdout);
    assert!(text.contains("program_num=1") && text.contains("pmt_pid=256"), "{text}{probe:?}");
}

/// A source of RTP with H.264, its port, and two sockets of a sender.
async fn h264() -> (Feed, u16, UdpSocket, UdpSocket) {
    let port = free_port();
    let (mut live, _) = feed(&format!("rtp://127.0.0.1:{port}?encoding=h264"), Duration::from_secs(60)).await;
    let (sender, control) =
        (UdpSocket::bind("127.0.0.1:0").await.unwrap(), UdpSocket::bind("127.0.0.1:0").await.unwrap());
    let packet = [&[0x80, 96, 0, 1, 0, 0, 0, 0, 1, 2, 3, 4][..], b"picture"].concat();
    sender.send_to(&packet, ("127.0.0.1", port)).await.unwrap();
    assert_eq!(live.next().await.unwrap().unwrap(), packet);
    (live, port, sender, control)
}

/// An empty sender report on the stream.
const REPORT: [u8; 28] = {
    let mut report = [0; 28];
    (report[0], report[1], report[3]) = (0x80, 200, 6);
    (report[4], report[5], report[6], report[7]) = (1, 2, 3, 4);
    report
};

/// Waits until the reader of a port has read all that came.
async fn is_read(port: u16) {
    assert!(eventually(Duration::from_secs(5), || all_read(port).then_some(())).await.is_some());
}

/// Requests key frames until a request arrives at `at`, or for a limited time.
async fn asked(live: &Feed, at: &UdpSocket) -> Option<Vec<u8>> {
    let mut buffer = [0; 100];
    for _ in 0..40 {
        live.key_frames().unwrap().request_key_frame();
        if let Ok(length) = tokio::time::timeout(Duration::from_millis(50), at.recv(&mut buffer)).await {
            return Some(buffer[..length.unwrap()].to_vec());
        }
    }
    None
}

#[tokio::test]
async fn rtp_sender_gets_key_frame_requests() {
    let (mut live, port, _sender, control) = h264().await;
    control.send_to(&REPORT, ("127.0.0.1", port + 1)).await.unwrap();
    assert_eq!(live.next().await.unwrap().unwrap(), REPORT[..], "what it says goes on with the stream");
    let request = asked(&live, &control).await.unwrap();
    assert_eq!(request, rtcp::picture_loss(0x0102_0304));
    assert_eq!(request[8..12], [0x81, 206, 0, 2], "a picture loss indication");
}

#[tokio::test]
async fn other_hosts_rtcp_is_ignored() {
    let (mut live, port, _sender, control) = h264().await;
    // On Linux all of 127.0.0.0/8 is this machine.
    let stranger = UdpSocket::bind("127.0.0.2:0").await.unwrap();
    control.send_to(&REPORT, ("127.0.0.1", port + 1)).await.unwrap();
    assert_eq!(live.next().await.unwrap().unwrap(), REPORT[..]);
    // A report that comes sooner does not go on, whoever sends it.
    tokio::time::sleep(rtcp::REPORT_PAUSE).await;
    stranger.send_to(&REPORT, ("127.0.0.1", port + 1)).await.unwrap();
    let report = [&REPORT[..], b"more"].concat();
    control.send_to(&report, ("127.0.0.1", port + 1)).await.unwrap();
    assert_eq!(live.next().await.unwrap().unwrap(), report, "the stranger's has not gone on");
    // The stranger is heard last.
    stranger.send_to(&REPORT, ("127.0.0.1", port + 1)).await.unwrap();
    is_read(port + 1).await;
    assert!(asked(&live, &control).await.is_some());
    assert!(stranger.try_recv(&mut [0; 100]).is_err());
}

#[tokio::test]
async fn rtcp_of_other_stream_is_ignored() {
    let (mut live, port, _sender, control) = h264().await;
    let other = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let mut report = REPORT;
    report[7] = 5;
    other.send_to(&report, ("127.0.0.1", port + 1)).await.unwrap();
    control.send_to(&REPORT, ("127.0.0.1", port + 1)).await.unwrap();
    assert_eq!(live.next().await.unwrap().unwrap(), REPORT[..], "the other stream's has not gone on");
    other.send_to(&report, ("127.0.0.1", port + 1)).await.unwrap();
    is_read(port + 1).await;
    assert!(asked(&live, &control).await.is_some(), "who sends this stream is asked");
    assert!(other.try_recv(&mut [0; 100]).is_err());
}

#[tokio::test]
async fn silent_sender_asked_at_next_port() {
    // Another test may hold the port after the sender's: try another.
    let (live, _sender, next) = loop {
        let (live, _, sender, _) = h264().await;
        let next = sender.local_addr().unwrap().port().saturating_add(1);
        if let Ok(next) = UdpSocket::bind(("127.0.0.1", next)).await {
            break (live, sender, next);
        }
    };
    assert!(asked(&live, &next).await.is_some());
}
