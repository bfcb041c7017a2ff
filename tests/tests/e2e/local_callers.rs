//! Callers of a daemon that connect, and do nothing or do not read.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use roost_tests::network::{Daemon, Network};
use roost_tests::process::free_port;

/// More than a daemon serves at once.
const CALLERS: usize = 900;
/// Most descriptors, and most memory, that they may take of the daemon.
const DESCRIPTORS: usize = 700;
const MEMORY_KIB: u64 = 40 * 1024;

fn descriptors(daemon: &Daemon) -> usize {
    fs::read_dir(format!("/proc/{}/fd", daemon.process.id())).unwrap().count()
}

#[test]
fn idle_callers_cost_little() {
    let network = Network::new();
    let at = format!("127.0.0.1:{}", free_port());
    let hub = network.supernode("sn1", &["--metrics", &at]);
    let memory = hub.process.resident_kib();
    let local: Vec<UnixStream> = (0..CALLERS).map(|_| UnixStream::connect(&hub.socket).unwrap()).collect();
    let remote: Vec<TcpStream> = (0..CALLERS / 3).map(|_| TcpStream::connect(&at).unwrap()).collect();
    assert!(hub.status().is_some(), "who asks something is answered");
    let mut metrics = TcpStream::connect(&at).unwrap();
    metrics.write_all(b"GET /metrics HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").unwrap();
    let mut text = String::new();
    metrics.read_to_string(&mut text).unwrap();
    assert!(text.contains("roost_build_info"), "{text}");
    assert!(descriptors(&hub) < DESCRIPTORS, "{} descriptors", descriptors(&hub));
    let grown = hub.process.resident_kib().saturating_sub(memory);
    assert!(grown < MEMORY_KIB, "{grown} KiB more");
    drop((local, remote));
}

#[test]
fn unread_metrics_connection_is_closed() {
    let network = Network::new();
    let at = format!("127.0.0.1:{}", free_port());
    let _hub = network.supernode("sn1", &["--metrics", &at]);
    let mut silent = TcpStream::connect(&at).unwrap();
    silent.write_all(b"GET /metr").unwrap();
    silent.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let began = Instant::now();
    let end = silent.read(&mut [0; 64]);
    assert!(end.is_ok(), "it is still listened to after {:?}", began.elapsed());
}
