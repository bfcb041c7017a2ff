//! Sizes of files as people write them.

/// Reads `500kB`, `100MB`, `2GB` or `4096B`; k is 1000.
///
/// # Errors
/// Fails with a sentence when it is none.
pub fn parse_size(text: &str) -> Result<u64, String> {
    let wrong = || format!("`{text}` is no size: write 500kB, 100MB or 2GB");
    let (number, unit) =
        text.split_at(text.find(|letter: char| !letter.is_ascii_digit() && letter != '.').unwrap_or(text.len()));
    let factor = match unit.trim() {
        "B" => 1.0,
        "kB" => 1e3,
        "MB" => 1e6,
        "GB" => 1e9,
        "TB" => 1e12,
        _ => return Err(wrong()),
    };
    let bytes = number.parse::<f64>().map_err(|_| wrong())? * factor;
    // A file shorter than its own header would hold nothing.
    if (4096.0..=1e15).contains(&bytes) { Ok(bytes as u64) } else { Err(wrong() + ", at least 4096B") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units() {
        assert_eq!(["4096B", "1.5MB", "2 GB"].map(parse_size), [Ok(4096), Ok(1_500_000), Ok(2_000_000_000)]);
        for wrong in ["", "5", "5MiB", "-5MB", "1.2.3MB", "5B", "9e9GB", "99999999999999GB"] {
            assert!(parse_size(wrong).is_err(), "{wrong}");
        }
    }
}
