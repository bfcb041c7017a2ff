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
/// `None`, no limit.
///
/// # Errors
/// One clause that says what was expected.
pub fn rate_kbps(text: &str) -> Result<Option<u32>, String> {
    if text == "none" {
        return Ok(None);
    }
    let kbps = (bits_per_second(text)? / 1e3).round();
    // The comparison also refuses what is no number.
    if (1.0..f64::from(u32::MAX)).contains(&kbps) {
        Ok(Some(kbps as u32))
    } else {
        Err("expected a rate between 1kbit/s and 4000Gbit/s".to_owned())
    }
}

/// Reads a size such as `500MB`, `2GiB` or `10 GB` and returns bytes.
///
/// # Errors
/// One clause that says what was expected.
pub fn size_bytes(text: &str) -> Result<u64, String> {
    let wrong = || "expected a size with its unit, such as 500MB, 2GiB or 1TB".to_owned();
    let digits = text.len() - text.trim_start_matches(|letter: char| letter.is_ascii_digit() || letter == '.').len();
    let (number, unit) = text.split_at(digits);
    let number: f64 = number.parse().map_err(|_| wrong())?;
    let unit = match unit.trim() {
        "B" => 1.0,
        "kB" => 1e3,
        "MB" => 1e6,
        "GB" => 1e9,
        "TB" => 1e12,
        "KiB" => 1024.0,
        "MiB" => 1024.0 * 1024.0,
        "GiB" => 1024.0 * 1024.0 * 1024.0,
        _ => return Err(wrong()),
    };
    let bytes = (number * unit).round();
    // A million terabytes at most; the comparison also refuses what is no number.
    if (1.0..=1e18).contains(&bytes) {
        Ok(bytes as u64)
    } else {
        Err("expected a size between 1B and 1000000TB".to_owned())
    }
}

/// Reads a rate of a thin link, such as `96bit/s` or `1kbit/s`, and returns bit/s.
///
/// # Errors
/// One clause that says what was expected.
pub fn rate_bps(text: &str) -> Result<u32, String> {
    let bps = bits_per_second(text)?.round();
    if (1.0..=4e9).contains(&bps) {
        Ok(bps as u32)
    } else {
        Err("expected a rate between 1bit/s and 4Gbit/s".to_owned())
    }
}

fn bits_per_second(text: &str) -> Result<f64, String> {
    let wrong = || "expected a rate with its unit, such as 64kbit/s, 10Mbit/s or 1Gbit/s".to_owned();
    let digits = text.len() - text.trim_start_matches(|letter: char| letter.is_ascii_digit() || letter == '.').len();
    let (number, unit) = text.split_at(digits);
    let number: f64 = number.parse().map_err(|_| wrong())?;
    let bits = match unit.trim() {
        "bit/s" => 1.0,
        "kbit/s" => 1e3,
        "Mbit/s" => 1e6,
        "Gbit/s" => 1e9,
        _ => return Err(wrong()),
    };
    Ok(number * bits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_read_with_their_units() {
        for (text, kbps) in [("64kbit/s", 64), ("10Mbit/s", 10_000), ("2.5 Mbit/s", 2_500), ("1Gbit/s", 1_000_000)] {
            assert_eq!(rate_kbps(text), Ok(Some(kbps)), "{text}");
        }
        assert_eq!(rate_kbps("none"), Ok(None));
        for text in ["", "10", "10MB/s", "fast", "0kbit/s", "-1Mbit/s", "99999999Gbit/s", "..Mbit/s"] {
            assert!(rate_kbps(text).is_err(), "{text}");
        }
    }

    #[test]
    fn low_rate_is_exact() {
        for (text, bps) in [("96bit/s", 96), ("0.64kbit/s", 640), ("1kbit/s", 1_000), ("4Gbit/s", 4_000_000_000)] {
            assert_eq!(rate_bps(text), Ok(bps), "{text}");
        }
        for text in ["none", "0bit/s", "5Gbit/s", "96", "..bit/s"] {
            assert!(rate_bps(text).is_err(), "{text}");
        }
    }

    #[test]
    fn sizes_are_read_with_their_units() {
        for (text, bytes) in [("1B", 1), ("500MB", 500_000_000), ("2 GiB", 2 << 30), ("1.5kB", 1_500), ("4KiB", 4_096)]
        {
            assert_eq!(size_bytes(text), Ok(bytes), "{text}");
        }
        for text in ["", "10", "0B", "1Mb", "-1MB", "2000000TB", "..MB"] {
            assert!(size_bytes(text).is_err(), "{text}");
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
