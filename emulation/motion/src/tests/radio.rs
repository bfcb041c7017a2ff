use proptest::prelude::*;
use roost_topology::model::Position;

use super::{RADIO, topology};
use crate::path_loss::{crossover_m, free_space_db, horizon_m, log_distance_db, noise_dbm, shannon_bps, two_ray_db};
use crate::{Budget, Frame, LinkEnd, Transceiver, visible};

fn near(value: f64, expected: f64, error: f64) {
    assert!((value - expected).abs() <= error, "{value} is not {expected}");
}

#[test]
fn losses_match_published_figures() {
    // ITU-R P.525: 32.4 + 20 log f (MHz) + 20 log d (km).
    near(free_space_db(1000.0, 2.4e9), 32.45 + 20.0 * 2400_f64.log10(), 0.01);
    near(free_space_db(35_786_000.0, 12e9), 205.1, 0.1);
    near(log_distance_db(100.0, 2.4e9, 3.0, 1.0), free_space_db(1.0, 2.4e9) + 60.0, 1e-9);
    near(noise_dbm(1.0, 0.0), -173.98, 0.01);
    near(noise_dbm(20e6, 7.0), -93.96, 0.01);
    near(shannon_bps(1e6, 0.0), 1e6, 1e-6);
    near(shannon_bps(3100.0, 30.0), 30_898.0, 1.0);
    // ns-2's example of both models at 914 MHz with antennas of 1.5 m: they meet at 86 m.
    near(crossover_m([1.5, 1.5], 914e6), 86.2, 0.1);
    near(two_ray_db(250.0, 914e6, [1.5, 1.5]), 40.0 * 250_f64.log10() - 20.0 * 2.25_f64.log10(), 1e-9);
    // 4.12 (√h₁ + √h₂) km with 4/3 of the Earth's radius.
    near(horizon_m(100.0, 6_371_008.8 * 4.0 / 3.0), 41_220.0, 30.0);
}

#[test]
fn horizon_hides_what_is_low() {
    assert!(visible(40_000.0, [100.0, 0.0], 4.0 / 3.0) && !visible(42_000.0, [100.0, 0.0], 4.0 / 3.0));
    // A satellite at 550 km is seen up to 23 degrees of arc.
    assert!(visible(2_550_000.0, [0.0, 550_000.0], 1.0) && !visible(2_570_000.0, [0.0, 550_000.0], 1.0));
}

proptest! {
    #[test]
    fn loss_grows_with_distance(
        a in 0.1..1e8_f64, b in 0.1..1e8_f64, hz in 1e6..1e11_f64, exponent in 1.5..6.0_f64,
        heights in (0.0..1e4_f64, 0.0..1e4_f64), reference in 0.1..100.0_f64,
    ) {
        let (low, high) = (a.min(b), a.max(b));
        prop_assert!(free_space_db(low, hz) <= free_space_db(high, hz));
        let log = |at| log_distance_db(at, hz, exponent, reference);
        prop_assert!(log(low) <= log(high) + 1e-9);
        let two_ray = |at| two_ray_db(at, hz, [heights.0, heights.1]);
        prop_assert!(two_ray(low) <= two_ray(high) + 1e-9);
    }

    #[test]
    fn laws_meet_at_the_crossover(heights in (1.0..1000.0_f64, 1.0..1000.0_f64), hz in 1e8..1e10_f64) {
        let heights = [heights.0, heights.1];
        let at = crossover_m(heights, hz);
        let (before, after) = (two_ray_db(at * 0.9999, hz, heights), two_ray_db(at * 1.0001, hz, heights));
        prop_assert!((before - after).abs() < 0.01);
    }

    #[test]
    fn paths_are_reciprocal(
        a in (-1e4..1e4_f64, -1e4..1e4_f64, 0.0..1e3_f64), b in (-1e4..1e4_f64, -1e4..1e4_f64, 0.0..1e3_f64),
        model in 0_usize..3,
    ) {
        let model = ["", "model = 'two-ray'\n", "model = 'log-distance'\nexponent = 3.1\nshadowing = '8dB'\n"][model];
        let hosts = "[[motion.host]]\nname = ['a', 'b']\nposition = [0, 0]\n";
        let topology = topology(&format!("{hosts}[[radio]]\nname = 'r'\nmembers = ['a', 'b']\nrate = '1Mbit'\n{RADIO}{model}"));
        let radio = &topology.radios[0];
        let spot = |(east_m, north_m, up_m)| Frame::Plane.spot(Position::Local { east_m, north_m, up_m }).unwrap();
        let (here, there) = (spot(a), spot(b));
        let (own, other) = (Transceiver::from_radio(radio, 0), Transceiver { height_m: 20.0, ..Transceiver::from_radio(radio, 1) });
        let budget = Budget::new(radio, 0.0);
        let end = |spot, transceiver| LinkEnd { spot, transceiver };
        let forth = budget.geometry([end(&here, &own), end(&there, &other)], 1.5);
        let back = budget.geometry([end(&there, &other), end(&here, &own)], 1.5);
        prop_assert_eq!(forth, back);
    }
}
