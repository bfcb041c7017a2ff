//! `format`.

use crate::tcl::completion::{TclCompletion, TclResult, fail};
use crate::tcl::interp::TclInterpreter;
use crate::tcl::number::{self, Number};
use crate::tcl::value::TclValue;

const MAX_WIDTH: usize = 1000;

/// A conversion specification, `%…`.
#[derive(Default)]
struct FormatSpec {
    left: bool,
    plus: bool,
    blank: bool,
    zeros: bool,
    alternate: bool,
    width: usize,
    precision: Option<usize>,
}

pub(super) fn format(interp: &mut TclInterpreter, words: &[TclValue]) -> TclResult {
    let [_, template, arguments @ ..] = words else {
        return fail("wrong # args: should be \"format formatString ?arg ...?\"");
    };
    let mut arguments = arguments.iter();
    let mut text = String::new();
    let mut rest = template.as_str();
    while let Some(at) = rest.find('%') {
        text.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        if let Some(after) = rest.strip_prefix('%') {
            text.push('%');
            rest = after;
            continue;
        }
        let (field, conversion, after) = field(rest, &mut arguments)?;
        let Some(argument) = arguments.next() else { return fail("not enough arguments for all format specifiers") };
        text.push_str(&field.pad(field.convert(conversion, argument)?, conversion));
        interp.check_size(text.len())?;
        rest = after;
    }
    text.push_str(rest);
    Ok(TclValue::from(text))
}

fn field<'a>(
    text: &'a str,
    arguments: &mut std::slice::Iter<'_, TclValue>,
) -> Result<(FormatSpec, char, &'a str), TclCompletion> {
    let mut field = FormatSpec::default();
    let mut rest = text;
    while let Some(flag) = rest.chars().next() {
        match flag {
            '-' => field.left = true,
            '+' => field.plus = true,
            ' ' => field.blank = true,
            '0' => field.zeros = true,
            '#' => field.alternate = true,
            _ => break,
        }
        rest = &rest[1..];
    }
    field.width = size(&mut rest, arguments)?.unwrap_or(0);
    if let Some(after) = rest.strip_prefix('.') {
        rest = after;
        field.precision = Some(size(&mut rest, arguments)?.unwrap_or(0));
    }
    rest = rest.trim_start_matches(['l', 'h']);
    match rest.chars().next() {
        Some(conversion) => Ok((field, conversion, &rest[conversion.len_utf8()..])),
        None => fail("format string ended in middle of field specifier"),
    }
}

fn size(rest: &mut &str, arguments: &mut std::slice::Iter<'_, TclValue>) -> Result<Option<usize>, TclCompletion> {
    let size = if let Some(after) = rest.strip_prefix('*') {
        *rest = after;
        let Some(argument) = arguments.next() else { return fail("not enough arguments for all format specifiers") };
        Some(usize::try_from(super::integer(argument)?).unwrap_or(0))
    } else {
        let len = rest.bytes().take_while(u8::is_ascii_digit).count();
        let digits = &rest[..len];
        *rest = &rest[len..];
        if digits.is_empty() { None } else { Some(digits.parse().unwrap_or(usize::MAX)) }
    };
    match size {
        Some(size) if size > MAX_WIDTH => fail(format!("a field of format is wider than {MAX_WIDTH}")),
        size => Ok(size),
    }
}

impl FormatSpec {
    fn convert(&self, conversion: char, argument: &TclValue) -> Result<String, TclCompletion> {
        let expected =
            |what: &str| fail(format!("expected {what} but got \"{}\"", crate::tcl::short(argument.as_str())));
        match conversion {
            's' => Ok(match self.precision {
                Some(most) => argument.as_str().chars().take(most).collect(),
                None => argument.as_str().to_owned(),
            }),
            'c' => {
                let code = super::integer(argument)?;
                Ok(u32::try_from(code).ok().and_then(char::from_u32).unwrap_or('\u{fffd}').to_string())
            }
            'd' | 'i' | 'u' | 'x' | 'X' | 'o' | 'b' => match number::read(argument.as_str()) {
                Some(Number::Integer(integer)) => Ok(self.integer(conversion, integer)),
                _ => expected("integer"),
            },
            'f' | 'e' | 'E' | 'g' | 'G' => match number::read(argument.as_str()) {
                Some(number) => Ok(self.signed(number.double() < 0.0, self.double(conversion, number.double().abs()))),
                None => expected("floating-point number"),
            },
            other => fail(format!("bad field specifier \"{other}\"")),
        }
    }

