//! Values with units, as they stand in files, flags and the environment.

use std::time::Duration;

/// The longest duration any setting takes.
const MAX_DURATION: Duration = Duration::from_secs(365 * 24 * 3600);

/// Reads a duration such as `250ms`, `10s` or `1h`.
///
/// # Errors
/// One clause that says what was expected.
pub fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || "expected a duration with its unit, such as 250ms, 10s or 1h".to_owned();
    let duration = humantime::parse_duration(text).map_err(|_| wrong())?;
    if duration > MAX_DURATION { Err("expected at most one year".to_owned()) } else { Ok(duration) }
}

/// Reads a rate such as `10Mbit/s` or `64kbit/s` and returns kbit/s; `none` is
/// `u32::MAX`, no limit.
///
/// # Errors
/// One clause that says what was expected.
pub fn rate_kbps(text: &str) -> Result<u32, String> {
    if text == "none" {
        return Ok(u32::MAX);
    }
    let wrong = || "expected a rate with its unit, such as 64kbit/s, 10Mbit/s or 1Gbit/s, or none".to_owned();
    let digits = text.len() - text.trim_start_matches(|letter: char| letter.is_ascii_digit() || letter == '.').len();
    let (number, unit) = text.split_at(digits);
    let number: f64 = number.parse().map_err(|_| wrong())?;
    let kilobits = match unit.trim() {
        "kbit/s" => 1.0,
        "Mbit/s" => 1e3,
        "Gbit/s" => 1e6,
        _ => return Err(wrong()),
    };
    let kbps = (number * kilobits).round();
    // The comparison also refuses what is no number.
    if (1.0..f64::from(u32::MAX)).contains(&kbps) {
        Ok(kbps as u32)
    } else {
        Err("expected a rate between 1kbit/s and 4000Gbit/s".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_read_with_their_units() {
        for (text, kbps) in [("64kbit/s", 64), ("10Mbit/s", 10_000), ("2.5 Mbit/s", 2_500), ("1Gbit/s", 1_000_000)] {
            assert_eq!(rate_kbps(text), Ok(kbps), "{text}");
        }
        assert_eq!(rate_kbps("none"), Ok(u32::MAX));
        for text in ["", "10", "10MB/s", "fast", "0kbit/s", "-1Mbit/s", "99999999Gbit/s", "..Mbit/s"] {
            assert!(rate_kbps(text).is_err(), "{text}");
        }
    }

    #[test]
    fn durations_need_a_unit() {
        assert_eq!(duration("250ms"), Ok(Duration::from_millis(250)));
        for text in ["", "10", "ten seconds", "2y"] {
            assert!(duration(text).is_err(), "{text}");
        }
    }
}
