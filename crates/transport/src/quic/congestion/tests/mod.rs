//! Objects over the paths on which bulk transfer is measured, compared with the formulae of the control laws.
//! `ROOST_SEEDS=N` runs each path with N seeds.

mod bottleneck;
mod figures;
mod paced;

use std::time::Duration;

use roost_wire::Congestion;

use super::INITIAL_WINDOW;
use crate::multipath::MAX_CHUNK_BYTES;
use bottleneck::{PathProfile, beside_an_object, transfer};

const LOSSY: PathProfile = PathProfile { mbit: 10.0, rtt_ms: 150, loss: 0.005, queue: 1.0 };
const REGIONAL: PathProfile = PathProfile { mbit: 40.0, rtt_ms: 17, loss: 0.004, queue: 1.0 };
const SATELLITE: PathProfile = PathProfile { mbit: 20.0, rtt_ms: 600, loss: 0.001, queue: 1.0 };
const CLEAN: PathProfile = PathProfile { mbit: 200.0, rtt_ms: 100, loss: 0.0, queue: 1.0 };
const NEARLY_CLEAN: PathProfile = PathProfile { loss: 0.0001, ..CLEAN };
const SHARED: PathProfile = PathProfile { loss: 0.0, ..REGIONAL };

const MB: u64 = 1_000_000;
/// Longer than any transfer takes that is as fast as it should be.
const LIMIT: Duration = Duration::from_secs(60);

/// The seeds to run: `usual` ones, unless the environment asks for more.
fn seeds(usual: u64) -> std::ops::RangeInclusive<u64> {
    let asked = std::env::var("ROOST_SEEDS").ok().and_then(|text| text.parse().ok());
    1..=asked.unwrap_or(usual)
}

/// Checks that `rate` fills this part of a path with an object, from the dial on, without waste and without a standing
/// queue. Packets of 1200 bytes carry 95 % at most.
fn is_filled(path: PathProfile, bytes: u64, least: f64) {
    for seed in seeds(1) {
        let outcome = transfer(path, &[Congestion::Rate], bytes, LIMIT, seed);
        assert_eq!(outcome.failures, Vec::<String>::new());
        let (goodput, waste, queue) = (outcome.goodput(), outcome.waste(), outcome.queue());
        assert!(goodput >= least, "seed {seed}: {goodput:.3} of the link");
        assert!(waste <= 0.06, "seed {seed}: {waste:.3} sent in vain");
        assert!(queue <= 0.35, "seed {seed}: {queue:.3} of a round trip in the queue");
    }
}

#[test]
fn rate_fills_a_thin_lossy_path() {
    is_filled(LOSSY, 20 * MB, 0.86);
}

#[test]
fn rate_fills_a_regional_path() {
    is_filled(REGIONAL, 30 * MB, 0.90);
}

#[test]
fn rate_fills_satellite_path() {
    is_filled(SATELLITE, 50 * MB, 0.79);
}

/// The part of a satellite's link that is used, with a queue of this length, and the 95th percentile of the queuing
/// time.
fn over_a_satellite(queue: f64, seconds: u64, seed: u64) -> (f64, f64) {
    let path = PathProfile { queue, ..SATELLITE };
    let outcome = transfer(path, &[Congestion::Rate], u64::MAX, Duration::from_secs(seconds), seed);
    assert_eq!(outcome.failures, Vec::<String>::new());
    (outcome.goodput(), outcome.p95_queue_ms())
}

#[test]
fn rate_begins_quickly_with_short_queues() {
    for (seed, queue) in seeds(1).flat_map(|seed| [(seed, 1.0), (seed, 0.25)]) {
        let (goodput, p95) = over_a_satellite(queue, 20, seed);
        assert!(goodput >= 0.74 && p95 <= 150.0, "seed {seed}, queue {queue}: {goodput:.3}, {p95:.0} ms");
    }
}

#[test]
fn rate_fills_a_long_fat_path() {
    is_filled(CLEAN, 100 * MB, 0.73);
    is_filled(NEARLY_CLEAN, 100 * MB, 0.73);
}

#[test]
fn random_loss_hurts_cubic_not_rate() {
    let goodput = |congestion| transfer(LOSSY, &[congestion], 5 * MB, LIMIT, 1).goodput();
    let (cubic, udt, rate) = (goodput(Congestion::Cubic), goodput(Congestion::Udt), goodput(Congestion::Rate));
    assert!(cubic < 0.3 && rate > 3.0 * cubic && udt > 1.2 * cubic, "cubic {cubic:.2}, udt {udt:.2}, rate {rate:.2}");
}

