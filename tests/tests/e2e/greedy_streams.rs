//! Members of the group that let reflected streams stand still or want too much of them: others lose nothing.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, UdpSocket};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use roost_core::node::MAX_REQUESTS;
use roost_reflection::control::ControlPacket;
use roost_tests::hostile::{HostileSetup, SALVO, captured};
use roost_tests::network::{Client, Network, PATIENCE};
use roost_tests::process::free_port;
use roost_tests::streams::{Watcher, is_whole, nothing_flows, sent_to, stream};
use roost_wait::beats;
use roost_wire::messages::{CopyTarget, Message, Reason, RegistrationMessage, Request, RequestMessage, ServiceRequest};
use roost_wire::{Area, Cell, NodeId, Nonce, RequestId, Service, ServiceSet, StreamTag};
use serde_json::Value;

/// Under so many tags a stream is offered to an address that does not answer, five times each.
const MAX_OFFERS: usize = 8 * 5;
/// A silence that no socket is too small for, and that nobody notices.
const SHORT_SILENCE: Duration = Duration::from_secs(3);
/// Packets of some three seconds: a super node keeps half a second of a stream, and what came since its last key frame.
const UNCACHED: u64 = 250;
/// Packets of a second: three commands do not end at the same moment.
const ENDED_APART: u64 = 80;
/// Requests beyond what a node has under way at most.
const TOO_MANY: usize = 40;

#[test]
fn stopped_node_resumes_live() {
    let scene = HostileSetup::new(&["a", "b", "c"]);
    let watchers = [0, 1, 2].map(|node| scene.watch(node));
    sent_to(&scene.hub, 3);
    let [short, long] = [1, 2].map(|node| &scene.nodes[node]);
    [short, long].iter().for_each(|node| node.process.signal("STOP"));
    thread::sleep(SHORT_SILENCE);
    short.process.signal("CONT");
    // A node that says nothing for five seconds is sent nothing any more.
    let packets = |stream: &Value| stream["packets"].as_u64().unwrap_or_default();
    let goes_on = |count| {
        let so_far = packets(&sent_to(&scene.hub, count));
        stream(&scene.hub, "more than a cache keeps", |stream| packets(stream) > so_far + UNCACHED);
    };
    goes_on(2);
    long.process.signal("CONT");
    goes_on(3);
    scene.stands();
    watchers.iter().for_each(|watcher| watcher.signal("INT"));
    let [whole, short, long] = watchers.map(Watcher::summary);
    is_whole(&whole.0, &whole.1);
    let all = whole.0["packets"].as_u64().unwrap();
    // The socket may have held all that came while it was stopped, and nobody keeps what the hub did not send.
    assert!(long.0["lost"].as_u64().unwrap() > 0, "{}", long.0);
    for (summary, written) in [short, long] {
        let (got, lost) = (summary["packets"].as_u64().unwrap(), summary["lost"].as_u64().unwrap());
        assert!(written.chunks(188).all(|packet| packet.len() == 188 && packet[0] == 0x47));
        assert_eq!(summary["duplicates"], 0, "{summary}");
        assert!(got > all / 4 && (got + lost).abs_diff(all) < ENDED_APART, "of {all}: {summary}");
    }
    nothing_flows(&scene.hub);
}

/// Sends a node's source seven transport packets a thousand times a second.
struct FloodingCamera {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl FloodingCamera {
    fn start(port: u16) -> Self {
        let stop = Arc::<AtomicBool>::default();
        let stopped = Arc::clone(&stop);
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let datagram = [[0x47, 0x1f, 0xff, 0x10].as_slice(), &[0xff; 184]].concat().repeat(7);
        let thread = thread::spawn(move || {
            for _ in beats(Duration::from_millis(1)).take_while(|_| !stopped.load(Ordering::Relaxed)) {
                // Nobody listens as long as nobody watches.
                let _ = socket.send_to(&datagram, ("127.0.0.1", port));
            }
        });
        Self { stop, thread: Some(thread) }
    }
}

impl Drop for FloodingCamera {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().map(JoinHandle::join);
    }
}

