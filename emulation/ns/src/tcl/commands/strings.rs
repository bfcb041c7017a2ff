//! `string`.

use super::{Builtin, format, index, integer, range};
use crate::tcl::completion::{TclCompletion, TclResult, fail};
use crate::tcl::interp::TclInterpreter;
use crate::tcl::number::{self, Number};
use crate::tcl::value::TclValue;
use crate::tcl::{expr, glob, list};

pub(super) fn find(name: &str) -> Option<Builtin> {
    Some(match name {
        "string" => string,
        "format" => format::format,
        _ => return None,
    })
}

fn string(interp: &mut TclInterpreter, words: &[TclValue]) -> TclResult {
    let [_, what, arguments @ ..] = words else {
        return fail("wrong # args: should be \"string subcommand ?arg ...?\"");
    };
    let what = what.as_str();
    interp.spend(arguments.iter().map(TclValue::len).sum::<usize>() / 64)?;
    if let ("match" | "first" | "last" | "trim" | "trimleft" | "trimright" | "map", [.., a, b]) = (what, arguments) {
        interp.spend_search(a.len(), b.len())?;
    }
    match (what, arguments) {
        ("length", [text]) => Ok(TclValue::from(text.as_str().chars().count())),
        ("bytelength", [text]) => Ok(TclValue::from(text.len())),
        ("tolower", [text]) => Ok(TclValue::from(text.as_str().to_lowercase())),
        ("toupper", [text]) => Ok(TclValue::from(text.as_str().to_uppercase())),
        ("totitle", [text]) => Ok(TclValue::from(title(text.as_str()))),
        ("reverse", [text]) => Ok(TclValue::from(text.as_str().chars().rev().collect::<String>())),
        ("trim" | "trimleft" | "trimright", [text, rest @ ..]) if rest.len() <= 1 => {
            Ok(trimmed(what, text, rest.first()))
        }
        ("compare" | "equal", [options @ .., a, b]) => compare(what, options, a, b),
        ("match", [options @ .., pattern, text]) => matches(options, pattern, text),
        ("first" | "last", [needle, text, rest @ ..]) if rest.len() <= 1 => position(what, needle, text, rest.first()),
        ("index", [text, at]) => {
            let chars: Vec<char> = text.as_str().chars().collect();
            let found = usize::try_from(index(at, chars.len())?).ok().and_then(|at| chars.get(at).copied());
            Ok(TclValue::from(found.map_or(String::new(), String::from)))
        }
        ("range", [text, first, last]) => {
            let chars: Vec<char> = text.as_str().chars().collect();
            let range = range(index(first, chars.len())?, index(last, chars.len())?, chars.len());
            Ok(TclValue::from(chars[range].iter().collect::<String>()))
        }
        ("replace", [text, first, last, rest @ ..]) if rest.len() <= 1 => replace(text, first, last, rest.first()),
        ("repeat", [text, count]) => {
            let count = usize::try_from(integer(count)?).unwrap_or(0);
            interp.check_size(text.len().saturating_mul(count))?;
            Ok(TclValue::from(text.as_str().repeat(count)))
        }
        ("map", [options @ .., pairs, text]) => map(interp, options, pairs, text),
        ("is", [class, options @ .., text]) => is(class.as_str(), options, text),
        ("cat", parts) => Ok(TclValue::from(parts.iter().map(TclValue::as_str).collect::<String>())),
        _ => fail(format!("\"string {what}\" with {} arguments is not understood here", arguments.len())),
    }
}

fn title(text: &str) -> String {
    let mut chars = text.chars();
    let first = chars.next().map(|c| c.to_uppercase().collect::<String>()).unwrap_or_default();
    first + &chars.as_str().to_lowercase()
}

fn trimmed(what: &str, text: &TclValue, set: Option<&TclValue>) -> TclValue {
    let unwanted = |c: char| match set {
        Some(set) => set.as_str().contains(c),
        None => c.is_whitespace() || c == '\0',
    };
    let text = text.as_str();
    TclValue::from(match what {
        "trimleft" => text.trim_start_matches(unwanted),
        "trimright" => text.trim_end_matches(unwanted),
        _ => text.trim_matches(unwanted),
    })
}

fn compare(what: &str, options: &[TclValue], a: &TclValue, b: &TclValue) -> TclResult {
    let (mut a, mut b) = (a.as_str().to_owned(), b.as_str().to_owned());
    let mut options = options.iter();
    while let Some(option) = options.next() {
        match (option.as_str(), options.as_slice()) {
            ("-nocase", _) => (a, b) = (a.to_lowercase(), b.to_lowercase()),
            ("-length", [len, ..]) => {
                if let Ok(len) = usize::try_from(integer(len)?) {
                    (a, b) = (a.chars().take(len).collect(), b.chars().take(len).collect());
                }
                options.next();
            }
            (other, _) => return fail(format!("bad option \"{other}\": must be -nocase or -length")),
        }
    }
    match what {
        "equal" => Ok(TclValue::from_bool(a == b)),
        _ => Ok(TclValue::from(a.cmp(&b) as i64)),
    }
}

