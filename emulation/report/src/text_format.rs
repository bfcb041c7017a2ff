//! Figures and names in the form for people.

use roost_results::metrics::Distribution;

/// The text without what XML forbids and HTML ignores.
pub fn printable(text: &str) -> String {
    let is_odd = |letter: char| letter.is_control() && letter != '\n' && letter != '\t';
    text.replace(is_odd, "\u{fffd}")
}

/// A whole number with a narrow space between thousands: `12 345`.
pub fn count(value: u64) -> String {
    let digits = value.to_string();
    let mut grouped = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) && digits.len() > 4 {
            grouped.push('\u{202f}');
        }
        grouped.push(digit);
    }
    grouped
}

/// Three significant digits, without trailing zeros of a fraction.
pub fn three(value: f64) -> String {
    if !value.is_finite() {
        return "–".to_owned();
    }
    let size = value.abs();
    let decimals = match size {
        _ if size >= 99.95 || size == 0.0 => 0,
        _ if size >= 9.995 => 1,
        _ if size >= 0.9995 => 2,
        _ => (2.0 - size.log10().floor()).min(6.0) as usize,
    };
    if decimals == 0 {
        let whole = count(size.round() as u64);
        return if value <= -0.5 { format!("−{whole}") } else { whole };
    }
    let text = format!("{value:.decimals$}");
    text.trim_end_matches('0').trim_end_matches('.').replace('-', "−")
}

/// A ratio, with enough digits to tell it from 1: `0.998`, `1.39`, `12.4`.
pub fn ratio(value: f64) -> String {
    match value {
        _ if !(0.01..100.0).contains(&value) => three(value),
        _ if value < 0.9995 => format!("{value:.3}"),
        _ if value < 10.0 => format!("{value:.2}"),
        _ => format!("{value:.1}"),
    }
}

/// Bytes: `412 kB`, `1.2 MB`.
pub fn bytes(value: f64) -> String {
    let units = [(1e9, "GB"), (1e6, "MB"), (1e3, "kB")];
    let unit = units.into_iter().find(|(scale, _)| value >= scale * 0.9995);
    unit.map_or_else(
        || format!("{} B", three(value.round())),
        |(scale, unit)| format!("{} {unit}", three(value / scale)),
    )
}

/// Milliseconds: `0.13 ms`, `412 ms`, `1.04 s`.
pub fn milliseconds(value: f64) -> String {
    if value >= 999.5 { format!("{} s", three(value / 1e3)) } else { format!("{} ms", three(value)) }
}

/// A rate in Mbit/s: `12.4 Mbit/s`, `5.76 kbit/s`.
pub fn rate(mbit_s: f64) -> String {
    match mbit_s {
        _ if mbit_s >= 0.9995 => format!("{} Mbit/s", three(mbit_s)),
        _ if mbit_s >= 0.000_999_5 => format!("{} kbit/s", three(mbit_s * 1e3)),
        _ => format!("{} bit/s", three((mbit_s * 1e6).round())),
    }
}

/// A moment or a short length: `0 s` up to a hundredth.
pub fn moment(seconds: f64) -> String {
    format!("{} s", three(if seconds < 0.01 { 0.0 } else { seconds }))
}

/// Seconds: `60 s`, `15 min`, `1 h 20 min`.
pub fn seconds(value: f64) -> String {
    let whole = value.round() as u64;
    match whole {
        _ if value < 120.0 => moment(value),
        _ if whole < 3600 && whole.is_multiple_of(60) => format!("{} min", whole / 60),
        _ if whole < 3600 => format!("{} min {} s", whole / 60, whole % 60),
        _ => format!("{} h {} min", whole / 3600, whole % 3600 / 60),
    }
}

/// A fraction as percent: `94.7 %`.
pub fn percent(part: f64) -> String {
    format!("{} %", three(part * 100.0))
}

/// The value as formatted by `write`, or a dash.
pub fn or_dash(value: Option<f64>, write: impl Fn(f64) -> String) -> String {
    value.filter(|value| value.is_finite()).map_or_else(|| "–".to_owned(), write)
}

/// A quantile of latencies, in brackets where so few lie beyond it that it is a guess.
pub fn quantile(latency: &Distribution, thousandths: u32) -> String {
    let text = or_dash(latency.quantile(thousandths), milliseconds);
    if latency.count == 0 || latency.is_quantile_reliable(thousandths) { text } else { format!("({text})") }
}

/// The latency of the slowest: the 99th percentile, or the maximum of too few for it.
pub fn slowest(latency: &Distribution) -> String {
    if latency.is_quantile_reliable(990) {
        return format!("99 % within {}", or_dash(latency.p99, milliseconds));
    }
    format!("the longest {}", or_dash(latency.max, milliseconds))
}

/// `1 request`, `2 requests`.
pub fn counted(value: u64, one: &str) -> String {
    format!("{} {one}{}", count(value), if value == 1 { "" } else { "s" })
}

/// Ties numbers to their units, so that no line ends between `8` and `kB`.
pub fn tied(text: &str) -> String {
    let mut before = ' ';
    let mut tie = |letter: char| {
        let tied = if letter == ' ' && before.is_ascii_digit() { '\u{a0}' } else { letter };
        before = letter;
        tied
    };
    text.chars().map(&mut tie).collect()
}

/// Puts the first letter of a name in upper case.
pub fn capital(name: &str) -> String {
    let mut letters = name.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_short() {
        let shown =
            [three(0.0), three(0.12345), three(9.999), three(94.74), three(412.3), three(12_345.0), three(-3.25)];
        assert_eq!(shown, ["0", "0.123", "10", "94.7", "412", "12\u{202f}345", "−3.25"]);
        assert_eq!([bytes(999.0), bytes(48_000.0), bytes(1_234_567.0)], ["999 B", "48 kB", "1.23 MB"]);
        assert_eq!([milliseconds(0.13), milliseconds(412.4), milliseconds(10_400.0)], ["0.13 ms", "412 ms", "10.4 s"]);
        assert_eq!([seconds(69.4), seconds(900.0), seconds(4800.0)], ["69.4 s", "15 min", "1 h 20 min"]);
        assert_eq!([rate(12.43), rate(0.00576), rate(0.0)], ["12.4 Mbit/s", "5.76 kbit/s", "0 bit/s"]);
        assert_eq!([moment(0.000_057), moment(1.5)], ["0 s", "1.5 s"]);
        assert_eq!([percent(0.947), percent(1.0)], ["94.7 %", "100 %"]);
        assert_eq!(
            [counted(1, "node"), counted(2, "node"), count(1234), count(1_000_000)].join("|"),
            "1 node|2 nodes|1234|1\u{202f}000\u{202f}000"
        );
        assert_eq!([ratio(1.0), ratio(0.5), ratio(1.386), ratio(12.0)], ["1.00", "0.500", "1.39", "12.0"]);
        assert_eq!(or_dash(None, bytes), "–");
    }

    #[test]
    fn a_guess_is_in_brackets() {
        let of = |count: usize| Distribution::from_values(vec![80.0; count]);
        assert_eq!([quantile(&of(19), 500), quantile(&of(20), 500), quantile(&of(0), 500)], ["(80 ms)", "80 ms", "–"]);
        assert_eq!([slowest(&of(999)), slowest(&of(1000))], ["the longest 80 ms", "99 % within 80 ms"]);
    }

    #[test]
    fn numbers_are_tied_to_their_units() {
        assert_eq!(tied("from 3 kB to n4 x"), "from 3\u{a0}kB to n4\u{a0}x");
    }
}
