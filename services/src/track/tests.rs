use roost_wait::free_port;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, UdpSocket};

use super::*;
use crate::SourceSpec;
use crate::testing::any_request;

fn parse(text: &str) -> Result<SourceSpec, String> {
    SourceSpec::parse(Service::Track, text).map_err(|error| error.to_string())
}

async fn feed(text: &str) -> Feed {
    let OpenedSource::Stream { feed, format, .. } = parse(text).unwrap().open(&any_request(None)).await.unwrap() else {
        panic!()
    };
    assert_eq!(format, format::JSON_LINES);
    feed
}

async fn record(feed: &mut Feed) -> serde_json::Value {
    serde_json::from_slice(&feed.next().await.unwrap().unwrap()).unwrap()
}

fn free_address() -> String {
    format!("127.0.0.1:{}", free_port())
}

#[test]
fn bad_specs_say_what_is_accepted() {
    for text in ["", "gpsd://", "gpsd://localhost", "cot+udp://:1", "udp://h:1", "file:", "nmea+udp://h:1?id=", "x"] {
        let error = parse(text).unwrap_err();
        assert!(error.contains("is no track source") && error.contains("expected synthetic, gpsd://"), "{error}");
    }
}

#[tokio::test]
async fn gpsd_positions_arrive() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let daemon = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        stream.write_all(b"{\"class\":\"VERSION\",\"release\":\"3.22\"}\r\n").await.unwrap();
        let mut asked = vec![0; gpsd::WATCH.len()];
        stream.read_exact(&mut asked).await.unwrap();
        assert_eq!(asked, gpsd::WATCH);
        stream
            .write_all(b"{\"class\":\"TPV\",\"mode\":1}\r\nrubbish\r\n{\"class\":\"TPV\",\"lat\":27.5,")
            .await
            .unwrap();
        stream.flush().await.unwrap();
        stream.write_all(b"\"lon\":92.5,\"device\":\"/dev/gps0\"}\r\n").await.unwrap();
    });
    let mut feed = feed(&format!("gpsd://{address}")).await;
    let position = record(&mut feed).await;
    assert_eq!(
        (&position["lat"], &position["id"], &position["source"]),
        (&27.5.into(), &"/dev/gps0".into(), &"gpsd".into())
    );
    assert!(position["raw"].as_str().unwrap().starts_with("{\"class\":\"TPV\""));
    daemon.await.unwrap();
    let error = feed.next().await.unwrap().unwrap_err().to_string();
    assert!(error.contains("it closed the connection"), "{error}");
    assert_eq!(feed.next().await, None);
    let error = parse(&format!("gpsd://{address}")).unwrap().open(&any_request(None)).await.unwrap_err().to_string();
    assert!(error.contains("connection refused; check that the program there is running"), "{error}");
}

#[tokio::test]
async fn cot_and_nmea_come_by_udp() {
    let sender = UdpSocket::bind("127.0.0.1:0").await.unwrap();

    let address = free_address();
    let mut cot = feed(&format!("cot+udp://{address}")).await;
    sender.send_to(b"\xbf\x01\xbfprotobuf", &address).await.unwrap();
    sender.send_to(b"<event uid='a'><point lat='1' lon='2' hae='3'/></event>", &address).await.unwrap();
    let position = record(&mut cot).await;
    assert_eq!((&position["id"], &position["alt_m"]), (&"a".into(), &3.0.into()));

    let address = free_address();
    let mut nmea = feed(&format!("nmea+udp://{address}?id=ship")).await;
    let sentence = b"$GPGLL,4916.45,N,12311.12,W,225444,A,*1D\r\n$GPRMC,123519,A,4807.038,N,01131.000,E,022.4,084.4,230394,003.1,W*6A\r\n";
    sender.send_to(sentence, &address).await.unwrap();
    assert_eq!(record(&mut nmea).await["id"], "ship");
    assert_eq!(record(&mut nmea).await["t"], "1994-03-23T12:35:19.000Z");
}

#[tokio::test]
async fn a_multicast_group_is_joined() {
    let port = free_address().rsplit_once(':').unwrap().1.to_owned();
    let group = format!("239.2.3.1:{port}");
    let mut feed = feed(&format!("cot+udp://{group}?interface=127.0.0.1")).await;
    let sender = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let sender = socket2::Socket::from(sender.into_std().unwrap());
    sender.set_multicast_if_v4(&std::net::Ipv4Addr::LOCALHOST).unwrap();
    let group: std::net::SocketAddr = group.parse().unwrap();
    sender.send_to(b"<event uid='a'><point lat='1' lon='2'/></event>", &group.into()).unwrap();
    assert_eq!(record(&mut feed).await["lon"], 2.0);
}

#[tokio::test(start_paused = true)]
async fn replay_fills_gaps_with_keepalives() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("track.jsonl");
    let lines =
        "{\"t\":\"2026-05-01T12:00:00Z\",\"lat\":1,\"lon\":2}\n{\"t\":\"2026-05-01T12:00:05Z\",\"lat\":1,\"lon\":2}\n";
    std::fs::write(&path, lines).unwrap();
    let mut feed = feed(&format!("file:{}", path.display())).await;
    let mut sizes = Vec::new();
    while let Some(payload) = feed.next().await {
        sizes.push(payload.unwrap().len().min(1));
    }
    assert_eq!(sizes, [1, 0, 0, 1, 1, 0], "at 0, 2, 4, 5, 6 and 8 s");

    std::fs::write(&path, "nothing").unwrap();
    let error = parse(&format!("file:{}", path.display())).unwrap().check().await.unwrap_err().to_string();
    assert!(error.contains("gave no track: it has no record"), "{error}");
}