fn matches(options: &[TclValue], pattern: &TclValue, text: &TclValue) -> TclResult {
    match options {
        [] => Ok(TclValue::from_bool(glob::matches(pattern.as_str(), text.as_str()))),
        [option] if option.as_str() == "-nocase" => {
            Ok(TclValue::from_bool(glob::matches(&pattern.as_str().to_lowercase(), &text.as_str().to_lowercase())))
        }
        _ => fail("wrong # args: should be \"string match ?-nocase? pattern string\""),
    }
}

fn position(what: &str, needle: &TclValue, text: &TclValue, limit: Option<&TclValue>) -> TclResult {
    let chars: Vec<char> = text.as_str().chars().collect();
    let needle: Vec<char> = needle.as_str().chars().collect();
    let limit = limit.map(|limit| index(limit, chars.len())).transpose()?;
    if needle.is_empty() || needle.len() > chars.len() {
        return Ok(TclValue::from("-1"));
    }
    let mut places = 0..=chars.len() - needle.len();
    let here = |at: &usize| chars[*at..].starts_with(&needle);
    let found = match what {
        "first" => places.find(|at| limit.is_none_or(|limit| *at as i64 >= limit) && here(at)),
        _ => places.rev().find(|at| limit.is_none_or(|limit| (*at + needle.len()) as i64 - 1 <= limit) && here(at)),
    };
    Ok(found.map_or(TclValue::from("-1"), TclValue::from))
}

fn replace(text: &TclValue, first: &TclValue, last: &TclValue, new: Option<&TclValue>) -> TclResult {
    let mut chars: Vec<char> = text.as_str().chars().collect();
    let (first, last) = (index(first, chars.len())?, index(last, chars.len())?);
    if first > last || last < 0 || first >= chars.len() as i64 {
        return Ok(text.clone());
    }
    let range = range(first, last, chars.len());
    chars.splice(range, new.map_or("", TclValue::as_str).chars());
    Ok(TclValue::from(chars.into_iter().collect::<String>()))
}

fn map(interp: &mut TclInterpreter, options: &[TclValue], pairs: &TclValue, text: &TclValue) -> TclResult {
    let nocase = match options {
        [] => false,
        [option] if option.as_str() == "-nocase" => true,
        _ => return fail("wrong # args: should be \"string map ?-nocase? charMap string\""),
    };
    let pairs = interp.list(pairs)?;
    if !pairs.len().is_multiple_of(2) {
        return fail("char map list unbalanced");
    }
    let mut rest = text.as_str();
    interp.spend_search(pairs.len(), rest.len())?;
    let mut mapped = String::new();
    let begins = |rest: &str, key: &str| match nocase {
        true => rest.get(..key.len()).is_some_and(|start| start.to_lowercase() == key.to_lowercase()),
        false => rest.starts_with(key),
    };
    while let Some(c) = rest.chars().next() {
        let hit = pairs.chunks(2).find(|pair| !pair[0].is_empty() && begins(rest, pair[0].as_str()));
        let taken = match hit {
            Some(pair) => {
                mapped.push_str(pair[1].as_str());
                pair[0].len()
            }
            None => {
                mapped.push(c);
                c.len_utf8()
            }
        };
        rest = &rest[taken..];
        interp.check_size(mapped.len())?;
    }
    Ok(TclValue::from(mapped))
}

fn is(class: &str, options: &[TclValue], text: &TclValue) -> TclResult {
    let strict = match options {
        [] => false,
        [option] if option.as_str() == "-strict" => true,
        _ => return fail("\"string is\" takes only -strict here"),
    };
    let text = text.as_str();
    if text.is_empty() && class != "list" {
        return Ok(TclValue::from_bool(!strict));
    }
    let every = |fits: fn(char) -> bool| text.chars().all(fits);
    Ok(TclValue::from_bool(match class {
        "integer" | "wideinteger" | "entier" => matches!(number::read(text), Some(Number::Integer(_))),
        "double" => number::read(text).is_some(),
        "boolean" => truth(text).is_some(),
        "true" => truth(text) == Some(true),
        "false" => truth(text) == Some(false),
        "list" => list::split(text).is_ok(),
        "alpha" => every(char::is_alphabetic),
        "alnum" => every(char::is_alphanumeric),
        "digit" => every(|c| c.is_ascii_digit()),
        "xdigit" => every(|c| c.is_ascii_hexdigit()),
        "space" => every(char::is_whitespace),
        "upper" => every(char::is_uppercase),
        "lower" => every(char::is_lowercase),
        "punct" => every(|c| c.is_ascii_punctuation()),
        "ascii" => every(|c| c.is_ascii()),
        "wordchar" => every(|c| c.is_alphanumeric() || c == '_'),
        other => return Err(unknown_class(other)),
    }))
}

fn truth(text: &str) -> Option<bool> {
    match number::read(text) {
        Some(Number::Integer(0)) => Some(false),
        Some(Number::Integer(1)) => Some(true),
        Some(_) => None,
        None => expr::truth(text),
    }
}

fn unknown_class(class: &str) -> TclCompletion {
    crate::tcl::completion::TclError::new(format!("\"string is {class}\" is not understood here")).into()
}
