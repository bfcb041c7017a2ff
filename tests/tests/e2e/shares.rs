//! Members that take all that a provider has, and a provider that gives next to nothing.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use bytes::Bytes;
use roost_tests::adversary::Adversary;
use roost_tests::isolation::Served;
use roost_tests::network::{Daemon, Network, PATIENCE, text};
use roost_tests::process::{binary, wait_until};
use roost_wire::messages::{
    Accept, Chunk, Datagram, FlowDescription, FlowMessage, Message, RegistrationMessage, Report, Request,
    RequestMessage, RequestMode, Route, ServiceRequest,
};
use roost_wire::{Address, Area, Cell, ConnectionId, Nonce, RequestId, Scheme, Service, ServiceSet};

/// Requests of each hostile member: more than there are places.
const WANTED: u32 = 64;
/// Bytes of the image: more than a provider sends ahead of reports.
const IMAGE: usize = 600_000;

/// A super node, a provider and a requester.
fn scene(network: &Network) -> [Daemon; 3] {
    scene_of(network, &[])
}

/// A scene with more arguments for the super node.
fn scene_of(network: &Network, with: &[&str]) -> [Daemon; 3] {
    let hub = network.supernode("sn1", with);
    let endpoint = hub.endpoint("udp");
    std::fs::write(network.path("image"), vec![7; IMAGE]).unwrap();
    let source = format!("file:{}", text(&network.path("image")));
    let services = ["--super", &endpoint, "--services", "video", "--sources-image", &source];
    let provider = network.node("p", "5,5", &services);
    let requester = network.node("r", "1,1", &["--super", &endpoint]);
    [hub, provider, requester]
}

fn at(daemon: &Daemon) -> std::net::SocketAddr {
    daemon.endpoint("udp").strip_prefix("udp://").and_then(|at| at.parse().ok()).unwrap()
}

/// A request for a service anywhere, for an hour of it if it is a stream.
fn request(number: u32, service: Service, mode: RequestMode) -> Request {
    let hour = Some(Duration::from_secs(3_600));
    let spec = ServiceRequest { mode, duration: hour, ..ServiceRequest::new(service, Area::Anywhere) };
    Request::new(RequestId(number), Nonce::from_u64(number.into()), spec, 10_000)
}

/// A member that asks a provider itself, and reads nothing.
struct Hoarder {
    liar: Adversary,
    provider: ConnectionId,
    service: Service,
    asked: u32,
}

impl Hoarder {
    fn new(network: &Network, [hub, provider]: [&Daemon; 2], name: &str, service: Service) -> Self {
        let liar = Adversary::at(&network.identity(name, "node"), at(hub));
        let provider = liar.reach(vec![Address::single(Scheme::Udp, at(provider))]);
        Self { liar, provider, service, asked: 0 }
    }

    /// Asks for as many places as there are, again and again.
    fn ask(&mut self) {
        for _ in 0..WANTED {
            self.asked += 1;
            let request = request(self.asked, self.service, RequestMode::Forward);
            self.liar.say_to(self.provider, &Message::Request(RequestMessage::Request(request)));
        }
    }

    /// Claims to be there and to have taken nothing.
    fn report(&self) {
        // Earlier requests have lost their places.
        for id in self.asked.saturating_sub(2 * WANTED) + 1..=self.asked {
            self.liar.say_to(
                self.provider,
                &Message::Flow(FlowMessage::Report(Report { id: RequestId(id), ..Report::default() })),
            );
        }
    }
}

/// Makes honest requests while hostile members ask.
fn served(requester: &Daemon, hoarders: &mut [Hoarder], what: &[&str]) -> Served {
    let attack = || {
        hoarders.iter().for_each(Hoarder::report);
        hoarders.iter_mut().for_each(Hoarder::ask);
    };
    Served::beside(attack, || {
        requester.roost(&[&["request"], what, &["--at", "5,5", "--json"]].concat()).status.success()
    })
}

#[test]
fn unread_objects_leave_places_to_others() {
    let network = Network::new();
    let [hub, provider, requester] = scene(&network);
    let members = ["m1", "m2", "m3", "m4", "m5"];
    let got = text(&network.path("got"));
    let what = ["image", "-o", &got];
    assert!(served(&requester, &mut [], &what).all("an image, alone"), "{}", requester.log());
    let mut hoarders: Vec<Hoarder> =
        members.iter().map(|name| Hoarder::new(&network, [&hub, &provider], name, Service::Image)).collect();
    hoarders.iter_mut().for_each(Hoarder::ask);
    provider.wait_for("all places are taken", |status| (status["providing"].as_array()?.len() >= 64).then_some(()));
    let beside = "an image, beside five members that read none of theirs";
    assert!(served(&requester, &mut hoarders, &what).all(beside), "{}", requester.log());
    assert_eq!(std::fs::read(&got).unwrap(), vec![7; IMAGE]);
    assert!(provider.metric("roost_node_displaced_total", "") >= 10.0);
}

