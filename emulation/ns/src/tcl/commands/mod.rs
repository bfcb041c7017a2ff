//! Tcl's commands that NS files may use.

mod arrays;
mod control;
mod format;
mod info;
mod lists;
mod misc;
mod scopes;
mod search;
mod strings;

use super::completion::{TclCompletion, TclResult, fail};
use super::interp::TclInterpreter;
use super::value::TclValue;

/// A command, called with its own name and its arguments.
pub(crate) type Builtin = fn(&mut TclInterpreter, &[TclValue]) -> TclResult;

pub(crate) fn find(name: &str) -> Option<Builtin> {
    control::find(name)
        .or_else(|| scopes::find(name))
        .or_else(|| lists::find(name))
        .or_else(|| search::find(name))
        .or_else(|| strings::find(name))
        .or_else(|| misc::find(name))
}

/// Commands of tclsh that are refused, because they reach out of the file.
const FORBIDDEN: [&str; 25] = [
    "cd",
    "close",
    "eof",
    "exec",
    "fblocked",
    "fconfigure",
    "fcopy",
    "file",
    "fileevent",
    "gets",
    "glob",
    "load",
    "open",
    "pid",
    "pwd",
    "read",
    "seek",
    "socket",
    "tell",
    "unload",
    "chan",
    "interp",
    "vwait",
    "after",
    "zlib",
];

/// Commands of tclsh that are not implemented, because no file needed them.
const MISSING: [&str; 24] = [
    "apply",
    "auto_execok",
    "auto_import",
    "auto_load",
    "auto_qualify",
    "bgerror",
    "binary",
    "coroutine",
    "dict",
    "encoding",
    "history",
    "namespace",
    "refchan",
    "regexp",
    "regsub",
    "rename",
    "tailcall",
    "throw",
    "trace",
    "try",
    "update",
    "yield",
    "yieldto",
    "unknown",
];

/// True if tclsh has a command of this name: no object may take it.
pub(crate) fn is_command(name: &str) -> bool {
    find(name).is_some() || FORBIDDEN.contains(&name) || MISSING.contains(&name)
}

pub(crate) fn unknown(name: &str) -> String {
    if FORBIDDEN.contains(&name) {
        return format!("\"{name}\" is not allowed: a topology has no files, processes or network");
    }
    if MISSING.contains(&name) {
        return format!("\"{name}\" is a command of Tcl that is not understood here");
    }
    let near = crate::tb::similar(name).map_or(String::new(), |near| format!("; did you mean \"{near}\"?"));
    format!("there is no command or object \"{}\"{near}", super::expr::short(name))
}

/// Checks the number of arguments: from `least` to `most`, without the name.
pub(crate) fn usage(words: &[TclValue], least: usize, most: usize, how: &str) -> Result<(), TclCompletion> {
    match (least..=most).contains(&(words.len() - 1)) {
        true => Ok(()),
        false => fail(format!("wrong # args: should be \"{how}\"")),
    }
}

fn integer(value: &TclValue) -> Result<i64, TclCompletion> {
    match super::number::read(value.as_str()) {
        Some(super::number::Number::Integer(integer)) => Ok(integer),
        _ => fail(format!("expected integer but got \"{}\"", super::expr::short(value.as_str()))),
    }
}

/// Reads an index into `len` parts: `3`, `end`, `end-1`, `2+1`. It may lie outside.
fn index(value: &TclValue, len: usize) -> Result<i64, TclCompletion> {
    let text = value.as_str().trim();
    // Fits i64: nothing here is longer than a value.
    let last = len as i64 - 1;
    let bad = || {
        fail(format!("bad index \"{}\": must be integer?[+-]integer? or end?[+-]integer?", super::expr::short(text)))
    };
    let (base, rest) = match text.strip_prefix("end") {
        Some(rest) => (last, rest),
        None => {
            let sign = usize::from(text.starts_with(['-', '+']));
            let end = text[sign..].find(['+', '-']).map_or(text.len(), |at| sign + at);
            let Ok(base) = text[..end].parse() else { return bad() };
            (base, &text[end..])
        }
    };
    if rest.is_empty() {
        return Ok(base);
    }
    let number = |digits: &str| digits.parse::<i64>().ok().filter(|_| digits.starts_with(|c: char| c.is_ascii_digit()));
    if let Some(offset) = rest.strip_prefix('+').and_then(number) {
        return Ok(base.saturating_add(offset));
    }
    match rest.strip_prefix('-').and_then(number) {
        Some(offset) => Ok(base.saturating_sub(offset)),
        None => bad(),
    }
}

/// The indices from `first` to `last` that exist in `len` parts.
fn range(first: i64, last: i64, len: usize) -> std::ops::Range<usize> {
    let start = usize::try_from(first).unwrap_or(0).min(len);
    let end = usize::try_from(last.saturating_add(1)).unwrap_or(0).clamp(start, len);
    start..end
}
