//! Texts of others, made fit for terminals and logs.

use std::borrow::Cow;
use std::fmt::{self, Write};

/// The most letters of a remote's text that are shown.
pub const MAX_SHOWN: usize = 4096;

/// Stands where a text was cut.
const CUT: char = '…';

/// A text of a remote on one line of at most [`MAX_SHOWN`] letters. Letters that command a
/// terminal, end a line, are not seen or turn the direction of others become escapes, as `\u{1b}`.
pub fn printable(text: &str) -> Cow<'_, str> {
    let is_long = text.chars().nth(MAX_SHOWN).is_some();
    if !is_long && text.chars().all(is_plain) {
        return Cow::Borrowed(text);
    }
    let mut shown = Printable(String::new());
    text.chars().take(MAX_SHOWN).for_each(|letter| shown.put(letter));
    // An escape takes several letters.
    let is_longer = shown.0.chars().nth(MAX_SHOWN).is_some();
    if is_long || is_longer {
        shown.0 = shown.0.chars().take(MAX_SHOWN).chain([CUT]).collect();
    }
    Cow::Owned(shown.0)
}

/// A text of several lines and any length for a terminal; line feeds and tabs stay.
pub fn printable_lines(text: &str) -> Cow<'_, str> {
    let stays = |letter: char| is_plain(letter) || matches!(letter, '\n' | '\t');
    if text.chars().all(stays) {
        return Cow::Borrowed(text);
    }
    let mut shown = Printable(String::new());
    for letter in text.chars() {
        if stays(letter) { shown.0.push(letter) } else { shown.put(letter) }
    }
    Cow::Owned(shown.0)
}

/// A JSON text, of one value or of one on each line, that means the same and commands no terminal:
/// letters that are not plain become `\uXXXX`. JSON has them nowhere but inside its strings.
pub fn printable_json(text: &str) -> Cow<'_, str> {
    let stays = |letter: char| is_plain(letter) || matches!(letter, '\n' | '\r' | '\t');
    if text.chars().all(stays) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len());
    for letter in text.chars() {
        if stays(letter) {
            shown.push(letter);
        } else {
            for unit in letter.encode_utf16(&mut [0; 2]) {
                // Writing to a string cannot fail.
                let _ = write!(shown, "\\u{unit:04x}");
            }
        }
    }
    Cow::Owned(shown)
}

/// Escapes what is written through it, as [`printable`] does, without a limit.
#[derive(Debug)]
pub struct Printable<W>(pub W);

impl Printable<String> {
    fn put(&mut self, letter: char) {
        // Writing to a string cannot fail.
        let _ = self.write_char(letter);
    }
}

impl<W: Write> Write for Printable<W> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let mut rest = text;
        while let Some((at, letter)) = rest.char_indices().find(|(_, letter)| !is_plain(*letter)) {
            self.0.write_str(&rest[..at])?;
            letter.escape_default().try_for_each(|part| self.0.write_char(part))?;
            rest = &rest[at + letter.len_utf8()..];
        }
        self.0.write_str(rest)
    }
}

/// True if a letter shows what it is and nothing else.
pub fn is_plain(letter: char) -> bool {
    !letter.is_control() && !turns_text(letter) && !is_unseen(letter)
}

/// Letters that change the direction of those around them (Unicode's Bidi_Control) make `gpj.exe`
/// read as `exe.jpg`.
const fn turns_text(letter: char) -> bool {
    matches!(letter, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Ends of lines and paragraphs, letters without width, and tags.
const fn is_unseen(letter: char) -> bool {
    matches!(letter,
        '\u{ad}' | '\u{180e}' | '\u{200b}'..='\u{200d}' | '\u{2028}' | '\u{2029}' | '\u{2060}'..='\u{2065}'
        | '\u{206a}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_text_stays_as_it_is() {
        for text in ["", "the remote closed the connection", "Köln – 東京 \"a\\b\" 'é'"] {
            assert!(matches!(printable(text), Cow::Borrowed(same) if same == text));
            assert!(matches!(printable_lines(text), Cow::Borrowed(same) if same == text));
        }
    }

    #[test]
    fn commands_to_a_terminal_are_escaped() {
        for (text, shown) in [
            ("\u{1b}]0;OWNED\u{7}", "\\u{1b}]0;OWNED\\u{7}"),
            ("\u{1b}[2J", "\\u{1b}[2J"),
            ("\u{9b}2J", "\\u{9b}2J"),
            ("a\r\n2026 INFO forged", "a\\r\\n2026 INFO forged"),
            ("x\u{202e}gpj.exe", "x\\u{202e}gpj.exe"),
            ("a\u{2028}b\u{200b}\u{7f}\u{0}", "a\\u{2028}b\\u{200b}\\u{7f}\\u{0}"),
        ] {
            assert_eq!(printable(text), shown);
        }
        assert_eq!(printable_lines("a\tb\n\u{1b}c\r\n"), "a\tb\n\\u{1b}c\\r\n");
    }

    #[test]
    fn json_uses_json_escapes() {
        let json = "{\"a\":\"\u{9b}2J\u{202e}\u{2028}\u{7f}é\u{e0041}\"}\n";
        assert_eq!(printable_json(json), "{\"a\":\"\\u009b2J\\u202e\\u2028\\u007fé\\udb40\\udc41\"}\n");
        assert!(matches!(printable_json("{\"a\": 1}\n"), Cow::Borrowed(_)));
    }

    #[test]
    fn no_letter_at_all_passes_unplain() {
        let all: String = (0..=u32::from(char::MAX)).filter_map(char::from_u32).collect();
        let mut shown = Printable(String::new());
        shown.write_str(&all).unwrap();
        assert!(shown.0.chars().all(is_plain));
        assert!(!shown.0.chars().any(|letter| letter.is_control()));
    }

    #[test]
    fn long_texts_are_cut() {
        for text in ["é".repeat(MAX_SHOWN + 1), "\u{1b}".repeat(MAX_SHOWN / 2)] {
            let shown = printable(&text);
            assert_eq!(shown.chars().count(), MAX_SHOWN + 1);
            assert!(shown.ends_with(CUT));
        }
        assert_eq!(printable(&"é".repeat(MAX_SHOWN)).chars().count(), MAX_SHOWN);
    }
}
