//! The carrier with sockets in place of interfaces, and synthetic frames. It runs in real time, so the tests do
//! not expect it to be fast: only that no frame comes before its time, and that every frame is accounted for.

use std::io;
use std::net::Ipv4Addr;
use std::os::unix::net::UnixDatagram;
use std::time::{Duration, Instant};

use roost_netcore::wiring;
use roost_topology::model::{Action, Event, Host, Leg, Net, NetKind, NetMember, Queue, Topology};
use roost_topology::units::Rate;
use roost_wait::wait_until;

use super::frame::{self, testing};
use super::*;

const PATIENCE: Duration = Duration::from_secs(20);

fn address(member: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, 1, 0, 2 + member as u8)
}

fn leg(delay_ms: u64) -> Leg {
    Leg { delay: Duration::from_millis(delay_ms), ..Leg::default() }
}

/// A net of `members` hosts, all with this leg to it and from it.
fn net(kind: NetKind, members: usize, leg: &Leg) -> Topology {
    let member =
        |host| NetMember { host, address: Some(address(host)), prefix: 24, to_net: leg.clone(), from_net: leg.clone() };
    Topology {
        hosts: (0..members).map(|host| Host { name: format!("h{host}"), ..Host::default() }).collect(),
        nets: vec![Net { name: "net".to_owned(), kind, members: (0..members).map(member).collect(), cost: 1.0 }],
        ..Topology::default()
    }
}

struct TestHost(UnixDatagram);

impl TestHost {
    fn send(&self, frame: &[u8]) {
        assert_eq!(self.0.send(frame).unwrap(), frame.len());
    }

    fn receive(&self) -> Vec<u8> {
        let mut frame = vec![0; 2048];
        let bytes = self.0.recv(&mut frame).expect("a frame comes");
        frame.truncate(bytes);
        frame
    }

    fn waiting(&self) -> usize {
        self.0.set_nonblocking(true).unwrap();
        let frames = std::iter::from_fn(|| self.0.recv(&mut [0; 2048]).ok()).count();
        self.0.set_nonblocking(false).unwrap();
        frames
    }
}

fn start(topology: &Topology) -> (Carrier, Vec<TestHost>) {
    let (network, wiring) = wiring::build(topology, 7);
    let (wires, hosts) = topology.nets[0].members.iter().enumerate().map(|(member, _)| wire(&wiring, member)).unzip();
    (Carrier::start(network, wiring, wires, false).unwrap(), hosts)
}

fn wire(wiring: &Wiring, member: usize) -> (HostWire, TestHost) {
    let (inner, outer) = UnixDatagram::pair().unwrap();
    inner.set_read_timeout(Some(PATIENCE)).unwrap();
    let port = wiring.port(0, member).unwrap();
    let wire = HostWire { fd: outer.into(), port, net: 0, address: address(member), statistics: None };
    (wire, TestHost(inner))
}

fn unicast(from: usize, to: usize, bytes: usize) -> Vec<u8> {
    testing::ipv4(address(from), Mac::from_ipv4(address(to)), bytes, from as u8)
}

/// Waits until a condition holds. Slowness is no failure here.
fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    assert!(wait_until(PATIENCE, || is_so().then_some(())).is_some(), "{what} within {PATIENCE:?}");
}

#[test]
fn frame_crosses_link_unchanged_and_delayed() {
    let mut leg = leg(5);
    leg.rate = Rate::from_bps(10_000_000);
    let (carrier, hosts) = start(&net(NetKind::Link, 2, &leg));
    for (from, to) in [(0, 1), (1, 0)] {
        let frame = unicast(from, to, 1250);
        let sent = Instant::now();
        hosts[from].send(&frame);
        assert_eq!(hosts[to].receive(), frame);
        // Both legs' delays, and 1250 bytes at 10 Mbit/s.
        assert!(sent.elapsed() >= Duration::from_millis(5 + 5 + 1));
    }
    until("both are counted", || carrier.lateness().packets() == 2);
    assert_eq!(carrier.unread().packets(), 2);
    assert_eq!(carrier.overruns(), 0);
}

