//! The values of a direction in a few words, for drawings.

use roost_topology::model::Leg;
use roost_topology::units::format_duration;

/// Rate, delay and loss: `1Mbit, 40ms, 1 % loss`. A value that has no effect is left out.
fn summary(leg: &Leg) -> String {
    let has_rate = leg.rate_trace().is_some();
    let mut words = vec![if has_rate { "trace".to_owned() } else { leg.rate.to_string() }];
    if leg.trace.is_some() && !has_rate {
        words.push("trace".to_owned());
    }
    if !leg.delay.is_zero() {
        words.push(format_duration(leg.delay));
    }
    if leg.loss > 0.0 {
        // Three digits: halves of a loss have more.
        let percent = leg.loss * 100.0;
        let digit = 10_f64.powi(2 - percent.log10().floor() as i32);
        words.push(format!("{} % loss", (percent * digit).round() / digit));
    }
    if !leg.jitter.is_zero() {
        words.push(format!("+{}", format_duration(leg.jitter)));
    }
    if leg.burst.is_some() {
        words.push("bursts".to_owned());
    }
    words.join(", ")
}

/// Both directions, once if they are the same.
pub(crate) fn both_directions(there: &Leg, back: &Leg) -> String {
    let (there, back) = (summary(there), summary(back));
    if there == back { there } else { format!("{there} / back {back}") }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use roost_topology::units::Rate;

    #[test]
    fn values_without_effect_are_left_out() {
        let leg = Leg { rate: Rate::from_bps(1_000_000), ..Leg::default() };
        assert_eq!(summary(&leg), "1Mbit");
        let lossy = Leg { loss: 0.012_500_000_1, delay: Duration::from_millis(40), ..leg.clone() };
        assert_eq!(summary(&lossy), "1Mbit, 40ms, 1.25 % loss");
        assert_eq!(both_directions(&leg, &leg), "1Mbit");
        assert_eq!(both_directions(&leg, &lossy), "1Mbit / back 1Mbit, 40ms, 1.25 % loss");
    }
}
