use roost_wait::repeat_until;

use super::*;

async fn open(service: Service, path: &std::path::Path) -> Result<Sink, SinkError> {
    Sink::open(service, "", &SinkSpec::File(path.to_owned()), TrackFormat::Raw).await
}

fn names(folder: &tempfile::TempDir) -> Vec<String> {
    let mut names: Vec<_> =
        std::fs::read_dir(folder.path()).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn specs() {
    assert_eq!("-".parse(), Ok(SinkSpec::Stdout));
    assert_eq!("a/b.ts".parse(), Ok(SinkSpec::File(PathBuf::from("a/b.ts"))));
    assert_eq!("file:///tmp/a.ts".parse(), Ok(SinkSpec::File(PathBuf::from("/tmp/a.ts"))));
    assert_eq!("udp://[::1]:5000".parse(), Ok(SinkSpec::Udp("[::1]:5000".to_owned())));
    assert_eq!("rtp://127.0.0.1:5004".parse(), Ok(SinkSpec::Rtp("127.0.0.1:5004".to_owned())));
    for bad in [
        "",
        "udp://",
        "rtp://host",
        "udp://host",
        "udp://:1",
        "http://x/y",
        "folder/",
        "file:",
        "udp://h:0",
        "udp://h:99999",
    ] {
        let error = bad.parse::<SinkSpec>().unwrap_err().to_string();
        assert!(error.contains("expected - for standard output"), "{error}");
    }
    for portless in ["udp://[fd98::1]", "udp://host"] {
        let error = portless.parse::<SinkSpec>().unwrap_err().to_string();
        assert!(error.contains("it has no port"), "{error}");
    }
    assert!("xml".parse::<TrackFormat>().unwrap_err().to_string().contains("json, full or raw"));
}

#[tokio::test]
async fn object_appears_only_when_complete() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("picture.jpg");
    let mut sink = open(Service::Image, &path).await.unwrap();
    assert_eq!(sink.write(&Bytes::from_static(b"half")).await.unwrap(), SinkState::Open);
    assert!(!path.exists());
    assert_eq!(sink.break_off().await.unwrap(), Finished::Discarded);
    assert!(names(&folder).is_empty());

    let mut sink = open(Service::Image, &path).await.unwrap();
    sink.write(&Bytes::from_static(b"whole")).await.unwrap();
    drop(sink);
    assert!(names(&folder).is_empty());

    let mut sink = open(Service::Image, &path).await.unwrap();
    sink.write(&Bytes::from_static(b"whole")).await.unwrap();
    assert_eq!(sink.finish().await.unwrap(), Finished::Written { bytes: 5, path: Some(path.clone()) });
    assert_eq!(std::fs::read(&path).unwrap(), b"whole");
    assert_eq!(names(&folder), ["picture.jpg"]);
}

#[tokio::test]
async fn broken_stream_spares_old_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("clip.ts");
    std::fs::write(&path, "old").unwrap();
    let mut sink = open(Service::Video, &path).await.unwrap();
    sink.write(&Bytes::from_static(b"new")).await.unwrap();
    let part = folder.path().canonicalize().unwrap().join("clip.ts.part");
    assert_eq!(sink.break_off().await.unwrap(), Finished::KeptPart { path: part.clone(), bytes: 3 });
    assert_eq!(std::fs::read(&path).unwrap(), b"old");
    assert_eq!(std::fs::read(&part).unwrap(), b"new");

    let mut sink = open(Service::Video, &path).await.unwrap();
    sink.write(&Bytes::from_static(b"newer")).await.unwrap();
    sink.finish().await.unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), b"newer");
    assert_eq!(names(&folder), ["clip.ts"]);
}

/// The length of the hidden draft file, bytes.
fn drafted(folder: &tempfile::TempDir) -> u64 {
    let name = names(folder).into_iter().find(|name| name.starts_with('.')).unwrap();
    std::fs::metadata(folder.path().join(name)).unwrap().len()
}

