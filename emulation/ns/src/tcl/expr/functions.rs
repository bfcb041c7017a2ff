//! Mathematical functions.

use crate::tcl::completion::TclError;
use crate::tcl::number::Number;

/// Tcl's generator: x ← 16807 x mod 2³¹−1 (Park and Miller 1988). A file that sets the seed gets the same
/// numbers as from tclsh.
#[derive(Clone, Debug)]
pub(crate) struct Random(i64);

impl Default for Random {
    /// A fixed seed, so that all readings are equal; tclsh takes the time.
    fn default() -> Self {
        Self(1)
    }
}

const MODULUS: i64 = 0x7fff_ffff;

impl Random {
    fn set(&mut self, seed: i64) {
        let seed = seed & MODULUS;
        self.0 = if seed == 0 || seed == MODULUS { seed ^ 123_459_876 } else { seed };
    }

    fn next(&mut self) -> f64 {
        self.0 = self.0 * 16_807 % MODULUS;
        // Exact: below 2^31.
        self.0 as f64 / MODULUS as f64
    }
}

pub(super) fn call(name: &str, arguments: &[Number], random: &mut Random) -> Result<Number, TclError> {
    match (name, arguments) {
        ("rand", []) => Ok(Number::Double(random.next())),
        ("srand", [Number::Integer(seed)]) => {
            random.set(*seed);
            Ok(Number::Double(random.next()))
        }
        ("max" | "min", [first, rest @ ..]) => Ok(rest.iter().fold(*first, |best, next| {
            let better = if name == "max" { next.double() > best.double() } else { next.double() < best.double() };
            if better { *next } else { best }
        })),
        (_, [one]) => of_one(name, *one).unwrap_or_else(|| Err(unknown(name))),
        (_, [a, b]) => of_two(name, a.double(), b.double()).unwrap_or_else(|| Err(unknown(name))),
        _ => Err(unknown(name)),
    }
}

fn of_one(name: &str, number: Number) -> Option<Result<Number, TclError>> {
    let x = number.double();
    let double = match name {
        "abs" => {
            return Some(match number {
                Number::Integer(integer) => integer.checked_abs().map(Number::Integer).ok_or_else(too_large),
                Number::Double(double) => Ok(Number::Double(double.abs())),
            });
        }
        "int" | "wide" | "entier" => return Some(integer(number, f64::trunc)),
        "round" => return Some(integer(number, f64::round)),
        "bool" => return Some(Ok(Number::Integer(number.is_true().into()))),
        "isqrt" if x >= 0.0 => return Some(integer(Number::Double(x.sqrt()), f64::floor)),
        "double" => x,
        "ceil" => x.ceil(),
        "floor" => x.floor(),
        "sqrt" => x.sqrt(),
        "exp" => x.exp(),
        "log" => x.ln(),
        "log10" => x.log10(),
        "sin" => x.sin(),
        "cos" => x.cos(),
        "tan" => x.tan(),
        "asin" => x.asin(),
        "acos" => x.acos(),
        "atan" => x.atan(),
        "sinh" => x.sinh(),
        "cosh" => x.cosh(),
        "tanh" => x.tanh(),
        _ => return None,
    };
    Some(in_domain(double))
}

fn of_two(name: &str, a: f64, b: f64) -> Option<Result<Number, TclError>> {
    Some(in_domain(match name {
        "pow" => a.powf(b),
        "fmod" => a % b,
        "hypot" => a.hypot(b),
        "atan2" => a.atan2(b),
        _ => return None,
    }))
}

fn in_domain(double: f64) -> Result<Number, TclError> {
    match double.is_nan() {
        true => Err(TclError::new("domain error: argument not in valid range")),
        false => Ok(Number::Double(double)),
    }
}

fn integer(number: Number, rounded: impl Fn(f64) -> f64) -> Result<Number, TclError> {
    match number {
        Number::Integer(_) => Ok(number),
        // Below 2^63 in magnitude, as checked above.
        Number::Double(double) if double.abs() < 9.2e18 => Ok(Number::Integer(rounded(double) as i64)),
        Number::Double(_) => Err(too_large()),
    }
}

fn too_large() -> TclError {
    TclError::new("integer value too large to represent")
}

fn unknown(name: &str) -> TclError {
    TclError::new(format!("there is no math function \"{name}\" of so many arguments"))
}
