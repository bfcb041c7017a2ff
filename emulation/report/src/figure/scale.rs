//! Scales from values to positions, and the values at ticks.

/// A scale from values to positions on the sheet.
#[derive(Clone, Copy, Debug)]
pub(super) struct AxisScale {
    low: f64,
    high: f64,
    from: f64,
    to: f64,
    logarithmic: bool,
}

impl AxisScale {
    /// From zero to at least `high`, ending at a round number.
    pub(super) fn from_zero(high: f64, from: f64, to: f64) -> Self {
        let high = if high.is_finite() && high > 0.0 { high } else { 1.0 };
        let step = step(high, 4.0);
        Self { low: 0.0, high: (high / step - 1e-9).ceil() * step, from, to, logarithmic: false }
    }

    pub(super) fn exact(low: f64, high: f64, from: f64, to: f64) -> Self {
        Self { low, high: if high > low { high } else { low + 1.0 }, from, to, logarithmic: false }
    }

    /// Logarithmic, from at most `low` to at least `high`, both above zero.
    pub(super) fn logarithmic(low: f64, high: f64, from: f64, to: f64) -> Self {
        let low = if low.is_finite() && low > 0.0 { low } else { 1.0 };
        let high = if high.is_finite() && high > low { high } else { low * 10.0 };
        Self { low, high, from, to, logarithmic: true }
    }

    /// The least and the greatest value on the sheet.
    pub(super) const fn ends(&self) -> [f64; 2] {
        [self.low, self.high]
    }

    /// The position of `value`; values outside are at the ends.
    pub(super) fn at(&self, value: f64) -> f64 {
        let part = if self.logarithmic {
            (value.max(f64::MIN_POSITIVE) / self.low).ln() / (self.high / self.low).ln()
        } else {
            (value - self.low) / (self.high - self.low)
        };
        self.from + (self.to - self.from) * part.clamp(0.0, 1.0)
    }

    /// Round values within the scale, about `wanted` of them, in ascending order.
    pub(super) fn ticks(&self, wanted: usize) -> Vec<f64> {
        if self.logarithmic && self.high > self.low * 8.0 {
            return self.round_numbers(wanted.max(2));
        }
        let step = step(self.high - self.low, wanted.max(1) as f64);
        let first = (self.low / step - 1e-9).ceil() as i64;
        (first..first + 100).map(|n| n as f64 * step).take_while(|tick| *tick <= self.high + step * 1e-6).collect()
    }

    /// At most `wanted` of 1, 2 and 5 times powers of ten, or the powers alone, or every other power, and so
    /// on.
    fn round_numbers(&self, wanted: usize) -> Vec<f64> {
        let inside = |value: &f64| *value >= self.low * (1.0 - 1e-9) && *value <= self.high * (1.0 + 1e-9);
        let powers = self.low.log10().floor() as i32..=self.high.log10().ceil() as i32;
        let mut ticks: Vec<f64> = Vec::new();
        for leading in [&[1.0, 2.0, 5.0][..], &[1.0, 3.0], &[1.0]] {
            let all = powers.clone().flat_map(|power| leading.iter().map(move |lead| lead * 10_f64.powi(power)));
            ticks = all.filter(inside).collect();
            if ticks.len() <= wanted {
                return ticks;
            }
        }
        let every = ticks.len().div_ceil(wanted);
        ticks.into_iter().step_by(every).collect()
    }
}

/// 1, 2 or 5 times a power of ten that divides `range` into about `parts`.
fn step(range: f64, parts: f64) -> f64 {
    let rough = range / parts;
    let power = 10_f64.powf(rough.log10().floor());
    let round = [1.0, 2.0, 5.0].into_iter().find(|lead| lead * power >= rough * 0.999);
    round.unwrap_or(10.0) * power
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_cover_range() {
        let scale = AxisScale::from_zero(14.2, 0.0, 100.0);
        assert_eq!(scale.ticks(4), [0.0, 5.0, 10.0, 15.0]);
        assert!((scale.at(15.0) - 100.0).abs() < 1e-9 && scale.at(99.0) <= 100.0);
        assert_eq!(AxisScale::from_zero(0.0, 0.0, 1.0).ticks(2), [0.0, 0.5, 1.0]);
        assert_eq!(AxisScale::exact(-7.0, 12.0, 0.0, 1.0).ticks(4), [-5.0, 0.0, 5.0, 10.0]);
    }

    #[test]
    fn logarithmic_ticks_thin_out() {
        assert_eq!(
            AxisScale::logarithmic(40.0, 2000.0, 0.0, 1.0).ticks(6),
            [50.0, 100.0, 200.0, 500.0, 1000.0, 2000.0]
        );
        assert_eq!(AxisScale::logarithmic(1.0, 1e4, 0.0, 1.0).ticks(6), [1.0, 10.0, 100.0, 1000.0, 10000.0]);
        let near: Vec<f64> =
            AxisScale::logarithmic(0.7, 1.5, 0.0, 1.0).ticks(5).iter().map(|tick| (tick * 10.0).round()).collect();
        assert_eq!(near, [8.0, 10.0, 12.0, 14.0]);
        let middle = AxisScale::logarithmic(1.0, 100.0, 0.0, 100.0).at(10.0);
        assert!((middle - 50.0).abs() < 1e-9);
    }
}
