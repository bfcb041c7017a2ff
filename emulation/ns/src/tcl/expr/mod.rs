//! Expressions of `expr`, `if` and `while` (Tcl expr(n)).

mod eval;
mod functions;
mod operators;

pub(crate) use functions::Random;

use super::completion::TclError;
use super::number::{self, Number};
use super::parse::{Parser, TclScript, Token, Variable};
use super::value::TclValue;
use operators::{Binary, Unary};

/// The deepest tree of an expression: a sum of as many terms.
const MAX_DEPTH: u16 = 200;
/// The deepest nesting of parentheses, and of operators that wait for their right side.
const MAX_OPEN: u16 = 60;

#[derive(Debug)]
pub(crate) struct Expr {
    root: ExprNode,
}

#[derive(Debug)]
struct ExprNode {
    kind: ExprKind,
    depth: u16,
}

#[derive(Debug)]
enum ExprKind {
    Number(Number, TclValue),
    Text(TclValue),
    Quoted(Vec<Token>),
    Variable(Variable),
    Script(TclScript),
    Unary(Unary, Box<ExprNode>),
    Binary(Binary, Box<ExprNode>, Box<ExprNode>),
    /// `&&` if true, `||` if false: the second is evaluated only if needed.
    Logic(bool, Box<ExprNode>, Box<ExprNode>),
    Choice(Box<ExprNode>, Box<ExprNode>, Box<ExprNode>),
    Call(String, Vec<ExprNode>),
}

pub(crate) fn parse(text: &str, generation: u8) -> Result<Expr, TclError> {
    let mut reader = ExprParser { text, parser: Parser::new(text, 0, generation), generation, open: 0 };
    let root = reader.choice()?;
    match reader.peek() {
        None => Ok(Expr { root }),
        Some(_) => Err(reader.wrong()),
    }
}

struct ExprParser<'a> {
    text: &'a str,
    parser: Parser<'a>,
    generation: u8,
    open: u16,
}

