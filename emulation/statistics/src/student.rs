//! Quantiles of Student's t distribution.

use statrs::function::beta::beta_reg;

/// The t that a variable of Student's distribution with `freedom` degrees
/// stays within, on both sides of zero, with probability `confidence`: 12.706
/// for 0.95 and 1. Infinite without a degree of freedom.
///
/// Found by bisection of P(|T| > t) = I(ν/2, 1/2; ν/(ν+t²)), with I the regularised incomplete beta function
/// (Abramowitz and Stegun 26.7.1). The inverse of statrs loses digits above 10 000 degrees, and may not end.
pub fn two_sided(confidence: f64, freedom: f64) -> f64 {
    if freedom.is_nan() || freedom <= 0.0 {
        return f64::INFINITY;
    }
    // The difference to more is below 1e-6, and infinitely many would panic.
    let freedom = freedom.min(1e7);
    let outside = 1.0 - confidence;
    let tail = |t: f64| beta_reg(freedom / 2.0, 0.5, freedom / (freedom + t * t));
    let (mut low, mut high) = (0.0, 1.0);
    // A tail of 5 % ends at 12.7 or below; 60 doublings bound the loop for any other.
    for _ in 0..60 {
        if tail(high) <= outside {
            break;
        }
        high *= 2.0;
    }
    for _ in 0..100 {
        let middle = (low + high) / 2.0;
        if tail(middle) > outside { low = middle } else { high = middle }
    }
    (low + high) / 2.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_match_student_table() {
        let table = [(1.0, 12.7062), (2.0, 4.3027), (3.0, 3.1824), (4.0, 2.7764), (9.0, 2.2622), (30.0, 2.0423)];
        for (freedom, t) in table {
            assert!((two_sided(0.95, freedom) - t).abs() < 1e-4, "{freedom}");
        }
        assert!((two_sided(0.99, 5.0) - 4.0321).abs() < 1e-4);
        // Between two rows of the table, by integrating the density.
        assert!((two_sided(0.95, 2.5) - 3.574_655).abs() < 1e-5);
        assert!((two_sided(0.95, 1e7) - 1.959_964).abs() < 1e-5);
        assert!((two_sided(0.95, f64::INFINITY) - 1.959_964).abs() < 1e-5);
        assert_eq!(two_sided(0.95, 0.0), f64::INFINITY);
    }
}
