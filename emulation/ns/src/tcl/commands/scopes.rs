//! Procedures, and variables of this and other frames.

use std::rc::Rc;

use super::{Builtin, integer, usage};
use crate::tcl::completion::{TclCompletion, TclResult, fail};
use crate::tcl::interp::{Procedure, TclInterpreter};
use crate::tcl::value::TclValue;
use crate::tcl::{parse, short};

pub(super) fn find(name: &str) -> Option<Builtin> {
    Some(match name {
        "set" => set,
        "unset" => unset,
        "incr" => incr,
        "append" => append,
        "lappend" => lappend,
        "proc" => proc,
        "global" => global,
        "variable" => variable,
        "upvar" => upvar,
        "uplevel" => uplevel,
        "array" => super::arrays::array,
        "info" => super::info::info,
        _ => return None,
    })
}

/// `set` names objects: the first global variable that a new object is stored in names it, `n(3)` as `n-3`.
/// Emulab ignores further words, which are often a comment without its semicolon.
fn set(interp: &mut TclInterpreter, words: &[TclValue]) -> TclResult {
    usage(words, 1, usize::MAX, "set varName ?newValue?")?;
    if let Some(more) = words.get(3) {
        interp.warn(format!("\"{}\" and what follows it is not part of the value: left out", short(more.as_str())));
    }
    let name = words[1].as_str();
    let Some(value) = words.get(2) else { return Ok(interp.get(name)?) };
    interp.spend(value.len() / 1024)?;
    if !parse::is_one_braced_word(value.as_str()) {
        return fail(format!(
            "Emulab's \"set\" takes no text whose braces do not pair, or that ends in a backslash: \"{}\"",
            short(value.as_str())
        ));
    }
    let value = interp.name_object(name, value)?;
    interp.set(name, value.clone())?;
    Ok(value)
}

fn unset(interp: &mut TclInterpreter, words: &[TclValue]) -> TclResult {
    let mut names = &words[1..];
    let complain = names.first().is_none_or(|name| name.as_str() != "-nocomplain");
    if !complain {
        names = &names[1..];
    }
    if names.first().is_some_and(|name| name.as_str() == "--") {
        names = &names[1..];
    }
    for name in names {
        if !interp.unset(name.as_str()) && complain {
            return fail(format!("can't unset \"{}\": no such variable", name.as_str()));
        }
    }
    Ok(TclValue::default())
}

fn incr(interp: &mut TclInterpreter, words: &[TclValue]) -> TclResult {
    usage(words, 1, 2, "incr varName ?increment?")?;
    let name = words[1].as_str();
    let by = words.get(2).map_or(Ok(1), integer)?;
    let old = if interp.exists(name) { integer(&interp.get(name)?)? } else { 0 };
    match old.checked_add(by) {
        Some(new) => {
            interp.set(name, TclValue::from(new))?;
            Ok(TclValue::from(new))
        }
        None => fail("integer value too large to represent"),
    }
}

fn append(interp: &mut TclInterpreter, words: &[TclValue]) -> TclResult {
    let [_, name, parts @ ..] = words else { return fail("wrong # args: should be \"append varName ?value ...?\"") };
    if parts.is_empty() {
        return Ok(interp.get(name.as_str())?);
    }
    let more = parts.iter().map(TclValue::as_str).collect::<String>();
    let before = interp.get(name.as_str()).map_or(0, |value| value.len());
    interp.check_size(before.saturating_add(more.len()))?;
    interp.spend(more.len() / 256)?;
    Ok(interp.update(name.as_str(), |value| value.append(&more))?)
}

fn lappend(interp: &mut TclInterpreter, words: &[TclValue]) -> TclResult {
    let [_, name, items @ ..] = words else { return fail("wrong # args: should be \"lappend varName ?value ...?\"") };
    if interp.exists(name.as_str()) {
        // A value that is no list is refused before it is changed.
        let list = interp.get(name.as_str())?;
        interp.list(&list)?;
    }
    let added: usize = items.iter().map(TclValue::len).sum();
    interp.spend(items.len() + added / 256)?;
    Ok(interp.update(name.as_str(), |value| items.iter().for_each(|item| value.append_element(item)))?)
}