/// Datagrams of nine megabytes, far more than the memory that a stopped reader may cost.
const UNREAD: u64 = 7_000;

#[test]
fn stopped_reader_costs_no_memory() {
    let port = free_port();
    let network = Network::new();
    let hub = network.supernode("sn1", &[]);
    let endpoint = hub.endpoint("udp");
    let source = format!("udp://127.0.0.1:{port}");
    let _provider =
        network.node("p", "5,5", &["--super", &endpoint, "--services", "video", "--sources-video", &source]);
    let node = network.node("a", "1,1", &["--super", &endpoint]);
    let [reads, stopped] = ["one", "two"].map(|name| Watcher::endless(&network, &node, name));
    let _camera = FloodingCamera::start(port);
    sent_to(&hub, 1);
    node.wait_for("both watch", |status| (status["receiving"].as_array()?.len() == 2).then_some(()));
    let packets = |stream: &Value| stream["packets"].as_u64().unwrap_or_default();
    let before = packets(&stream(&node, "it comes", |_| true));
    let memory_kib = node.process.resident_kib();
    stopped.signal("STOP");
    stream(&node, "it goes on", |stream| packets(stream) > before + UNREAD);
    let grown = node.process.resident_kib().saturating_sub(memory_kib);
    stopped.signal("CONT");
    // Nearly all that came meanwhile was not kept for it, which it is told.
    assert!(grown < 5 * 1024, "{grown} KiB more");
    let (summary, written) = reads.finish();
    is_whole(&summary, &written);
    assert_eq!(summary["unread"], 0, "{summary}");
    let (summary, written) = stopped.finish();
    let [unread, packets] = ["unread", "packets"].map(|what| summary[what].as_u64().unwrap());
    assert!(unread > packets / 3 && summary["lost"] == 0, "{summary}");
    assert_eq!(written.len() as u64 + unread * 7 * 188, summary["bytes"].as_u64().unwrap(), "{summary}");
}

/// `roost subscribe track`, in the words of the local API; the daemon's answer is to be read.
fn join(node: &Client) -> UnixStream {
    let mut connection = UnixStream::connect(&node.socket).unwrap();
    connection.set_read_timeout(Some(PATIENCE)).unwrap();
    let body = r#"{"service":"track","area":{"at":"5,5"},"reflect":"always","duration_ms":20000}"#;
    let length = body.len();
    write!(connection, "POST /v1/request HTTP/1.1\r\nHost: roost\r\nContent-Length: {length}\r\n\r\n{body}").unwrap();
    connection
}

/// The beginning of it.
fn answer(mut connection: &UnixStream) -> String {
    let mut buffer = [0; 4096];
    let length = connection.read(&mut buffer).unwrap();
    String::from_utf8_lossy(&buffer[..length]).into_owned()
}

#[test]
fn join_flood_is_refused_with_reason() {
    let scene = HostileSetup::new(&["a", "b"]);
    let before = scene.watch(0);
    sent_to(&scene.hub, 1);
    let joins: Vec<UnixStream> = (0..MAX_REQUESTS + TOO_MANY).map(|_| join(&scene.nodes[1])).collect();
    let answers: Vec<String> = joins.iter().map(answer).collect();
    let meanwhile = Watcher::start(&scene.network, &scene.nodes[0], "meanwhile", "subscribe", "4s");
    let refused = answers.iter().filter(|answer| answer.contains("this node has too many requests under way"));
    let refused: Vec<&String> = refused.collect();
    assert!(!refused.is_empty() && refused.len() <= TOO_MANY, "{}: {answers:?}", refused.len());
    assert!(refused.iter().all(|answer| answer.starts_with("HTTP/1.1 503 ")), "{refused:?}");
    drop(joins);
    for (summary, written) in [meanwhile.summary(), before.finish()] {
        is_whole(&summary, &written);
    }
    scene.stands();
}

