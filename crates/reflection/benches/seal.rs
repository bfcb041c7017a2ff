//! The cost of sealing a packet once, and of opening it at each receiver.
//!
//! Run with `cargo bench -p roost-reflection --bench seal`.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a benchmark may stop where it stands")]

use std::hint::black_box;

use bytes::BytesMut;
use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use roost_reflection::{Epoch, EpochLimits, EpochSecret, Flags, Publisher, StreamId, Subscriber};
use roost_wire::Time;

const STREAM: StreamId = StreamId(1);
const FIRST: Epoch = Epoch(1);
/// Payloads of packets of 1440 and 200 bytes.
const PAYLOADS: [usize; 2] = [1400, 160];

fn secret() -> EpochSecret {
    EpochSecret::from_bytes([7; 32])
}

fn publisher() -> Publisher {
    Publisher::new(Time::ZERO, STREAM, FIRST, &secret(), EpochLimits::default()).unwrap()
}

fn subscriber() -> Subscriber {
    let mut subscriber = Subscriber::new(STREAM);
    subscriber.add_epoch(FIRST, &secret());
    subscriber
}

fn seal(criterion: &mut Criterion) {
    for bytes in PAYLOADS {
        let mut group = criterion.benchmark_group(format!("packets/{bytes}"));
        group.throughput(Throughput::Elements(1));
        let (mut publisher, payload, mut out) = (publisher(), vec![1; bytes], BytesMut::new());
        let mut seal_one = || {
            out.clear();
            publisher.seal(Time::ZERO, 0, Flags::default(), &payload, &mut out).unwrap();
            out.clone()
        };
        let fresh = seal_one();
        group.bench_function("open", |bencher| {
            // A packet opens once: each receiver is a new one, which is not measured.
            let prepare = || (subscriber(), fresh.clone());
            let open = |(mut subscriber, mut packet): (Subscriber, BytesMut)| {
                black_box(subscriber.open(&mut packet).unwrap().payload.len());
                (subscriber, packet)
            };
            bencher.iter_batched(prepare, open, BatchSize::SmallInput);
        });
        group.bench_function("seal", |bencher| bencher.iter(|| black_box(seal_one())));
        group.finish();
    }
}

criterion_group!(benches, seal);
criterion_main!(benches);
