use std::collections::BTreeMap;
use std::net::IpAddr;

use proptest::prelude::*;

use super::group::GossipGroup;
use super::group::GossipPacket;
use super::group::MAX_KNOWN;
use super::group::MemberChange;
use super::load::LOAD_PAUSE;
use super::*;
use crate::hub::testing::*;

const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 9));

fn group(number: u8, epoch: u32, tier: u8) -> GossipGroup {
    GossipGroup::new(node(number), epoch, tier, &[address(number)], u64::from(number))
}

/// Some groups that hear one another at once, unless they are cut off.
struct Groups {
    all: BTreeMap<NodeId, GossipGroup>,
    now: Time,
    news: Vec<(NodeId, MemberChange)>,
}

impl Groups {
    fn new(numbers: impl Iterator<Item = u8>) -> Self {
        let all = numbers.map(|number| (node(number), group(number, 1, 0))).collect();
        Self { all, now: Time::from_nanos(1), news: Vec::new() }
    }

    fn announce(&mut self, from: u8, to: u8) {
        let now = self.now;
        self.get(from).announce(now, node(to));
        self.pass();
    }

    fn get(&mut self, number: u8) -> &mut GossipGroup {
        self.all.get_mut(&node(number)).unwrap()
    }

    /// Carries what is said until nobody says any more.
    fn pass(&mut self) {
        while let Some((from, GossipPacket { to, message, .. })) =
            self.all.iter_mut().find_map(|(id, group)| Some((*id, group.poll_packet()?)))
        {
            assert!(message.len() <= MAX_GOSSIP_BYTES);
            if let Some(group) = self.all.get_mut(&to) {
                assert!(group.handle_gossip_packet(self.now, from, Some(HERE), &message));
            }
        }
        for (id, group) in &mut self.all {
            self.news.extend(std::iter::from_fn(|| group.poll_news()).map(|news| (*id, news)));
        }
    }

    fn wait(&mut self, span: Duration) {
        let until = self.now + span;
        while let Some(due) = self.all.values().filter_map(GossipGroup::next_due).min().filter(|due| *due <= until) {
            self.now = self.now.max(due);
            let now = self.now;
            self.all.values_mut().for_each(|group| group.on_timeout(now));
            self.pass();
        }
        self.now = until;
    }
}

#[test]
fn another_tier_is_another_group() {
    let (mut low, mut high) = (group(1, 1, 0), group(2, 1, 1));
    let now = Time::from_nanos(1);
    low.announce(now, node(2));
    let GossipPacket { to, message, .. } = low.poll_packet().unwrap();
    assert_eq!(to, node(2));
    assert!(!high.handle_gossip_packet(now, node(1), Some(HERE), &message));
    assert_eq!((high.len(), high.poll_packet()), (0, None));
}

#[test]
fn local_addresses_stay_on_their_host() {
    let any = Address { hosts: vec!["0.0.0.0".parse().unwrap()], ..address(1) };
    let loopback = Address { hosts: vec!["127.0.0.1".parse().unwrap()], ..address(1) };
    let now = Time::from_nanos(1);
    for (seen, expected) in [
        (HERE, vec![Address { hosts: vec![HERE], ..address(1) }]),
        ("127.0.0.1".parse().unwrap(), vec![loopback.clone(), loopback.clone()]),
    ] {
        let mut speaker = GossipGroup::new(node(1), 1, 0, &[any.clone(), loopback.clone()], 1);
        let mut hearer = group(2, 1, 0);
        speaker.announce(now, node(2));
        let message = speaker.poll_packet().unwrap().message;
        assert!(hearer.handle_gossip_packet(now, node(1), Some(seen), &message));
        assert_eq!(hearer.members().next().unwrap().1, expected);
    }
}

#[test]
fn a_liar_cannot_fill_the_memory() {
    let mut victim = group(1, 1, 0);
    let now = Time::from_nanos(1);
    for number in 0..2_000u32 {
        let mut id = [7; 16];
        id[..4].copy_from_slice(&number.to_be_bytes());
        let mut stranger = GossipGroup::new(NodeId::from_bytes(id), 1, 0, &[], 1);
        stranger.announce(now, node(1));
        let message = stranger.poll_packet().unwrap().message;
        victim.handle_gossip_packet(now, NodeId::from_bytes(id), Some(HERE), &message);
        while victim.poll_packet().is_some() || victim.poll_news().is_some() {}
    }
    assert!(victim.len() <= MAX_KNOWN);
}