#[tokio::test]
async fn slow_stream_flushes_each_second() {
    let folder = tempfile::tempdir().unwrap();
    let mut sink = open(Service::Video, &folder.path().join("clip.ts")).await.unwrap();
    sink.write(&Bytes::from(vec![0x47; 1316])).await.unwrap();
    sink.write(&Bytes::from(vec![0x47; 1316])).await.unwrap();
    let flushed = repeat_until(std::time::Duration::from_secs(5), async || {
        sink.flush_if_due().await.unwrap();
        (drafted(&folder) >= 2 * 1316).then_some(())
    });
    assert!(flushed.await.is_some(), "it waits for more");
}

#[tokio::test]
async fn an_empty_part_is_never_left() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("clip.ts");
    drop(open(Service::Video, &path).await.unwrap());
    assert!(names(&folder).is_empty());
    std::fs::write(folder.path().join("clip.ts.part"), "earlier").unwrap();
    drop(open(Service::Video, &path).await.unwrap());
    assert_eq!(names(&folder), ["clip.ts.part"]);
}

#[tokio::test]
async fn streams_to_one_file_stay_separate() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("clip.ts");
    let mut one = open(Service::Video, &path).await.unwrap();
    one.write(&Bytes::from_static(b"whole")).await.unwrap();
    let mut two = open(Service::Video, &path).await.unwrap();
    two.write(&Bytes::from(vec![b'x'; 20_000])).await.unwrap();
    one.finish().await.unwrap();
    drop(two);
    assert_eq!(std::fs::read(&path).unwrap(), b"whole");
    assert_eq!(names(&folder), ["clip.ts", "clip.ts.part"]);
}

#[tokio::test]
async fn symlinks_and_devices_are_preserved() {
    let folder = tempfile::tempdir().unwrap();
    let (target, connection) = (folder.path().join("target"), folder.path().join("link"));
    std::fs::write(&target, "old").unwrap();
    std::os::unix::fs::symlink(&target, &connection).unwrap();
    let mut sink = open(Service::Sensor, &connection).await.unwrap();
    sink.write(&Bytes::from_static(b"new")).await.unwrap();
    sink.finish().await.unwrap();
    assert_eq!(std::fs::read(&target).unwrap(), b"new");
    assert!(connection.is_symlink());

    let mut sink = open(Service::Sensor, std::path::Path::new("/dev/null")).await.unwrap();
    sink.write(&Bytes::from_static(b"new")).await.unwrap();
    assert_eq!(sink.finish().await.unwrap(), Finished::Written { bytes: 3, path: None });
    assert!(!std::path::Path::new("/dev/null").is_file());
}

#[tokio::test]
async fn unsuitable_sinks_are_rejected() {
    let folder = tempfile::tempdir().unwrap();
    let error = open(Service::Image, folder.path()).await.unwrap_err().to_string();
    assert!(error.ends_with("is a folder; name a file in it"), "{error}");
    let error = open(Service::Image, &folder.path().join("no/such")).await.unwrap_err().to_string();
    assert!(error.contains("no such file or directory;"), "{error}");
    let udp = "udp://127.0.0.1:5000".parse().unwrap();
    assert!(Sink::open(Service::Image, "", &udp, TrackFormat::Raw).await.is_err());
    assert!(Sink::open(Service::Video, format::RTP_H264, &SinkSpec::Stdout, TrackFormat::Raw).await.is_err());
}

#[tokio::test]
async fn datagrams_keep_their_sizes() {
    let player = tokio::net::UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let spec = format!("udp://{}", player.local_addr().unwrap()).parse().unwrap();
    let mut sink = Sink::open(Service::Video, format::MPEG_TS, &spec, TrackFormat::Raw).await.unwrap();
    for size in [1316, 188] {
        sink.write(&Bytes::from(vec![0x47; size])).await.unwrap();
        let mut buffer = [0; 2000];
        assert_eq!(player.recv(&mut buffer).await.unwrap(), size);
    }
}