#[test]
fn arp_is_answered_and_not_carried() {
    // Crossing the net would take longer than the test waits.
    let (carrier, hosts) = start(&net(NetKind::Lan, 3, &leg(60_000)));
    hosts[0].send(&testing::arp_request(address(0), address(2)));
    assert_eq!(hosts[0].receive(), frame::arp_answer(address(2), address(0), Mac::from_ipv4(address(0))));
    hosts[0].send(&testing::arp_request(address(0), address(77)));
    hosts[0].send(&testing::arp_request(address(0), address(0)));
    until("all are read", || carrier.wires()[0].read == 3);
    let counts = carrier.wires()[0];
    assert_eq!((counts.answered, counts.unknown, counts.ignored), (1, 1, 1));
    assert!(carrier.counters().unwrap().iter().all(|link| link.packets_in == 0));
}

#[test]
fn broadcast_reaches_each_member_once() {
    let (carrier, hosts) = start(&net(NetKind::Lan, 4, &leg(1)));
    let group = testing::ipv4(address(1), Mac([0x01, 0x00, 0x5e, 2, 3, 1]), 500, 9);
    hosts[1].send(&group);
    for host in [0, 2, 3] {
        assert_eq!(hosts[host].receive(), group);
    }
    let links = carrier.counters().unwrap();
    let multicast = |direction| {
        let of_direction = links.iter().filter(move |link| link.direction == direction);
        of_direction.map(|link| link.multicast_bytes_in).collect::<Vec<_>>()
    };
    assert_eq!(multicast("to-net"), [0, 500, 0, 0]);
    assert_eq!(multicast("from-net"), [500, 0, 500, 500]);
    assert_eq!(hosts.iter().map(TestHost::waiting).sum::<usize>(), 0);
}

#[test]
fn lan_drops_unknown_receivers_and_ipv6() {
    let (carrier, hosts) = start(&net(NetKind::Lan, 3, &leg(1)));
    hosts[0].send(&testing::ipv4(address(0), Mac::from_ipv4(address(99)), 100, 0));
    hosts[0].send(&testing::ipv6(address(0)));
    hosts[0].send(&[1, 2, 3]);
    hosts[0].send(&unicast(0, 1, MAX_FRAME_BYTES + 1));
    hosts[0].send(&unicast(0, 1, 100));
    assert_eq!(hosts[1].receive(), unicast(0, 1, 100));
    let counts = carrier.wires()[0];
    assert_eq!((counts.read, counts.unknown, counts.ignored, counts.malformed), (5, 1, 1, 2));
    assert_eq!(hosts[2].waiting(), 0);
}

#[test]
fn nothing_is_taken_while_down() {
    let (carrier, hosts) = start(&net(NetKind::Link, 2, &leg(1)));
    carrier.apply(0, None, TopologyChange::Down).unwrap();
    hosts[0].send(&unicast(0, 1, 100));
    until("it is read", || carrier.wires()[0].read == 1);
    carrier.apply(0, None, TopologyChange::Up).unwrap();
    hosts[0].send(&unicast(0, 1, 200));
    assert_eq!(hosts[1].receive().len(), 200);
    let link = &carrier.counters().unwrap()[0];
    assert_eq!((link.packets_in, link.packets_out, link.dropped_down), (2, 1, 1));
    assert!(carrier.apply(1, None, TopologyChange::Up).is_err());
    assert!(carrier.apply(0, Some(2), TopologyChange::Up).is_err());
}

fn scheduled(at_ms: u64, change: TopologyChange) -> Topology {
    let action = Action::Net { net: 0, from: None, change };
    let event = Event { at: Duration::from_millis(at_ms), after: None, object: "net".to_owned(), line: 0, action };
    Topology { events: vec![event], ..net(NetKind::Link, 2, &leg(0)) }
}

