//! `array`.

use super::usage;
use crate::tcl::completion::{TclCompletion, TclResult, fail};
use crate::tcl::glob;
use crate::tcl::interp::TclInterpreter;
use crate::tcl::value::TclValue;

pub(super) fn array(interp: &mut TclInterpreter, words: &[TclValue]) -> TclResult {
    usage(words, 2, 4, "array subcommand arrayName ?arg ...?")?;
    let name = words[2].as_str();
    match words[1].as_str() {
        "exists" => Ok(TclValue::from_bool(interp.array(name).is_some())),
        "size" => Ok(TclValue::from(interp.array(name).map_or(0, |table| table.len()))),
        "names" => names(interp, words),
        "get" => {
            let found = matching(interp, name, words.get(3))?;
            interp.spend(found.len() * 2)?;
            Ok(TclValue::from_list(found.into_iter().flat_map(|(key, value)| [TclValue::from(key), value]).collect()))
        }
        "set" => set(interp, words),
        "unset" if words.len() == 3 => {
            if interp.array(name).is_some() {
                interp.unset(name);
            }
            Ok(TclValue::default())
        }
        "unset" => {
            for (key, _) in matching(interp, name, words.get(3))? {
                interp.unset(&format!("{name}({key})"));
            }
            Ok(TclValue::default())
        }
        other => fail(format!("\"array {other}\" is not understood here")),
    }
}

fn set(interp: &mut TclInterpreter, words: &[TclValue]) -> TclResult {
    usage(words, 3, 3, "array set arrayName list")?;
    let name = words[2].as_str();
    let items = interp.list(&words[3])?;
    if !items.len().is_multiple_of(2) {
        return fail("list must have an even number of elements");
    }
    interp.make_array(name)?;
    for pair in items.chunks(2) {
        interp.set(&format!("{name}({})", pair[0].as_str()), pair[1].clone())?;
    }
    Ok(TclValue::default())
}

fn names(interp: &mut TclInterpreter, words: &[TclValue]) -> TclResult {
    let name = words[2].as_str();
    let (exact, pattern) = match &words[3..] {
        [] => (false, None),
        [pattern] => (false, Some(pattern)),
        [mode, pattern] => match mode.as_str() {
            "-exact" => (true, Some(pattern)),
            "-glob" => (false, Some(pattern)),
            other => return fail(format!("\"array names {other}\" is not understood here")),
        },
        _ => return fail("wrong # args: should be \"array names arrayName ?mode? ?pattern?\""),
    };
    let found = match (exact, pattern) {
        (true, Some(pattern)) => {
            let known = interp.array(name).is_some_and(|table| table.get(pattern.as_str()).is_some());
            if known { vec![pattern.clone()] } else { vec![] }
        }
        _ => matching(interp, name, pattern)?.into_iter().map(|(key, _)| TclValue::from(key)).collect(),
    };
    interp.spend(found.len())?;
    Ok(TclValue::from_list(found))
}

/// The elements whose names match, in Tcl's order.
fn matching(
    interp: &mut TclInterpreter,
    name: &str,
    pattern: Option<&TclValue>,
) -> Result<Vec<(String, TclValue)>, TclCompletion> {
    let len = interp.array(name).map_or(0, |table| table.len());
    interp.spend(len / 8)?;
    let Some(table) = interp.array(name) else { return Ok(Vec::new()) };
    let (pattern_len, bytes) = (pattern.map_or(0, TclValue::len), table.keys().map(str::len).sum());
    interp.spend_search(pattern_len, bytes)?;
    let Some(table) = interp.array(name) else { return Ok(Vec::new()) };
    let fits = |key: &&str| pattern.is_none_or(|pattern| glob::matches(pattern.as_str(), key));
    Ok(table.keys().filter(fits).filter_map(|key| Some((key.to_owned(), table.get(key)?.clone()))).collect())
}