#[test]
fn endless_streams_leave_places_to_others() {
    let network = Network::new();
    let [hub, provider, requester] = scene(&network);
    let what = ["video", "--for", "300ms"];
    assert!(served(&requester, &mut [], &what).all("a video, alone"), "{}", provider.log());
    let mut hoarders = [Hoarder::new(&network, [&hub, &provider], "m1", Service::Video)];
    hoarders[0].ask();
    provider.wait_for("all places are taken", |status| (status["providing"].as_array()?.len() >= 8).then_some(()));
    let beside = "a video, beside a member that takes all streams";
    assert!(served(&requester, &mut hoarders, &what).all(beside), "{}", provider.log());
    // The member keeps what others leave.
    hoarders[0].ask();
    provider.wait_for("its share", |status| (status["providing"].as_array()?.len() >= 7).then_some(()));
}

/// Lookups that a member sends before each honest one.
const FLOOD: u32 = 2000;

#[test]
fn lookup_flood_spares_other_nodes() {
    let network = Network::new();
    let [hub, _provider, requester] = scene_of(&network, &["--lookups-per-second", "200"]);
    let what = ["lookup", "video", "--near", "5,5"];
    assert!(Served::count(|| requester.roost(&what).status.success()).all("a lookup, alone"));
    let liar = Adversary::at(&network.identity("m1", "node"), at(&hub));
    let mut number = 0;
    let attack = || {
        for _ in 0..FLOOD {
            number += 1;
            liar.say(&Message::Request(RequestMessage::Request(request(number, Service::Video, RequestMode::Lookup))));
        }
    };
    let beside = Served::beside(attack, || requester.roost(&what).status.success());
    assert!(beside.all("a lookup, beside a member that sends 2000 before each"), "{}", hub.log());
    assert!(hub.metric("roost_hub_over_limit_total", "query_rate") > 0.0);
}

/// The request that the hub hands to a provider.
fn forwarded(liar: &Adversary) -> Request {
    let forward = wait_until(PATIENCE, || {
        let heard = liar.receive_messages(Duration::from_millis(50));
        heard.into_iter().find_map(|message| match message {
            Message::Request(RequestMessage::Request(request)) if request.route.is_some() => Some(request),
            _ => None,
        })
    });
    forward.expect("the hub hands it on")
}

#[test]
fn trickling_object_ends_within_patience() {
    let network = Network::new();
    let hub = network.supernode("sn1", &[]);
    let requester = network.node("r", "1,1", &["--super", &hub.endpoint("udp")]);
    let liar = Adversary::at(&network.identity("liar", "node"), at(&hub));
    let cell = Cell { x: 5, y: 5 };
    let nowhere = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    liar.say(&Message::Registration(RegistrationMessage::Publish(liar.record(
        cell,
        ServiceSet::ALL,
        nowhere.local_addr().unwrap(),
    ))));
    hub.wait_for("it is published", |status| (status["index"]["nodes"].as_u64()? >= 2).then_some(()));
    let mut command = Command::new(binary("roost"));
    command.arg("--socket").arg(&requester.socket);
    command.args(["request", "image", "--at", "5,5", "--patience", "4s", "-o", &text(&network.path("image"))]);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let Request { id, nonce, route: Some(Route { reply_to, .. }), .. } = forwarded(&liar) else { panic!() };
    let connection = liar.reach(reply_to);
    let offer =
        FlowDescription::Object { bytes: 100_000, digest: [0; 32], format: String::new(), inline: None, offset: None };
    liar.say_to(
        connection,
        &Message::Request(RequestMessage::Accept(Accept {
            id,
            nonce,
            flow: offer,
            cell,
            provider: None,
            stream_keys: None,
        })),
    );
    let (began, mut offset) = (Instant::now(), 0);
    // A byte five times a second, whoever asks again.
    while child.try_wait().unwrap().is_none() {
        assert!(began.elapsed() < Duration::from_secs(20), "it waits still, for {offset} bytes");
        liar.say_to(
            connection,
            &Message::Flow(FlowMessage::Chunk(Chunk { id, offset, payload: Bytes::from_static(b"x") })),
        );
        offset += 1;
        liar.receive_messages(Duration::from_millis(200));
    }
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(7), "{said}");
    assert!(said.contains("next to nothing"), "{said}");
    assert!(!network.path("image").exists());
}

