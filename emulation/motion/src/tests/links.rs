use std::collections::BTreeMap;
use std::time::Duration;

use proptest::prelude::*;
use roost_topology::Topology;

use super::{RADIO, s, topology};
use crate::{LinkChange, LinkCourse};

fn changes(topology: &Topology, seed: u64, until: Duration) -> Vec<LinkChange> {
    let mut course = LinkCourse::new(topology, seed).unwrap().unwrap();
    let mut all = Vec::new();
    while let Some(at) = course.deadline().filter(|at| *at <= until) {
        all.extend(course.step(at));
    }
    all
}

fn leaving(radio: &str) -> Topology {
    topology(&format!(
        "[[motion.host]]\nname = 'a'\nposition = [0, 0]\n[[motion.host]]\nname = 'b'\n\
         path = [{{ at = '0s', position = [100, 0] }}, {{ at = '100s', position = [10_100, 0] }}]\n\
         [[radio]]\nname = 'r'\nmembers = ['a', 'b']\n{RADIO}{radio}"
    ))
}

#[test]
fn link_ends_at_its_range() {
    let changes = changes(&leaving("rate = '6Mbit'\nrange = '2050m'\n"), 1, s(200));
    let first = changes.iter().find(|change| (change.from, change.to) == (0, 1)).unwrap();
    assert_eq!((first.at, first.state.is_up, first.state.rate.bps()), (s(0), true, 6_000_000));
    assert_eq!(first.state.delay, Duration::from_nanos(334));
    let down: Vec<_> = changes.iter().filter(|change| !change.state.is_up).map(|change| change.at).collect();
    // 2050 m are reached after 19.5 s; the next position is 0.1 s later.
    assert_eq!(down, [Duration::from_millis(19_600); 2]);
    // Nothing is yielded once all stand still.
    assert!(changes.iter().all(|change| change.at <= s(100)));
}

#[test]
fn rates_fall_with_the_signal() {
    let table = "rates = [{ snr = '5dB', rate = '6Mbit' }, { snr = '20dB', rate = '24Mbit' }, \
                 { snr = '25dB', rate = '54Mbit' }]\nlosses = [{ snr = '5dB', loss = 0.2 }, { snr = '15dB', loss = 0 }]\n\
                 noise_figure = '7dB'\n";
    let mut there = changes(&leaving(table), 1, s(200));
    there.retain(|change| change.from == 0 && change.state.is_up);
    let mut rates: Vec<u64> = there.iter().map(|change| change.state.rate.bps() / 1_000_000).collect();
    rates.dedup();
    assert_eq!(rates, [54, 24, 6]);
    assert!(there.windows(2).all(|pair| pair[0].state.loss <= pair[1].state.loss));
    // Free space at 2.4 GHz with 20 dBm and −93.96 dBm of noise: 5 dB at 10 km or so.
    let last = there.last().unwrap().state;
    assert!(last.snr_db < 13.0 && last.loss > 0.04, "{last:?}");
    let bound = changes(&leaving("efficiency = 0.5\nrate = '54Mbit'\n"), 1, s(200));
    assert!(bound.iter().all(|change| change.state.rate.bps() <= 54_000_000 && change.state.is_up));
}

#[test]
fn shadowing_follows_pair_and_seed() {
    let shadow = leaving("rate = '1Mbit'\nmodel = 'log-distance'\nexponent = 3\nshadowing = '6dB'\n");
    let snr = |seed, from| changes(&shadow, seed, s(0)).into_iter().find(|it| it.from == from).unwrap().state.snr_db;
    assert_eq!(snr(1, 0).to_bits(), snr(1, 1).to_bits());
    assert!((snr(1, 0) - snr(2, 0)).abs() > 0.01);
}

const ACCESS: &str = "[[motion.host]]\nname = 'a'\nposition = [0, 0]\n[[motion.host]]\nname = 'b'\nposition = [1000, 0]\n\
    [[motion.host]]\nname = 'c'\npath = [{ at = '0s', position = [100, 10] }, { at = '80s', position = [900, 10] }, \
    { at = '160s', position = [100, 10] }]\n[[radio]]\nname = 'r'\nmembers = ['a', 'b', 'c']\nlinks = 'access'\n\
    access = ['a', 'b']\nhandover = '50ms'\nrate = '6Mbit'\nfrequency = '2.4GHz'\npower = '20dBm'\nbandwidth = '20MHz'\n";

