//! The directory against a list that is read from end to end.

use proptest::prelude::*;
use roost_wire::{Address, Area, Cell, Offer};

use super::provider_health::ProviderHealth;
use super::*;

const LEASE: Duration = Duration::from_secs(60);

/// The records that the directory should hold, and the time since each was heard.
#[derive(Default)]
struct Model {
    held: Vec<(Record, Time, bool)>,
    standings: BTreeMap<NodeId, ProviderHealth>,
    now: Time,
}

#[derive(Clone, Debug)]
enum DirectoryOperation {
    Publish(u8, u32, Cell, u8, u16),
    Renew(u8, u32),
    /// At its home, so many seconds ago.
    Heard(u8, u64),
    Suspend(u8),
    Withdraw(u8, u32),
    Claim(u8, u32),
    Deduct(u8),
    Fail(u8),
    Succeed(u8),
    Answer(u8, u64),
    Wait(u64),
    Find(&'static str, &'static str, Area, usize, SearchPurpose),
}

impl Model {
    fn get(&mut self, node: NodeId) -> Option<&mut (Record, Time, bool)> {
        self.held.iter_mut().find(|(record, ..)| record.node == node)
    }

    fn publish(&mut self, now: Time, record: Record) {
        match self.get(record.node) {
            Some(held) if record.version < held.0.version => {}
            // The node's own word stands against what another hub told of the same version.
            Some(held) if record.version == held.0.version && says(&held.0, &record) => (held.1, held.2) = (now, false),
            Some(held) => *held = (record, now, false),
            None => self.held.push((record, now, false)),
        }
    }

    /// Notes something of a provider that is held.
    fn update_health(&mut self, number: u8, what: impl Fn(&mut ProviderHealth)) {
        if self.get(node(number)).is_some() {
            what(self.standings.entry(node(number)).or_default());
        }
    }

    /// Forgets what was seen of those who are not held any more.
    fn forget(&mut self) {
        let held: Vec<NodeId> = self.held.iter().map(|(record, ..)| record.node).collect();
        self.standings.retain(|node, _| held.contains(node));
    }

    fn find(&self, query: &DirectoryQuery) -> Vec<NodeId> {
        let mut ranks: Vec<Rank> = self
            .held
            .iter()
            .filter(|(record, _, suspended)| {
                query.means(&record.services)
                    && query.area.contains(record.cell)
                    && query.except != Some(record.node)
                    && (query.aim == SearchPurpose::Serve || !suspended)
            })
            .map(|(record, _, suspended)| {
                let standing = self.standings.get(&record.node).copied().unwrap_or_default();
                let (center, capacity) = (query.center(), record.capacity);
                let rank =
                    Rank::new(record.services.flow_kind(query.service), center, record.cell, capacity, record.node);
                if *suspended { rank.suspended() } else { rank }.seen(&standing, self.now)
            })
            .collect();
        match query.aim {
            SearchPurpose::Serve => ranks.sort_unstable_by_key(Rank::by_availability),
            SearchPurpose::List => ranks.sort_unstable(),
        }
        ranks.iter().take(query.count).map(Rank::node).collect()
    }
}

/// Both say the same, but for what the node has left.
fn says(held: &Record, record: &Record) -> bool {
    (held.cell, &held.services, &held.addresses) == (record.cell, &record.services, &record.addresses)
}

fn node(number: u8) -> NodeId {
    NodeId::from_bytes([number; 16])
}

fn version(sequence: u32) -> Version {
    Version { epoch: 1, sequence }
}

/// A bit for each: the known services, and some with names.
fn offers(bits: u8) -> ServiceSet {
    let infrared = || "sensor=ir".parse().unwrap();
    let named = |text: &str| Offer::new(text.parse().unwrap());
    let all = Service::ALL.map(Offer::new).into_iter().chain([
        Offer { metadata: infrared(), ..named("video#bow") },
        Offer { kbps: Some(9_000), ..named("acme/lidar:stream") },
        Offer { metadata: infrared(), ..named("acme/lidar#mast:object") },
    ]);
    let meant = all.enumerate().filter(|(bit, _)| bits >> bit & 1 == 1);
    ServiceSet::from_offers(meant.map(|(_, offer)| offer)).unwrap()
}

