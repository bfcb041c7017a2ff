//! Tables for work on congestion control: they assert nothing. `cargo test --release -p roost-transport --lib
//! --features simulated figures -- --ignored --nocapture`

use std::time::Duration;

use roost_wire::Congestion;

use super::bottleneck::{Outcome, PathProfile, transfer};
use super::{CLEAN, LOSSY, NEARLY_CLEAN, REGIONAL, SATELLITE, SHARED, seeds};

const LAN: PathProfile = PathProfile { mbit: 100.0, rtt_ms: 1, loss: 0.0, queue: 1.0 };
const SHORT_QUEUE: PathProfile = PathProfile { queue: 0.25, ..SATELLITE };
const LONG_QUEUE: PathProfile = PathProfile { queue: 4.0, ..REGIONAL };
const PATHS: [(&str, PathProfile); 8] = [
    ("thin", LOSSY),
    ("regional", REGIONAL),
    ("satellite", SATELLITE),
    ("satellite, short queue", SHORT_QUEUE),
    ("regional, long queue", LONG_QUEUE),
    ("clean", CLEAN),
    ("nearly clean", NEARLY_CLEAN),
    ("lan", LAN),
];

fn mean(outcomes: &[Outcome], of: impl Fn(&Outcome) -> f64) -> f64 {
    outcomes.iter().map(of).sum::<f64>() / outcomes.len() as f64
}

fn median(outcomes: &[Outcome], of: impl Fn(&Outcome) -> f64) -> f64 {
    let mut all: Vec<f64> = outcomes.iter().map(of).collect();
    all.sort_by(f64::total_cmp);
    all[all.len() / 2]
}

#[test]
#[ignore = "prints figures"]
fn alone_on_each_path() {
    println!("path | control | first 20 s | 45 s | p95 queue of 20 s, ms | of 45 s | mean queue, rtt | waste");
    let chosen = std::env::var("ROOST_PATH").unwrap_or_default();
    for (name, path) in PATHS.into_iter().filter(|(name, _)| name.starts_with(&chosen)) {
        for control in controls() {
            let long = if path.mbit > 100.0 { 20 } else { 45 };
            let run = |seconds| -> Vec<Outcome> {
                seeds(3).map(|seed| transfer(path, &[control], u64::MAX, Duration::from_secs(seconds), seed)).collect()
            };
            let (first, all) = (run(20), run(long));
            println!(
                "{name} | {control} | {:.3} | {:.3} | {:.0} | {:.0} | {:.2} | {:.3}",
                median(&first, Outcome::goodput),
                median(&all, Outcome::goodput),
                median(&first, Outcome::p95_queue_ms),
                median(&all, Outcome::p95_queue_ms),
                mean(&all, Outcome::queue),
                mean(&all, Outcome::waste),
            );
        }
    }
}

fn controls() -> Vec<Congestion> {
    match std::env::var("ROOST_CC") {
        Ok(text) => text.split(',').filter_map(|name| name.parse().ok()).collect(),
        Err(_) => Congestion::ALL.to_vec(),
    }
}

#[test]
#[ignore = "prints figures"]
fn two_that_share() {
    println!("path | first, then | Jain's index | part of the second | both, of the link | p95 queue, ms | waste");
    let wide =
        [("shared", SHARED), ("satellite", SATELLITE), ("thin", PathProfile { loss: 0.0, ..LOSSY }), ("lan", LAN)];
    let (rate, cubic, bbr) = (Congestion::Rate, Congestion::Cubic, Congestion::Bbr);
    let pairs = [(rate, rate), (rate, cubic), (cubic, rate), (cubic, cubic), (bbr, bbr), (cubic, bbr), (rate, bbr)];
    for (name, path) in wide {
        for (first, second) in pairs {
            let (from, to) = if path.rtt_ms > 100 { (30, 60) } else { (12, 30) };
            let run = |seed| transfer(path, &[first, second], u64::MAX, Duration::from_secs(to), seed);
            let all: Vec<Outcome> = seeds(3).map(run).collect();
            let (from, to) = (from as usize, to as usize);
            println!(
                "{name} | {first}, {second} | {:.3} | {:.2} | {:.2} | {:.0} | {:.3}",
                mean(&all, |one| one.fairness(from, to)),
                mean(&all, |one| one.between(1, from, to) / (one.between(0, from, to) + one.between(1, from, to))),
                mean(&all, |one| one.between(0, from, to) + one.between(1, from, to)),
                mean(&all, Outcome::p95_queue_ms),
                mean(&all, Outcome::waste),
            );
        }
    }
}
