//! Rates, delays, times, losses and addresses in Emulab's notation.

use std::net::Ipv4Addr;
use std::time::Duration;

use roost_topology::model::{MAX_DELAY, Queue, Red};

use super::tcl::number;
use super::tcl::short;

/// The slowest rate of a link, kbit/s.
const SLOWEST: u64 = 10;
pub(crate) const FASTEST: u64 = 10_000_000;
/// The highest value of any rate, kbit/s.
const LIMIT: f64 = 1e9;
/// Emulab's hardware makes no shorter delays, and whole milliseconds only. In milliseconds.
const WHOLE_FROM_MS: f64 = 2.0;
/// The latest event, in seconds: a year.
const LATEST: f64 = 366.0 * 86_400.0;

/// A rate as the file gives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bandwidth {
    Kbps(u64),
    /// `*`: unlimited here.
    Any,
    /// `~`: best effort; a link or LAN of it is unlimited here.
    BestEffort,
}

impl Bandwidth {
    /// Whole kbit/s of a new link or LAN; 0 means unlimited.
    pub(crate) fn of_net(self) -> u64 {
        match self {
            Self::Kbps(kbps) => kbps,
            Self::Any | Self::BestEffort => 0,
        }
    }

    /// Whole kbit/s of anything but a new net; 0 means unlimited. Emulab's parser stores the slowest rate for
    /// `~`; only LANs made with it are marked as best effort.
    pub(crate) fn kbps(self) -> u64 {
        match self {
            Self::BestEffort => SLOWEST,
            rate => rate.of_net(),
        }
    }
}

/// Reads `100Mb`, `1.5Mbps`, `64kb`, `5000` (bit/s), `*` or `~`, as the rate of
/// a link: at least 10 kbit/s.
pub(crate) fn bandwidth(text: &str) -> Result<Bandwidth, String> {
    match text {
        "*" => Ok(Bandwidth::Any),
        "~" => Ok(Bandwidth::BestEffort),
        _ => match rate(text)? {
            kbps if kbps < SLOWEST => {
                Err(format!("the rate \"{}\" is below {SLOWEST} kbit/s, the slowest that a link may be", short(text)))
            }
            kbps => Ok(Bandwidth::Kbps(kbps)),
        },
    }
}

/// Reads a rate of any size, in whole kbit/s.
pub(crate) fn rate(text: &str) -> Result<u64, String> {
    let (amount, unit) = amount(text, "rate")?;
    let kbps = match unit {
        "" | "b" | "bps" => amount / 1000.0,
        "k" | "kb" | "kbps" | "K" | "Kb" | "Kbps" => amount,
        "M" | "Mb" | "Mbps" => amount * 1000.0,
        "G" | "Gb" | "Gbps" => amount * 1_000_000.0,
        _ => {
            return Err(format!(
                "\"{}\" is no unit of a rate: write b, kb, Mb or Gb (bits per second, not bytes)",
                short(unit)
            ));
        }
    };
    match (0.0..=LIMIT).contains(&kbps) {
        // In range; truncated to whole kbit/s as in Emulab.
        true => Ok(kbps as u64),
        false => Err(format!("the rate \"{}\" is out of range", short(text))),
    }
}

/// Reads `50ms`, `1.5s`, `0.01` (seconds) or `5000ns` (which Emulab takes for microseconds). From 2 ms on
/// delays are whole milliseconds, as Emulab stores them; a shorter delay, which its hardware cannot make, is
/// kept unchanged.
pub(crate) fn delay(text: &str) -> Result<Duration, String> {
    let (amount, unit) = amount(text, "delay")?;
    let ms = match unit {
        "" | "s" => amount * 1000.0,
        "ms" => amount,
        "ns" => amount / 1000.0,
        _ => return Err(format!("\"{}\" is no unit of a delay: write ms or s", short(unit))),
    };
    milliseconds(ms)
        .ok_or_else(|| format!("the delay \"{}\" is out of range: from 0 to {} s", short(text), MAX_DELAY.as_secs()))
}

/// A remark for the author of the file on a delay that Emulab would change.
pub(crate) fn delay_remark(text: &str, read: Duration) -> Option<String> {
    let ms = read.as_secs_f64() * 1e3;
    if ms > 0.0 && ms < WHOLE_FROM_MS {
        return Some(format!(
            "the delay \"{}\" is kept; Emulab refuses what is between 0 and {WHOLE_FROM_MS} ms",
            short(text)
        ));
    }
    let (amount, unit) = amount(text, "delay").ok()?;
    let written = match unit {
        "ms" => amount,
        "ns" => amount / 1e3,
        _ => amount * 1e3,
    };
    (written - ms > 1e-6).then(|| format!("the delay \"{}\" is {ms} ms here, as Emulab stores whole ones", short(text)))
}

fn milliseconds(ms: f64) -> Option<Duration> {
    let ms = if ms >= WHOLE_FROM_MS { ms.trunc() } else { ms };
    let in_range = ms >= 0.0 && ms <= MAX_DELAY.as_secs_f64() * 1000.0;
    // In range, as checked above.
    in_range.then(|| Duration::from_nanos((ms * 1e6).round() as u64))
}

