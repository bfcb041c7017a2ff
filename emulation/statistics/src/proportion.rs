//! Confidence intervals of proportions.

/// The 97.5 % point of the standard normal distribution.
const Z: f64 = 1.959_963_985;

/// The 95 % confidence interval of a proportion with `part` of `whole` seen; `None` if `whole` is 0.
///
/// It is the score interval of E. B. Wilson, "Probable Inference, the Law of Succession, and Statistical
/// Inference", Journal of the American Statistical Association 22 (1927), 209–212. It never leaves the range
/// from 0 to 1, and is not a point if all or none were seen: for 381 of 381 it begins at 99 %.
pub fn wilson(part: u64, whole: u64) -> Option<(f64, f64)> {
    if whole == 0 {
        return None;
    }
    let (n, seen) = (whole as f64, part.min(whole) as f64 / whole as f64);
    let middle = (seen + Z * Z / (2.0 * n)) / (1.0 + Z * Z / n);
    let half = Z / (1.0 + Z * Z / n) * (seen * (1.0 - seen) / n + Z * Z / (4.0 * n * n)).sqrt();
    let low = if part == 0 { 0.0 } else { (middle - half).max(0.0) };
    let high = if part >= whole { 1.0 } else { (middle + half).min(1.0) };
    Some((low, high))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interval_is_that_of_newcombes_table() {
        // Newcombe, "Two-sided confidence intervals for the single proportion" (1998), table I, method 3.
        let table =
            [(81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (0, 20, 0.0, 0.1611), (1, 29, 0.0061, 0.1718)];
        for (part, whole, low, high) in table {
            let found = wilson(part, whole).unwrap();
            assert!((found.0 - low).abs() < 5e-5 && (found.1 - high).abs() < 5e-5, "{part} of {whole}: {found:?}");
        }
        assert_eq!(wilson(0, 0), None);
    }

    #[test]
    fn interval_stays_between_nothing_and_all() {
        assert_eq!(wilson(20, 20).map(|(_, high)| high), Some(1.0));
        assert_eq!(wilson(0, 3).map(|(low, _)| low), Some(0.0));
        // This many without a failure are needed to show 99 of 100.
        assert!(wilson(381, 381).unwrap().0 >= 0.99 && wilson(380, 380).unwrap().0 < 0.99);
    }
}
