//! `info`.

use super::{Builtin, usage};
use crate::tcl::completion::{TclResult, fail};
use crate::tcl::glob;
use crate::tcl::interp::TclInterpreter;
use crate::tcl::value::TclValue;

pub(super) fn info(interp: &mut TclInterpreter, words: &[TclValue]) -> TclResult {
    usage(words, 1, 4, "info subcommand ?arg ...?")?;
    let argument = words.get(2).map(TclValue::as_str);
    let names = match (words[1].as_str(), argument) {
        ("exists", Some(name)) => return Ok(TclValue::from_bool(interp.exists(name))),
        ("tclversion", None) => return Ok(TclValue::from("8.6")),
        ("patchlevel", None) => return Ok(TclValue::from("8.6.13")),
        ("level", _) => return level(interp, words),
        ("args" | "body", Some(name)) => return procedure(interp, words[1].as_str(), name),
        ("script", None) => return Ok(TclValue::from(interp.world.file.as_str())),
        ("complete", Some(_)) => return Ok(TclValue::from("1")),
        ("globals", _) => interp.own_variable_names(0),
        ("locals", _) if interp.current == 0 => Vec::new(),
        ("locals", _) => interp.own_variable_names(interp.current),
        ("vars", _) => interp.variable_names(interp.current),
        ("procs", _) => interp.procedures.keys().cloned().collect(),
        ("commands", _) => commands(interp, argument),
        (other, _) => return fail(format!("\"info {other}\" is not understood here")),
    };
    interp.spend(names.len() / 8)?;
    interp.spend_search(argument.map_or(0, str::len), names.iter().map(String::len).sum())?;
    let mut names: Vec<TclValue> = names
        .into_iter()
        .filter(|name| argument.is_none_or(|pattern| glob::matches(pattern, name)))
        .map(TclValue::from)
        .collect();
    names.sort_by(|a, b| a.as_str().cmp(b.as_str()));
    interp.spend(names.len())?;
    Ok(TclValue::from_list(names))
}

/// All commands; a built-in one is only included if `pattern` is its exact name.
fn commands(interp: &TclInterpreter, pattern: Option<&str>) -> Vec<String> {
    let built_in: fn(&str) -> Option<Builtin> = |name| super::find(name).or_else(|| crate::tb::find(name));
    let own = interp.procedures.keys().cloned().chain(interp.world.names().map(str::to_owned));
    own.chain(pattern.filter(|name| built_in(name).is_some()).map(str::to_owned)).collect()
}

fn level(interp: &TclInterpreter, words: &[TclValue]) -> TclResult {
    let frame = &interp.frames[interp.current];
    let Some(wanted) = words.get(2) else { return Ok(TclValue::from(frame.level)) };
    let wanted = super::integer(wanted)?;
    // Fits i64: there are few levels.
    let wanted = if wanted <= 0 { frame.level as i64 + wanted } else { wanted };
    let found = interp.frames.iter().rev().find(|frame| frame.level as i64 == wanted && wanted > 0);
    match found {
        Some(frame) => Ok(TclValue::from_list(frame.call.clone())),
        None => fail(format!("bad level \"{wanted}\"")),
    }
}

fn procedure(interp: &TclInterpreter, what: &str, name: &str) -> TclResult {
    let Some(procedure) = interp.procedures.get(name) else { return fail(format!("\"{name}\" isn't a procedure")) };
    Ok(match what {
        "body" => procedure.body.clone(),
        _ => TclValue::from_list(procedure.parameters.iter().map(|(name, _)| TclValue::from(name.as_str())).collect()),
    })
}