/// The delay of an event or of `tevc`, where a bare number means milliseconds.
pub(crate) fn event_delay(text: &str) -> Result<Duration, String> {
    match number::prefix(text) {
        Some((ms, len)) if len == text.len() => delay(&format!("{ms}ms")),
        _ => delay(text),
    }
}

/// True if a unit follows the number.
pub(crate) fn has_unit(text: &str) -> bool {
    amount(text, "").is_ok_and(|(_, unit)| !unit.is_empty())
}

fn amount<'a>(text: &'a str, what: &str) -> Result<(f64, &'a str), String> {
    match number::prefix(text.trim_start()) {
        Some((amount, len)) => Ok((amount, text.trim_start()[len..].split_whitespace().next().unwrap_or_default())),
        None => Err(format!("\"{}\" is no {what}: it does not begin with a number", short(text))),
    }
}

/// Reads a time of the schedule: `12.5` seconds, or `1h20m3s`.
pub(crate) fn time(text: &str) -> Result<Duration, String> {
    relative(text).ok_or_else(|| format!("\"{}\" is no time: write seconds such as 12.5, or 1h20m3s", short(text)))
}

/// Converts a time to Emulab's form: a number stays unchanged, `1m30s` becomes seconds.
pub(crate) fn stored_time(text: &str) -> Result<String, String> {
    let read = time(text)?;
    Ok(if is_plain_number(text) { text.to_owned() } else { read.as_secs().to_string() })
}

fn relative(text: &str) -> Option<Duration> {
    if is_plain_number(text) {
        return seconds(text.parse().ok()?);
    }
    let mut total = 0.0;
    let mut rest = text;
    for (unit, size) in [('h', 3600.0), ('m', 60.0), ('s', 1.0)] {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        if digits > 0 && rest[digits..].starts_with(unit) {
            total += rest[..digits].parse::<f64>().ok()? * size;
            rest = &rest[digits + 1..];
        }
    }
    if rest.is_empty() { seconds(total) } else { None }
}

fn seconds(seconds: f64) -> Option<Duration> {
    // Neither negative nor beyond a year.
    (seconds <= LATEST).then(|| Duration::from_nanos((seconds * 1e9).round() as u64))
}

/// True for `12`, `12.5` or `.5`: Emulab's numbers have no sign or exponent.
fn is_plain_number(text: &str) -> bool {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    match text.split_once('.') {
        Some((whole, part)) => (whole.is_empty() || digits(whole)) && digits(part),
        None => digits(text),
    }
}

/// Reads a loss: 0, or 0.000005 to 1.
pub(crate) fn loss(text: &str) -> Result<f64, String> {
    let loss: Option<f64> = is_plain_number(text).then(|| text.parse().ok()).flatten();
    loss.filter(|loss| *loss == 0.0 || (0.000_005..=1.0).contains(loss))
        .ok_or_else(|| format!("\"{}\" is no loss: write 0, or a part from 0.000005 to 1", short(text)))
}

/// The loss of each of two legs that lose `loss` together.
pub(crate) fn half_loss(loss: f64) -> f64 {
    1.0 - (1.0 - loss).sqrt()
}

/// Converts a queue parameter: to a whole number except for the weight, and to ns's default if the value makes
/// no sense. `None` if it is no number, or if there is no such parameter.
pub(crate) fn queue_value(name: &str, text: &str) -> Option<f64> {
    let (default, range) = match name {
        "limit_" => (f64::from(Queue::DEFAULT.limit), 1.0..=1e9),
        "thresh_" => (f64::from(Red::DEFAULT.min_threshold), 1.0..=1e9),
        "maxthresh_" => (f64::from(Red::DEFAULT.max_threshold), 1.0..=1e9),
        "linterm_" => (f64::from(Red::DEFAULT.linterm), 1.0..=1e9),
        "q_weight_" => (Red::DEFAULT.weight, f64::MIN_POSITIVE..=1.0),
        _ => return None,
    };
    let (number, _) = number::prefix(text)?;
    let number = if name == "q_weight_" { number } else { number.trunc() };
    Some(if range.contains(&number) { number } else { default })
}

/// Reads an address: four numbers with points.
pub(crate) fn address(text: &str) -> Result<Ipv4Addr, String> {
    let wrong = || format!("\"{}\" is no IPv4 address", short(text));
    let parts: Vec<&str> = text.split('.').collect();
    let part = |part: &str| {
        let fits = (1..=3).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_digit());
        fits.then(|| part.parse::<u16>().ok().and_then(|number| u8::try_from(number).ok())).flatten()
    };
    match parts.as_slice() {
        [a, b, c, d] => {
            let octets =
                [part(a), part(b), part(c), part(d)].into_iter().collect::<Option<Vec<u8>>>().ok_or_else(wrong)?;
            Ok(Ipv4Addr::new(octets[0], octets[1], octets[2], octets[3]))
        }
        _ => Err(wrong()),
    }
}

