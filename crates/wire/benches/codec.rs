//! The cost of writing and reading the most frequent messages.
//!
//! Run with `cargo bench -p roost-wire --bench codec`.

use std::hint::black_box;

use bytes::Bytes;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use roost_wire::messages::{
    Datagram, FlowMessage, Message, RegistrationMessage, Renew, Request, RequestMessage, ServiceRequest,
};
use roost_wire::{Area, Capacity, Cell, Nonce, RequestId, Service, Version};

fn messages() -> [(&'static str, Message); 4] {
    let version = Version { epoch: 1_700_000_000, sequence: 3 };
    let spec = ServiceRequest::new(Service::Video, Area::Exact(Cell::new(27, 92)));
    let request = Request::new(RequestId(1_234), Nonce::from_u64(0x0123_4567_89ab_cdef), spec, 5_000);
    let packet = |bytes| {
        let payload = Bytes::from(vec![7; bytes]);
        Message::Flow(FlowMessage::Datagram(Datagram {
            id: RequestId(1_234),
            sequence: 500,
            sent_us: 8_000_000,
            payload,
        }))
    };
    [
        (
            "renew",
            Message::Registration(RegistrationMessage::Renew(Renew {
                version,
                capacity: Some(Capacity { streams: 4, uplink_kbps: 10_000 }),
            })),
        ),
        ("request", Message::Request(RequestMessage::Request(request))),
        ("track packet", packet(250)),
        ("video packet", packet(1_316)),
    ]
}

fn codec(criterion: &mut Criterion) {
    for (name, message) in messages() {
        let bytes = message.encode();
        let mut group = criterion.benchmark_group(name);
        group.throughput(Throughput::Bytes(bytes.len() as u64));
        group.bench_function("encode", |bencher| bencher.iter(|| black_box(&message).encode()));
        group.bench_function("decode", |bencher| bencher.iter(|| Message::decode(black_box(&bytes))));
        group.finish();
    }
}

criterion_group!(benches, codec);
criterion_main!(benches);
