//! The values of a direction in a few words, for drawings.

use crate::model::Leg;
use crate::units::format_duration;

impl Leg {
    /// Rate, delay and loss: `1Mbit, 40ms, 1 % loss`. A value that has no effect is left out.
    pub fn summary(&self) -> String {
        let mut words = vec![self.rate.to_string()];
        if !self.delay.is_zero() {
            words.push(format_duration(self.delay));
        }
        if self.loss > 0.0 {
            // Halves of a loss come back as the whole but for rounding.
            words.push(format!("{} % loss", (self.loss * 1e6).round() / 1e4));
        }
        if !self.jitter.is_zero() {
            words.push(format!("+{}", format_duration(self.jitter)));
        }
        if self.burst.is_some() {
            words.push("bursts".to_owned());
        }
        words.join(", ")
    }
}

/// Both directions, once if they are the same.
pub fn both_directions(there: &Leg, back: &Leg) -> String {
    let (there, back) = (there.summary(), back.summary());
    if there == back { there } else { format!("{there} / back {back}") }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::units::Rate;

    #[test]
    fn values_without_effect_are_left_out() {
        let leg = Leg { rate: Rate::from_bps(1_000_000), ..Leg::default() };
        assert_eq!(leg.summary(), "1Mbit");
        let lossy = Leg { loss: 0.012_500_000_1, delay: Duration::from_millis(40), ..leg.clone() };
        assert_eq!(lossy.summary(), "1Mbit, 40ms, 1.25 % loss");
        assert_eq!(both_directions(&leg, &leg), "1Mbit");
        assert_eq!(both_directions(&leg, &lossy), "1Mbit / back 1Mbit, 40ms, 1.25 % loss");
    }
}
