//! Numbers: 64-bit integers and doubles, in Tcl's notation.

use std::cmp::Ordering;

/// A longer text is no number, so that long texts are not parsed.
const LONGEST: usize = 1000;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Number {
    Integer(i64),
    Double(f64),
}

impl Number {
    pub(crate) fn double(self) -> f64 {
        match self {
            // Rounded beyond 2^53, as in Tcl.
            Self::Integer(integer) => integer as f64,
            Self::Double(double) => double,
        }
    }

    pub(crate) fn is_true(self) -> bool {
        match self {
            Self::Integer(integer) => integer != 0,
            Self::Double(double) => double != 0.0,
        }
    }

    /// Compares two numbers; `None` if one is NaN.
    pub(crate) fn compare(self, other: Self) -> Option<Ordering> {
        match (self, other) {
            (Self::Integer(a), Self::Integer(b)) => Some(a.cmp(&b)),
            _ => self.double().partial_cmp(&other.double()),
        }
    }

    pub(crate) fn text(self) -> String {
        match self {
            Self::Integer(integer) => integer.to_string(),
            Self::Double(double) => double_text(double),
        }
    }
}

/// Reads a number with blanks around it: decimal, `0x`, `0o`, `0b`, and octal after a leading zero, as in Tcl
/// 8.
pub(crate) fn read(text: &str) -> Option<Number> {
    if text.len() > LONGEST {
        return None;
    }
    let text = text.trim_matches(|c: char| c.is_ascii_whitespace() || c == '\u{b}');
    if let Some(integer) = integer(text) {
        return Some(Number::Integer(integer));
    }
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    let begins = digits.strip_prefix('.').unwrap_or(digits).starts_with(|c: char| c.is_ascii_digit());
    match digits.to_ascii_lowercase().as_str() {
        "inf" | "infinity" => {
            Some(Number::Double(if text.starts_with('-') { f64::NEG_INFINITY } else { f64::INFINITY }))
        }
        lower if begins && !is_bad_octal(digits) && !lower.contains(['x', 'n', 'i']) => {
            text.parse().ok().map(Number::Double)
        }
        _ => None,
    }
}

/// True if `digits` has the form of an octal integer. The caller has failed to read it as one, so it holds an 8
/// or 9.
pub(crate) fn is_bad_octal(digits: &str) -> bool {
    digits.len() > 1 && digits.starts_with('0') && digits.bytes().all(|byte| byte.is_ascii_digit())
}

fn integer(text: &str) -> Option<i64> {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if !digits.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    let lower = digits.to_ascii_lowercase();
    let magnitude = match lower.get(..2) {
        Some("0x") => u64::from_str_radix(after_prefix(&lower)?, 16),
        Some("0b") => u64::from_str_radix(after_prefix(&lower)?, 2),
        Some("0o") => u64::from_str_radix(after_prefix(&lower)?, 8),
        _ if lower.len() > 1 && lower.starts_with('0') => u64::from_str_radix(&lower, 8),
        _ => lower.parse(),
    };
    let magnitude = i128::from(magnitude.ok()?);
    i64::try_from(if negative { -magnitude } else { magnitude }).ok()
}

fn after_prefix(digits: &str) -> Option<&str> {
    digits.get(2..).filter(|digits| digits.starts_with(|c: char| c.is_ascii_hexdigit()))
}

/// The shortest text of the same double, with a point or exponent.
fn double_text(double: f64) -> String {
    if double.is_nan() {
        return "NaN".to_owned();
    }
    if double.is_infinite() {
        return if double > 0.0 { "Inf" } else { "-Inf" }.to_owned();
    }
    let scientific = format!("{double:e}");
    let exponent: i32 = scientific.split_once('e').and_then(|(_, exponent)| exponent.parse().ok()).unwrap_or(0);
    match exponent {
        -4..=16 => {
            let plain = format!("{double}");
            if plain.contains('.') { plain } else { plain + ".0" }
        }
        _ if exponent > 0 => scientific.replace('e', "e+"),
        _ => scientific,
    }
}

/// Reads the number at the start of a text, like `%f` of `scan`; returns its length in bytes as well.
pub(crate) fn prefix(text: &str) -> Option<(f64, usize)> {
    if text.len() > LONGEST {
        return None;
    }
    let bytes = text.as_bytes();
    let digits = |from: usize| bytes[from..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    let start = usize::from(text.starts_with(['+', '-']));
    let whole = digits(start);
    let mut end = start + whole;
    let mut part = 0;
    if bytes.get(end) == Some(&b'.') {
        part = digits(end + 1);
        if whole + part > 0 {
            end += 1 + part;
        }
    }
    if whole + part == 0 {
        return None;
    }
    if matches!(bytes.get(end), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(bytes.get(end + 1), Some(b'+' | b'-')));
        let exponent = if end + 1 + sign <= bytes.len() { digits(end + 1 + sign) } else { 0 };
        if exponent > 0 {
            end += 1 + sign + exponent;
        }
    }
    Some((text[..end].parse().ok()?, end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_in_every_notation() {
        use Number::{Double, Integer};
        for (text, number) in [
            ("12", Some(Integer(12))),
            (" -7 ", Some(Integer(-7))),
            ("0x1F", Some(Integer(31))),
            ("010", Some(Integer(8))),
            ("0b101", Some(Integer(5))),
            ("-9223372036854775808", Some(Integer(i64::MIN))),
            ("1.5", Some(Double(1.5))),
            (".5", Some(Double(0.5))),
            ("5.", Some(Double(5.0))),
            ("1e3", Some(Double(1000.0))),
            ("08", None),
            ("08.5", Some(Double(8.5))),
            ("abc", None),
            ("", None),
            ("1 2", None),
            ("nan", None),
            ("0x", None),
            ("--1", None),
            ("+-1", None),
        ] {
            assert_eq!(read(text), number, "{text}");
        }
    }

    /// Expected values are the output of tclsh 8.6.13.
    #[test]
    fn doubles_are_written_like_tclsh() {
        for (double, text) in [
            (1e-5, "1e-5"),
            (1e20, "1e+20"),
            (1e15, "1000000000000000.0"),
            (1e16, "10000000000000000.0"),
            (1e17, "1e+17"),
            (123_456_789_012_345_678.0, "1.2345678901234568e+17"),
            (0.1, "0.1"),
            (5.0, "5.0"),
            (1.5e-7, "1.5e-7"),
            (0.0001, "0.0001"),
            (-0.0, "-0.0"),
            (f64::INFINITY, "Inf"),
        ] {
            assert_eq!(Number::Double(double).text(), text);
        }
    }

    #[test]
    fn number_before_unit_is_found() {
        for (text, found) in [
            ("100Mb", Some((100.0, 3))),
            ("1.5e3kb", Some((1500.0, 5))),
            ("2e", Some((2.0, 1))),
            ("3e+x", Some((3.0, 1))),
            (".5s", Some((0.5, 2))),
            ("5.ms", Some((5.0, 2))),
            ("-1", Some((-1.0, 2))),
            (".", None),
            ("ms", None),
            ("", None),
        ] {
            assert_eq!(prefix(text), found, "{text}");
        }
    }
}
