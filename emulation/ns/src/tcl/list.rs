//! Conversion between lists and strings.

use super::escape;
use super::parse::is_space;

fn is_gap(byte: u8) -> bool {
    is_space(byte) || byte == b'\n'
}

pub(crate) fn split(text: &str) -> Result<Vec<String>, String> {
    let mut items = Vec::new();
    each(text, |item, _| items.push(item))?;
    Ok(items)
}

/// Calls `found` with each element and the offset of its text.
pub(crate) fn each(text: &str, mut found: impl FnMut(String, usize)) -> Result<(), String> {
    let mut at = 0;
    while let Some(start) = (at..text.len()).find(|&i| !is_gap(text.as_bytes()[i])) {
        let (begin, (item, next)) = match text.as_bytes()[start] {
            b'{' => (start + 1, braced(text, start + 1)?),
            b'"' => (start + 1, quoted(text, start + 1)?),
            _ => (start, bare(text, start)),
        };
        found(item, begin);
        at = next;
    }
    Ok(())
}

fn braced(text: &str, start: usize) -> Result<(String, usize), String> {
    let bytes = text.as_bytes();
    let mut open = 1_usize;
    let mut at = start;
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b'\\' => at += 1,
            b'{' => open += 1,
            b'}' => open -= 1,
            _ => {}
        }
        if open == 0 {
            after(text, at + 1, "braces")?;
            let item = &text[start..at];
            return Ok((escape::join_lines(item).unwrap_or_else(|| item.to_owned()), at + 1));
        }
        at += 1;
    }
    Err("unmatched open brace in list".to_owned())
}

fn quoted(text: &str, start: usize) -> Result<(String, usize), String> {
    let mut item = String::new();
    let mut at = start;
    while let Some(c) = text[at..].chars().next() {
        match c {
            '"' => {
                after(text, at + 1, "quotes")?;
                return Ok((item, at + 1));
            }
            '\\' => {
                let (c, len) = escape::read(&text[at..]);
                item.push(c);
                at += len;
            }
            _ => {
                item.push(c);
                at += c.len_utf8();
            }
        }
    }
    Err("unmatched open quote in list".to_owned())
}

fn bare(text: &str, start: usize) -> (String, usize) {
    let mut item = String::new();
    let mut at = start;
    while let Some(c) = text[at..].chars().next() {
        match c {
            '\\' => {
                let (c, len) = escape::read(&text[at..]);
                item.push(c);
                at += len;
            }
            _ if c.is_ascii() && is_gap(c as u8) => break,
            _ => {
                item.push(c);
                at += c.len_utf8();
            }
        }
    }
    (item, at)
}

fn after(text: &str, at: usize, what: &str) -> Result<(), String> {
    match text.as_bytes().get(at) {
        Some(&byte) if !is_gap(byte) => {
            let rest: String = text[at..].chars().take_while(|c| !c.is_whitespace()).take(20).collect();
            Err(format!("list element in {what} followed by \"{rest}\" instead of space"))
        }
        _ => Ok(()),
    }
}

pub(crate) fn join<'a>(items: impl Iterator<Item = &'a str>) -> String {
    let mut list = String::new();
    for item in items {
        let first = list.is_empty();
        if !first {
            list.push(' ');
        }
        list.push_str(&quote(item, first));
    }
    list
}

/// Quotes `item` as one element of a list: unchanged, in braces, or with backslashes where braces cannot hold
/// it.
pub(crate) fn quote(item: &str, first: bool) -> String {
    let special = |c| matches!(c, ' ' | '\t' | '\n' | '\r' | '\u{b}' | '\u{c}' | '[' | ']' | '$' | ';' | '\\' | '"');
    let hash = first && item.starts_with('#');
    let fits_braces = fits_braces(item);
    if item.is_empty() {
        return "{}".to_owned();
    }
    if !hash && !item.contains(special) && !item.starts_with('{') && fits_braces {
        return item.to_owned();
    }
    if fits_braces && !prefers_backslashes(item) {
        return format!("{{{item}}}");
    }
    let mut quoted = String::with_capacity(item.len() + 8);
    for (i, c) in item.char_indices() {
        match c {
            '\n' => quoted.push_str("\\n"),
            '\t' => quoted.push_str("\\t"),
            '\r' => quoted.push_str("\\r"),
            '\u{b}' => quoted.push_str("\\v"),
            '\u{c}' => quoted.push_str("\\f"),
            _ if special(c) || matches!(c, '{' | '}') || (c == '#' && i == 0 && first) => quoted.extend(['\\', c]),
            _ => quoted.push(c),
        }
    }
    quoted
}

/// True if the item can stand in braces: they balance, and it does not end in a lone backslash.
fn fits_braces(item: &str) -> bool {
    let mut open = 0_i64;
    let mut chars = item.chars();
    while let Some(c) = chars.next() {
        match c {
            '{' => open += 1,
            '}' => open -= 1,
            '\\' => match chars.next() {
                None | Some('\n') => return false,
                Some(_) => {}
            },
            _ => {}
        }
        if open < 0 {
            return false;
        }
    }
    open == 0
}

/// True if Tcl prefers backslashes: only a bracket or quote is special.
fn prefers_backslashes(item: &str) -> bool {
    item.contains([']', '"'])
        && !item.starts_with('"')
        && !item.contains([' ', '\t', '\n', '\r', '\u{b}', '\u{c}', '{', '}', '[', '$', ';', '\\'])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn elements_split_outside_braces_and_quotes() {
        let items = split(" a {b c} \"d e\" f\\ g {h {i j}} {} \n k{l ").unwrap();
        assert_eq!(items, ["a", "b c", "d e", "f g", "h {i j}", "", "k{l"]);
        for wrong in ["{a", "\"a", "{a}b", "\"a\"b", "a {b"] {
            assert!(split(wrong).is_err(), "{wrong}");
        }
    }

    /// Expected values are the output of `list` in tclsh 8.6.13.
    #[test]
    fn elements_are_quoted_like_tclsh() {
        for (item, quoted) in [
            ("a", "a"),
            ("", "{}"),
            ("a b", "{a b}"),
            ("a]b", "a\\]b"),
            ("a\"b", "a\\\"b"),
            ("\"a\"", "{\"a\"}"),
            ("a{b}c", "a{b}c"),
            ("{b}c", "{{b}c}"),
            ("a$b", "{a$b}"),
            ("a{b", "a\\{b"),
            ("a}b{", "a\\}b\\{"),
            ("a\\", "a\\\\"),
            ("a;b", "{a;b}"),
            ("#a", "{#a}"),
            ("a\\b", "{a\\b}"),
            ("a {b", "a\\ \\{b"),
        ] {
            assert_eq!(quote(item, true), quoted, "{item}");
        }
        assert_eq!(join(["a", "#b", "c d"].into_iter()), "a #b {c d}");
    }

    proptest! {
        #[test]
        fn what_is_joined_is_split_again(items in prop::collection::vec("[ab {}\\[\\]\"\\$;#\\\\\n\t]{0,8}", 0..6)) {
            let list = join(items.iter().map(String::as_str));
            prop_assert_eq!(split(&list), Ok(items));
        }
    }
}
