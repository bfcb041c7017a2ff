//! Parsing of scripts into commands and words (the twelve rules of Tcl(n)).

use super::completion::TclError;
use super::escape;
pub(crate) use super::script::{TclCommand, TclScript, Token, Variable, Word};
use super::value::TclValue;

/// The deepest nesting of brackets and indices in one text.
const MAX_NESTING: usize = 50;

/// Reads a whole script; its first line has the number `line`, or 0 if that is unknown.
pub(crate) fn script(text: &str, line: u32, generation: u8) -> Result<TclScript, TclError> {
    let mut parser = Parser::new(text, line, generation);
    let mut script = TclScript::default();
    while let Some(command) = parser.next_command()? {
        script.commands.push(command);
    }
    Ok(script)
}

/// Reads a text's substitutions, of the given kinds.
pub(crate) fn substitutions(text: &str, kinds: Kinds, generation: u8) -> Result<Vec<Token>, TclError> {
    Parser::new(text, 0, generation).tokens(&|_| false, kinds)
}

/// True if `text` between braces is one word.
pub(crate) fn is_one_braced_word(text: &str) -> bool {
    let mut open = 1_usize;
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        open = match byte {
            b'{' => open + 1,
            b'}' => open - 1,
            // A backslash at the end would escape the closing brace.
            b'\\' if bytes.next().is_none() => return false,
            _ => open,
        };
        if open == 0 {
            return false;
        }
    }
    open == 1
}

/// The kinds of substitution that are made.
#[derive(Clone, Copy)]
pub(crate) struct Kinds {
    pub backslashes: bool,
    pub commands: bool,
    pub variables: bool,
}

impl Kinds {
    pub(crate) const ALL: Self = Self { backslashes: true, commands: true, variables: true };
}

pub(crate) struct Parser<'a> {
    text: &'a str,
    at: usize,
    /// The line of `at`; 0 if lines are unknown.
    line: u32,
    nesting: usize,
    generation: u8,
}

impl<'a> Parser<'a> {
    pub(crate) fn new(text: &'a str, line: u32, generation: u8) -> Self {
        Self { text, at: 0, line, nesting: 0, generation }
    }

    /// The offset, for a caller that reads the next token itself, such as an operator.
    pub(crate) fn position(&self) -> usize {
        self.at
    }

    pub(crate) fn seek(&mut self, at: usize) {
        self.at = at;
    }

    /// The next command; `None` at the end.
    pub(crate) fn next_command(&mut self) -> Result<Option<TclCommand>, TclError> {
        loop {
            self.skip(|byte| is_space(byte) || byte == b'\n' || byte == b';');
            match self.peek() {
                None => return Ok(None),
                Some(b']') if self.nesting > 0 => return Ok(None),
                Some(b'#') => self.skip_comment(),
                Some(_) => return self.command().map(Some),
            }
        }
    }

    fn command(&mut self) -> Result<TclCommand, TclError> {
        let line = self.line;
        let mut words = Vec::new();
        loop {
            self.skip(is_space);
            match self.peek() {
                None => break,
                Some(b'\n' | b';') => {
                    self.bump();
                    break;
                }
                Some(b']') if self.nesting > 0 => break,
                Some(_) => words.push(self.word()?),
            }
        }
        Ok(TclCommand { line, words })
    }

    fn word(&mut self) -> Result<Word, TclError> {
        let rest = self.rest();
        if rest.starts_with("{*}") && !self.ends_word(self.at + 3) {
            self.advance(3);
            return Ok(Word::Expanded(Box::new(self.word()?)));
        }
        match self.peek() {
            Some(b'{') => {
                let value = self.braced()?;
                self.expect_end("close-brace")?;
                Ok(Word::Literal(value))
            }
            Some(b'"') => {
                let tokens = self.quoted()?;
                self.expect_end("close-quote")?;
                Ok(self.literal_or(tokens))
            }
            _ => {
                let nested = self.nesting > 0;
                let end = move |byte| is_space(byte) || byte == b'\n' || byte == b';' || (nested && byte == b']');
                let tokens = self.tokens(&end, Kinds::ALL)?;
                Ok(self.literal_or(tokens))
            }
        }
    }

    fn literal_or(&self, mut tokens: Vec<Token>) -> Word {
        match tokens.as_mut_slice() {
            [] => Word::Literal(TclValue::default()),
            [Token::Text(text)] => Word::Literal(TclValue::part(std::mem::take(text), self.generation)),
            _ => Word::Tokens(tokens),
        }
    }

    /// A word in braces, without substitutions.
    pub(crate) fn braced(&mut self) -> Result<TclValue, TclError> {
        let opened = self.line;
        self.bump();
        let (start, line) = (self.at, self.line);
        let mut open = 1_usize;
        loop {
            match self.peek() {
                None => return Err(TclError::at(opened, "missing close-brace")),
                Some(b'\\') => {
                    self.bump();
                    self.bump();
                }
                Some(byte) => {
                    self.bump();
                    open = match byte {
                        b'{' => open + 1,
                        b'}' => open - 1,
                        _ => open,
                    };
                    if open == 0 {
                        break;
                    }
                }
            }
        }
        let raw = &self.text[start..self.at - 1];
        let value = match escape::join_lines(raw) {
            Some(joined) => TclValue::written(joined, Some(raw.to_owned()), line, self.generation),
            None => TclValue::written(raw.to_owned(), None, line, self.generation),
        };
        Ok(value)
    }

    pub(crate) fn quoted(&mut self) -> Result<Vec<Token>, TclError> {
        let opened = self.line;
        self.bump();
        let tokens = self.tokens(&|byte| byte == b'"', Kinds::ALL)?;
        match self.peek() {
            Some(b'"') => {
                self.bump();
                Ok(tokens)
            }
            _ => Err(TclError::at(opened, "missing \"")),
        }
    }

