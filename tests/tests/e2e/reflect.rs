//! The reflector's data path as a program, the way that harnesses drive it.

use std::net::UdpSocket;
use std::process::Command;
use std::time::Duration;

use bytes::BytesMut;
use roost_reflection::{Epoch, EpochLimits, EpochSecret, Flags, Publisher, StreamId, Subscriber};
use roost_tests::process::{Process, binary, wait_until};
use roost_wire::Time;

const PATIENCE: Duration = Duration::from_secs(60);

// Forty datagrams fit the receive buffers that every system grants: none is lost on loopback.

/// A reflector from one free port to two that follow each other, and the sockets on these.
fn reflector(options: &[&str]) -> (Process, tempfile::TempDir, String, [UdpSocket; 2]) {
    let bind = |port: u16| UdpSocket::bind(("127.0.0.1", port));
    let pair = || {
        let first = bind(0).ok()?;
        let second = bind(first.local_addr().ok()?.port().checked_add(1)?).ok()?;
        Some([first, second])
    };
    let sockets = wait_until(PATIENCE, pair).expect("two free ports side by side");
    sockets.iter().for_each(|socket| socket.set_read_timeout(Some(PATIENCE)).unwrap());
    let listen = bind(0).unwrap().local_addr().unwrap().to_string();
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(binary("emulate"));
    let to = sockets[0].local_addr().unwrap().to_string();
    command.args(["bench", "reflector", "--listen", &listen, "--to", &to, "--count", "2"]).args(options);
    let process = Process::start(command, folder.path().join("log")).unwrap();
    (process, folder, listen, sockets)
}

/// Sends until the first has come through, then the rest; returns what the sockets got.
fn send(listen: &str, sockets: &[UdpSocket; 2], datagrams: &[Vec<u8>]) -> [Vec<Vec<u8>>; 2] {
    let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
    let mut buffer = [0; 2000];
    let wait = Duration::from_millis(50);
    sockets[1].set_read_timeout(Some(wait)).unwrap();
    let first = wait_until(PATIENCE, || {
        sender.send_to(&datagrams[0], listen).unwrap();
        sockets[1].recv(&mut buffer).ok()
    });
    assert!(first.is_some(), "nothing came through");
    sockets[1].set_read_timeout(Some(PATIENCE)).unwrap();
    for datagram in &datagrams[1..] {
        sender.send_to(datagram, listen).unwrap();
    }
    let last = datagrams.last().unwrap();
    [0, 1].map(|number| {
        let mut got = Vec::new();
        while got.last() != Some(last) {
            let length = sockets[number].recv(&mut buffer).unwrap();
            got.push(buffer[..length].to_vec());
        }
        got
    })
}

#[test]
fn datagrams_reach_every_port_unchanged() {
    for options in [&[][..], &["--no-offload"]] {
        let (mut process, _folder, listen, sockets) = reflector(options);
        let datagrams: Vec<Vec<u8>> = (0..40_u8).map(|number| vec![number; 1440]).collect();
        for got in send(&listen, &sockets, &datagrams) {
            assert_eq!(got[got.len() - 39..], datagrams[1..]);
        }
        process.signal("TERM");
        let is_json = || serde_json::from_str::<serde_json::Value>(&process.log()).ok();
        let line = wait_until(PATIENCE, is_json).unwrap_or_else(|| panic!("{}", process.log()));
        assert!(line["in"].as_u64() >= Some(40), "{line}");
        assert_eq!(line["out"].as_u64(), line["in"].as_u64().map(|count| 2 * count), "{line}");
        assert_eq!((line["err"].as_u64(), line["cpu"].is_f64(), line["wall"].is_f64()), (Some(0), true, true));
        process.kill();
    }
}

#[test]
fn sealed_packets_are_forwarded_to_keyholders() {
    let (mut process, _folder, listen, sockets) = reflector(&["--sealed"]);
    let (stream, epoch, secret) = (StreamId(5), Epoch(1), EpochSecret::from_bytes([3; 32]));
    let mut publisher = Publisher::new(Time::ZERO, stream, epoch, &secret, EpochLimits::default()).unwrap();
    let payloads: Vec<Vec<u8>> = (0..40_u8).map(|number| vec![number; 1128]).collect();
    let seal = |payload: &Vec<u8>| {
        let mut packet = BytesMut::new();
        publisher.seal(Time::ZERO, 0, Flags::default(), payload, &mut packet).unwrap();
        packet.to_vec()
    };
    let packets: Vec<Vec<u8>> = payloads.iter().map(seal).collect();
    let mut through = packets.clone();
    // Packets come out with one hop more.
    through.iter_mut().for_each(|packet| packet[0] = roost_reflection::Hop { hops: 1, catch_up: false }.byte());
    let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
    let mut buffer = [0; 2000];
    sockets[0].set_read_timeout(Some(Duration::from_millis(50))).unwrap();
    // The first says which stream it is, and is taken once: until it is there it is sent again.
    wait_until(PATIENCE, || {
        sender.send_to(&packets[0], &listen).unwrap();
        sockets[0].recv(&mut buffer).ok()
    })
    .expect("the first packet comes through");
    sockets[0].set_read_timeout(Some(PATIENCE)).unwrap();
    for packet in &packets[1..] {
        sender.send_to(packet, &listen).unwrap();
    }
    let mut subscriber = Subscriber::new(stream);
    subscriber.add_epoch(epoch, &secret);
    for (number, payload) in payloads.iter().enumerate() {
        let length = sockets[1].recv(&mut buffer).unwrap();
        assert_eq!(buffer[..length], through[number]);
        assert_eq!(subscriber.open(&mut buffer[..length]).unwrap().payload, payload);
    }
    process.kill();
}
