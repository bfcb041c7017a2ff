//! Quantiles of Student's t distribution.

/// The t that a variable of Student's distribution with `freedom` degrees
/// stays within, on both sides of zero, with probability `confidence`: 12.706
/// for 0.95 and 1. Infinite without a degree of freedom.
///
/// Found by bisection of P(|T| > t) = I(ν/2, 1/2; ν/(ν+t²)), with I the
/// regularised incomplete beta function (Abramowitz and Stegun 26.7.1, 26.5.27).
pub fn two_sided(confidence: f64, freedom: f64) -> f64 {
    if freedom.is_nan() || freedom <= 0.0 {
        return f64::INFINITY;
    }
    let outside = 1.0 - confidence;
    let tail = |t: f64| incomplete_beta(freedom / 2.0, 0.5, freedom / (freedom + t * t));
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

/// The regularised incomplete beta function I(a, b; x), for 0 ≤ x ≤ 1.
fn incomplete_beta(a: f64, b: f64, x: f64) -> f64 {
    if x <= 0.0 || x >= 1.0 {
        return x.clamp(0.0, 1.0);
    }
    let front = (ln_gamma(a + b) - ln_gamma(a) - ln_gamma(b) + a * x.ln() + b * (1.0 - x).ln()).exp();
    // The continued fraction converges fast on this side of the mean; the
    // symmetry I(a, b; x) = 1 − I(b, a; 1 − x) serves the other.
    if x < (a + 1.0) / (a + b + 2.0) {
        front * beta_fraction(a, b, x) / a
    } else {
        1.0 - front * beta_fraction(b, a, 1.0 - x) / b
    }
}

/// The continued fraction of the incomplete beta function (DLMF 8.17.22) by
/// the modified method of Lentz (Thompson and Barnett 1986).
fn beta_fraction(a: f64, b: f64, x: f64) -> f64 {
    const TINY: f64 = 1e-300;
    let away_from_zero = |value: f64| if value.abs() < TINY { TINY } else { value };
    let mut c = 1.0;
    let mut d = 1.0 / away_from_zero(1.0 - (a + b) * x / (a + 1.0));
    let mut value = d;
    for step in 1..500 {
        let m = f64::from(step);
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        let mut change = 1.0;
        for term in [even, odd] {
            d = 1.0 / away_from_zero(1.0 + term * d);
            c = away_from_zero(1.0 + term / c);
            change = c * d;
            value *= change;
        }
        if (change - 1.0).abs() < 1e-15 {
            break;
        }
    }
    value
}

/// The logarithm of the gamma function for x > 0: Stirling's series (DLMF
/// 5.11.1) above 10, where five terms give twelve digits, reached by Γ(x+1) = x Γ(x).
fn ln_gamma(x: f64) -> f64 {
    let (mut x, mut shift) = (x, 0.0);
    while x < 10.0 {
        shift += x.ln();
        x += 1.0;
    }
    let series = 1.0 / (12.0 * x) - 1.0 / (360.0 * x.powi(3)) + 1.0 / (1260.0 * x.powi(5)) - 1.0 / (1680.0 * x.powi(7));
    (x - 0.5) * x.ln() - x + 0.5 * (2.0 * std::f64::consts::PI).ln() + series - shift
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
        assert_eq!(two_sided(0.95, 0.0), f64::INFINITY);
    }

    #[test]
    fn gamma_is_the_factorial() {
        assert!((ln_gamma(0.5) - std::f64::consts::PI.sqrt().ln()).abs() < 1e-11);
        assert!((ln_gamma(7.0) - 720_f64.ln()).abs() < 1e-11);
    }
}