#[test]
fn schedule_starts_on_begin() {
    let (carrier, hosts) = start(&scheduled(0, TopologyChange::Delay(Duration::from_millis(30))));
    hosts[0].send(&unicast(0, 1, 100));
    hosts[1].receive();
    let begun = carrier.begin().unwrap().time;
    hosts[0].send(&unicast(0, 1, 100));
    hosts[1].receive();
    assert!(carrier.now() >= begun + Duration::from_millis(30));
}

#[test]
fn schedule_runs_without_traffic() {
    let (carrier, hosts) = start(&scheduled(20, TopologyChange::Down));
    let begun = carrier.begin().unwrap().time;
    until("the time has come", || carrier.now() > begun + Duration::from_millis(20));
    hosts[0].send(&unicast(0, 1, 100));
    until("it is read", || carrier.wires()[0].read == 1);
    assert_eq!(carrier.counters().unwrap()[0].dropped_down, 1);
}

#[test]
fn every_frame_is_accounted_for() {
    let mut lossy = leg(1);
    (lossy.loss, lossy.rate) = (0.2, Rate::from_bps(20_000_000));
    lossy.queue = Queue { limit: 10, ..Queue::DEFAULT };
    let (carrier, hosts) = start(&net(NetKind::Lan, 3, &lossy));
    for number in 0..200 {
        hosts[0].send(&unicast(0, 1 + number % 2, 300));
    }
    until("all is read", || carrier.wires()[0].read == 200);
    until("all is delivered", || carrier.counters().unwrap().iter().all(|link| link.in_flight == 0));
    for link in carrier.counters().unwrap() {
        let dropped = link.dropped_queue + link.dropped_loss + link.dropped_down;
        assert_eq!(link.packets_in, link.packets_out + dropped, "{link:?}");
        assert_eq!(link.bytes_in, 300 * link.packets_in);
    }
    let written: u64 = carrier.wires().iter().map(|counts| counts.written).sum();
    assert_eq!(written, carrier.lateness().packets());
    let received = [1, 2].map(|host: usize| hosts[host].waiting() as u64);
    assert_eq!(received.iter().sum::<u64>(), written);
}

#[test]
fn unread_host_overruns_others_continue() {
    let (carrier, hosts) = start(&net(NetKind::Lan, 3, &leg(0)));
    for _ in 0..2_000 {
        hosts[0].send(&unicast(0, 1, 1_000));
    }
    until("all is read", || carrier.wires()[0].read == 2_000);
    hosts[0].send(&unicast(0, 2, 1_000));
    hosts[2].receive();
    let counts = carrier.wires()[1];
    assert!(counts.refused > 0);
    assert_eq!(counts.written + counts.refused, 2_000);
    assert_eq!(carrier.overruns(), counts.refused);
    assert_eq!(hosts[1].waiting() as u64, counts.written);
}

#[test]
fn lost_host_leaves_others_running() {
    let (carrier, mut hosts) = start(&net(NetKind::Lan, 3, &leg(0)));
    drop(hosts.remove(1));
    let [first, last] = &hosts[..] else { panic!("two are left") };
    first.send(&unicast(0, 1, 100));
    first.send(&unicast(0, 2, 100));
    assert_eq!(last.receive(), unicast(0, 2, 100));
    assert_eq!(carrier.wires()[1].undeliverable, 1);
    assert_eq!(carrier.overruns(), 0);
}

#[test]
fn end_of_file_closes_wire() {
    let topology = net(NetKind::Link, 2, &leg(0));
    let (network, wiring) = wiring::build(&topology, 7);
    let (first, host) = wire(&wiring, 0);
    let (mut second, _) = wire(&wiring, 1);
    let (inner, outer) = std::os::unix::net::UnixStream::pair().unwrap();
    second.fd = outer.into();
    let carrier = Carrier::start(network, wiring, vec![first, second], false).unwrap();
    drop(inner);
    until("it is given up", || carrier.wires()[1].broken);
    host.send(&unicast(0, 1, 100));
    until("it is counted", || carrier.wires()[1].undeliverable == 1);
    assert!(!carrier.wires()[0].broken);
}

