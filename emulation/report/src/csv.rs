//! Tables as CSV (RFC 4180, lines ended by LF), for spreadsheets and scripts.
//!
//! Columns are only ever added. An unknown value is an empty cell.

use std::iter;

/// The name of a column, and its cell in a row.
pub(super) type Column<T> = (&'static str, fn(&T) -> String);

/// Writes a file with a line for each of `rows`.
pub(super) fn lines<T>(rows: impl IntoIterator<Item = T>, columns: &[Column<T>]) -> String {
    let heading = columns.iter().map(|(name, _)| (*name).to_owned()).collect();
    let rows = rows.into_iter().map(|row| columns.iter().map(|(_, cell)| quoted(cell(&row))).collect());
    iter::once(heading).chain(rows).map(|cells: Vec<String>| cells.join(",") + "\n").collect()
}

fn quoted(cell: String) -> String {
    if cell.contains([',', '"', '\r', '\n']) { format!("\"{}\"", cell.replace('"', "\"\"")) } else { cell }
}

/// At most six decimals, without trailing zeros.
pub(super) fn number(value: f64) -> String {
    let text = format!("{value:.6}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" { "0".to_owned() } else { text.to_owned() }
}

pub(super) fn maybe(value: Option<f64>) -> String {
    value.filter(|value| value.is_finite()).map_or_else(String::new, number)
}

pub(super) fn whole(value: Option<impl ToString>) -> String {
    value.map_or_else(String::new, |value| value.to_string())
}

pub(super) fn flag(value: bool) -> String {
    u8::from(value).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_quoted_where_needed() {
        assert_eq!(quoted("a,\"b\"".to_owned()), "\"a,\"\"b\"\"\"");
        assert_eq!(number(1.0), "1");
        assert_eq!(number(0.1 + 0.2), "0.3");
        assert_eq!(number(1_500_000.0), "1500000");
        assert_eq!(maybe(Some(f64::NAN)), "");
    }
}