fn record(number: u8, sequence: u32, cell: Cell, services: u8, streams: u16) -> Record {
    Record {
        node: node(number),
        version: version(sequence),
        cell,
        services: offers(services),
        capacity: Capacity { streams, uplink_kbps: 5_000 },
        addresses: Vec::new(),
        position: None,
        orbit: None,
    }
}

fn cell() -> impl Strategy<Value = Cell> {
    let far = prop::sample::select(vec![-1_000_000, -70_000, 70_000, 1_000_000]);
    let axis = prop_oneof![5 => -20..20i32, 1 => far];
    (axis.clone(), axis).prop_map(|(x, y)| Cell::new(x, y))
}

fn area() -> impl Strategy<Value = Area> {
    prop_oneof![
        cell().prop_map(Area::Exact),
        cell().prop_map(Area::Nearest),
        (cell(), prop_oneof![0..60u32, Just(4_000_000)]).prop_map(|(center, radius)| Area::Radius { center, radius }),
        (cell(), cell()).prop_map(|(a, b)| Area::rectangle(a, b)),
        Just(Area::Anywhere),
    ]
}

fn step() -> impl Strategy<Value = DirectoryOperation> {
    let who = || 0..24u8;
    let sequence = || 1..6u32;
    let texts =
        ["video", "track", "image", "sensor", "video#bow", "acme/lidar", "acme/lidar:stream", "acme/lidar#mast"];
    let service = prop::sample::select(texts.to_vec());
    let wanted = || prop_oneof![3 => Just(""), 1 => Just("sensor=ir")];
    prop_oneof![
        6 => (who(), sequence(), cell(), 0..128u8, 0..3u16).prop_map(|(n, v, c, s, f)| DirectoryOperation::Publish(n, v, c, s, f)),
        1 => (who(), sequence()).prop_map(|(n, v)| DirectoryOperation::Renew(n, v)),
        2 => (who(), prop_oneof![Just(0), 0..70_u64]).prop_map(|(who, silent_s)| DirectoryOperation::Heard(who, silent_s)),
        1 => who().prop_map(DirectoryOperation::Suspend),
        1 => (who(), sequence()).prop_map(|(n, v)| DirectoryOperation::Withdraw(n, v)),
        1 => (who(), sequence()).prop_map(|(n, v)| DirectoryOperation::Claim(n, v)),
        1 => who().prop_map(DirectoryOperation::Deduct),
        1 => who().prop_map(DirectoryOperation::Fail),
        1 => who().prop_map(DirectoryOperation::Succeed),
        1 => (who(), 1..2_000u64).prop_map(|(n, ms)| DirectoryOperation::Answer(n, ms)),
        1 => (1..40u64).prop_map(DirectoryOperation::Wait),
        6 => (service, wanted(), area(), 0..9usize, prop_oneof![Just(SearchPurpose::List), Just(SearchPurpose::Serve)])
            .prop_map(|(s, f, a, k, aim)| DirectoryOperation::Find(s, f, a, k, aim)),
    ]
}

