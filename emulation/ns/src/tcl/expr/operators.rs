//! Operators, and their effect on numbers and strings.

use std::cmp::Ordering;

use crate::tcl::completion::TclError;
use crate::tcl::number::Number;

/// Prefix operators.
#[derive(Clone, Copy, Debug)]
pub(super) enum Unary {
    Minus,
    Plus,
    Not,
    Invert,
}

/// Infix operators.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Binary {
    Or,
    And,
    BitOr,
    BitXor,
    BitAnd,
    Equal,
    Unequal,
    SameText,
    OtherText,
    In,
    NotIn,
    Less,
    Greater,
    AtMost,
    AtLeast,
    ShiftLeft,
    ShiftRight,
    Plus,
    Minus,
    Times,
    Divide,
    Remainder,
    Power,
}

/// Each operator with its text and precedence; longer texts come before their prefixes.
const TABLE: [(&str, Binary, u8); 23] = [
    ("||", Binary::Or, 1),
    ("&&", Binary::And, 2),
    ("|", Binary::BitOr, 3),
    ("^", Binary::BitXor, 4),
    ("&", Binary::BitAnd, 5),
    ("==", Binary::Equal, 6),
    ("!=", Binary::Unequal, 6),
    ("eq", Binary::SameText, 6),
    ("ne", Binary::OtherText, 6),
    ("in", Binary::In, 6),
    ("ni", Binary::NotIn, 6),
    ("<<", Binary::ShiftLeft, 8),
    (">>", Binary::ShiftRight, 8),
    ("<=", Binary::AtMost, 7),
    (">=", Binary::AtLeast, 7),
    ("<", Binary::Less, 7),
    (">", Binary::Greater, 7),
    ("+", Binary::Plus, 9),
    ("-", Binary::Minus, 9),
    ("**", Binary::Power, 11),
    ("*", Binary::Times, 10),
    ("/", Binary::Divide, 10),
    ("%", Binary::Remainder, 10),
];

/// The operator at the start of `text`, after blanks; the returned text includes them.
pub(super) fn next(text: &str) -> Option<(Binary, &str)> {
    let start = text.len() - text.trim_start_matches(|c: char| c.is_ascii_whitespace() || c == '\u{b}').len();
    let (name, operator, _) = TABLE.iter().find(|(name, ..)| text[start..].starts_with(name))?;
    let end = start + name.len();
    let word = name.starts_with(|c: char| c.is_ascii_alphabetic());
    if word && text[end..].starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_') {
        return None;
    }
    Some((*operator, &text[..end]))
}

impl Binary {
    pub(super) fn level(self) -> u8 {
        TABLE.iter().find(|(_, operator, _)| *operator == self).map_or(0, |(.., level)| *level)
    }

    pub(super) fn text(self) -> &'static str {
        TABLE.iter().find(|(_, operator, _)| *operator == self).map_or("", |(text, ..)| text)
    }

    /// True if `a ** b ** c` is `a ** (b ** c)`.
    pub(super) fn binds_right(self) -> bool {
        self == Self::Power
    }

    /// The result of a comparison for a given order; `None` for other operators.
    pub(super) fn holds(self, order: Option<Ordering>) -> Option<bool> {
        use Ordering::{Equal, Greater, Less};
        Some(match self {
            Self::Equal => order == Some(Equal),
            Self::Unequal => order != Some(Equal),
            Self::Less => order == Some(Less),
            Self::Greater => order == Some(Greater),
            Self::AtMost => matches!(order, Some(Less | Equal)),
            Self::AtLeast => matches!(order, Some(Greater | Equal)),
            _ => return None,
        })
    }

    pub(super) fn compute(self, a: Number, b: Number) -> Result<Number, TclError> {
        match (a, b) {
            (Number::Integer(a), Number::Integer(b)) => self.integers(a, b).map(Number::Integer),
            _ => self.doubles(a.double(), b.double()).map(Number::Double),
        }
    }

    fn integers(self, a: i64, b: i64) -> Result<i64, TclError> {
        let result = match self {
            Self::Plus => a.checked_add(b),
            Self::Minus => a.checked_sub(b),
            Self::Times => a.checked_mul(b),
            Self::Divide | Self::Remainder if b == 0 => return Err(TclError::new("divide by zero")),
            // Rounded down, so that the remainder has the divisor's sign.
            Self::Divide => a.checked_div(b).map(|quotient| quotient - i64::from(a % b != 0 && (a < 0) != (b < 0))),
            Self::Remainder => {
                a.checked_rem(b).map(|rest| if rest != 0 && (rest < 0) != (b < 0) { rest + b } else { rest })
            }
            Self::Power => return power(a, b),
            Self::ShiftLeft | Self::ShiftRight if b < 0 => return Err(TclError::new("negative shift argument")),
            Self::ShiftLeft => {
                let factor = u32::try_from(b).ok().and_then(|by| 2_i64.checked_pow(by));
                if a == 0 { Some(0) } else { factor.and_then(|factor| a.checked_mul(factor)) }
            }
            Self::ShiftRight => Some(a >> b.min(63)),
            Self::BitAnd => Some(a & b),
            Self::BitOr => Some(a | b),
            Self::BitXor => Some(a ^ b),
            _ => None,
        };
        result.ok_or_else(too_large)
    }

    fn doubles(self, a: f64, b: f64) -> Result<f64, TclError> {
        let result = match self {
            Self::Plus => a + b,
            Self::Minus => a - b,
            Self::Times => a * b,
            Self::Divide => a / b,
            Self::Power => a.powf(b),
            _ => {
                return Err(TclError::new(format!("can't use floating-point value as operand of \"{}\"", self.text())));
            }
        };
        match result.is_nan() {
            true => Err(TclError::new("domain error: argument not in valid range")),
            false => Ok(result),
        }
    }
}

fn power(a: i64, b: i64) -> Result<i64, TclError> {
    match (a, b) {
        (0, _) if b < 0 => Err(TclError::new("exponentiation of zero by negative power")),
        (1, _) | (_, 0) => Ok(1),
        (-1, _) => Ok(if b % 2 == 0 { 1 } else { -1 }),
        _ if b < 0 => Ok(0),
        _ => u32::try_from(b).ok().and_then(|b| a.checked_pow(b)).ok_or_else(too_large),
    }
}

fn too_large() -> TclError {
    TclError::new("integer value too large to represent")
}
