//! The criteria by which a link matches its description.
//!
//! They are those of Emulab's linktest, with two differences. Delay is judged in each direction on its own, by
//! half of Emulab's tolerance for the round trip, so that two wrong halves of a right sum are found. And where
//! Emulab adds to the round trip the measured delay of its delay nodes (0.333 ms less 0.25 %), the probe's own
//! transmission times, which are known, are added here.

use roost_statistics::{mean, two_sided, variance};

/// An error of the mean delay in this range, milliseconds one way, is tolerated even if it is significant: half
/// of Emulab's −0.5 and +3.5 ms.
pub const DELAY_ERROR_MS: (f64, f64) = (-0.25, 1.75);
/// The confidence of the t test of delays.
pub const DELAY_CONFIDENCE: f64 = 0.99;
/// The tolerance of the rate, as fractions of it.
pub const RATE_ERROR: (f64, f64) = (-0.03, 0.015);
/// The largest |z| of a count of lost packets: 1 % of correct links exceed it.
pub const LOSS_Z: f64 = 2.58;
/// Lost packets that are tolerated on a link which should lose none, or less than one.
pub const FORGIVEN: u32 = 1;

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CriterionResult {
    pub measured: f64,
    /// The error: milliseconds of a delay, a fraction of a rate, or lost packets in a hundred.
    pub error: f64,
    /// Student's t or the normal z of the error, if it has one.
    pub statistic: Option<f64>,
    pub passed: bool,
}

/// Compares delays in milliseconds with the expected mean; `None` if there are too few.
pub fn delay(samples: &[f64], expected: f64) -> Option<CriterionResult> {
    let (measured, variance) = (mean(samples)?, variance(samples)?);
    let n = samples.len() as f64;
    let error = measured - expected;
    let t = error / (variance / n).sqrt();
    let (low, high) = DELAY_ERROR_MS;
    let tolerated = error > low && error < high;
    let passed = tolerated || t.abs() <= two_sided(DELAY_CONFIDENCE, n - 1.0);
    // Equal samples have no spread: their t is unbounded and meaningless.
    Some(CriterionResult { measured, error, statistic: t.is_finite().then_some(t), passed })
}

/// Compares a rate in bits per second with the expected one. `spread` is the standard deviation of the
/// measurement, as a fraction of the rate, where losses behind the bottleneck make it vary.
pub fn rate(measured: f64, expected: f64, spread: f64) -> CriterionResult {
    let error = measured / expected - 1.0;
    let (low, high) = RATE_ERROR;
    let chance = LOSS_Z * spread;
    CriterionResult { measured, error, statistic: None, passed: error >= low - chance && error <= high + chance }
}

/// Compares the packets lost with the expected fraction. `variance` is that of the number lost over the number
/// sent: p(1 − p) if losses are independent. `None` if nothing was sent.
pub fn loss(lost: u32, sent: u32, expected: f64, variance: f64) -> Option<CriterionResult> {
    if sent == 0 {
        return None;
    }
    let (lost_f, n) = (f64::from(lost), f64::from(sent));
    let measured = lost_f / n;
    let error = (measured - expected) * 100.0;
    let judged = |statistic, passed| Some(CriterionResult { measured, error, statistic, passed });
    if expected <= 0.0 {
        return judged(None, lost <= FORGIVEN);
    }
    if variance <= 0.0 {
        return judged(None, lost == sent);
    }
    // So few losses are not normally distributed.
    let is_forgiven = n * expected < 1.0 && lost <= FORGIVEN;
    let z = (lost_f - n * expected) / (n * variance).sqrt();
    judged(Some(z), is_forgiven || z.abs() < LOSS_Z)
}

