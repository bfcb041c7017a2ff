//! A check that no latency is below its bound from distance and rates.

use roost_wire::Service;

use super::StudyResults;

/// The tolerance of the check: numbers in packets vary by some bytes.
const BYTES: f64 = 1e-3;

/// Of all mean latencies, the one that is closest to the bound of its own runs.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct NearestToBound {
    of: usize,
    /// Ratio of the closest one to its bound.
    ratio: f64,
    place: String,
}

impl NearestToBound {
    /// Searches all studies; `None` if no latency has a bound.
    pub(super) fn from_studies(all: &[StudyResults<'_>]) -> Option<Self> {
        let mut ratios = Vec::new();
        for found in all {
            for point in &found.study.points {
                for service in Service::ALL.map(Service::metric_name) {
                    let mean = |what: &str| Some(found.mean(point, &format!("{service}{what}"))?.0);
                    if let (Some(seen), Some(limit)) = (mean(".mean"), mean(".limit")) {
                        let place = format!("{service}, {}, {}: {}", found.study.title, point.series, point.name);
                        ratios.push((seen / limit, place));
                    }
                }
            }
        }
        Self::among(ratios)
    }

    fn among(ratios: Vec<(f64, String)>) -> Option<Self> {
        let of = ratios.len();
        let (ratio, place) = ratios.into_iter().min_by(|a, b| a.0.total_cmp(&b.0))?;
        Some(Self { of, ratio, place })
    }

    pub(super) fn sentence(&self) -> String {
        let Self { of, ratio, place } = self;
        let held = match *ratio >= 1.0 - BYTES {
            true => "None is below it",
            false => "Something is wrong, for at least one is below it",
        };
        format!("{held}: of {of} mean latencies the nearest is {ratio:.3} × its own limit ({place}).")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latency_below_bound_is_reported() {
        let told = |ratios: &[f64]| {
            let ratios = ratios.iter().map(|ratio| (*ratio, format!("at {ratio}"))).collect();
            NearestToBound::among(ratios).map(|nearest| nearest.sentence())
        };
        assert_eq!(told(&[]), None);
        let above = "None is below it: of 2 mean latencies the nearest is 1.500 × its own limit (at 1.5).";
        assert_eq!(told(&[2.0, 1.5]).unwrap(), above);
        assert!(told(&[0.998, 1.5]).unwrap().starts_with("Something is wrong"));
        assert!(
            told(&[0.99999, 1.5]).unwrap().starts_with("None is below it: of 2 mean latencies the nearest is 1.000 ×")
        );
    }
}
