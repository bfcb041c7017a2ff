//! Service records of a small name server.

use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex as StdMutex};

use domain::base::iana::Rcode;
use domain::base::{Message, MessageBuilder, Question, ToName as _, Ttl};
use domain::rdata::{A, Aaaa};
use domain::resolv::stub::conf::{ResolvConf, ServerConf, Transport};
use roost_wire::Scheme;
use tokio::net::UdpSocket;

use super::*;
use crate::clock::testing::SettableClock;
use crate::resolve::EndpointResolver;

pub(super) fn resolver_at(server: SocketAddr) -> StubResolver {
    let mut conf = ResolvConf::new();
    conf.servers.push(ServerConf::new(server, Transport::UdpTcp));
    conf.finalize();
    StubResolver::from_conf(conf)
}

/// A service record of the zone: priority, weight, port and target.
type Row = (u16, u16, u16, &'static str);

/// The records that a name server tells, and the questions that it got for service records.
#[derive(Debug, Default)]
struct Zone {
    services: Vec<Row>,
    hosts: Vec<(&'static str, IpAddr)>,
    ttl: u32,
    asked: usize,
    /// The host about which the server says nothing.
    silent: Option<&'static str>,
}

impl Zone {
    /// The answer to a question, as its bytes; `None` for silence.
    fn answer(&mut self, question: &[u8]) -> Option<Vec<u8>> {
        let message = Message::from_octets(question).unwrap();
        let asked: Question<_> = message.sole_question().unwrap();
        let (name, ttl): (Name<Vec<u8>>, _) = (asked.qname().to_name(), Ttl::from_secs(self.ttl));
        if self.silent.is_some_and(|host| name == host.parse::<Name<Vec<u8>>>().unwrap()) {
            return None;
        }
        let mut answer = MessageBuilder::new_vec().start_answer(&message, Rcode::NOERROR).unwrap();
        if asked.qtype() == Rtype::SRV {
            self.asked += 1;
            for (priority, weight, port, target) in &self.services {
                let target: Name<Vec<u8>> = target.parse().unwrap();
                answer.push((&name, ttl, Srv::new(*priority, *weight, *port, target))).unwrap();
            }
        }
        for (_, ip) in self.hosts.iter().filter(|(host, _)| name == host.parse::<Name<Vec<u8>>>().unwrap()) {
            match ip {
                IpAddr::V4(ip) if asked.qtype() == Rtype::A => answer.push((&name, ttl, A::new(*ip))).unwrap(),
                IpAddr::V6(ip) if asked.qtype() == Rtype::AAAA => answer.push((&name, ttl, Aaaa::new(*ip))).unwrap(),
                _ => {}
            }
        }
        Some(answer.finish())
    }
}

async fn serve(zone: Zone) -> (SocketAddr, Arc<StdMutex<Zone>>) {
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let (at, zone) = (socket.local_addr().unwrap(), Arc::new(StdMutex::new(zone)));
    let told = Arc::clone(&zone);
    tokio::spawn(async move {
        let mut question = [0; 1500];
        loop {
            let (length, from) = socket.recv_from(&mut question).await.unwrap();
            let answer = told.lock().unwrap().answer(&question[..length]);
            if let Some(answer) = answer {
                socket.send_to(&answer, from).await.unwrap();
            }
        }
    });
    (at, zone)
}

fn lookup(server: SocketAddr) -> SrvLookup {
    let name = SrvName { scheme: Scheme::Udp, name: "_roost._udp.example.org".to_owned() };
    SrvLookup::new(name, Dns::At(server))
}

async fn targets(lookup: &SrvLookup) -> Vec<String> {
    let mut all = Vec::new();
    for place in 0..lookup.targets().await {
        let addresses = lookup.target(place).await.unwrap_or_default();
        all.push(addresses.iter().map(ToString::to_string).collect::<Vec<_>>().join(" "));
    }
    all
}

const A_HOST: (&str, IpAddr) = ("a.example.org", IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1)));
const B_HOST: (&str, IpAddr) = ("b.example.org", IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 2)));

#[tokio::test]
async fn priority_orders_targets() {
    let services = vec![(20, 0, 7701, "b.example.org"), (10, 0, 7700, "a.example.org"), (30, 0, 1, "gone.example.org")];
    let a_v6 = (A_HOST.0, "2001:db8::1".parse().unwrap());
    let (server, _) = serve(Zone { services, hosts: vec![A_HOST, B_HOST, a_v6], ttl: 60, ..Zone::default() }).await;
    let lookup = lookup(server);
    let told = targets(&lookup).await;
    let mut first: Vec<_> = told[0].split(' ').collect();
    first.sort_unstable();
    assert_eq!(first, ["udp://192.0.2.1:7700", "udp://[2001:db8::1]:7700"]);
    assert_eq!(told[1..], ["udp://192.0.2.2:7701", ""]);
    let error = lookup.target(2).await.unwrap_err().to_string();
    assert!(error.contains("srv://_roost._udp.example.org") && error.contains("no address"), "{error}");
    assert!(lookup.target(3).await.unwrap_err().to_string().contains("only 3 targets"));
}