/// The rate at which `udt` settles, in packets per second, and the rate by its law: see [`super::udt`].
fn udt_and_its_law(path: PathProfile) -> (f64, f64) {
    let (from, to) = (20, 80);
    let of_seed = |seed| {
        let outcome = transfer(path, &[Congestion::Udt], u64::MAX, Duration::from_secs(to), seed);
        assert_eq!(outcome.failures, Vec::<String>::new());
        outcome.packets_per_second(0, from as usize, to as usize)
    };
    let all: Vec<f64> = seeds(4).map(of_seed).collect();
    (all.iter().sum::<f64>() / all.len() as f64, 3.0 * (100.0 / path.loss).sqrt())
}

#[test]
fn udt_law_holds_for_any_rtt() {
    for path in [LOSSY, REGIONAL, SATELLITE] {
        let (rate, law) = udt_and_its_law(path);
        assert!((rate / law - 1.0).abs() < 0.25, "{path:?}: {rate:.0} packets per second, by the law {law:.0}");
    }
}

/// The reason why all services share a connection: an urgent service can use the whole link, which the congestion
/// control of a separate connection would not allow.
#[test]
fn stream_precedes_object_on_shared_connection() {
    let came = |over_one| beside_an_object(SHARED, 30.0, over_one);
    let (one, two) = (came(true), came(false));
    assert!(one > 0.95 && two < 0.8, "over one quinn_connection {one:.2}, over one each {two:.2}");
}

/// The fairness of two flows, the second of which begins about 5 s later.
fn evenness(first: Congestion, second: Congestion) -> f64 {
    let of_seed = |seed| transfer(SHARED, &[first, second], u64::MAX, Duration::from_secs(30), seed).fairness(12, 30);
    let all: Vec<f64> = seeds(2).map(of_seed).collect();
    all.iter().sum::<f64>() / all.len() as f64
}

#[test]
fn same_control_flows_share_evenly() {
    let (rate, udt) = (evenness(Congestion::Rate, Congestion::Rate), evenness(Congestion::Udt, Congestion::Udt));
    assert!(rate >= 0.9 && udt >= 0.95, "rate {rate:.3}, udt {udt:.3}");
}

#[test]
fn rate_and_cubic_share_evenly() {
    let (before, after) =
        (evenness(Congestion::Rate, Congestion::Cubic), evenness(Congestion::Cubic, Congestion::Rate));
    assert!(before >= 0.9 && after >= 0.85, "rate first {before:.3}, cubic first {after:.3}");
}

/// quinn ends a connection when a stream has more than 1024 gaps. The longest stream here is a chunk. All its packets
/// but the last carry at least a kilobyte of it, so it never has that many gaps.
#[test]
fn stream_gaps_never_end_connection() {
    const { assert!(MAX_CHUNK_BYTES / 1000 + 1 < 1024 / 32) };
    for seed in seeds(20) {
        let overrun = [Congestion::Cubic, Congestion::Bbr, Congestion::Rate, Congestion::Udt][seed as usize % 4];
        let path = PathProfile { queue: if seed % 8 < 4 { 0.5 } else { 4.0 }, ..NEARLY_CLEAN };
        let outcome = transfer(path, &[overrun], 8 * MB, LIMIT, seed);
        assert_eq!(outcome.failures, Vec::<String>::new(), "{overrun}, seed {seed}");
        assert!(outcome.goodput() > 0.0 && outcome.took < LIMIT, "{overrun}, seed {seed}");
    }
}

/// Sends an object with twenty seeds: it must arrive whatever is lost. The used part of the path is only printed;
/// [`is_filled`] checks it.
#[expect(clippy::print_stdout, reason = "figures for who runs it with --nocapture")]
fn never_breaks_off(path: PathProfile, bytes: u64) {
    let goodput = |seed| {
        let outcome = transfer(path, &[Congestion::Rate], bytes, LIMIT, seed);
        assert_eq!(outcome.failures, Vec::<String>::new(), "seed {seed}");
        assert!(outcome.took < LIMIT, "seed {seed}: it never ends");
        outcome.goodput()
    };
    let mut all: Vec<f64> = seeds(20).map(goodput).collect();
    all.sort_by(f64::total_cmp);
    let (least, median, most) = (all[0], all[all.len() / 2], all[all.len() - 1]);
    println!("{path:?}: {least:.2}, {median:.2}, {most:.2} of the link with {} seeds", all.len());
}

#[test]
fn object_survives_thin_path() {
    never_breaks_off(LOSSY, 4 * MB);
}

#[test]
fn object_survives_regional_path() {
    never_breaks_off(REGIONAL, 10 * MB);
}

#[test]
fn object_survives_satellite_path() {
    never_breaks_off(SATELLITE, 10 * MB);
}

#[test]
fn object_survives_long_fat_paths() {
    // Longer than the startup, in which a queue overflows.
    never_breaks_off(CLEAN, 15 * MB);
    never_breaks_off(NEARLY_CLEAN, 15 * MB);
}

#[test]
fn initial_window_is_small() {
    const { assert!(INITIAL_WINDOW <= 40_000) };
}
