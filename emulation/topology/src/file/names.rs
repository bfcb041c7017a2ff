//! Lists of names with ranges: `low[1-8]` is eight names.

use crate::model::MAX_MEMBERS;

/// The most digits of a number in a range.
const MAX_DIGITS: usize = 9;

/// Expands a word into names: itself, or one for each number of its range.
///
/// `uav[08-10]` keeps the leading zero: `uav08`, `uav09`, `uav10`.
///
/// # Errors
/// Fails when the brackets hold no range, or one with too many numbers.
pub fn expand(word: &str) -> Result<Vec<String>, String> {
    let Some((before, rest)) = word.split_once('[') else {
        return Ok(vec![word.to_owned()]);
    };
    let wrong = || format!("`{word}` has no range between its brackets: write low[1-8]");
    let (range, after) = rest.split_once(']').ok_or_else(wrong)?;
    let (first, last) = range.split_once('-').ok_or_else(wrong)?;
    let number = |text: &str| (text.len() <= MAX_DIGITS).then(|| text.parse::<usize>().ok()).flatten();
    let (Some(from), Some(to)) = (number(first), number(last)) else { return Err(wrong()) };
    if from > to || after.contains('[') {
        return Err(wrong());
    }
    if to - from >= MAX_MEMBERS {
        return Err(format!("`{word}` stands for more than {MAX_MEMBERS} names"));
    }
    let width = if first.starts_with('0') { first.len() } else { 0 };
    Ok((from..=to).map(|number| format!("{before}{number:0width$}{after}")).collect())
}

/// The shortest words that [`expand`] to these names, in this order.
pub(crate) fn compress<'a>(names: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let mut words = Vec::new();
    let mut run: Vec<&str> = Vec::new();
    for name in names {
        if run.last().is_some_and(|last| !follows(last, name)) {
            close(&mut run, &mut words);
        }
        run.push(name);
    }
    close(&mut run, &mut words);
    words
}

/// The one word that expands to these names, each of which [`follows`] the one before.
pub(super) fn range<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let mut names = names.into_iter();
    let first = names.next().unwrap_or("");
    match (split(first), names.last().and_then(split)) {
        (Some((stem, from)), Some((_, to))) => format!("{stem}[{from}-{to}]"),
        _ => first.to_owned(),
    }
}

/// A range of only two names saves nothing.
const SHORTEST_RUN: usize = 3;

fn close(run: &mut Vec<&str>, words: &mut Vec<String>) {
    match (run.first().and_then(|name| split(name)), run.last().and_then(|name| split(name))) {
        (Some((stem, first)), Some((_, last))) if run.len() >= SHORTEST_RUN => {
            words.push(format!("{stem}[{first}-{last}]"));
        }
        _ => words.extend(run.iter().map(|name| (*name).to_owned())),
    }
    run.clear();
}

/// True if `next` is `one` with its number increased by one.
pub(super) fn follows(one: &str, next: &str) -> bool {
    let (Some((stem, number)), Some((next_stem, next_number))) = (split(one), split(next)) else { return false };
    let width = if number.starts_with('0') { number.len() } else { 0 };
    let following = number.parse::<usize>().map(|number| format!("{:0width$}", number + 1));
    stem == next_stem && following.is_ok_and(|following| following == next_number)
}

/// Splits a name into its stem and the digits at its end.
fn split(name: &str) -> Option<(&str, &str)> {
    let stem = name.trim_end_matches(|c: char| c.is_ascii_digit());
    let digits = &name[stem.len()..];
    (!digits.is_empty() && digits.len() < MAX_DIGITS).then_some((stem, digits))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_range_stands_for_its_numbers() {
        assert_eq!(expand("a.b-c").unwrap(), ["a.b-c"]);
        assert_eq!(expand("low[9-11]x").unwrap(), ["low9x", "low10x", "low11x"]);
        assert_eq!(expand("u[08-10]").unwrap(), ["u08", "u09", "u10"]);
        for word in
            ["a[", "a[1", "a[1-]", "a[2-1]", "a[x-y]", "a[1-2][3-4]", "a[-1-2]", "a[1-99999999]", "a[1-9999999999]"]
        {
            assert!(expand(word).is_err(), "{word}");
        }
    }

    #[test]
    fn runs_become_ranges() {
        let names = ["server", "n1", "n2", "n3", "n5", "n6", "x08", "x09", "x10", "x11", "z"];
        assert_eq!(compress(names), ["server", "n[1-3]", "n5", "n6", "x[08-11]", "z"]);
    }

    proptest! {
        #[test]
        fn compressed_names_expand_back(names in prop::collection::vec("[ab]{1,2}(0{0,2}[0-9]{0,3})?", 0..12)) {
            let words = compress(names.iter().map(String::as_str));
            let back: Vec<String> = words.iter().flat_map(|word| expand(word).unwrap()).collect();
            prop_assert_eq!(back, names);
        }
    }
}
