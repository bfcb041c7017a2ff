//! Conditions and loops, with their exits.

use super::{Builtin, integer, usage};
use crate::tcl::completion::{TclCompletion, TclError, TclResult, fail};
use crate::tcl::interp::TclInterpreter;
use crate::tcl::value::TclValue;
use crate::tcl::{glob, list};

pub(super) fn find(name: &str) -> Option<Builtin> {
    Some(match name {
        "if" => if_else,
        "while" => while_loop,
        "for" => for_loop,
        "foreach" => foreach,
        "lmap" => lmap,
        "switch" => switch,
        "break" => |_, words| usage(words, 0, 0, "break").and(Err(TclCompletion::Break)),
        "continue" => |_, words| usage(words, 0, 0, "continue").and(Err(TclCompletion::Continue)),
        "return" => return_value,
        "catch" => catch,
        "error" => error,
        "exit" => exit,
        "eval" => eval,
        _ => return None,
    })
}

fn if_else(interp: &mut TclInterpreter, words: &[TclValue]) -> TclResult {
    let mut rest = &words[1..];
    loop {
        let [condition, after @ ..] = rest else { return fail("wrong # args: no condition after \"if\"") };
        let after = if after.first().is_some_and(|word| word.as_str() == "then") { &after[1..] } else { after };
        let [body, after @ ..] = after else { return fail("wrong # args: no script after the condition of \"if\"") };
        if interp.condition(condition)? {
            return interp.eval(body);
        }
        match after {
            [] => return Ok(TclValue::default()),
            [word, more @ ..] if word.as_str() == "elseif" => rest = more,
            [word, body] if word.as_str() == "else" => return interp.eval(body),
            [body] => return interp.eval(body),
            _ => return fail("wrong # args: extra words after \"else\" clause in \"if\" command"),
        }
    }
}

/// Runs a loop's body; true if the loop goes on.
fn turn(interp: &mut TclInterpreter, body: &TclValue) -> Result<bool, TclCompletion> {
    interp.spend(1)?;
    match interp.eval(body) {
        Ok(_) | Err(TclCompletion::Continue) => Ok(true),
        Err(TclCompletion::Break) => Ok(false),
        Err(other) => Err(other),
    }
}

fn while_loop(interp: &mut TclInterpreter, words: &[TclValue]) -> TclResult {
    usage(words, 2, 2, "while test command")?;
    while interp.condition(&words[1])? && turn(interp, &words[2])? {}
    Ok(TclValue::default())
}

fn for_loop(interp: &mut TclInterpreter, words: &[TclValue]) -> TclResult {
    usage(words, 4, 4, "for start test next command")?;
    interp.eval(&words[1])?;
    while interp.condition(&words[2])? && turn(interp, &words[4])? {
        match interp.eval(&words[3]) {
            Ok(_) => {}
            Err(TclCompletion::Break) => break,
            Err(other) => return Err(other),
        }
    }
    Ok(TclValue::default())
}

fn foreach(interp: &mut TclInterpreter, words: &[TclValue]) -> TclResult {
    each(interp, words, |_| {})?;
    Ok(TclValue::default())
}

fn lmap(interp: &mut TclInterpreter, words: &[TclValue]) -> TclResult {
    let mut results = Vec::new();
    each(interp, words, |result| results.push(result))?;
    Ok(TclValue::from_list(results))
}

fn each(interp: &mut TclInterpreter, words: &[TclValue], mut done: impl FnMut(TclValue)) -> Result<(), TclCompletion> {
    let (Some((body, pairs)), true) = (words[1..].split_last(), words.len() >= 4 && words.len().is_multiple_of(2))
    else {
        return fail(format!(
            "wrong # args: should be \"{} varList list ?varList list ...? command\"",
            words[0].as_str()
        ));
    };
    let mut columns = Vec::new();
    let mut turns = 0;
    for pair in pairs.chunks(2) {
        let (names, items) = (interp.list(&pair[0])?, interp.list(&pair[1])?);
        if names.is_empty() {
            return fail("foreach varlist is empty");
        }
        turns = turns.max(items.len().div_ceil(names.len()));
        columns.push((names, items));
    }
    for number in 0..turns {
        for (names, items) in &columns {
            for (i, name) in names.iter().enumerate() {
                let item = items.get(number * names.len() + i).cloned().unwrap_or_default();
                interp.set(name.as_str(), item)?;
            }
        }
        interp.spend(1)?;
        match interp.eval(body) {
            Ok(result) => done(result),
            Err(TclCompletion::Continue) => {}
            Err(TclCompletion::Break) => break,
            Err(other) => return Err(other),
        }
    }
    Ok(())
}