impl ExprParser<'_> {
    /// `condition ? this : that`, which binds least.
    fn choice(&mut self) -> Result<ExprNode, TclError> {
        self.deeper()?;
        let condition = self.binary(0)?;
        let node = if self.accept_text("?") {
            let yes = self.choice()?;
            if !self.accept_text(":") {
                return Err(TclError::new(format!("missing \":\" in expression \"{}\"", self.short())));
            }
            let no = self.choice()?;
            let depth = condition.depth.max(yes.depth).max(no.depth);
            self.node(ExprKind::Choice(Box::new(condition), Box::new(yes), Box::new(no)), depth)?
        } else {
            condition
        };
        self.open -= 1;
        Ok(node)
    }

    /// Operators that bind at least as tightly as `level`.
    fn binary(&mut self, level: u8) -> Result<ExprNode, TclError> {
        let mut left = self.unary()?;
        while let Some((operator, text)) = operators::next(self.rest()) {
            if operator.level() < level {
                break;
            }
            self.skip_by(text.len());
            self.deeper()?;
            let right = self.binary(operator.level() + u8::from(!operator.binds_right()))?;
            self.open -= 1;
            let depth = left.depth.max(right.depth);
            let (left_box, right) = (Box::new(left), Box::new(right));
            let kind = match operator {
                Binary::And => ExprKind::Logic(true, left_box, right),
                Binary::Or => ExprKind::Logic(false, left_box, right),
                _ => ExprKind::Binary(operator, left_box, right),
            };
            left = self.node(kind, depth)?;
        }
        Ok(left)
    }

    fn unary(&mut self) -> Result<ExprNode, TclError> {
        let operator = match self.peek() {
            Some(b'-') => Unary::Minus,
            Some(b'+') => Unary::Plus,
            Some(b'!') => Unary::Not,
            Some(b'~') => Unary::Invert,
            _ => return self.operand(),
        };
        self.deeper()?;
        self.skip_by(1);
        let inner = self.unary()?;
        self.open -= 1;
        let depth = inner.depth;
        self.node(ExprKind::Unary(operator, Box::new(inner)), depth)
    }

    fn operand(&mut self) -> Result<ExprNode, TclError> {
        let Some(first) = self.peek() else {
            return Err(TclError::new(format!("missing operand in expression \"{}\"", self.short())));
        };
        let kind = match first {
            b'(' => {
                self.skip_by(1);
                let inner = self.choice()?;
                if !self.accept_text(")") {
                    return Err(TclError::new(format!("unbalanced open paren in expression \"{}\"", self.short())));
                }
                return Ok(inner);
            }
            b'$' => match self.parser.variable()? {
                Some(variable) => ExprKind::Variable(variable),
                None => return Err(self.wrong()),
            },
            b'[' => ExprKind::Script(self.parser.bracketed()?),
            b'"' => ExprKind::Quoted(self.parser.quoted()?),
            b'{' => ExprKind::Text(self.parser.braced()?),
            _ => self.number_or_word()?,
        };
        self.node(kind, 0)
    }

    fn number_or_word(&mut self) -> Result<ExprKind, TclError> {
        let rest = self.rest();
        let len = number_length(rest);
        if let Some(number) = rest.get(..len).and_then(number::read) {
            let text = rest[..len].to_owned();
            self.skip_by(len);
            return Ok(ExprKind::Number(number, TclValue::part(text, self.generation)));
        }
        let word: String = rest.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect();
        if len > 0 || word.is_empty() {
            return Err(self.wrong());
        }
        self.skip_by(word.len());
        if self.accept_text("(") {
            return self.arguments(word);
        }
        match truth(&word) {
            Some(_) => Ok(ExprKind::Text(TclValue::from(word))),
            None => Err(TclError::new(format!(
                "invalid bareword \"{word}\" in expression \"{}\": it should be \"${word}\" or \"{{{word}}}\" or \"{word}(...)\"",
                self.short()
            ))),
        }
    }

    fn arguments(&mut self, name: String) -> Result<ExprKind, TclError> {
        let mut arguments = Vec::new();
        if self.accept_text(")") {
            return Ok(ExprKind::Call(name, arguments));
        }
        loop {
            arguments.push(self.choice()?);
            if self.accept_text(")") {
                return Ok(ExprKind::Call(name, arguments));
            }
            if !self.accept_text(",") {
                return Err(self.wrong());
            }
        }
    }

    fn node(&self, kind: ExprKind, depth: u16) -> Result<ExprNode, TclError> {
        let depth = depth + 1;
        match depth > MAX_DEPTH {
            true => Err(too_deep()),
            false => Ok(ExprNode { kind, depth }),
        }
    }

    /// Enters a level of nesting; the caller leaves it.
    fn deeper(&mut self) -> Result<(), TclError> {
        self.open += 1;
        if self.open > MAX_OPEN { Err(too_deep()) } else { Ok(()) }
    }

    fn accept_text(&mut self, text: &str) -> bool {
        self.peek();
        let found = self.rest().starts_with(text);
        if found {
            self.skip_by(text.len());
        }
        found
    }

    /// Skips blanks and returns the next byte.
    fn peek(&mut self) -> Option<u8> {
        while let Some(&byte) = self.text.as_bytes().get(self.parser.position()) {
            let joined = byte == b'\\' && self.rest().starts_with("\\\n");
            if !byte.is_ascii_whitespace() && byte != 0x0b && !joined {
                return Some(byte);
            }
            self.skip_by(1 + usize::from(joined));
        }
        None
    }

    fn rest(&self) -> &str {
        let text = self.text;
        text.get(self.parser.position()..).unwrap_or_default()
    }

    fn skip_by(&mut self, len: usize) {
        self.parser.seek(self.parser.position() + len);
    }

    fn short(&self) -> String {
        short(self.text)
    }

    fn wrong(&self) -> TclError {
        TclError::new(format!("syntax error in expression \"{}\" at \"{}\"", self.short(), short(self.rest())))
    }
}

/// The length in bytes of the text that looks like a number: digits, letters and points, and a sign after an
/// exponent's `e`.
fn number_length(text: &str) -> usize {
    let bytes = text.as_bytes();
    let begins = bytes.first().is_some_and(u8::is_ascii_digit)
        || (bytes.first() == Some(&b'.') && bytes.get(1).is_some_and(u8::is_ascii_digit));
    if !begins {
        return 0;
    }
    let hex = text.starts_with("0x") || text.starts_with("0X");
    let mut len = 0;
    while let Some(&byte) = bytes.get(len) {
        let after_e = len > 0 && !hex && matches!(bytes[len - 1], b'e' | b'E');
        match byte {
            b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' | b'.' => len += 1,
            b'+' | b'-' if after_e && bytes.get(len + 1).is_some_and(u8::is_ascii_digit) => len += 1,
            _ => break,
        }
    }
    len
}

/// The boolean of a word such as `true`, `no` or `off`, or of a unique abbreviation.
pub(crate) fn truth(word: &str) -> Option<bool> {
    if word.len() > 5 {
        return None;
    }
    let lower = word.to_ascii_lowercase();
    let says = |whole: &str, least: usize| lower.len() >= least && whole.starts_with(&lower);
    if says("true", 1) || says("yes", 1) || says("on", 2) {
        return Some(true);
    }
    (says("false", 1) || says("no", 1) || says("off", 2)).then_some(false)
}

/// The start of a text, for messages.
pub(crate) fn short(text: &str) -> String {
    let mut chars = text.chars();
    let start: String = chars.by_ref().take(40).collect();
    if chars.next().is_some() { start + "…" } else { start }
}

fn too_deep() -> TclError {
    TclError::new(format!("the expression is too long, or nested deeper than {MAX_OPEN}"))
}