    fn integer(&self, conversion: char, integer: i64) -> String {
        let digits = match conversion {
            'x' => format!("{integer:x}"),
            'X' => format!("{integer:X}"),
            'o' => format!("{integer:o}"),
            'b' => format!("{integer:b}"),
            'u' => integer.cast_unsigned().to_string(),
            _ => integer.unsigned_abs().to_string(),
        };
        let zeros = self.precision.unwrap_or(0).saturating_sub(digits.len());
        let prefix = match conversion {
            'x' | 'X' if self.alternate => "0x",
            'o' if self.alternate => "0",
            _ => "",
        };
        let digits = [prefix, &"0".repeat(zeros), &digits].concat();
        let decimal = matches!(conversion, 'd' | 'i');
        if decimal { self.signed(integer < 0, digits) } else { digits }
    }

    fn double(&self, conversion: char, magnitude: f64) -> String {
        if !magnitude.is_finite() {
            return if magnitude.is_nan() { "NaN" } else { "Inf" }.to_owned();
        }
        let precision = self.precision.unwrap_or(6);
        let text = match conversion {
            'f' => format!("{magnitude:.precision$}"),
            'e' | 'E' => exponent(&format!("{magnitude:.precision$e}")),
            _ => self.general(magnitude, precision.max(1)),
        };
        if conversion.is_ascii_uppercase() { text.to_uppercase() } else { text }
    }

    /// Formats like `%g`: `digits` significant digits, in the shorter form.
    fn general(&self, magnitude: f64, digits: usize) -> String {
        let scientific = format!("{magnitude:.*e}", digits - 1);
        let power: i32 = scientific.split_once('e').and_then(|(_, power)| power.parse().ok()).unwrap_or(0);
        let drop_zeros = |text: &str| match text.contains('.') && !self.alternate {
            true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
            false => text.to_owned(),
        };
        // Fits i32: digits are at most MAX_WIDTH.
        if power < -4 || power >= digits as i32 {
            let (mantissa, power) = scientific.split_once('e').unwrap_or((&scientific, "0"));
            return exponent(&format!("{}e{power}", drop_zeros(mantissa)));
        }
        let places = usize::try_from(digits as i32 - 1 - power).unwrap_or(0);
        drop_zeros(&format!("{magnitude:.places$}"))
    }

    fn signed(&self, negative: bool, digits: String) -> String {
        match (negative, self.plus, self.blank) {
            (true, ..) => "-".to_owned() + &digits,
            (false, true, _) => "+".to_owned() + &digits,
            (false, false, true) => " ".to_owned() + &digits,
            _ => digits,
        }
    }

    fn pad(&self, text: String, conversion: char) -> String {
        let missing = self.width.saturating_sub(text.chars().count());
        let fill = " ".repeat(missing);
        match conversion {
            _ if self.left => text + &fill,
            's' | 'c' => fill + &text,
            _ if self.zeros => {
                let sign = usize::from(text.starts_with(['-', '+', ' ']));
                [&text[..sign], &"0".repeat(missing), &text[sign..]].concat()
            }
            _ => fill + &text,
        }
    }
}

/// Writes `1e5` as C does: `1e+05`.
fn exponent(text: &str) -> String {
    let Some((mantissa, power)) = text.split_once('e') else { return text.to_owned() };
    let power: i32 = power.parse().unwrap_or(0);
    let sign = if power < 0 { '-' } else { '+' };
    format!("{mantissa}e{sign}{:02}", power.abs())
}
