//! Backslash sequences.

/// Reads the sequence at the start of `text`, which begins with a backslash; returns the character it stands
/// for, and its length in bytes.
pub(crate) fn read(text: &str) -> (char, usize) {
    let mut chars = text.char_indices().skip(1);
    let Some((_, letter)) = chars.next() else { return ('\\', 1) };
    let after = 1 + letter.len_utf8();
    match letter {
        'a' => ('\u{7}', after),
        'b' => ('\u{8}', after),
        'f' => ('\u{c}', after),
        'n' => ('\n', after),
        'r' => ('\r', after),
        't' => ('\t', after),
        'v' => ('\u{b}', after),
        '\n' => (' ', after + text[after..].bytes().take_while(|&byte| byte == b' ' || byte == b'\t').count()),
        'x' => digits(text, after, 16, 2).unwrap_or(('x', after)),
        'u' => digits(text, after, 16, 4).unwrap_or(('u', after)),
        'U' => digits(text, after, 16, 8).unwrap_or(('U', after)),
        '0'..='7' => digits(text, 1, 8, 3).unwrap_or((letter, after)),
        _ => (letter, after),
    }
}

/// Reads at most `most` digits from `start` on as a character.
fn digits(text: &str, start: usize, radix: u32, most: usize) -> Option<(char, usize)> {
    let digits: Vec<u32> = text[start..].chars().map_while(|c| c.to_digit(radix)).take(most).collect();
    let code = digits.iter().fold(0_u32, |code, digit| code.wrapping_mul(radix).wrapping_add(*digit));
    match digits.is_empty() {
        true => None,
        false => Some((char::from_u32(code).unwrap_or('\u{fffd}'), start + digits.len())),
    }
}

/// Replaces a backslash, a line's end and the blanks after it by one blank, as braces do; `None` if there is
/// none.
pub(crate) fn join_lines(text: &str) -> Option<String> {
    if !text.contains("\\\n") {
        return None;
    }
    let mut joined = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        joined.push_str(&rest[..at]);
        let (_, len) = read(&rest[at..]);
        if rest[at..].starts_with("\\\n") {
            joined.push(' ');
            rest = &rest[at + len..];
        } else {
            // Any other sequence stays; skipping its character keeps the next one from starting inside it.
            let next = rest[at + 1..].chars().next().map_or(0, char::len_utf8);
            joined.push_str(&rest[at..at + 1 + next]);
            rest = &rest[at + 1 + next..];
        }
    }
    joined.push_str(rest);
    Some(joined)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequences_stand_for_characters() {
        for (text, c, len) in [
            ("\\n", '\n', 2),
            ("\\$", '$', 2),
            ("\\101z", 'A', 4),
            ("\\x41g", 'A', 4),
            ("\\xg", 'x', 2),
            ("\\u00e9", 'é', 6),
            ("\\\n \t x", ' ', 5),
            ("\\é", 'é', 3),
            ("\\", '\\', 1),
        ] {
            assert_eq!(read(text), (c, len), "{text}");
        }
    }

    #[test]
    fn backslash_newline_joins_lines() {
        assert_eq!(join_lines("a \\\n   b\\\\\nc\\é"), Some("a  b\\\\\nc\\é".to_owned()));
        assert_eq!(join_lines("a\\nb"), None);
    }
}