#[test]
fn handover_has_hysteresis_and_a_pause() {
    let changes = changes(&topology(ACCESS), 1, s(200));
    let up: Vec<(u64, usize, bool)> = changes
        .iter()
        .filter(|change| change.from == 2)
        .map(|change| (change.at.as_millis() as u64, change.to, change.state.is_up))
        .filter(|(at, _, is_up)| *is_up || *at > 0)
        .collect();
    let flips: Vec<_> = up.into_iter().fold(Vec::new(), |mut flips: Vec<(u64, usize, bool)>, change| {
        if flips.iter().rev().find(|flip| flip.1 == change.1).is_none_or(|flip| flip.2 != change.2) {
            flips.push(change);
        }
        flips
    });
    // 3 dB are a factor of √2 in distance: 585 m from one and 415 m from the other.
    let [begin, left, came, left_again, back] = flips[..] else { panic!("{flips:?}") };
    assert_eq!(begin, (0, 0, true));
    assert!(left.1 == 0 && !left.2 && (48_000..49_200).contains(&left.0), "{left:?}");
    assert_eq!(came, (left.0 + 50, 1, true));
    assert!(left_again.1 == 1 && !left_again.2 && left_again.0 > 110_000, "{left_again:?}");
    assert_eq!(back, (left_again.0 + 50, 0, true));
}

fn any_walk() -> impl Strategy<Value = String> {
    let points = prop::collection::vec((-1500..1500_i32, -1500..1500_i32), 2..6);
    prop::collection::vec(points, 3).prop_map(|hosts| {
        let host = |(name, points): (&str, &Vec<(i32, i32)>)| {
            let points: Vec<String> = points.iter().map(|(x, y)| format!("[{x}, {y}]")).collect();
            format!("[[motion.host]]\nname = '{name}'\nspeed = '40m/s'\ntour = [{}]\n", points.join(", "))
        };
        ["a", "b", "c"].into_iter().zip(&hosts).map(host).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn pairs_are_symmetric_and_repeat(walk in any_walk(), seed in any::<u64>()) {
        let radio = "model = 'log-distance'\nexponent = 2.8\nshadowing = '5dB'\nefficiency = 0.4\nrange = '1200m'\n";
        let topology = topology(&format!("{walk}[[radio]]\nname = 'r'\nmembers = ['a', 'b', 'c']\n{RADIO}{radio}"));
        let all = changes(&topology, seed, s(120));
        prop_assert_eq!(&all, &changes(&topology, seed, s(120)));
        let mut states = BTreeMap::new();
        for change in &all {
            states.insert((change.from, change.to), change.state);
            if change.from > change.to {
                prop_assert_eq!(states.get(&(change.to, change.from)), Some(&change.state));
            }
        }
        prop_assert_eq!(states.len(), 6);
    }

    /// After all changes of a moment a host has a link to one access point at most.
    #[test]
    fn nobody_is_attached_to_two(walk in any_walk(), handover_ms in 0_u64..400) {
        let radio = ACCESS.split_once("[[radio]]").unwrap().1;
        let radio = radio.replace("50ms", &format!("{handover_ms}ms")).replace("rate = '6Mbit'", "rate = '6Mbit'\nrange = '1100m'");
        let topology = topology(&format!("{walk}[[radio]]{radio}"));
        let mut course = LinkCourse::new(&topology, 1).unwrap().unwrap();
        let mut up: BTreeMap<(usize, usize), bool> = BTreeMap::new();
        while let Some(at) = course.deadline().filter(|at| *at <= s(120)) {
            for change in course.step(at) {
                up.insert((change.from, change.to), change.state.is_up);
            }
            let attached = [0, 1].iter().filter(|point| up.get(&(2, **point)) == Some(&true)).count();
            prop_assert!(attached <= 1);
            for point in [0, 1] {
                prop_assert_eq!(up.get(&(2, point)), up.get(&(point, 2)));
            }
        }
    }
}
