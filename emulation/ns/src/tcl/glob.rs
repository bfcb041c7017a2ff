//! Glob patterns with `*`, `?`, `[a-z]` and backslashes, as in `string match`.

pub(crate) fn matches(pattern: &str, text: &str) -> bool {
    let (pattern, text): (Vec<char>, Vec<char>) = (pattern.chars().collect(), text.chars().collect());
    // The position after the last star, for a retry if the rest does not fit.
    let mut again: Option<(usize, usize)> = None;
    let (mut p, mut t) = (0, 0);
    loop {
        if pattern.get(p) == Some(&'*') {
            again = Some((p + 1, t));
            p += 1;
            continue;
        }
        match text.get(t) {
            None if p == pattern.len() => return true,
            None => return false,
            Some(&c) => match one(&pattern[p..], c) {
                Some(len) => {
                    p += len;
                    t += 1;
                }
                None => match again {
                    Some((after_star, from)) => {
                        again = Some((after_star, from + 1));
                        (p, t) = (after_star, from + 1);
                    }
                    None => return false,
                },
            },
        }
    }
}

/// The number of pattern characters that match `c`, or `None`.
fn one(pattern: &[char], c: char) -> Option<usize> {
    match pattern {
        ['?', ..] => Some(1),
        ['\\', literal, ..] => (*literal == c).then_some(2),
        ['[', set @ ..] => {
            let end = set.iter().position(|&c| c == ']').unwrap_or(set.len());
            in_set(&set[..end], c).then_some((end + 2).min(pattern.len()))
        }
        [literal, ..] => (*literal == c).then_some(1),
        [] => None,
    }
}

fn in_set(mut set: &[char], c: char) -> bool {
    loop {
        match set {
            [from, '-', to, rest @ ..] => {
                let (low, high) = if from <= to { (from, to) } else { (to, from) };
                if (low..=high).contains(&&c) {
                    return true;
                }
                set = rest;
            }
            [one, rest @ ..] => {
                if *one == c {
                    return true;
                }
                set = rest;
            }
            [] => return false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_fit_whole_texts() {
        for (pattern, text, fits) in [
            ("n*", "node", true),
            ("*de", "node", true),
            ("n?de", "node", true),
            ("n[a-p]de", "node", true),
            ("n[xz]de", "node", false),
            ("n\\*", "n*", true),
            ("n\\*", "node", false),
            ("*a*b*c", "xaybzc", true),
            ("*a*b*c", "xaybz", false),
            ("", "", true),
            ("", "a", false),
            ("[z-a]", "m", true),
            ("[ab", "a", true),
            ("*", "", true),
        ] {
            assert_eq!(matches(pattern, text), fits, "{pattern} {text}");
        }
    }
}
