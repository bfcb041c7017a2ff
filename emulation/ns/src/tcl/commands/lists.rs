//! Commands that make, read and change lists.

use super::{Builtin, index, integer, range, usage};
use crate::tcl::completion::{TclCompletion, TclResult, fail};
use crate::tcl::interp::TclInterpreter;
use crate::tcl::value::TclValue;

pub(super) fn find(name: &str) -> Option<Builtin> {
    Some(match name {
        "list" => |interp, words| {
            interp.spend(words.len())?;
            Ok(TclValue::from_list(words[1..].to_vec()))
        },
        "llength" => |interp, words| {
            usage(words, 1, 1, "llength list")?;
            Ok(TclValue::from(interp.list(&words[1])?.len()))
        },
        "lindex" => lindex,
        "lrange" => lrange,
        "linsert" => linsert,
        "lreplace" => lreplace,
        "lassign" => lassign,
        "lrepeat" => lrepeat,
        "lreverse" => |interp, words| {
            usage(words, 1, 1, "lreverse list")?;
            let items = interp.list(&words[1])?;
            interp.spend(items.len())?;
            Ok(TclValue::from_list(items.iter().rev().cloned().collect()))
        },
        "lset" => lset,
        "concat" => |interp, words| {
            let text = concatenated(&words[1..]);
            interp.check_size(text.len())?;
            Ok(TclValue::from(text))
        },
        "join" => join,
        "split" => split,
        _ => return None,
    })
}

/// The result of `concat`: the words, trimmed, with blanks between.
pub(super) fn concatenated(words: &[TclValue]) -> String {
    let trimmed =
        words.iter().map(|word| word.as_str().trim_matches(|c: char| c.is_ascii_whitespace() || c == '\u{b}'));
    trimmed.filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ")
}

fn lindex(interp: &mut TclInterpreter, words: &[TclValue]) -> TclResult {
    let [_, list, indices @ ..] = words else { return fail("wrong # args: should be \"lindex list ?index ...?\"") };
    let path = match indices {
        [one] => interp.list(one)?.to_vec(),
        several => several.to_vec(),
    };
    let mut found = list.clone();
    for step in &path {
        let items = interp.list(&found)?;
        let at = index(step, items.len())?;
        found = usize::try_from(at).ok().and_then(|at| items.get(at)).cloned().unwrap_or_default();
    }
    Ok(found)
}

fn lrange(interp: &mut TclInterpreter, words: &[TclValue]) -> TclResult {
    usage(words, 3, 3, "lrange list first last")?;
    let items = interp.list(&words[1])?;
    let range = range(index(&words[2], items.len())?, index(&words[3], items.len())?, items.len());
    interp.spend(range.len() / 4)?;
    Ok(TclValue::from_list(items[range].to_vec()))
}

fn linsert(interp: &mut TclInterpreter, words: &[TclValue]) -> TclResult {
    let [_, list, at, new @ ..] = words else {
        return fail("wrong # args: should be \"linsert list index ?element ...?\"");
    };
    let mut items = interp.list(list)?.to_vec();
    // Here "end" is the position after the last element.
    let at = index(at, items.len() + 1)?;
    let at = usize::try_from(at).unwrap_or(0).min(items.len());
    interp.spend(items.len() / 4 + new.len())?;
    items.splice(at..at, new.iter().cloned());
    Ok(TclValue::from_list(items))
}

fn lreplace(interp: &mut TclInterpreter, words: &[TclValue]) -> TclResult {
    let [_, list, first, last, new @ ..] = words else {
        return fail("wrong # args: should be \"lreplace list first last ?element ...?\"");
    };
    let mut items = interp.list(list)?.to_vec();
    let (first, last) = (index(first, items.len())?, index(last, items.len())?);
    let range = range(first, last, items.len());
    interp.spend(items.len() / 4 + new.len())?;
    items.splice(range, new.iter().cloned());
    Ok(TclValue::from_list(items))
}