fn proc(interp: &mut TclInterpreter, words: &[TclValue]) -> TclResult {
    usage(words, 3, 3, "proc name args body")?;
    let mut parameters = Vec::new();
    for parameter in interp.list(&words[2])?.iter() {
        let parts = interp.list(parameter)?;
        match parts.as_slice() {
            [name] => parameters.push((name.as_str().to_owned(), None)),
            [name, default] => parameters.push((name.as_str().to_owned(), Some(default.clone()))),
            _ => {
                return fail(format!(
                    "the parameter \"{}\" is neither a name nor a name and a value",
                    parameter.as_str()
                ));
            }
        }
    }
    let name = words[1].as_str().trim_start_matches("::").to_owned();
    if interp.world.find(&name).is_some() {
        return fail(format!("there is an object \"{name}\" already"));
    }
    if interp.procedures.len() >= interp.limits.procedures && !interp.procedures.contains_key(&name) {
        return Err(TclCompletion::refuse(format!("there are more than {} procedures", interp.limits.procedures)));
    }
    interp.procedures.insert(name, Rc::new(Procedure { parameters, body: words[3].clone() }));
    Ok(TclValue::default())
}

fn global(interp: &mut TclInterpreter, words: &[TclValue]) -> TclResult {
    if interp.current == 0 {
        return Ok(TclValue::default());
    }
    for name in &words[1..] {
        let name = name.as_str().trim_start_matches("::");
        interp.link(name, 0, name)?;
    }
    Ok(TclValue::default())
}

/// `variable name ?value? …`: a global, since there are no namespaces.
fn variable(interp: &mut TclInterpreter, words: &[TclValue]) -> TclResult {
    usage(words, 1, usize::MAX, "variable ?name value...? name ?value?")?;
    for pair in words[1..].chunks(2) {
        let name = pair[0].as_str().trim_start_matches("::");
        if interp.current != 0 {
            interp.link(name, 0, name)?;
        }
        if let Some(value) = pair.get(1) {
            interp.set(name, value.clone())?;
        }
    }
    Ok(TclValue::default())
}

/// The frame of a `level` such as `1` or `#0`, seen from this one.
fn frame(interp: &TclInterpreter, level: &str) -> Result<Option<usize>, TclCompletion> {
    let here = interp.frames[interp.current].level;
    let wanted = match (level.strip_prefix('#'), level.parse::<usize>()) {
        (Some(absolute), _) => absolute.parse().ok(),
        (None, Ok(up)) => match here.checked_sub(up) {
            Some(wanted) => Some(wanted),
            None => return fail(format!("bad level \"{level}\"")),
        },
        (None, Err(_)) => return Ok(None),
    };
    let Some(wanted) = wanted.filter(|wanted| *wanted <= here) else { return fail(format!("bad level \"{level}\"")) };
    let mut frame = interp.current;
    while interp.frames[frame].level > wanted {
        frame = interp.frames[frame].caller;
    }
    Ok(Some(frame))
}

fn upvar(interp: &mut TclInterpreter, words: &[TclValue]) -> TclResult {
    let mut rest = &words[1..];
    let explicit = !rest.len().is_multiple_of(2);
    let level = match rest {
        [level, after @ ..] if explicit => {
            rest = after;
            level.as_str()
        }
        _ => "1",
    };
    let Some(frame) = frame(interp, level)? else { return fail(format!("bad level \"{level}\"")) };
    if rest.is_empty() {
        return fail("wrong # args: should be \"upvar ?level? otherVar localVar ?otherVar localVar ...?\"");
    }
    for pair in rest.chunks(2) {
        interp.link(pair[1].as_str(), frame, pair[0].as_str())?;
    }
    Ok(TclValue::default())
}

fn uplevel(interp: &mut TclInterpreter, words: &[TclValue]) -> TclResult {
    let [_, first, more @ ..] = words else {
        return fail("wrong # args: should be \"uplevel ?level? command ?arg ...?\"");
    };
    let explicit = if more.is_empty() { None } else { frame(interp, first.as_str())? };
    let (frame, parts) = match explicit {
        Some(frame) => (frame, more),
        None => match frame(interp, "1")? {
            Some(frame) => (frame, &words[1..]),
            None => return fail("bad level \"1\""),
        },
    };
    let script = match parts {
        [script] => script.clone(),
        parts => TclValue::from(super::lists::concatenated(parts)),
    };
    interp.check_size(script.len())?;
    let here = std::mem::replace(&mut interp.current, frame);
    let outcome = interp.eval(&script);
    interp.current = here;
    outcome
}