proptest! {
    /// Whatever a hub says, it is understood or refused.
    #[test]
    fn nonsense_is_refused(noise in prop::collection::vec(any::<u8>(), 0..200), at in 0..200usize, byte: u8) {
        let mut groups = Groups::new(1..=4);
        (2..=4).for_each(|number| groups.announce(number, 1));
        groups.wait(Duration::from_secs(6));
        let now = groups.now;
        groups.get(1).handle_gossip_packet(now, node(2), Some(HERE), &noise);
        // And what is nearly right.
        groups.get(3).announce(now, node(1));
        let mut message = groups.get(3).poll_packet().unwrap().message.to_vec();
        let length = message.len();
        message[at % length] = byte;
        message.extend(&noise);
        groups.get(1).handle_gossip_packet(now, node(3), Some(HERE), &message);
        while groups.get(1).poll_packet().is_some() || groups.get(1).poll_news().is_some() {}
        groups.wait(Duration::from_secs(30));
        prop_assert!(groups.get(1).len() <= MAX_KNOWN);
    }
}

/// A hub, and another one of the same group.
fn met() -> (Bench, ConnectionId, GossipGroup) {
    met_at(Duration::from_millis(20))
}

pub(crate) fn met_at(rtt: Duration) -> (Bench, ConnectionId, GossipGroup) {
    let mut bench = Bench::configured(|config| config.addresses = vec![address(200)]);
    bench.rtt = rtt;
    let connection = bench.up(100, Role::SuperNode);
    let other = announce(&mut bench, connection, 100);
    (bench, connection, other)
}

/// Another hub announces itself and hears the answer.
pub(crate) fn announce(bench: &mut Bench, connection: ConnectionId, number: u8) -> GossipGroup {
    announce_at(bench, connection, number, &[address(number)])
}

pub(crate) fn announce_at(
    bench: &mut Bench,
    connection: ConnectionId,
    number: u8,
    addresses: &[Address],
) -> GossipGroup {
    let mut other = GossipGroup::new(node(number), 1, 0, addresses, u64::from(number));
    other.announce(bench.now, node(200));
    let message = other.poll_packet().unwrap().message;
    for (_, message) in bench.say(connection, HierarchyMessage::Gossip(message)) {
        if let Message::Hierarchy(HierarchyMessage::Gossip(message)) = message {
            other.handle_gossip_packet(bench.now, node(200), Some(HERE), &message);
        }
    }
    other
}

#[test]
fn nearest_siblings_first_with_spread_load() {
    let (mut bench, ..) = met_at(Duration::from_millis(80));
    for (number, rtt) in [(101, 24), (102, 20), (103, 22)] {
        bench.rtt = Duration::from_millis(rtt);
        let connection = bench.up(number, Role::SuperNode);
        announce(&mut bench, connection, number);
    }
    let mut firsts = std::collections::BTreeSet::new();
    for number in 1..=3 {
        let node = bench.up(number, Role::Node);
        let lease = bench.say(node, RegistrationMessage::Publish(record(number)));
        let siblings = lease.into_iter().find_map(|(_, message)| match message {
            Message::Registration(RegistrationMessage::Lease { siblings, .. }) => siblings,
            _ => None,
        });
        let siblings = siblings.unwrap();
        assert_eq!((siblings.len(), siblings.last()), (4, Some(&address(100))));
        firsts.insert(siblings[0].clone());
    }
    assert_eq!(firsts.len(), 3, "{firsts:?}");
}

#[test]
fn members_exchange_loads_and_reach_nodes() {
    let (mut bench, connection, other) = met();
    assert_eq!(other.members().next().map(|(id, ..)| id), Some(node(200)));
    assert!(bench.events.contains(&HubEvent::MemberUp { node: node(100), addresses: vec![address(100)] }));
    let lease = {
        let node = bench.up(1, Role::Node);
        bench.say(node, RegistrationMessage::Publish(record(1)))
    };
    let siblings = lease.iter().find_map(|(_, message)| match message {
        Message::Registration(RegistrationMessage::Lease { siblings, .. }) => Some(siblings.clone()),
        _ => None,
    });
    assert_eq!(siblings, Some(Some(vec![address(100)])));
    assert!(
        bench
            .wait(LOAD_PAUSE)
            .contains(&(connection, Message::Hierarchy(HierarchyMessage::HubLoad { leases: 1, residual_kbps: None })))
            || lease.contains(&(
                connection,
                Message::Hierarchy(HierarchyMessage::HubLoad { leases: 1, residual_kbps: None })
            ))
    );
    bench.say(connection, HierarchyMessage::HubLoad { leases: 7, residual_kbps: None });
    let status = &bench.hub.members()[0];
    assert_eq!((status.leases, status.connected, status.suspected), (Some(7), true, false));
}