proptest! {
    #[test]
    fn it_answers_like_a_list(steps in prop::collection::vec(step(), 1..120)) {
        let mut directory = Directory::new(100, LEASE);
        let mut model = Model::default();
        let mut now = Time::ZERO;
        for step in steps {
            match step {
                DirectoryOperation::Publish(number, sequence, cell, services, streams) => {
                    let record = record(number, sequence, cell, services, streams);
                    directory.publish(now, &record);
                    model.publish(now, record);
                }
                DirectoryOperation::Renew(number, sequence) => {
                    let held = model.get(node(number)).filter(|(record, ..)| record.version == version(sequence));
                    let renewed = directory.renew(now, node(number), version(sequence), Some(Capacity { streams: 2, uplink_kbps: 9 }));
                    prop_assert_eq!(renewed, held.is_some());
                    if let Some(held) = held {
                        held.0.capacity = Capacity { streams: 2, uplink_kbps: 9 };
                        (held.1, held.2) = (now, false);
                    }
                }
                DirectoryOperation::Heard(number, silent_s) => {
                    let silence = Duration::from_secs(silent_s).min(now.since(Time::ZERO)).min(LEASE);
                    directory.extend_lease(now + (LEASE - silence), node(number));
                    let heard = Time::ZERO + now.since(Time::ZERO + silence);
                    if let Some(held) = model.get(node(number)).filter(|held| heard >= held.1) {
                        (held.1, held.2) = (heard, false);
                    }
                }
                DirectoryOperation::Suspend(number) => {
                    directory.suspend(node(number));
                    if let Some(held) = model.get(node(number)) {
                        held.2 = true;
                    }
                }
                DirectoryOperation::Withdraw(number, sequence) => {
                    directory.withdraw(node(number), version(sequence));
                    model.held.retain(|(record, ..)| record.node != node(number) || record.version > version(sequence));
                }
                DirectoryOperation::Claim(number, sequence) => {
                    directory.claim(node(number), version(sequence));
                    model.held.retain(|(record, ..)| record.node != node(number) || record.version >= version(sequence));
                }
                DirectoryOperation::Deduct(number) => {
                    directory.deduct(node(number), Service::Track);
                    if let Some(held) = model.get(node(number)) {
                        let left = &mut held.0.capacity;
                        left.streams = left.streams.saturating_sub(1);
                        left.uplink_kbps = left.uplink_kbps.saturating_sub(40);
                    }
                }
                DirectoryOperation::Fail(number) => {
                    directory.record_failure(node(number));
                    model.update_health(number, |standing| standing.record_failure(now));
                }
                DirectoryOperation::Succeed(number) => {
                    directory.record_success(node(number));
                    model.update_health(number, ProviderHealth::record_success);
                }
                DirectoryOperation::Answer(number, millis) => {
                    let after = Duration::from_millis(millis);
                    directory.record_response_time(node(number), after);
                    model.update_health(number, |standing| standing.record_response_time(after));
                }
                DirectoryOperation::Wait(seconds) => {
                    now = now + Duration::from_secs(seconds);
                    directory.tick(now);
                    model.now = now;
                    while directory.expire(now).is_some() {}
                    model.held.retain(|(_, heard, _)| now.since(*heard) < LEASE);
                }
                DirectoryOperation::Find(service, filter, area, count, aim) => {
                    let query = DirectoryQuery {
                        origin: Cell::new(3, 3),
                        except: Some(node(0)),
                        filter: filter.parse().unwrap(),
                        ..DirectoryQuery::new(service.parse().unwrap(), area, aim, count)
                    };
                    let mut hits = Vec::new();
                    directory.find(&query, &mut hits);
                    let found: Vec<NodeId> = hits.iter().map(|hit| directory.hit(*hit).node()).collect();
                    prop_assert_eq!(found, model.find(&query));
                }
            }
            model.forget();
            prop_assert_eq!(directory.nodes(), model.held.len());
            let entries: usize = model.held.iter().map(|(record, ..)| record.services.codes().count()).sum();
            prop_assert_eq!(directory.entries(), entries);
            prop_assert!(directory.next_expiry().is_some() == (directory.nodes() > 0));
        }
    }
}

#[test]
fn sparse_search_falls_back_to_scan() {
    let mut directory = Directory::new(10_000, LEASE);
    for number in 0..2_000u32 {
        let mut one = record(0, 1, Cell::new(500_000, number as i32 * 8), 1, 1);
        one.node = NodeId::from_bytes(u128::from(number).to_be_bytes());
        directory.publish(Time::ZERO, &one);
    }
    let area = Area::Nearest(Cell::new(-500_000, 1_003 * 8));
    let query = DirectoryQuery::new(Service::Video, area, SearchPurpose::List, 3);
    let mut hits = Vec::new();
    directory.find(&query, &mut hits);
    let rows: Vec<i32> = hits.iter().map(|hit| directory.hit(*hit).cell().y / 8).collect();
    assert_eq!(rows, [1_003, 1_002, 1_004]);
}