#[tokio::test]
async fn answer_holds_for_its_ttl() {
    let services = vec![(10, 0, 7700, "a.example.org")];
    let (server, zone) = serve(Zone { services, hosts: vec![A_HOST, B_HOST], ttl: 60, ..Zone::default() }).await;
    let clock = SettableClock::default();
    let lookup = SrvLookup { clock: Box::new(clock.clone()), ..lookup(server) };
    assert_eq!(targets(&lookup).await, ["udp://192.0.2.1:7700"]);
    zone.lock().unwrap().services = vec![(10, 0, 7702, "b.example.org")];
    clock.pass(Duration::from_secs(59));
    assert_eq!(targets(&lookup).await, ["udp://192.0.2.1:7700"]);
    assert_eq!(zone.lock().unwrap().asked, 1);
    clock.pass(Duration::from_secs(1));
    assert_eq!(targets(&lookup).await, ["udp://192.0.2.2:7702"]);
    assert_eq!(zone.lock().unwrap().asked, 2);
}

#[tokio::test]
async fn service_may_be_absent() {
    for services in [vec![], vec![(0, 0, 0, ".")]] {
        let (server, _) = serve(Zone { services, ..Zone::default() }).await;
        let lookup = lookup(server);
        assert_eq!(lookup.targets().await, 0);
        assert!(lookup.target(0).await.unwrap_err().to_string().contains("names no target"));
    }
}

#[tokio::test]
async fn silent_target_holds_up_no_other() {
    let services = vec![(10, 0, 7700, A_HOST.0), (20, 0, 7701, B_HOST.0)];
    let zone = Zone { services, hosts: vec![A_HOST, B_HOST], ttl: 60, silent: Some(A_HOST.0), ..Zone::default() };
    let (server, zone) = serve(zone).await;
    let hub = "srv://_roost._udp.example.org".parse().unwrap();
    let (resolver, [hubs]) = EndpointResolver::resolve_with(Dns::At(server), [&[hub]], &[]).await;
    let told: Vec<_> = hubs.iter().map(|hub| hub[0].to_string()).collect();
    assert_eq!(told, ["udp://[100::1]:0", "udp://192.0.2.2:7701"], "the first one has a placeholder");
    resolver.refresh(hubs[0].clone()).await.unwrap_err();
    zone.lock().unwrap().silent = None;
    assert_eq!(resolver.refresh(hubs[0].clone()).await.unwrap()[0].to_string(), "udp://192.0.2.1:7700");
    assert_eq!(zone.lock().unwrap().asked, 1, "its record is not too old");
}

#[tokio::test]
async fn only_hosts_are_dialed() {
    let services =
        vec![(10, 0, 0, B_HOST.0), (20, 0, 1, A_HOST.0), (30, 0, 1, "none.example.org"), (40, 0, 1, "localhost")];
    let nobody = ["0.0.0.0", "224.0.0.1", "255.255.255.255", "127.0.0.1", "::", "::1", "ff02::1"];
    let nobody = nobody.map(|ip| ip.parse().unwrap());
    let hosts = ["a.example.org", "none.example.org"].into_iter().flat_map(|name| nobody.map(|ip| (name, ip)));
    let local = ("localhost", "127.0.0.1".parse().unwrap());
    let hosts = hosts.chain([A_HOST, B_HOST, local]).collect();
    let (server, _) = serve(Zone { services, hosts, ttl: 60, ..Zone::default() }).await;
    let lookup = lookup(server);
    assert_eq!(targets(&lookup).await, ["udp://192.0.2.1:1", "", "udp://127.0.0.1:1"]);
    let error = lookup.target(1).await.unwrap_err().to_string();
    assert!(error.contains("its target none.example.org: no address that can be dialed"), "{error}");
}

#[test]
fn weight_is_a_share() {
    let target = |priority, weight, port| Target { priority, weight, port, host: Name::root_vec() };
    let mut firsts = [0; 4];
    for seed in 0..2_000 {
        let targets = vec![target(5, 1, 3), target(1, 60, 0), target(1, 20, 1), target(1, 0, 2)];
        let ordered = order(targets, &mut SplitMix64::new(seed));
        assert_eq!((ordered.len(), ordered[3].port), (4, 3), "the lower priority is last");
        firsts[usize::from(ordered[0].port)] += 1;
    }
    let [sixty, twenty, none, lower] = firsts;
    assert!((1_350..=1_650).contains(&sixty) && (350..=650).contains(&twenty), "{firsts:?}");
    assert!((1..=80).contains(&none) && lower == 0, "{firsts:?}");
}