/// Lengths and places near the end of all numbers: the requester ends with a reason, and lives.
#[test]
fn absurd_lengths_end_only_request() {
    let network = Network::new();
    let hub = network.supernode("sn1", &[]);
    let requester = network.node("r", "1,1", &["--super", &hub.endpoint("udp")]);
    let liar = Adversary::at(&network.identity("liar", "node"), at(&hub));
    let cell = Cell { x: 5, y: 5 };
    let nowhere = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    liar.say(&Message::Registration(RegistrationMessage::Publish(liar.record(
        cell,
        ServiceSet::ALL,
        nowhere.local_addr().unwrap(),
    ))));
    hub.wait_for("it is published", |status| (status["index"]["nodes"].as_u64()? >= 2).then_some(()));
    for (bytes, offset) in
        [(u64::MAX, None), (u64::MAX, Some(u64::MAX - 1)), (u64::MAX - 1, Some(u64::MAX)), (1, Some(2))]
    {
        let mut command =
            requester.command(&["request", "image", "--at", "5,5", "--patience", "2s", "--timeout", "5s"]);
        let file = network.path("image");
        let mut child = command.arg("-o").arg(&file).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let Request { id, nonce, route: Some(Route { reply_to, .. }), .. } = forwarded(&liar) else { panic!() };
        let connection = liar.reach(reply_to);
        let offer = FlowDescription::Object { bytes, digest: [0; 32], format: String::new(), inline: None, offset };
        liar.say_to(
            connection,
            &Message::Request(RequestMessage::Accept(Accept {
                id,
                nonce,
                flow: offer,
                cell,
                provider: None,
                stream_keys: None,
            })),
        );
        let began = Instant::now();
        while child.try_wait().unwrap().is_none() {
            assert!(began.elapsed() < PATIENCE, "it waits still, {bytes} {offset:?}: {}", requester.log());
            for at in [u64::MAX, u64::MAX - 1, 1 << 63, 0] {
                liar.say_to(
                    connection,
                    &Message::Flow(FlowMessage::Chunk(Chunk { id, offset: at, payload: Bytes::from_static(b"xy") })),
                );
            }
            liar.receive_messages(Duration::from_millis(100));
        }
        let output = child.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(matches!(output.status.code(), Some(1..=7)) && said.contains("error:"), "{bytes} {offset:?}: {said}");
        assert!(requester.process.is_running() && requester.status().is_some(), "{}", requester.log());
        assert!(!requester.log().contains("panicked") && !file.exists(), "{}", requester.log());
    }
}

/// A stream arrives whole, and none of its lines is what a track consists of.
#[test]
fn unusable_stream_is_failure() {
    let network = Network::new();
    let hub = network.supernode("sn1", &[]);
    let requester = network.node("r", "1,1", &["--super", &hub.endpoint("udp")]);
    let liar = Adversary::at(&network.identity("liar", "node"), at(&hub));
    let cell = Cell { x: 5, y: 5 };
    let nowhere = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    liar.say(&Message::Registration(RegistrationMessage::Publish(liar.record(
        cell,
        ServiceSet::ALL,
        nowhere.local_addr().unwrap(),
    ))));
    hub.wait_for("it is published", |status| (status["index"]["nodes"].as_u64()? >= 2).then_some(()));
    let (sent, file) = (network.path("sent"), network.path("track.jsonl"));
    std::fs::write(&sent, "no record\n").unwrap();
    let (bytes, digest) = roost_services::digest_of(&sent, |_| {}).unwrap();
    let mut command = requester.command(&["request", "track", "--at", "5,5", "--for", "1s", "--patience", "5s"]);
    let mut child = command.arg("-o").arg(&file).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let Request { id, nonce, route: Some(Route { reply_to, .. }), .. } = forwarded(&liar) else { panic!() };
    let connection = liar.reach(reply_to);
    let offer = FlowDescription::Stream {
        duration_ms: 1_000,
        bits_per_second: 1_000,
        format: "application/x-ndjson".to_owned(),
    };
    let accept = Message::Request(RequestMessage::Accept(Accept {
        id,
        nonce,
        flow: offer,
        cell,
        provider: None,
        stream_keys: None,
    }));
    let packet = Message::Flow(FlowMessage::Datagram(Datagram {
        id,
        sequence: 0,
        sent_us: 0,
        payload: Bytes::from_static(b"no record\n"),
    }));
    // Datagrams may be lost, so each is said until it is over.
    while child.try_wait().unwrap().is_none() {
        for message in [&accept, &packet, &Message::Flow(FlowMessage::End { id, packets: 1, bytes, digest })] {
            liar.say_to(connection, message);
        }
        liar.receive_messages(Duration::from_millis(100));
    }
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(7), "{said}");
    assert!(said.contains("nothing of what came could be used") && !file.exists(), "{said}");
}