/// Reads a netmask of 16 to 30 bits as the length of its prefix.
pub(crate) fn netmask(text: &str) -> Result<u8, String> {
    let mask = u32::from(address(text)?);
    let prefix = mask.leading_ones();
    match mask.checked_shl(prefix).unwrap_or(0) == 0 && (16..=30).contains(&prefix) {
        // Fits u8: the prefix is at most 30.
        true => Ok(prefix as u8),
        false => Err(format!("\"{}\" is no netmask for a net here: from 255.255.0.0 to 255.255.255.252", short(text))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_cut_to_whole_kilobits() {
        for (text, kbps) in [
            ("100Mb", 100_000),
            ("1.5Mbps", 1500),
            ("64kb", 64),
            ("128Kbps", 128),
            ("10G", 10_000_000),
            ("1Gb", 1_000_000),
            ("64000", 64),
            ("64999b", 64),
            ("15999bps", 15),
            ("100000.0kb", 100_000),
            ("10.0Mb", 10_000),
            ("100 Mb", 100_000),
        ] {
            assert_eq!(bandwidth(text), Ok(Bandwidth::Kbps(kbps)), "{text}");
        }
        assert_eq!(bandwidth("*"), Ok(Bandwidth::Any));
        assert_eq!(bandwidth("~"), Ok(Bandwidth::BestEffort));
        for text in ["", "Mb", "100MB", "100mb", "9kb", "0Mb", "-5Mb", "100Mb/s", "1e30Gb", "5kB", "1mbps"] {
            assert!(bandwidth(text).is_err(), "{text}");
        }
    }

    #[test]
    fn delays_are_whole_milliseconds_from_two() {
        for (text, micros) in [
            ("50ms", 50_000),
            ("1.5s", 1_500_000),
            ("0.05", 50_000),
            ("0ms", 0),
            ("0", 0),
            ("2.9ms", 2000),
            ("12.5ms", 12_000),
            ("0.3ms", 300),
            ("1.5ms", 1500),
            ("5000ns", 5000),
            ("1ms", 1000),
        ] {
            assert_eq!(delay(text), Ok(Duration::from_micros(micros)), "{text}");
        }
        for text in ["", "ms", "5us", "-5ms", "5m", "2h", "1e9s", "50msec"] {
            assert!(delay(text).is_err(), "{text}");
        }
        let remark = |text: &str| delay_remark(text, delay(text).unwrap()).unwrap_or_default();
        assert_eq!(remark("12.5ms"), "the delay \"12.5ms\" is 12 ms here, as Emulab stores whole ones");
        assert!(remark("1ms").contains("is kept"));
        assert_eq!([remark("50ms"), remark("0"), remark("0.05"), remark("2000ns")], [""; 4]);
        assert_eq!(event_delay("30"), Ok(Duration::from_millis(30)));
        assert_eq!(event_delay("30ms"), Ok(Duration::from_millis(30)));
        assert_eq!(event_delay("0.5s"), Ok(Duration::from_millis(500)));
    }

    #[test]
    fn times_parse_seconds_or_clock() {
        for (text, seconds) in [
            ("12.5", 12.5),
            (".5", 0.5),
            ("1h20m3s", 4803.0),
            ("2m", 120.0),
            ("0.00001", 0.00001),
            ("3s", 3.0),
            ("", 0.0),
        ] {
            assert_eq!(time(text), Ok(Duration::from_secs_f64(seconds)), "{text}");
        }
        for text in ["-1", "1e3", "5 s", "3s2m", "1.5s", "swapout", "99999999999", "5."] {
            assert!(time(text).is_err(), "{text}");
        }
        let stored = ["5.0", "05", "1m30s", ".5"].map(|text| stored_time(text).unwrap());
        assert_eq!(stored, ["5.0", "05", "90", ".5"]);
    }

    #[test]
    fn losses_and_addresses_are_checked() {
        assert_eq!((loss("0.01"), loss("0"), loss("0.0"), loss(".5")), (Ok(0.01), Ok(0.0), Ok(0.0), Ok(0.5)));
        for text in ["1e-3", "-0.1", "1.1", "0.000001", "", "5%"] {
            assert!(loss(text).is_err(), "{text}");
        }
        assert_eq!(address("10.1.01.2"), Ok(Ipv4Addr::new(10, 1, 1, 2)));
        for text in ["10.1.1", "10.1.1.256", "10.1.1.", "a.b.c.d", "10.1.1.1.1", "0010.1.1.1", ""] {
            assert!(address(text).is_err(), "{text}");
        }
        assert_eq!(
            (netmask("255.255.255.0"), netmask("255.255.0.0"), netmask("255.255.255.248")),
            (Ok(24), Ok(16), Ok(29))
        );
        for text in ["255.0.0.0", "255.255.0.255", "255.255.255.255", "0.0.0.0", "24"] {
            assert!(netmask(text).is_err(), "{text}");
        }
    }
}