    fn expect_end(&self, what: &str) -> Result<(), TclError> {
        match self.ends_word(self.at) {
            true => Ok(()),
            false => Err(TclError::at(self.line, format!("extra characters after {what}"))),
        }
    }

    /// True if a word ends at `at`.
    fn ends_word(&self, at: usize) -> bool {
        match self.text.as_bytes().get(at) {
            None | Some(b'\n' | b';') => true,
            Some(b']') => self.nesting > 0,
            Some(b'\\') => self.text.as_bytes().get(at + 1) == Some(&b'\n'),
            Some(&byte) => is_space(byte),
        }
    }

    /// Reads tokens up to the first byte, outside substitutions, that satisfies `ends`.
    fn tokens(&mut self, ends: &dyn Fn(u8) -> bool, kinds: Kinds) -> Result<Vec<Token>, TclError> {
        let mut tokens = Vec::new();
        let mut text = String::new();
        while let Some(byte) = self.peek() {
            let token = match byte {
                _ if ends(byte) => break,
                b'\\' if kinds.backslashes => {
                    // Outside of quotes, a joined line ends the word.
                    if self.rest().starts_with("\\\n") && ends(b' ') {
                        break;
                    }
                    let (c, len) = escape::read(self.rest());
                    text.push(c);
                    self.advance(len);
                    continue;
                }
                b'$' if kinds.variables => self.variable()?.map(Token::Variable),
                b'[' if kinds.commands => Some(Token::Script(self.bracketed()?)),
                _ => None,
            };
            match token {
                Some(token) => {
                    flush(&mut text, &mut tokens);
                    tokens.push(token);
                }
                None => {
                    let len = self.rest().chars().next().map_or(1, char::len_utf8);
                    text.push_str(&self.rest()[..len]);
                    self.advance(len);
                }
            }
        }
        flush(&mut text, &mut tokens);
        Ok(tokens)
    }

    pub(crate) fn bracketed(&mut self) -> Result<TclScript, TclError> {
        let opened = self.line;
        self.nest()?;
        self.bump();
        let mut script = TclScript::default();
        while let Some(command) = self.next_command()? {
            script.commands.push(command);
        }
        self.nesting -= 1;
        match self.peek() {
            Some(b']') => {
                self.bump();
                Ok(script)
            }
            _ => Err(TclError::at(opened, "missing close-bracket")),
        }
    }

    /// `$name`, `${name}` or `$name(index)`; `None` if the `$` is literal.
    pub(crate) fn variable(&mut self) -> Result<Option<Variable>, TclError> {
        let rest = &self.rest()[1..];
        if let Some(braced) = rest.strip_prefix('{') {
            let end =
                braced.find('}').ok_or_else(|| TclError::at(self.line, "missing close-brace for variable name"))?;
            let name = braced[..end].to_owned();
            self.advance(end + 3);
            return Ok(Some(Variable { name, index: None }));
        }
        let len = name_length(rest);
        let has_index = rest[len..].starts_with('(');
        if len == 0 && !has_index {
            return Ok(None);
        }
        let name = rest[..len].to_owned();
        self.advance(1 + len);
        if !has_index {
            return Ok(Some(Variable { name, index: None }));
        }
        self.nest()?;
        self.bump();
        let index = self.tokens(&|byte| byte == b')', Kinds::ALL)?;
        self.nesting -= 1;
        if self.peek() != Some(b')') {
            return Err(TclError::at(self.line, "missing )"));
        }
        self.bump();
        Ok(Some(Variable { name, index: Some(index) }))
    }

    fn nest(&mut self) -> Result<(), TclError> {
        self.nesting += 1;
        match self.nesting > MAX_NESTING {
            true => Err(TclError::at(self.line, format!("brackets are nested deeper than {MAX_NESTING}"))),
            false => Ok(()),
        }
    }

    fn skip(&mut self, wanted: impl Fn(u8) -> bool) {
        while let Some(byte) = self.peek() {
            match byte {
                b'\\' if self.rest().starts_with("\\\n") => self.advance(escape::read(self.rest()).1),
                _ if wanted(byte) => self.bump(),
                _ => break,
            }
        }
    }

    fn skip_comment(&mut self) {
        while let Some(byte) = self.peek() {
            self.bump();
            match byte {
                b'\\' => self.bump(),
                b'\n' => break,
                _ => {}
            }
        }
    }

    fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn bump(&mut self) {
        let len = self.rest().chars().next().map_or(0, char::len_utf8);
        self.advance(len);
    }

    fn advance(&mut self, len: usize) {
        if self.line > 0 {
            let passed = &self.text.as_bytes()[self.at..self.at + len];
            // Fits u32: no file of 2^32 lines is read.
            self.line += passed.iter().filter(|&&byte| byte == b'\n').count() as u32;
        }
        self.at += len;
    }
}

fn flush(text: &mut String, tokens: &mut Vec<Token>) {
    if !text.is_empty() {
        tokens.push(Token::Text(std::mem::take(text)));
    }
}

/// The length in bytes of the variable name at the start of `text`: letters, digits, `_` and `::`.
fn name_length(text: &str) -> usize {
    let bytes = text.as_bytes();
    let mut len = 0;
    while let Some(&byte) = bytes.get(len) {
        match byte {
            b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' | b'_' => len += 1,
            b':' if bytes.get(len + 1) == Some(&b':') => {
                len += bytes[len..].iter().take_while(|&&byte| byte == b':').count();
            }
            _ => break,
        }
    }
    len
}

/// True for bytes that separate words.
pub(crate) fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | 0x0b | 0x0c)
}
