//! Statistics: pure functions, with the source of each formula.
//!
//! A function returns `None` where it has too few values. Bootstraps draw from a seed of the caller, so that
//! the same values give the same interval.
#![allow(missing_docs, reason = "only crates of `emulation` import this one")]

mod bootstrap;
mod proportion;
mod ratio;
mod student;

pub use bootstrap::{RESAMPLES, blocks, latencies};
pub use proportion::wilson;
pub use ratio::{Method, RatioInterval, paired, welch};
pub use student::two_sided;

pub fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// The variance of the population of which the values are a sample (divided by n − 1); `None` of fewer than
/// two.
pub fn variance(values: &[f64]) -> Option<f64> {
    let mean = mean(values)?;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (values.len() > 1).then(|| squares / (values.len() - 1) as f64)
}

/// The quantile `p` (0 to 1) of values in ascending order, interpolated between adjacent values: type 7 of
/// Hyndman and Fan, "Sample Quantiles in Statistical Packages" (1996), as R and NumPy do. `None` if there are
/// none.
pub fn quantile(sorted: &[f64], p: f64) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    let place = p.clamp(0.0, 1.0) * last as f64;
    let below = place.floor();
    let index = (below as usize).min(last);
    let (low, high) = (sorted[index], sorted[(index + 1).min(last)]);
    Some(low + (high - low) * (place - below))
}

/// The mean of a few runs and the half-width of its 95 % confidence interval, from Student's t distribution; a
/// single run has no half-width.
pub fn mean_and_half_width(values: &[f64]) -> Option<(f64, Option<f64>)> {
    let n = values.len() as f64;
    let half = variance(values).map(|variance| two_sided(0.95, n - 1.0) * (variance / n).sqrt());
    Some((mean(values)?, half))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_r() {
        // quantile(c(15, 20, 35, 40, 50), c(0, .05, .4, .5, .99, 1), type = 7)
        let values = [15.0, 20.0, 35.0, 40.0, 50.0];
        for (p, expected) in [(0.0, 15.0), (0.05, 16.0), (0.4, 29.0), (0.5, 35.0), (0.99, 49.6), (1.0, 50.0)] {
            assert!((quantile(&values, p).unwrap() - expected).abs() < 1e-9, "{p}");
        }
        assert_eq!(quantile(&[7.0], 0.99), Some(7.0));
        assert_eq!(quantile(&[], 0.5), None);
    }

    #[test]
    fn mean_interval_matches_student_table() {
        // Mean 3, s² 2.5, n 5: 3 ± 2.776 · √(2.5 / 5).
        let (mean, half) = mean_and_half_width(&[1.0, 2.0, 3.0, 4.0, 5.0]).unwrap();
        assert!((mean - 3.0).abs() < 1e-12);
        assert!((half.unwrap() - 2.776_445 * 0.5_f64.sqrt()).abs() < 1e-5);
        assert_eq!(mean_and_half_width(&[4.0]), Some((4.0, None)));
        assert_eq!(mean_and_half_width(&[]), None);
    }
}
