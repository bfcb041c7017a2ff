//! Measures the cost of connections for a hub: processor time for a small request and its answer, processor time for a
//! handshake, memory for a connection.
//!
//! `cargo run --release -p roost-transport --example pingpong [CONNECTIONS [SECONDS [SCHEME]]]`
//!
//! The hub is a process of its own, whose processor time and resident memory the system reports.

// A measurement prints, and stops at the first error.
#![allow(clippy::print_stdout, clippy::expect_used)]

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use roost_identity::group::{Group, Validity};
use roost_identity::{Identity, KeyExchange, Policy};
use roost_transport::{Config, Event, Events, Limits, Transport, bind};
use roost_wire::{Address, Channel, DialId, Endpoint, Role, RoleSet, Scheme};

/// Size of a request and of its answer, bytes: those of a lookup.
const MESSAGE: usize = 64;
/// Events that the hub handles at once.
const BATCH: usize = 256;

fn main() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.first().map(String::as_str) {
        Some("hub") => runtime.block_on(hub(Path::new(&arguments[1]), &arguments[2])),
        first => {
            let connections = first.and_then(|text| text.parse().ok()).unwrap_or(50);
            let seconds = arguments.get(1).and_then(|text| text.parse().ok()).unwrap_or(5);
            let scheme = arguments.get(2).map_or(Scheme::Udp, |text| text.parse().expect("udp, tcp or quic"));
            runtime.block_on(measure(connections, Duration::from_secs(seconds), scheme));
        }
    }
}

/// Answers every message with the same message, forever.
async fn hub(bundle: &Path, listen: &str) {
    let identity = Identity::load(bundle).expect("the bundle");
    let (transport, mut events) = open(identity, &[listen]).await;
    let address = &transport.local_addresses()[0];
    println!("{address}");
    std::io::stdout().flush().expect("a pipe");
    let mut batch = Vec::with_capacity(BATCH);
    loop {
        events.recv_many(&mut batch, BATCH).await;
        for event in batch.drain(..) {
            if let Event::Message { connection, message } = event {
                transport.send(connection, Channel::Datagram, message).expect("the link is up");
            }
        }
        transport.flush();
    }
}

async fn open(identity: Identity, listen: &[&str]) -> (Transport, Events) {
    let policy = Policy::new(&identity).expect("a policy");
    let listen = listen.iter().map(|text| text.parse().expect("an endpoint")).collect();
    let config = Config {
        identity: Arc::new(identity),
        policy,
        key_exchange: KeyExchange::default(),
        listen,
        admit: RoleSet::ALL,
        limits: Limits::default(),
    };
    bind(config).await.expect("sockets")
}

async fn measure(connections: usize, time: Duration, scheme: Scheme) {
    let dir = tempfile::tempdir().expect("a directory");
    let group = Group::init(&dir.path().join("group"), "bench").expect("a group");
    let bundle = dir.path().join("hub");
    group.issue("hub", Role::SuperNode, Validity::default(), &bundle).expect("a bundle");
    let (mut child, address) = start_hub(&bundle, scheme);
    let before = Usage::from_child(&child);
    let answers = Arc::new(AtomicU64::new(0));
    let mut ends = Vec::new();
    for index in 0..connections {
        let identity = group.issue_in_memory(&format!("node{index}"), Role::Node).expect("a certificate");
        let (transport, mut events) = open(identity, &[]).await;
        transport.dial(DialId(0), vec![address.clone()], RoleSet::ALL, None);
        let mut batch = Vec::new();
        events.recv_many(&mut batch, 1).await;
        let Some(Event::Up { .. }) = batch.pop() else { panic!("the dial failed") };
        ends.push((transport, events));
    }
    let joined = Usage::from_child(&child);
    for (transport, events) in ends {
        tokio::spawn(ask(transport, events, Arc::clone(&answers)));
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    let (start, first, count) = (Instant::now(), Usage::from_child(&child), answers.load(Ordering::Relaxed));
    tokio::time::sleep(time).await;
    let (elapsed, last, count) = (start.elapsed(), Usage::from_child(&child), answers.load(Ordering::Relaxed) - count);
    let processor = last.processor - first.processor;
    println!("links                      {connections}");
    println!(
        "memory for each connection       {:.1} KiB",
        (last.resident - before.resident) as f64 / connections as f64 / 1024.0
    );
    println!(
        "hub's time per handshake   {:.0} us",
        (joined.processor - before.processor).as_secs_f64() * 1e6 / connections as f64
    );
    println!("exchanges per second       {:.0}", count as f64 / elapsed.as_secs_f64());
    println!("hub's processor            {:.0} %", 100.0 * processor.as_secs_f64() / elapsed.as_secs_f64());
    println!("hub's time per exchange    {:.2} us", processor.as_secs_f64() * 1e6 / count as f64);
    child.kill().expect("the hub runs");
    child.wait().expect("the hub ends");
}

/// Sends the next request as soon as there is an answer, or a tenth of a second after a loss.
async fn ask(transport: Transport, mut events: Events, answers: Arc<AtomicU64>) {
    let mut batch = Vec::new();
    let connections = transport.connections();
    let message = Bytes::from(vec![7; MESSAGE]);
    loop {
        transport.send(connections[0].connection, Channel::Datagram, message.clone()).expect("the link is up");
        transport.flush();
        let waited = tokio::time::timeout(Duration::from_millis(100), events.recv_many(&mut batch, BATCH)).await;
        answers.fetch_add(waited.unwrap_or(0) as u64, Ordering::Relaxed);
        batch.clear();
    }
}

fn start_hub(bundle: &Path, scheme: Scheme) -> (Child, Address) {
    let this = std::env::current_exe().expect("this program");
    let mut command = Command::new(this);
    let mut child = command
        .arg("hub")
        .arg(bundle)
        .arg(format!("{scheme}://127.0.0.1:0"))
        .stdout(Stdio::piped())
        .spawn()
        .expect("a process");
    let mut line = String::new();
    let output = child.stdout.take().expect("a pipe");
    BufReader::new(output).read_line(&mut line).expect("the hub's address");
    let endpoint: Endpoint = line.trim().parse().expect("an endpoint");
    let hosts = endpoint.hosts.iter().map(|host| host.parse().expect("an address")).collect();
    (child, Address { scheme: endpoint.scheme, port: endpoint.port, hosts })
}

struct Usage {
    processor: Duration,
    resident: u64,
}

impl Usage {
    fn from_child(child: &Child) -> Self {
        let read = |file| std::fs::read_to_string(format!("/proc/{}/{file}", child.id())).expect("the hub runs");
        // Nanoseconds on a processor, as the scheduler counts them.
        let schedstat = read("schedstat");
        let nanos = schedstat.split_whitespace().next().and_then(|text| text.parse().ok()).expect("a number");
        let status = read("status");
        let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a size");
        let kib: u64 = resident.trim().trim_end_matches(" kB").parse().expect("a number");
        Self { processor: Duration::from_nanos(nanos), resident: kib * 1024 }
    }
}