#[test]
fn full_directory_accepts_only_known_nodes() {
    let mut directory = Directory::new(1, LEASE);
    assert_eq!(directory.publish(Time::ZERO, &record(1, 1, Cell::new(0, 0), 1, 1)), PublishOutcome::New);
    assert_eq!(directory.publish(Time::ZERO, &record(2, 1, Cell::new(0, 0), 1, 1)), PublishOutcome::Full);
    let moved = directory.publish(Time::ZERO, &record(1, 2, Cell::new(1, 0), 1, 1));
    assert!(matches!(moved, PublishOutcome::Replaced(place) if place.cell == Cell::new(0, 0)));
    directory.withdraw(node(1), version(2));
    assert_eq!(directory.publish(Time::ZERO, &record(2, 1, Cell::new(0, 0), 1, 1)), PublishOutcome::New);
}

#[test]
fn free_provider_ranks_before_full_ones() {
    let mut directory = Directory::new(100, LEASE);
    let publish = |directory: &mut Directory, number: u8, x, left| {
        let mut one = record(number, 1, Cell::new(x, 0), 1, 4);
        one.capacity = left;
        directory.publish(Time::ZERO, &one);
    };
    for number in 1..20 {
        // Streams enough, but less uplink than a video takes.
        publish(&mut directory, number, 0, Capacity { streams: 4, uplink_kbps: 699 });
    }
    publish(&mut directory, 50, 400, Capacity { streams: 1, uplink_kbps: 700 });
    let find = |service, aim| {
        let mut hits = Vec::new();
        directory.find(&DirectoryQuery::new(service, Area::Nearest(Cell::new(0, 0)), aim, 8), &mut hits);
        hits.iter().map(|hit| (directory.hit(*hit).node(), hit.rank.is_free())).collect::<Vec<_>>()
    };
    let choice = find(Service::Video, SearchPurpose::Serve);
    assert_eq!((choice[0], choice[1].1, choice.len()), ((node(50), true), false, 8));
    assert_eq!(find(Service::Video, SearchPurpose::List)[0], (node(1), false), "a list shows the nearest");
}

#[test]
fn failed_providers_rank_last_temporarily() {
    let mut directory = Directory::new(100, LEASE);
    for (number, x) in [(1, 0), (2, 0), (3, 1)] {
        directory.publish(Time::ZERO, &record(number, 1, Cell::new(x, 0), 4, 4));
    }
    let order = |directory: &Directory| {
        let area = Area::Nearest(Cell::new(0, 0));
        let mut hits = Vec::new();
        directory.find(&DirectoryQuery::new(Service::Image, area, SearchPurpose::Serve, 8), &mut hits);
        hits.iter().map(|hit| directory.hit(*hit).node()).collect::<Vec<_>>()
    };
    directory.record_response_time(node(1), Duration::from_millis(500));
    directory.record_response_time(node(2), Duration::from_millis(20));
    directory.record_response_time(node(3), Duration::from_millis(1));
    assert_eq!(order(&directory), [node(2), node(1), node(3)]);
    directory.record_failure(node(2));
    assert_eq!(order(&directory), [node(1), node(3), node(2)]);
    assert!(directory.get(node(2)).unwrap().is_doubtful());
    directory.tick(Time::ZERO + LONGEST_HOLD);
    assert_eq!(order(&directory), [node(2), node(1), node(3)]);
}

#[test]
fn entry_stays_within_memory_budget() {
    let mut directory = Directory::new(MAX_NODES, LEASE);
    let address = std::net::SocketAddr::from(([10, 0, 0, 1], 7700));
    for number in 0..10_000u32 {
        let mut one = record(0, 1, Cell::new(number as i32 % 100, number as i32 / 100), 1, 4);
        one.node = NodeId::from_bytes(u128::from(number).to_be_bytes());
        one.addresses = vec![Address::single(roost_wire::address::Scheme::Udp, address)];
        directory.publish(Time::ZERO, &one);
    }
    let each = directory.bytes() / directory.entries();
    assert!(each <= 250, "{each} bytes per entry");
}

#[test]
fn adoption_resets_unchanged_since() {
    let mut directory = Directory::new(1, LEASE);
    let held = Version { epoch: 1, sequence: 7 };
    let own = Record { version: held, ..record(1, 7, Cell::new(0, 0), 1, 1) };
    directory.publish(Time::ZERO, &own);
    let adopted = Version { epoch: 2, sequence: 1 };
    assert!(directory.adopt(Time::ZERO, node(1), held, adopted, own.capacity));
    assert_eq!(directory.get(node(1)).unwrap().unchanged_since(), adopted);
}