#[tokio::test]
async fn track_lines_written_invalid_ones_skipped() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("track.jsonl");
    let mut sink = open(Service::Track, &path).await.unwrap();
    sink.write(&Bytes::from_static(b"{\"raw\":\"$GPRMC\"}\nrubbish\n\n{\"n\":1}")).await.unwrap();
    sink.write(&Bytes::new()).await.unwrap();
    assert_eq!(sink.skipped_lines(), 1);
    sink.finish().await.unwrap();
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "$GPRMC\n{\"n\":1}\n");
}

#[tokio::test]
async fn early_closed_reader_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
    for (service, size) in [(Service::Image, 1_000_000), (Service::Video, 1_000_000)] {
        let reader = path.clone();
        let reading = std::thread::spawn(move || drop(std::fs::File::open(reader).unwrap()));
        let mut sink = open(service, &path).await.unwrap();
        let _ = sink.write(&Bytes::from(vec![7; size])).await.unwrap();
        reading.join().unwrap();
        assert_eq!(sink.finish().await.unwrap(), Finished::ReaderGone);
    }
}

#[tokio::test]
async fn player_gets_rtp() {
    let player = tokio::net::UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let spec = SinkSpec::Rtp(player.local_addr().unwrap().to_string());
    let mut buffer = [0; 2000];
    let datagram = Bytes::from([&[0x47][..], &[1; 187]].concat());
    let mut sink = Sink::open(Service::Video, format::MPEG_TS, &spec, TrackFormat::Raw).await.unwrap();
    assert!(sink.describe(format::MPEG_TS, &datagram).unwrap().contains("RTP/AVP 33"));
    sink.write(&datagram).await.unwrap();
    let length = player.recv(&mut buffer).await.unwrap();
    let packet = rtp::parse(&buffer[..length]).unwrap();
    assert_eq!((packet.payload_type, packet.payload), (rtp::MP2T, &datagram[..]));

    let packet = Bytes::from([&[0x80, 96][..], &[7; 30]].concat());
    let mut sink = Sink::open(Service::Video, format::RTP_H264, &spec, TrackFormat::Raw).await.unwrap();
    sink.write(&packet).await.unwrap();
    let length = player.recv(&mut buffer).await.unwrap();
    assert_eq!(buffer[..length], packet[..]);
    let refused = Sink::open(Service::Track, format::JSON_LINES, &spec, TrackFormat::Raw).await;
    assert!(matches!(refused, Err(SinkError::Unsuitable { .. })));
}

#[tokio::test]
async fn rtcp_goes_to_next_player_port() {
    let pair = || async {
        let player = tokio::net::UdpSocket::bind("127.0.0.1:0").await.ok()?;
        let after = player.local_addr().ok()?.port().checked_add(1)?;
        Some((player, tokio::net::UdpSocket::bind(("127.0.0.1", after)).await.ok()?))
    };
    let (player, after) = loop {
        if let Some(pair) = pair().await {
            break pair;
        }
    };
    let spec = SinkSpec::Rtp(player.local_addr().unwrap().to_string());
    let mut sink = Sink::open(Service::Video, format::RTP_H264, &spec, TrackFormat::Raw).await.unwrap();
    let report = Bytes::from([&[0x80, 200, 0, 6][..], &[7; 24]].concat());
    assert_eq!(sink.describe(format::RTP_H264, &report), None, "it does not tell what comes");
    sink.write(&report).await.unwrap();
    let mut buffer = [0; 2000];
    let length = after.recv(&mut buffer).await.unwrap();
    assert_eq!(buffer[..length], report[..]);
    assert!(player.try_recv(&mut buffer).is_err());
    sink.write(&Bytes::from([&[0x80, 96][..], &[7; 30]].concat())).await.unwrap();
    let written = Finished::Written { bytes: 32, path: None };
    assert_eq!(sink.finish().await.unwrap(), written, "of the stream, without what was said beside it");
}