#[test]
fn lost_member_redialed_until_declared_dead() {
    let (mut bench, connection, _) = met();
    bench.down(connection);
    bench.wait(Duration::from_secs(2));
    assert_eq!(bench.dialled.last().map(|(_, addresses)| addresses.clone()), Some(vec![address(100)]));
    let (dial, _) = bench.dialled.pop().unwrap();
    bench.input(Input::DialFailed { dial, reason: "nobody there".to_owned(), refused: false });
    bench.wait(Duration::from_secs(120));
    assert!(bench.events.contains(&HubEvent::MemberDown { node: node(100) }));
    assert!(bench.hub.members().is_empty());
}

#[test]
fn a_server_is_alone() {
    let mut bench = Bench::server(|_| {});
    bench.provider(1);
    assert!(bench.hub.members().is_empty() && bench.dialled.is_empty());
}

/// Nobody is where a liar says, and each host is sent kilobytes for a word of some bytes.
#[test]
fn invented_members_are_dialled_seldom() {
    let (mut bench, connection, mut liar) = met();
    let hosts: Vec<IpAddr> = (1..5).map(|host| IpAddr::from([10, 66, 0, host])).collect();
    for number in 1..=200 {
        let mut id = [7; 16];
        id[0] = number;
        let id = NodeId::from_bytes(id);
        let at = Address { scheme: Scheme::Quic, port: 7_701, hosts: hosts.clone() };
        let mut nobody = GossipGroup::new(id, 1, 0, &[at], u64::from(number));
        nobody.announce(bench.now, node(100));
        assert!(liar.handle_gossip_packet(bench.now, id, Some(HERE), &nobody.poll_packet().unwrap().message));
    }
    let mut handshakes = 0;
    for _ in 0..120 {
        let sent = bench.wait(Duration::from_secs(1));
        for (_, message) in sent.iter().filter(|(to, _)| *to == connection) {
            if let Message::Hierarchy(HierarchyMessage::Gossip(message)) = message {
                liar.handle_gossip_packet(bench.now, node(200), Some(HERE), message);
            }
        }
        liar.on_timeout(bench.now);
        bench.say(connection, ProbeMessage::Ping(0));
        while let Some(word) = liar.poll_packet() {
            if word.to == node(200) {
                bench.say(connection, HierarchyMessage::Gossip(word.message));
            }
        }
        for (dial, addresses) in std::mem::take(&mut bench.dialled) {
            handshakes += addresses.iter().map(|address| address.hosts.len()).sum::<usize>();
            let reason = "no answer".to_owned();
            bench.input(Input::DialFailed { dial, reason, refused: false });
        }
    }
    assert!(bench.hub.members().len() > 5, "{}", bench.hub.members().len());
    // Some 14 KB each, at 4 KB a second.
    assert!((10..80).contains(&handshakes), "{handshakes} in two minutes");
}

#[test]
fn renewal_tells_of_a_standby() {
    let mut bench = Bench::new();
    let node_connection = bench.provider(1);
    let connection = bench.up(100, Role::SuperNode);
    announce(&mut bench, connection, 100);
    let renew = RegistrationMessage::Renew(Renew { version: version(1), capacity: None });
    let told = |sent: &[(ConnectionId, Message)]| match sent {
        [(_, Message::Registration(RegistrationMessage::Lease { siblings, .. }))] => {
            siblings.clone().unwrap_or_default()
        }
        other => panic!("{other:?}"),
    };
    assert_eq!(told(&bench.say(node_connection, renew.clone())), [address(100)]);
    bench.say(node_connection, RegistrationMessage::SetStandby { hub: node(100), addresses: None });
    assert!(told(&bench.say(node_connection, renew.clone())).is_empty());
    // A hub that is gone stands by for nobody.
    bench.down(connection);
    let other = bench.up(101, Role::SuperNode);
    announce(&mut bench, other, 101);
    assert!(!told(&bench.say(node_connection, renew.clone())).is_empty());
}