#[test]
fn stop_drains_frames_within_time() {
    for (drain, arrives) in [(PATIENCE, 1), (Duration::ZERO, 0)] {
        let (carrier, hosts) = start(&net(NetKind::Link, 2, &leg(20)));
        hosts[0].send(&unicast(0, 1, 100));
        until("it is read", || carrier.wires()[0].read == 1);
        carrier.stop(drain).unwrap();
        assert_eq!(hosts[1].waiting(), arrives);
        let closed = hosts[1].0.send(&[0; 60]).unwrap_err();
        assert_eq!(closed.kind(), io::ErrorKind::ConnectionRefused);
    }
}

/// Longer than the frames are under way.
const STANDSTILL: Duration = Duration::from_millis(500);

#[test]
fn stop_ends_at_drain_deadline() {
    let (mut carrier, hosts) = start(&net(NetKind::Link, 2, &leg(100)));
    for _ in 0..1_000 {
        hosts[0].send(&unicast(0, 1, 100));
    }
    until("all is read", || carrier.wires()[0].read == 1_000);
    // The thread checks again when all is due, and must end then.
    carrier.command(CarrierCommand::Call(Box::new(|_, _| std::thread::sleep(STANDSTILL)))).unwrap();
    carrier.end(Duration::ZERO).unwrap();
    let counts = carrier.wires()[1];
    assert!(counts.written + counts.refused < 500, "{counts:?}");
}

#[test]
fn what_ended_it_is_told() {
    let (carrier, _hosts) = start(&net(NetKind::Link, 2, &leg(1)));
    assert!(carrier.call(|_, _| panic!("on purpose")).is_err());
    until("it has ended", || carrier.counters().is_err());
    let error = carrier.counters().unwrap_err().to_string();
    assert!(error.contains("on purpose"), "{error}");
}

#[test]
fn begin_reports_time_and_counters() {
    let (carrier, hosts) = start(&net(NetKind::Link, 2, &leg(1)));
    hosts[0].send(&unicast(0, 1, 100));
    until("it is read", || carrier.wires()[0].read == 1);
    let before = Instant::now();
    let begun = carrier.begin().unwrap();
    hosts[0].send(&unicast(0, 1, 100));
    until("it is read", || carrier.wires()[0].read == 2);
    assert!(before <= begun.at && begun.at <= Instant::now());
    assert_eq!((begun.links[0].packets_in, carrier.counters().unwrap()[0].packets_in), (1, 2));
}

#[test]
fn second_begin_is_refused() {
    let (carrier, _hosts) = start(&scheduled(60_000, TopologyChange::Down));
    carrier.begin().unwrap();
    assert!(carrier.begin().unwrap_err().to_string().contains("has begun"));
}

#[test]
fn duplicate_address_on_net_is_refused() {
    let topology = net(NetKind::Lan, 2, &leg(0));
    let (network, wiring) = wiring::build(&topology, 7);
    let (first, _) = wire(&wiring, 0);
    let (mut second, _) = wire(&wiring, 1);
    second.address = first.address;
    let error = Carrier::start(network, wiring, vec![first, second], false).unwrap_err();
    assert!(error.to_string().contains("10.1.0.2"), "{error}");
}

#[test]
fn counters_conserve_frames_in_flight() {
    let (carrier, hosts) = start(&net(NetKind::Link, 2, &leg(30_000)));
    for _ in 0..20 {
        hosts[0].send(&unicast(0, 1, 100));
    }
    until("all is read", || carrier.wires()[0].read == 20);
    let link = &carrier.counters().unwrap()[0];
    assert_eq!((link.packets_in, link.packets_out, link.in_flight), (20, 0, 20));
    let conserves = carrier.call(|core, _now| {
        let pipe = core.network.to_net(core.wiring.port(0, 0)?)?;
        Some(core.network.counters(pipe).total().conserves())
    });
    assert_eq!(conserves.unwrap(), Some(true));
}
