//! Values that hold until the next ones.

use std::time::Duration;

/// The values that a trace gives at a moment; `None` leaves the link's own.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TraceValues {
    /// Bits a second; 0 lets nothing pass.
    pub rate: Option<u64>,
    pub delay: Option<Duration>,
    pub loss: Option<f64>,
    pub is_up: Option<bool>,
}

/// Values from a time on, in nanoseconds since the trace began.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TraceStep {
    pub at: u64,
    pub values: TraceValues,
}

/// Steps in order of time, the first at 0, each with the bits that could be sent before it.
///
/// Bits are counted in billionths, rate times nanoseconds, so that all sums are exact.
#[derive(Clone, Debug, PartialEq)]
pub struct Steps {
    steps: Vec<TraceStep>,
    before: Vec<u128>,
    period: u64,
    total: u128,
}

impl Steps {
    /// Steps whose last ends at `period`. `None` if there is none, if they are not in order, or if no rate of them lets
    /// anything pass.
    pub fn new(steps: Vec<TraceStep>, period: u64) -> Option<Self> {
        let in_order = steps.windows(2).all(|pair| pair[0].at < pair[1].at);
        let last = steps.last()?;
        if !in_order || steps.first()?.at != 0 || last.at >= period {
            return None;
        }
        let ends = steps.iter().skip(1).map(|step| step.at).chain([period]);
        let (mut before, mut total) = (Vec::with_capacity(steps.len()), 0_u128);
        for (step, end) in steps.iter().zip(ends) {
            before.push(total);
            total += u128::from(step.values.rate.unwrap_or(0)) * u128::from(end - step.at);
        }
        let stands = steps[0].values.rate.is_some() && total == 0;
        (!stands).then_some(Self { steps, before, period, total })
    }

    pub fn steps(&self) -> &[TraceStep] {
        &self.steps
    }

    /// The length of the trace, in nanoseconds.
    pub const fn period(&self) -> u64 {
        self.period
    }

    pub fn has_rate(&self) -> bool {
        self.steps[0].values.rate.is_some()
    }

    /// The values at a place within the trace.
    pub fn values(&self, place: u64) -> TraceValues {
        self.steps[self.index(place)].values
    }

    /// The bits that can be sent from the beginning of the trace until a place within it.
    pub fn sum(&self, place: u64) -> u128 {
        let index = self.index(place);
        let step = &self.steps[index];
        self.before[index] + u128::from(step.values.rate.unwrap_or(0)) * u128::from(place - step.at)
    }

    pub const fn total(&self) -> u128 {
        self.total
    }

    /// The first place at which `sum` bits have been sent, and the bits of the nanosecond after it that belong to them.
    /// `sum` is from 1 to [`Self::total`].
    pub fn place_of(&self, sum: u128) -> (u64, u64) {
        let index = self.before.partition_point(|before| *before < sum).saturating_sub(1);
        let step = &self.steps[index];
        let rate = u128::from(step.values.rate.unwrap_or(0).max(1));
        let rest = sum - self.before[index];
        // Within the step, whose length is a u64; a remainder is below the rate.
        (step.at + (rest / rate) as u64, (rest % rate) as u64)
    }

    fn index(&self, place: u64) -> usize {
        self.steps.partition_point(|step| step.at <= place).saturating_sub(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps(rates: &[(u64, u64)], period: u64) -> Option<Steps> {
        let step = |&(at, rate)| TraceStep { at, values: TraceValues { rate: Some(rate), ..TraceValues::default() } };
        Steps::new(rates.iter().map(step).collect(), period)
    }

    #[test]
    fn sums_and_places_are_inverse() {
        let steps = steps(&[(0, 3), (10, 0), (20, 7)], 30).unwrap();
        assert_eq!((steps.total(), steps.sum(15), steps.sum(21)), (100, 30, 37));
        assert_eq!(steps.place_of(30), (10, 0));
        assert_eq!(steps.place_of(31), (20, 1));
        assert_eq!(steps.place_of(4), (1, 1));
        assert_eq!(steps.place_of(100), (30, 0));
        for sum in 1..=100 {
            let (place, part) = steps.place_of(sum);
            let until = if place == 30 { steps.total() } else { steps.sum(place) };
            assert_eq!(until + u128::from(part), sum);
        }
    }

    #[test]
    fn useless_steps_are_refused() {
        assert_eq!(steps(&[], 5), None);
        assert_eq!(steps(&[(0, 0), (3, 0)], 5), None);
        assert_eq!(steps(&[(0, 1), (3, 1), (3, 1)], 5), None);
        assert_eq!(steps(&[(1, 1)], 5), None);
        assert_eq!(steps(&[(0, 1), (5, 1)], 5), None);
    }
}
