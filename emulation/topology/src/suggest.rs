//! Suggestions for misspelt words.

/// The least similarity (Jaro–Winkler) of a word and its suggestion.
const NEAR: f64 = 0.75;

/// Returns the candidate most like `word`, if it is similar enough.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let scored = candidates.into_iter().map(|candidate| (strsim::jaro_winkler(word, candidate), candidate));
    let best = scored.reduce(|best, next| if next.0 > best.0 { next } else { best });
    best.filter(|(likeness, _)| *likeness >= NEAR).map(|(_, candidate)| candidate)
}

/// The end of a sentence about an unknown word: `; did you mean …?`, or empty.
pub fn did_you_mean<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> String {
    nearest(word, candidates).map_or_else(String::new, |near| format!("; did you mean `{near}`?"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_alike_is_offered() {
        assert_eq!(did_you_mean("dealy", ["rate", "delay"]), "; did you mean `delay`?");
        assert_eq!(did_you_mean("zzz", ["rate", "delay"]), "");
    }
}
