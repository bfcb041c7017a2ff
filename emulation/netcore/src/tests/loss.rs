//! Random loss: its amount, and its repeatability.

use roost_topology::model::Burst;

use super::*;
use crate::loss::{LossState, PipeRng};

/// An entry for each of `count` packets: true if the pipe loses it.
fn lost(config: &PipeConfig, seed: u64, count: u32) -> Vec<bool> {
    let (mut losses, mut streams) = (LossState::default(), PipeRng::new(seed, 0));
    (0..count).map(|_| losses.strike(config.loss, config.burst, &mut streams)).collect()
}

fn losing(loss: f64) -> PipeConfig {
    PipeConfig { loss, ..PipeConfig::default() }
}

fn bursty(enter: f64, leave: f64, loss: f64) -> PipeConfig {
    PipeConfig { burst: [Some(Burst { enter, leave, loss }), None], ..PipeConfig::default() }
}

fn share(lost: &[bool]) -> f64 {
    lost.iter().filter(|&&lost| lost).count() as f64 / lost.len() as f64
}

/// The distance in standard deviations between the packets lost of `count` and the expected number.
fn sigmas(loss: f64, seed: u64, count: u32) -> f64 {
    let deviation = (loss * (1.0 - loss) / f64::from(count)).sqrt();
    (share(&lost(&losing(loss), seed, count)) - loss) / deviation
}

#[test]
fn loss_is_within_confidence_interval() {
    let cases = [0.0001, 0.001, 0.01, 0.05, 0.2, 0.5];
    for loss in cases {
        let distance = sigmas(loss, 1, 400_000);
        assert!(distance.abs() < 2.576, "{loss}: {distance}");
    }
    // The result must not depend on the seed: one seed in a hundred is expected outside.
    let seeds = 2..42;
    let outside = seeds.flat_map(|seed| cases.map(|loss| sigmas(loss, seed, 20_000))).filter(|z| z.abs() >= 2.576);
    let outside = outside.count();
    assert!(outside <= 9, "{outside} of 240");
}

#[test]
fn certain_and_impossible_loss_are_exact() {
    assert!(lost(&losing(1.0), 1, 10_000).iter().all(|&lost| lost));
    assert!(lost(&losing(0.0), 1, 10_000).iter().all(|&lost| !lost));
}

#[test]
fn bursts_have_mean_loss_and_length() {
    for (enter, leave) in [(0.01, 0.25), (0.002, 0.05), (0.05, 0.5)] {
        let lost = lost(&bursty(enter, leave, 1.0), 11, 1_000_000);
        let expected = enter / (enter + leave);
        assert!((share(&lost) / expected - 1.0).abs() < 0.05, "{} for {expected}", share(&lost));
        let lengths: Vec<usize> = lost.chunk_by(|a, b| a == b).filter(|run| run[0]).map(<[bool]>::len).collect();
        let mean = lengths.iter().sum::<usize>() as f64 / lengths.len() as f64;
        assert!((mean * leave - 1.0).abs() < 0.05, "{mean} for {}", 1.0 / leave);
        // Lengths are geometric: a part of 1 − leave lasts for more than one packet.
        let longer = lengths.iter().filter(|&&length| length > 1).count() as f64 / lengths.len() as f64;
        assert!((longer - (1.0 - leave)).abs() < 0.03, "{longer}");
    }
    let half = share(&lost(&bursty(0.05, 0.5, 0.5), 11, 1_000_000));
    assert!((half / (0.5 * 0.05 / 0.55) - 1.0).abs() < 0.05, "{half}");
}

#[test]
fn chained_loss_models_both_apply() {
    let burst = Some(Burst { enter: 0.01, leave: 0.09, loss: 1.0 });
    let config = PipeConfig { burst: [burst, burst], loss: 0.1, ..PipeConfig::default() };
    let share = share(&lost(&config, 5, 1_000_000));
    assert!((share - (1.0 - 0.9_f64.powi(3))).abs() < 0.01, "{share}");
}

#[test]
fn equal_seeds_lose_equal_packets() {
    let config = PipeConfig { loss: 0.3, ..bursty(0.1, 0.3, 0.7) };
    assert_eq!(lost(&config, 7, 10_000), lost(&config, 7, 10_000));
    assert_ne!(lost(&config, 7, 10_000), lost(&config, 8, 10_000));
}

#[test]
fn other_settings_keep_lost_packets() {
    let survivors = |config: PipeConfig| {
        let mut network = Network::new(9);
        let [a, b] = network.add_link(config, pipe(0, 0));
        burst(&mut network, Time::ZERO, a, b, 100, 2_000);
        let out = drain(&mut network, at_ms(1_000_000));
        out.into_iter().map(|(_, _, number)| number).collect::<Vec<_>>()
    };
    let loss = 0.2;
    let plain = survivors(PipeConfig { loss, ..roomy(0, 0) });
    assert_eq!(plain, survivors(PipeConfig { loss, jitter: Duration::from_millis(3), ..roomy(1, 7) }));
}

#[test]
fn pipes_lose_independently_of_each_other() {
    let count = 200_000;
    let of_pipe = |seed: u64, pipe: u32| {
        let (mut losses, mut streams) = (LossState::default(), PipeRng::new(seed, pipe));
        (0..count).map(move |_| losses.strike(losing(0.5).loss, losing(0.5).burst, &mut streams))
    };
    for (other_seed, other_pipe) in [(1, 1), (1, 2), (2, 0), (0, 1), (3, 3)] {
        let both = of_pipe(1, 0).zip(of_pipe(other_seed, other_pipe)).filter(|&(a, b)| a && b).count();
        let sigma = (f64::from(count) * 0.25 * 0.75).sqrt();
        let distance = (both as f64 - f64::from(count) * 0.25) / sigma;
        assert!(distance.abs() < 3.3, "{other_seed}/{other_pipe}: {distance}");
    }
}

#[test]
fn lost_packets_skip_queue() {
    let mut network = Network::new(4);
    let [a, b] = network.add_link(PipeConfig { loss: 0.5, ..pipe(1, 0) }, pipe(1, 0));
    let taken = burst(&mut network, Time::ZERO, a, b, 1000, 80);
    let total = network.counters(up(&network, a)).total();
    assert_eq!(u64::from(taken) + total.dropped_loss.packets, 80);
    assert_eq!((total.dropped_queue.packets, total.dropped_loss.bytes), (0, 1000 * total.dropped_loss.packets));
}