/// The rate, in bits per second, from the arrival times (nanoseconds, in order) of frames of this size; `None`
/// for fewer than four.
///
/// It takes the median time over half of the frames: n packets later means n transmissions later, and a reader
/// or carrier that is late for a while shifts some of these times and not their median.
pub fn arrival_rate(arrivals: &[u64], frame: u32) -> Option<f64> {
    let half = arrivals.len() / 2;
    if half < 2 {
        return None;
    }
    let mut spans: Vec<u64> = arrivals.iter().zip(&arrivals[half..]).map(|(a, b)| b.saturating_sub(*a)).collect();
    spans.sort_unstable();
    let span = spans[spans.len() / 2];
    (span > 0).then(|| half as f64 * f64::from(frame) * 8e9 / span as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mean_within_tolerance_passes() {
        let steady = [50.05, 50.06, 50.05, 50.06, 50.05, 50.06, 50.05, 50.06, 50.05, 50.06];
        let judged = delay(&steady, 50.0).unwrap();
        assert!(judged.passed && judged.statistic.unwrap() > 30.0, "{judged:?}");
        assert!((judged.error - 0.055).abs() < 1e-9);
        assert!(delay(&steady, 48.4).unwrap().passed);
        assert!(!delay(&steady, 48.2).unwrap().passed, "1.855 ms too long");
        assert!(!delay(&steady, 50.4).unwrap().passed, "0.345 ms too short");
    }

    #[test]
    fn insignificant_error_beyond_tolerance_passes() {
        // Mean 7, standard deviation √10 = 3.1623, n 5: t = 2
        // (3.1623
        // √5) = 1.4142; the critical value is 4.604.
        let judged = delay(&[3.0, 5.0, 7.0, 9.0, 11.0], 5.0).unwrap();
        assert!((judged.statistic.unwrap() - std::f64::consts::SQRT_2).abs() < 1e-9);
        assert!(judged.passed);
        // t = 6.9 / 1.4142 = 4.879 is beyond it.
        assert!(!delay(&[3.0, 5.0, 7.0, 9.0, 11.0], 0.1).unwrap().passed);
    }

    #[test]
    fn equal_samples_are_judged_by_error() {
        let judged = delay(&[20.0; 10], 20.0).unwrap();
        assert_eq!((judged.statistic, judged.passed), (None, true));
        let judged = delay(&[30.0; 10], 20.0).unwrap();
        assert_eq!((judged.statistic, judged.passed), (None, false));
        assert_eq!(delay(&[20.0], 20.0), None);
    }

    #[test]
    fn rate_tolerance_is_asymmetric() {
        for (measured, passed) in [(97.1, true), (96.9, false), (101.4, true), (101.6, false)] {
            assert_eq!(rate(measured, 100.0, 0.0).passed, passed, "{measured}");
        }
        assert!(rate(95.0, 100.0, 0.01).passed);
    }

    #[test]
    fn losses_are_judged_by_their_z() {
        // 1000 packets at 1 %: mean 10, standard deviation 3.1464.
        let judged = loss(18, 1000, 0.01, 0.01 * 0.99).unwrap();
        assert!((judged.statistic.unwrap() - 2.5426).abs() < 1e-4 && judged.passed, "{judged:?}");
        assert!((judged.error - 0.8).abs() < 1e-9);
        assert!(!loss(19, 1000, 0.01, 0.01 * 0.99).unwrap().passed);
        assert!(!loss(1, 1000, 0.01, 0.01 * 0.99).unwrap().passed);
        assert_eq!(loss(0, 0, 0.01, 0.0099), None);
    }

    #[test]
    fn lossless_link_may_lose_one_packet() {
        assert!(loss(1, 500, 0.0, 0.0).unwrap().passed);
        assert!(!loss(2, 500, 0.0, 0.0).unwrap().passed);
        assert!(loss(500, 500, 1.0, 0.0).unwrap().passed);
        assert!(!loss(499, 500, 1.0, 0.0).unwrap().passed);
    }

    #[test]
    fn tiny_loss_may_lose_one_packet() {
        // z = 2.85, and a tenth of all correct links lose one.
        assert!(loss(1, 1000, 1e-4, 1e-4).unwrap().passed);
        assert!(!loss(2, 1000, 1e-4, 1e-4).unwrap().passed);
    }

    #[test]
    fn reader_stall_keeps_measured_rate() {
        // A frame of 1250 bytes every millisecond: 10 Mbit/s.
        let mut arrivals: Vec<u64> = (0..40).map(|n| n * 1_000_000).collect();
        assert_eq!(arrival_rate(&arrivals, 1250), Some(1e7));
        arrivals[3..12].fill(12_000_000);
        arrivals[38..].fill(49_000_000);
        assert_eq!(arrival_rate(&arrivals, 1250), Some(1e7));
        assert_eq!(arrival_rate(&[1, 2, 3], 1250), None);
        assert_eq!(arrival_rate(&[7; 9], 1250), None);
    }
}
