//! Commands that print, ask for the time, or read other files: harmless, or refused.

use super::{Builtin, usage};
use crate::tcl::completion::{TclCompletion, TclResult, fail};
use crate::tcl::interp::TclInterpreter;
use crate::tcl::number::{self, Number};
use crate::tcl::parse::{self, Kinds};
use crate::tcl::value::TclValue;

pub(super) fn find(name: &str) -> Option<Builtin> {
    Some(match name {
        "expr" => expr,
        "subst" => subst,
        "puts" => puts,
        "flush" => |_, words| usage(words, 1, 1, "flush channelId").map(|()| TclValue::default()),
        "source" => source,
        "clock" => clock,
        "package" => package,
        "scan" => scan,
        "time" => time,
        _ => return None,
    })
}

fn expr(interp: &mut TclInterpreter, words: &[TclValue]) -> TclResult {
    match &words[1..] {
        [] => fail("wrong # args: should be \"expr arg ?arg ...?\""),
        [one] => interp.expr(one),
        parts => interp.expr(&TclValue::from(parts.iter().map(TclValue::as_str).collect::<Vec<_>>().join(" "))),
    }
}

fn subst(interp: &mut TclInterpreter, words: &[TclValue]) -> TclResult {
    let [_, options @ .., text] = words else { return fail("wrong # args: should be \"subst ?options? string\"") };
    let mut kinds = Kinds::ALL;
    for option in options {
        match option.as_str() {
            "-nobackslashes" => kinds.backslashes = false,
            "-nocommands" => kinds.commands = false,
            "-novariables" => kinds.variables = false,
            other => return fail(format!("bad option \"{other}\" of subst")),
        }
    }
    interp.spend(text.len() / 64)?;
    let tokens = parse::substitutions(text.as_str(), kinds, 1)?;
    let value = interp.substitute(&tokens)?;
    Ok(TclValue::from(value.as_str()))
}

/// Output of a file is meant for people, so it is kept as a note.
fn puts(interp: &mut TclInterpreter, words: &[TclValue]) -> TclResult {
    let rest = match &words[1..] {
        [option, rest @ ..] if option.as_str() == "-nonewline" => rest,
        rest => rest,
    };
    let text = match rest {
        [text] => text,
        [channel, text] if matches!(channel.as_str(), "stdout" | "stderr") => text,
        [channel, _] => return fail(format!("can not find channel named \"{}\"", channel.as_str())),
        _ => return fail("wrong # args: should be \"puts ?-nonewline? ?channelId? string\""),
    };
    let text = crate::tcl::short(text.as_str().trim());
    interp.ignored(format!("it prints \"{text}\""));
    Ok(TclValue::default())
}

fn source(_: &mut TclInterpreter, words: &[TclValue]) -> TclResult {
    usage(words, 1, usize::MAX, "source fileName")?;
    let name = words[1].as_str();
    match name.rsplit('/').next() {
        // The package's commands are built in.
        Some("tb_compat.tcl" | "nstb_compat.tcl") => Ok(TclValue::default()),
        _ => Err(TclCompletion::refuse(format!("\"source {name}\": a topology is one file, and no other is read"))),
    }
}

/// Refused: with a clock two readings of a file could differ.
fn clock(interp: &mut TclInterpreter, words: &[TclValue]) -> TclResult {
    match words.get(1).map(TclValue::as_str) {
        Some(what @ ("seconds" | "clicks" | "milliseconds" | "microseconds")) => {
            interp.warn(format!("\"clock {what}\" is 0 here, so that the file always describes the same network"));
            Ok(TclValue::from("0"))
        }
        _ => fail(
            "\"clock\" has only seconds, clicks and milliseconds here, and all are 0: a file describes the same network at any time",
        ),
    }
}

/// Refused: a package's commands would be missing later.
fn package(interp: &mut TclInterpreter, words: &[TclValue]) -> TclResult {
    usage(words, 1, usize::MAX, "package option ?arg ...?")?;
    interp.ignored(format!("\"package {}\": there are no packages here", words[1].as_str()));
    Ok(TclValue::default())
}

/// `scan text format ?variable …?` with `%d`, `%f` (also `%g`, `%e`), `%s` and `%c`.
fn scan(interp: &mut TclInterpreter, words: &[TclValue]) -> TclResult {
    let [_, text, format, variables @ ..] = words else {
        return fail("wrong # args: should be \"scan string format ?varName ...?\"");
    };
    interp.spend((text.len() + format.len()) / 64)?;
    let read = scanned(text.as_str(), format.as_str())?;
    if variables.is_empty() {
        return Ok(TclValue::from_list(read));
    }
    for (name, value) in variables.iter().zip(&read) {
        interp.set(name.as_str(), value.clone())?;
    }
    let nothing = read.is_empty() && text.as_str().trim().is_empty();
    Ok(if nothing { TclValue::from(-1_i64) } else { TclValue::from(read.len().min(variables.len())) })
}

/// Reads the conversions of `format` from `text`, up to the first that does not match.
fn scanned(text: &str, format: &str) -> Result<Vec<TclValue>, TclCompletion> {
    let mut read = Vec::new();
    let (mut rest, mut letters) = (text, format.chars());
    while let Some(letter) = letters.next() {
        if letter.is_whitespace() {
            rest = rest.trim_start();
            continue;
        }
        if letter != '%' {
            match rest.strip_prefix(letter) {
                Some(after) => rest = after,
                None => return Ok(read),
            }
            continue;
        }
        let (value, len) = match letters.next() {
            Some('c') => match rest.chars().next() {
                Some(c) => (TclValue::from(i64::from(u32::from(c))), c.len_utf8()),
                None => return Ok(read),
            },
            Some('d') => {
                rest = rest.trim_start();
                let sign = usize::from(rest.starts_with(['-', '+']));
                let len = sign + rest[sign..].bytes().take_while(u8::is_ascii_digit).count();
                match rest[..len].parse::<i64>() {
                    Ok(number) => (TclValue::from(number), len),
                    Err(_) => return Ok(read),
                }
            }
            Some('f' | 'g' | 'e') => {
                rest = rest.trim_start();
                match number::prefix(rest) {
                    Some((number, len)) => (TclValue::from(Number::Double(number).text()), len),
                    None => return Ok(read),
                }
            }
            Some('s') => {
                rest = rest.trim_start();
                let len = rest.find(char::is_whitespace).unwrap_or(rest.len());
                match len {
                    0 => return Ok(read),
                    len => (TclValue::from(&rest[..len]), len),
                }
            }
            _ => return fail("\"scan\" understands only %d, %f, %s and %c here"),
        };
        rest = &rest[len..];
        read.push(value);
    }
    Ok(read)
}

fn time(interp: &mut TclInterpreter, words: &[TclValue]) -> TclResult {
    usage(words, 1, 2, "time command ?count?")?;
    let count = words.get(2).map_or(Ok(1), super::integer)?;
    for _ in 0..count {
        interp.spend(1)?;
        interp.eval(&words[1])?;
    }
    Ok(TclValue::from("0 microseconds per iteration"))
}
