//! The order of names in which their numbers count: `limit-20` comes before `limit-200`, and `20ms` before `1s`.

use crate::sweep::number;

/// The separators of words in the names of folders and cells.
const SEPARATORS: [char; 5] = ['_', '-', ' ', '/', ','];

/// A part of a name; numbers come first, those of one unit by their size.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum NamePart {
    /// The bits of numbers that are not negative have the order of the numbers.
    Number {
        unit: &'static str,
        bits: u64,
    },
    Text(String),
}

/// A name in its natural order, which is a key for sorting.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct NaturalName {
    parts: Vec<NamePart>,
    name: String,
}

impl NaturalName {
    pub(crate) fn new(name: &str) -> Self {
        Self { parts: name.split(SEPARATORS).flat_map(parts).collect(), name: name.to_owned() }
    }
}

/// A word that is a number with its unit is one part; of others the digits are parts of their own.
fn parts(word: &str) -> Vec<NamePart> {
    if let Some((value, unit)) = number(word).filter(|(value, _)| value.is_sign_positive()) {
        return vec![NamePart::Number { unit, bits: value.to_bits() }];
    }
    let is_digit = |letter: char| letter.is_ascii_digit();
    let chunks = word.char_indices().zip(word.chars().skip(1));
    let cuts = chunks.filter(|((_, one), other)| is_digit(*one) != is_digit(*other));
    let cuts = cuts.map(|((at, one), _)| at + one.len_utf8());
    let ends: Vec<usize> = cuts.chain([word.len()]).collect();
    let starts = [0].into_iter().chain(ends.iter().copied());
    starts.zip(&ends).map(|(start, end)| part(&word[start..*end])).collect()
}

fn part(chunk: &str) -> NamePart {
    let digits = chunk.parse::<f64>().ok().filter(|_| chunk.bytes().all(|byte| byte.is_ascii_digit()));
    digits
        .map_or_else(|| NamePart::Text(chunk.to_owned()), |value| NamePart::Number { unit: "", bits: value.to_bits() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sorted<const N: usize>(mut names: [&str; N]) -> [&str; N] {
        names.sort_by_cached_key(|name| NaturalName::new(name));
        names
    }

    #[test]
    fn numbers_count_by_their_size() {
        let limits = ["cs_limit-200_seed-1", "cs_limit-20_seed-10", "cs_limit-20_seed-9", "cs_limit-5_seed-1"];
        assert_eq!(sorted(limits), [limits[3], limits[2], limits[1], limits[0]]);
        assert_eq!(sorted(["n10", "n9", "n", "é2"]), ["n", "n9", "n10", "é2"]);
    }

    #[test]
    fn units_count_in_names() {
        assert_eq!(sorted(["1.5s", "100ms", "1ms", "20ms"]), ["1ms", "20ms", "100ms", "1.5s"]);
        assert_eq!(sorted(["a, rate 1Mbit", "a, rate 200kbit"]), ["a, rate 200kbit", "a, rate 1Mbit"]);
    }
}
