//! `--vary KEY=V1,V2` of the command line.

use toml::{Table, Value};

use super::key::PlanKey;

/// Reads a key and its values. A value is what TOML has, or a word without quotes: `links.net.delay=5ms,50ms`,
/// `faults=[],[{at="50%",kill="hub"}]`, `seed=1..20`.
///
/// # Errors
/// Fails when there is no key, or no value.
pub fn parse_variation(text: &str) -> Result<(PlanKey, Vec<Value>), String> {
    let (key, values) = text.split_once('=').ok_or_else(|| format!("`{text}` has no values: write KEY=V1,V2"))?;
    let key = PlanKey::parse(key.trim())?;
    let parts = parts(values);
    if parts.iter().any(|part| part.is_empty()) {
        return Err(format!("`{key}` has an empty value: write {key}=V1,V2"));
    }
    let values = parts.into_iter().flat_map(|part| read(&key, part)).collect();
    Ok((key, values))
}

/// Splits at commas that stand in no brackets and no quotes.
fn parts(text: &str) -> Vec<&str> {
    let (mut parts, mut begin, mut depth, mut quote) = (Vec::new(), 0, 0_i32, None);
    for (at, letter) in text.char_indices() {
        match (letter, quote) {
            (_, Some(open)) => quote = Some(open).filter(|open| *open != letter),
            ('"' | '\'', None) => quote = Some(letter),
            ('[' | '{', None) => depth += 1,
            (']' | '}', None) => depth -= 1,
            (',', None) if depth == 0 => {
                parts.push(text[begin..at].trim());
                begin = at + 1;
            }
            _ => {}
        }
    }
    parts.push(text[begin..].trim());
    parts
}

fn read(key: &PlanKey, part: &str) -> Vec<Value> {
    let range = part.split_once("..").and_then(|(first, last)| Some((first.parse().ok()?, last.parse().ok()?)));
    if let (true, Some((first, last))) = (key.is("seed"), range) {
        // A range that is too long meets the limit of runs.
        let last: i64 = i64::min(last, i64::saturating_add(first, super::MAX_CELLS as i64));
        return (first..=last).map(Value::Integer).collect();
    }
    let is_line = !part.contains(['\n', '\r', '#']);
    let mut table = toml::from_str::<Table>(&format!("value = {part}")).ok().filter(|_| is_line);
    let value = table.as_mut().and_then(|table| table.remove("value"));
    let value = value.filter(|value| !matches!(value, Value::Datetime(_)));
    vec![value.unwrap_or_else(|| Value::String(part.to_owned()))]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_words_or_toml() {
        let told =
            |text: &str| parse_variation(text).map(|(key, values)| (key.to_string(), Value::Array(values).to_string()));
        let cases = [
            ("links.net.delay=5ms,50ms", "links.net.delay", "[\"5ms\", \"50ms\"]"),
            ("seed=1..3,9", "seed", "[1, 2, 3, 9]"),
            ("reflect=true,false", "reflect", "[true, false]"),
            ("super_nodes=2,[\"n1\",\"n2\"]", "super_nodes", "[2, [\"n1\", \"n2\"]]"),
            ("faults=[],[{at=\"50%\",kill=\"hub\"}]", "faults", "[[], [{ at = \"50%\", kill = \"hub\" }]]"),
        ];
        for (text, key, values) in cases {
            assert_eq!(told(text), Ok((key.to_owned(), values.to_owned())));
        }
        for wrong in ["seed", "seed=", "=3", "seed=1,,2", "a b=3"] {
            assert!(told(wrong).is_err(), "{wrong}");
        }
        assert_eq!(parse_variation("seed=1..99999999").unwrap().1.len(), 10_001);
    }
}