/// A request for a copy of the video, with a tag of its own.
fn wants_copy(number: u32, to: SocketAddr, provider: Option<NodeId>) -> Message {
    let reflect = CopyTarget { to, tag: StreamTag(u64::from(number) << 32 | 5), hops: 0, provider, is_resuming: None };
    let spec = ServiceRequest::new(Service::Video, Area::Exact(Cell { x: 5, y: 5 }));
    let request = Request::new(RequestId(number), Nonce::from_u64(number.into()), spec, 5_000);
    Message::Request(RequestMessage::Request(Request { copy_target: Some(reflect), ..request }))
}

fn refusals(messages: &[Message]) -> Vec<Reason> {
    messages
        .iter()
        .filter_map(|message| {
            if let Message::Request(RequestMessage::Decline(decline)) = message { Some(decline.reason) } else { None }
        })
        .collect()
}

#[test]
fn spoofed_address_gets_few_offers() {
    let scene = HostileSetup::new(&["a"]);
    let whole = scene.watch(0);
    sent_to(&scene.hub, 1);
    let liar = scene.liar();
    let [named, other] = ["127.0.0.2:0", "127.0.0.3:0"].map(|at| UdpSocket::bind(at).unwrap());
    let [at_named, at_other] = [&named, &other].map(|victim| victim.local_addr().unwrap());
    // A node with several addresses may have a copy sent to any that its record names, and where it lives nobody knows.
    let record = liar.record(Cell { x: 1, y: 1 }, ServiceSet::EMPTY, SocketAddr::new(at_named.ip(), 9));
    liar.say(&Message::Registration(RegistrationMessage::Publish(record)));
    liar.say(&wants_copy(1, at_other, None));
    assert_eq!(refusals(&liar.receive_messages(Duration::from_secs(1))), [Reason::NotAllowed]);
    for number in 2..100 {
        liar.say(&wants_copy(number, at_named, None));
        scene.await_hub();
    }
    let offered = captured(&named, Duration::from_secs(6));
    assert!((1..=MAX_OFFERS).contains(&offered.len()), "{} datagrams", offered.len());
    for datagram in &offered {
        assert!(matches!(ControlPacket::decode(datagram), Ok((_, _, ControlPacket::Offer(_)))), "{datagram:?}");
    }
    assert_eq!(captured(&other, Duration::from_millis(4)), Vec::<Vec<u8>>::new());
    scene.stands();
    let (summary, written) = whole.finish();
    is_whole(&summary, &written);
}

#[test]
fn tag_flood_spares_other_subscribers() {
    let scene = HostileSetup::new(&["a", "b"]);
    let first = scene.watch(0);
    sent_to(&scene.hub, 1);
    let liar = scene.liar();
    let own = UdpSocket::bind("127.0.0.1:0").unwrap();
    let to = own.local_addr().unwrap();
    liar.say(&Message::Registration(RegistrationMessage::Publish(liar.record(
        Cell { x: 1, y: 1 },
        ServiceSet::EMPTY,
        to,
    ))));
    for number in 1..4_000_u32 {
        let nobody = NodeId::from_bytes(std::array::from_fn(|at| number.to_be_bytes()[at % 4]));
        liar.say(&wants_copy(number, to, number.is_multiple_of(2).then_some(nobody)));
        if number.is_multiple_of(SALVO as u32) {
            scene.await_hub();
        }
    }
    let second = Watcher::start(&scene.network, &scene.nodes[1], "second", "subscribe", "4s");
    // Many are lost with both processors busy, as datagrams may be.
    let refused = refusals(&liar.receive_messages(Duration::from_secs(2)));
    assert!(refused.len() > 20, "{} of 4000", refused.len());
    for (summary, written) in [second.summary(), first.finish()] {
        is_whole(&summary, &written);
    }
    scene.stands();
}
