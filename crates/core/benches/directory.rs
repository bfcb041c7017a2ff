//! The cost of a lookup: the directory alone, and the hub from message to message.
//!
//! Also prints what an entry takes up, by computation and, on Linux, by the growth of the process. Run with
//! `cargo bench -p roost-core --bench directory`.

use std::hint::black_box;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use roost_core::directory::{Directory, DirectoryQuery, MAX_NODES, SearchPurpose};
use roost_core::hub::{Hub, HubCommand, HubConfig, HubKind};
use roost_core::{Input, Machine, Transmit};
use roost_policy::Policy;
use roost_wire::messages::{Message, RegistrationMessage, Request, RequestMessage, RequestMode, ServiceRequest};
use roost_wire::random::SplitMix64;
use roost_wire::{
    Address, Area, Capacity, Cell, ConnectionId, Labels, NodeId, Nonce, Record, RemoteIdentity, RequestId, Role,
    Scheme, Service, ServiceSet, Time, Version,
};

const LEASE: Duration = Duration::from_secs(60);

/// A kind of area: its name, how it lies at a cell, how many are looked for.
type Case = (&'static str, fn(Cell) -> Area, usize);

/// Side of the square on which `entries` nodes lie about one to ten cells.
fn side(entries: u32) -> u64 {
    (f64::from(entries) * 10.0).sqrt() as u64
}

fn record(number: u32, random: &mut SplitMix64, side: u64) -> Record {
    let mut id = [0; 16];
    id[..8].copy_from_slice(&random.next_u64().to_be_bytes());
    id[8..12].copy_from_slice(&number.to_be_bytes());
    let socket = SocketAddr::from(([10, 0, (number >> 8) as u8, number as u8], 7_700));
    Record {
        node: NodeId::from_bytes(id),
        version: Version { epoch: 1_700_000_000, sequence: 1 },
        cell: Cell::new(random.below(side) as i32, random.below(side) as i32),
        services: ServiceSet::EMPTY.with(Service::Track),
        capacity: Capacity { streams: 4, uplink_kbps: 10_000 },
        addresses: vec![Address::single(Scheme::Udp, socket)],
        position: None,
        orbit: None,
    }
}

/// The name of an own service that the same nodes offer.
const OWN: &str = "acme/track:stream";

fn own() -> Service {
    OWN.parse().unwrap_or_else(|error| panic!("{OWN}: {error}"))
}

/// The records of the same nodes, which offer this service.
fn records_of(service: Service, entries: u32) -> Vec<Record> {
    let services = ServiceSet::EMPTY.with(service);
    records(entries).into_iter().map(|record| Record { services: services.clone(), ..record }).collect()
}

fn records(entries: u32) -> Vec<Record> {
    let mut random = SplitMix64::new(7);
    (0..entries).map(|number| record(number, &mut random, side(entries))).collect()
}

fn directory(records: &[Record]) -> Directory {
    let mut directory = Directory::new(MAX_NODES, LEASE);
    for record in records {
        directory.publish(Time::ZERO, record);
    }
    directory
}

/// Resident memory of this process, bytes; 0 where the system does not tell.
fn resident_bytes() -> usize {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    pages.split(' ').nth(1).and_then(|pages| pages.parse::<usize>().ok()).map_or(0, |pages| pages * 4_096)
}

fn memory(_: &mut Criterion) {
    for entries in [10_000, 100_000] {
        let records = records(entries);
        let before = resident_bytes();
        let directory = directory(&records);
        let grown = resident_bytes().saturating_sub(before);
        let computed = directory.bytes() / entries as usize;
        eprintln!("{entries} entries: {computed} B each computed, {} B each resident", grown / entries as usize);
    }
}

fn lookups(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("directory");
    for entries in [10_000, 100_000] {
        let records = records(entries);
        let directory = directory(&records);
        let mut hits = Vec::new();
        let areas: [Case; 4] = [
            ("exact", Area::Exact, 8),
            ("nearest 8", Area::Nearest, 8),
            ("within 10", |center| Area::Radius { center, radius: 10 }, 16),
            ("rectangle", |cell| Area::rectangle(cell, Cell::new(cell.x + 20, cell.y + 20)), 16),
        ];
        for (name, area, count) in areas {
            let mut turn = records.iter().cycle();
            group.bench_function(BenchmarkId::new(name, entries), |bencher| {
                bencher.iter(|| {
                    let cell = turn.next().map_or(Cell::new(0, 0), |record| record.cell);
                    let query = DirectoryQuery {
                        origin: cell,
                        ..DirectoryQuery::new(Service::Track, area(cell), SearchPurpose::List, count)
                    };
                    directory.find(black_box(&query), &mut hits);
                    black_box(hits.len())
                });
            });
        }
    }
}

/// A hub that holds `records`, and the connection of a node that asks.
fn hub(records: &[Record], policy: Option<&str>) -> (Hub, ConnectionId) {
    let mut config = HubConfig::new(NodeId::from_bytes([255; 16]), HubKind::SuperNode, 1);
    config.limits.nodes = MAX_NODES;
    // Time stands still here: at the default, what is measured after 10 000 lookups is a refusal.
    config.limits.lookups_per_second = u32::MAX;
    let mut hub = Hub::new(config);
    let policy = policy.and_then(|text| text.parse::<Policy>().ok()).map(Arc::new);
    hub.handle(Time::ZERO, Input::Command(HubCommand::Policy(policy)));
    for (number, record) in records.iter().enumerate() {
        let connection = ConnectionId(number as u64);
        let remote =
            RemoteIdentity { node: record.node, role: Role::Node, name: String::new(), labels: Labels::default() };
        let (address, rtt) = (record.addresses[0].clone(), Duration::ZERO);
        hub.handle(Time::ZERO, Input::ConnectionUp { connection, dial: None, remote, address, rtt });
        hub.handle(
            Time::ZERO,
            Input::Message {
                connection,
                message: Message::Registration(RegistrationMessage::Publish(record.clone())).encode(),
            },
        );
        drain(&mut hub);
    }
    (hub, ConnectionId(0))
}

/// Rules of which the last one decides, after all others were tried.
fn twenty_rules() -> String {
    let one = |rule: usize| {
        let area = format!("{{ rect = {{ min = \"{rule},0\", max = \"{rule},9\" }} }}");
        format!("[[rule]]\ndeny = [\"all\"]\nservices = [\"acme/s*{rule}\"]\narea = {area}\n")
    };
    (0..19).map(one).chain(["[[rule]]\nallow = [\"all\"]\n".to_owned()]).collect()
}

fn drain(hub: &mut Hub) -> usize {
    let mut bytes = 0;
    while let Some(transmit) = hub.poll_transmit() {
        if let Transmit::Message { message, .. } = transmit {
            bytes += message.len();
        }
    }
    while hub.poll_event().is_some() {}
    bytes
}

fn requests(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("hub");
    for entries in [10_000, 100_000] {
        let (rules, both) = (twenty_rules(), [("lookup", RequestMode::Lookup), ("forward", RequestMode::Forward)]);
        let kinds =
            [("", Service::Track, None), (", own service", own(), None), (", 20 rules", Service::Track, Some(&*rules))];
        let cases = kinds
            .into_iter()
            .flat_map(|(suffix, of, policy)| both.map(|(name, mode)| (name, suffix, mode, of, policy)));
        for (name, suffix, mode, service, policy) in cases {
            let records = records_of(service, entries);
            let (mut hub, connection) = hub(&records, policy);
            let mut turn = records.iter().cycle();
            let mut number = 0;
            group.bench_function(BenchmarkId::new(format!("{name}{suffix}"), entries), |bencher| {
                bencher.iter_batched(
                    || {
                        number = (number + 1) % RequestId::FIRST_OF_HUB;
                        let area = Area::Exact(turn.next().map_or(Cell::new(0, 0), |record| record.cell));
                        let (id, nonce) = (RequestId(number), Nonce::from_u64(u64::from(number)));
                        let spec = ServiceRequest { mode, count: 8, ..ServiceRequest::new(service, area) };
                        Message::Request(RequestMessage::Request(Request::new(id, nonce, spec, 5_000))).encode()
                    },
                    |message| {
                        hub.handle(Time::from_nanos(1), Input::Message { connection, message });
                        black_box(drain(&mut hub))
                    },
                    criterion::BatchSize::SmallInput,
                );
            });
        }
    }
}

criterion_group!(benches, memory, lookups, requests);
criterion_main!(benches);