fn switch(interp: &mut TclInterpreter, words: &[TclValue]) -> TclResult {
    let mut rest = &words[1..];
    let mut fits: fn(&str, &str) -> bool = |pattern, text| pattern == text;
    while let [option, after @ ..] = rest {
        match option.as_str() {
            "-exact" => {}
            "-glob" => fits = glob::matches,
            "-regexp" => return fail("\"switch -regexp\" is not understood here"),
            "-nocase" => return fail("\"switch -nocase\" is not understood here"),
            "--" => {
                rest = after;
                break;
            }
            other if other.starts_with('-') && rest.len() > 2 => {
                return fail(format!("bad option \"{other}\" of switch"));
            }
            _ => break,
        }
        rest = after;
    }
    let [text, cases @ ..] = rest else {
        return fail("wrong # args: should be \"switch ?options? string {pattern body ...}\"");
    };
    let cases = match cases {
        [list] => {
            interp.spend(list.len() / 64)?;
            cases_of(list)?
        }
        cases => cases.to_vec(),
    };
    if cases.is_empty() || !cases.len().is_multiple_of(2) {
        return fail("extra switch pattern with no body");
    }
    let last = cases.len() / 2 - 1;
    let pairs: Vec<_> = cases.chunks(2).collect();
    interp.spend_search(pairs.iter().map(|pair| pair[0].len()).sum(), text.len())?;
    let hit = pairs
        .iter()
        .enumerate()
        .position(|(i, pair)| (i == last && pair[0].as_str() == "default") || fits(pair[0].as_str(), text.as_str()));
    let Some(hit) = hit else { return Ok(TclValue::default()) };
    match pairs[hit..].iter().find(|pair| pair[1].as_str() != "-") {
        Some(pair) => interp.eval(&pair[1]),
        None => fail("no body specified for the last pattern of switch"),
    }
}

/// Splits patterns and bodies in one word; the bodies keep their lines.
fn cases_of(list: &TclValue) -> Result<Vec<TclValue>, TclCompletion> {
    let mut cases = Vec::new();
    let (text, first) = (list.raw(), list.line());
    let (mut at, mut line) = (0, first);
    list::each(text, |item, begin| {
        // Fits u32: a value has fewer lines than 2^32.
        line += text.as_bytes()[at..begin].iter().filter(|&&byte| byte == b'\n').count() as u32;
        at = begin;
        cases.push(TclValue::written(item, None, if first == 0 { 0 } else { line }, 1));
    })
    .map_err(TclError::new)?;
    Ok(cases)
}

fn return_value(_: &mut TclInterpreter, words: &[TclValue]) -> TclResult {
    let (options, value) = match words.len() % 2 {
        0 => (&words[1..words.len() - 1], words[words.len() - 1].clone()),
        _ => (&words[1..], TclValue::default()),
    };
    for pair in options.chunks(2) {
        match (pair[0].as_str(), pair[1].as_str()) {
            ("-code", "ok" | "0") | ("-errorinfo" | "-errorcode", _) => {}
            ("-code", "error" | "1") => return fail(value.as_str()),
            ("-code", "return" | "2") => return Err(TclCompletion::Return(value)),
            (option, _) => return fail(format!("\"return {option}\" is not understood here")),
        }
    }
    Err(TclCompletion::Return(value))
}

fn catch(interp: &mut TclInterpreter, words: &[TclValue]) -> TclResult {
    usage(words, 1, 3, "catch script ?resultVarName? ?optionVarName?")?;
    let (code, value) = match interp.eval(&words[1]) {
        Ok(value) => ("0", value),
        Err(TclCompletion::Error(fault)) => {
            interp.set("::errorInfo", TclValue::from(fault.message.as_str()))?;
            ("1", TclValue::from(fault.message))
        }
        Err(TclCompletion::Return(value)) => ("2", value),
        Err(TclCompletion::Break) => ("3", TclValue::default()),
        Err(TclCompletion::Continue) => ("4", TclValue::default()),
        Err(other) => return Err(other),
    };
    if let Some(name) = words.get(2) {
        interp.set(name.as_str(), value)?;
    }
    if let Some(name) = words.get(3) {
        interp.set(name.as_str(), TclValue::from(format!("-code {code} -level 0")))?;
    }
    Ok(TclValue::from(code))
}

fn error(_: &mut TclInterpreter, words: &[TclValue]) -> TclResult {
    usage(words, 1, 3, "error message ?errorInfo? ?errorCode?")?;
    fail(words[1].as_str())
}

fn exit(interp: &mut TclInterpreter, words: &[TclValue]) -> TclResult {
    usage(words, 0, 1, "exit ?returnCode?")?;
    match words.get(1).map_or(Ok(0), integer)? {
        0 => {
            interp.exit_line = interp.line;
            Err(TclCompletion::Exit)
        }
        code => Err(TclCompletion::refuse(format!("the file gives up here, with exit code {code}"))),
    }
}

fn eval(interp: &mut TclInterpreter, words: &[TclValue]) -> TclResult {
    match &words[1..] {
        [] => fail("wrong # args: should be \"eval arg ?arg ...?\""),
        [script] => interp.eval(script),
        parts => {
            let script = super::lists::concatenated(parts);
            interp.check_size(script.len())?;
            interp.eval(&TclValue::from(script))
        }
    }
}
