//! Ratios of two sides that were each run several times.

use serde::Serialize;

use super::{mean, two_sided, variance};

/// The method of an interval, which determines its meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    /// Student's t over the log ratios of runs with the same seed.
    PairedBySeed,
    /// Welch's t over the logarithms of the runs.
    Welch,
    /// Bootstrap over the requests of one run each.
    Requests,
    /// Bootstrap over blocks of time of one run each.
    TimeBlocks,
}

impl Method {
    /// The units of the interval, as a table names them.
    pub const fn word(self) -> &'static str {
        match self {
            Self::PairedBySeed => "pairs of seeds",
            Self::Welch => "seeds",
            Self::Requests => "requests",
            Self::TimeBlocks => "blocks of 10 s",
        }
    }

    /// States in one sentence what the interval covers, and what it does not.
    pub const fn sentence(self) -> &'static str {
        match self {
            Self::PairedBySeed => "Student's t over the log ratios of runs with the same seed: covers the seeds.",
            Self::Welch => "Welch's t over the logarithms of the runs: covers the seeds.",
            Self::Requests => {
                "Bootstrap over the requests of one run each: covers which requests were made, not other seeds."
            }
            Self::TimeBlocks => {
                "Bootstrap over blocks of 10 s of one run each: covers chance within the run, not other seeds."
            }
        }
    }
}

/// A ratio with its 95 % confidence interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct RatioInterval {
    pub ratio: f64,
    pub low: f64,
    pub high: f64,
    pub method: Method,
}

impl RatioInterval {
    /// True if the interval does not contain 1: there is a difference.
    pub fn excludes_one(&self) -> bool {
        self.low > 1.0 || self.high < 1.0
    }
}

/// B over A from runs with the same seeds, pair by pair: the geometric mean of
/// the ratios, and Student's interval over their logarithms. `None` of fewer
/// than two pairs or when a value is not above zero.
pub fn paired(a: &[f64], b: &[f64]) -> Option<RatioInterval> {
    if a.len() != b.len() {
        return None;
    }
    let differences: Vec<f64> = logarithms(b)?.iter().zip(logarithms(a)?).map(|(b, a)| b - a).collect();
    let n = differences.len() as f64;
    let error = (variance(&differences)? / n).sqrt();
    Some(around(mean(&differences)?, error * two_sided(0.95, n - 1.0), Method::PairedBySeed))
}

/// B over A from independent runs: the ratio of the geometric means, and
/// Welch's interval over the logarithms, with the degrees of freedom of Welch
/// (1947) and Satterthwaite (1946). `None` when a side has fewer than two runs
/// or a value is not above zero.
pub fn welch(a: &[f64], b: &[f64]) -> Option<RatioInterval> {
    let (a, b) = (logarithms(a)?, logarithms(b)?);
    let share = |values: &[f64]| Some(variance(values)? / values.len() as f64);
    let (share_a, share_b) = (share(&a)?, share(&b)?);
    let error = (share_a + share_b).sqrt();
    let spread = share_a.powi(2) / (a.len() - 1) as f64 + share_b.powi(2) / (b.len() - 1) as f64;
    let half = if spread > 0.0 { error * two_sided(0.95, (share_a + share_b).powi(2) / spread) } else { 0.0 };
    Some(around(mean(&b)? - mean(&a)?, half, Method::Welch))
}

fn logarithms(values: &[f64]) -> Option<Vec<f64>> {
    values.iter().map(|value| (*value > 0.0 && value.is_finite()).then(|| value.ln())).collect()
}

fn around(middle: f64, half: f64, method: Method) -> RatioInterval {
    RatioInterval { ratio: middle.exp(), low: (middle - half).exp(), high: (middle + half).exp(), method }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubled_pairs_give_exact_two() {
        let interval = paired(&[1.0, 2.0, 4.0], &[2.0, 4.0, 8.0]).unwrap();
        assert!((interval.ratio - 2.0).abs() < 1e-12);
        assert!((interval.high - interval.low).abs() < 1e-9);
    }

    #[test]
    fn pairs_give_students_interval() {
        // Log ratios 0.1, 0.2, 0.3: mean 0.2, s 0.1, t(2) 4.3027.
        let b = [0.1_f64.exp(), 0.2_f64.exp(), 0.3_f64.exp()];
        let interval = paired(&[1.0; 3], &b).unwrap();
        let half = 4.302_653 * 0.1 / 3_f64.sqrt();
        assert!((interval.low.ln() - (0.2 - half)).abs() < 1e-6);
        assert!((interval.high.ln() - (0.2 + half)).abs() < 1e-6);
    }

    #[test]
    fn independent_runs_give_welchs_interval() {
        // The logarithms are 1..5 and 2, 4, 6: means 3 and 4, variances 2.5 and
        // 4, error √(0.5 + 4/3), freedom 3.5343; R's t.test gives
        // 1 ± 1.35401 · 2.93 or so.
        let a: Vec<f64> = [1.0_f64, 2.0, 3.0, 4.0, 5.0].iter().map(|v| v.exp()).collect();
        let b: Vec<f64> = [2.0_f64, 4.0, 6.0].iter().map(|v| v.exp()).collect();
        let interval = welch(&a, &b).unwrap();
        let error = (0.5_f64 + 4.0 / 3.0).sqrt();
        let freedom = (0.5_f64 + 4.0 / 3.0).powi(2) / (0.25 / 4.0 + (16.0 / 9.0) / 2.0);
        assert!((interval.ratio.ln() - 1.0).abs() < 1e-12);
        assert!((interval.high.ln() - (1.0 + error * two_sided(0.95, freedom))).abs() < 1e-9);
    }

    #[test]
    fn single_runs_or_zeros_give_nothing() {
        assert_eq!(welch(&[1.0], &[1.0, 2.0]), None);
        assert_eq!(paired(&[1.0], &[1.0]), None);
        assert_eq!(welch(&[0.0, 1.0], &[1.0, 2.0]), None);
        assert_eq!(welch(&[3.0, 3.0], &[3.0, 3.0]).map(|i| i.excludes_one()), Some(false));
    }
}
