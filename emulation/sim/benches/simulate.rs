//! The cost of a simulation's step, and its growth with the number of nodes.
//!
//! Run with `cargo bench -p roost-sim --bench simulate`. Each size of a forest is brought up and makes
//! requests for two seconds of virtual time, at message level; one element is one step: a packet that
//! arrives, a timer, a start. Building the network is part of the measured time, as in `emulate simulate`.
#![allow(clippy::expect_used, reason = "a benchmark may stop where it stands")]

use std::path::Path;
use std::time::Duration;

use criterion::{BenchmarkId, Criterion, SamplingMode, Throughput, criterion_group, criterion_main};
use roost_experiment::Prepared;
use roost_sim::{Detail, simulate};

fn forest(nodes: usize) -> Prepared {
    let text = format!(
        "topology = {{ forest = {{ nodes = {nodes} }} }}\narchitecture = 'super-node'\ntransport = 'udp'\n\
         duration = '2s'\nstream = '1s'\ntimeout = '5s'\ndrain = '6s'\n"
    );
    Prepared::from_text(&text, Path::new("bench.toml")).expect("a forest of any of these sizes can be made")
}

fn steps(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("simulate");
    group.sampling_mode(SamplingMode::Flat).sample_size(10).measurement_time(Duration::from_secs(20));
    for nodes in [100, 1_000, 10_000] {
        let prepared = forest(nodes);
        let run = || simulate(&prepared, Detail::Message).expect("all nodes find a home");
        // Equal in every run.
        group.throughput(Throughput::Elements(run().steps));
        group.bench_function(BenchmarkId::from_parameter(nodes), |bencher| bencher.iter(run));
    }
    group.finish();
}

criterion_group!(benches, steps);
criterion_main!(benches);