fn lassign(interp: &mut TclInterpreter, words: &[TclValue]) -> TclResult {
    let [_, list, names @ ..] = words else { return fail("wrong # args: should be \"lassign list ?varName ...?\"") };
    let items = interp.list(list)?;
    interp.spend(items.len() / 4)?;
    for (i, name) in names.iter().enumerate() {
        interp.set(name.as_str(), items.get(i).cloned().unwrap_or_default())?;
    }
    Ok(TclValue::from_list(items.get(names.len()..).unwrap_or_default().to_vec()))
}

fn lrepeat(interp: &mut TclInterpreter, words: &[TclValue]) -> TclResult {
    let [_, count, items @ ..] = words else { return fail("wrong # args: should be \"lrepeat count ?value ...?\"") };
    let Ok(count) = usize::try_from(integer(count)?) else {
        return fail("bad count of lrepeat: must not be negative");
    };
    let bytes = items.iter().map(|item| item.len() + 1).sum::<usize>();
    interp.check_size(bytes.saturating_mul(count))?;
    interp.spend(items.len().saturating_mul(count))?;
    Ok(TclValue::from_list(items.iter().cycle().take(items.len() * count).cloned().collect()))
}

fn lset(interp: &mut TclInterpreter, words: &[TclValue]) -> TclResult {
    let [_, name, indices @ .., new] = words else {
        return fail("wrong # args: should be \"lset listVar ?index ...? value\"");
    };
    let path = match indices {
        [one] => interp.list(one)?.to_vec(),
        several => several.to_vec(),
    };
    let old = interp.get(name.as_str())?;
    let value = replaced(interp, &old, &path, new)?;
    interp.set(name.as_str(), value.clone())?;
    Ok(value)
}

fn replaced(interp: &mut TclInterpreter, list: &TclValue, path: &[TclValue], new: &TclValue) -> TclResult {
    let [step, rest @ ..] = path else { return Ok(new.clone()) };
    interp.enter(1)?;
    let mut items = interp.list(list)?.to_vec();
    interp.spend(items.len() / 4)?;
    let at = index(step, items.len())?;
    match usize::try_from(at).ok().and_then(|at| items.get_mut(at)) {
        Some(item) => *item = replaced(interp, &item.clone(), rest, new)?,
        None => return fail("list index out of range"),
    }
    interp.leave(1);
    Ok(TclValue::from_list(items))
}

fn join(interp: &mut TclInterpreter, words: &[TclValue]) -> TclResult {
    usage(words, 1, 2, "join list ?joinString?")?;
    let items = interp.list(&words[1])?;
    let between = words.get(2).map_or(" ", TclValue::as_str);
    interp.spend(items.len() / 4)?;
    let bytes = items.iter().map(|item| item.len() + between.len()).sum();
    interp.check_size(bytes)?;
    Ok(TclValue::from(items.iter().map(TclValue::as_str).collect::<Vec<_>>().join(between)))
}

fn split(interp: &mut TclInterpreter, words: &[TclValue]) -> TclResult {
    usage(words, 1, 2, "split string ?splitChars?")?;
    let text = words[1].as_str();
    let at = words.get(2).map_or(" \n\t\r", TclValue::as_str);
    interp.spend_search(at.len(), text.len())?;
    let items: Vec<TclValue> = match at {
        _ if text.is_empty() => Vec::new(),
        "" => text.chars().map(|c| TclValue::from(c.to_string())).collect(),
        _ => text.split(|c| at.contains(c)).map(TclValue::from).collect(),
    };
    interp.spend(items.len())?;
    Ok(TclValue::from_list(items))
}

/// Refuses a flag of `lsearch` or `lsort`.
pub(super) fn bad_option(command: &str, option: &str) -> TclCompletion {
    TclCompletion::from(crate::tcl::completion::TclError::new(format!("\"{command} {option}\" is not understood here")))
}
