//! `roost policy check`: prints mistakes with their places, and what is hardly meant.

use std::path::Path;

use roost_identity::group::{GroupRecords, Issued};
use roost_policy::{Member, Policy, PolicyError, Warning};
use roost_terminal::{Output, SCHEMA};
use serde_json::{Value, json};

use super::{as_member, members, read};
use crate::failure::{Failure, Outcome};

pub(super) fn run(file: &Path, group: Option<&Path>, output: Output) -> Outcome {
    let text = read(file)?;
    let issued = group.map_or_else(|| Ok(Vec::new()), |dir| members(&GroupRecords::open(dir)?))?;
    match Policy::read(&text) {
        Ok(policy) => report_warnings(file, &policy, &issued, output),
        Err(mistakes) => {
            report_mistakes(file, &mistakes, output)?;
            Err(failure(file, &mistakes))
        }
    }
}

/// The policy, or its mistakes printed and a failure.
pub(super) fn parse(file: &Path, text: &str, output: Output) -> Outcome<Policy> {
    Policy::read(text).map_err(|mistakes| match report_mistakes(file, &mistakes, output) {
        Ok(()) => failure(file, &mistakes),
        Err(unwritten) => unwritten,
    })
}

fn failure(file: &Path, mistakes: &[PolicyError]) -> Failure {
    let count = mistakes.len();
    let noun = if count == 1 { "mistake" } else { "mistakes" };
    Failure::failed(format!("{} is no policy: it has {count} {noun}", file.display()))
}

fn report_mistakes(file: &Path, mistakes: &[PolicyError], output: Output) -> Outcome {
    if output.is_json() {
        let shown = mistakes.iter().map(|one| json!({"line": one.line, "column": one.column, "message": one.message}));
        return Ok(output.json(&json!({"schema": SCHEMA, "mistakes": shown.collect::<Vec<Value>>()}))?);
    }
    for PolicyError { line, column, message } in mistakes {
        output.data(&format!("{}:{line}:{column}: {message}\n", file.display()))?;
    }
    Ok(())
}

fn report_warnings(file: &Path, policy: &Policy, issued: &[Issued], output: Output) -> Outcome {
    let members: Vec<Member<'_>> = issued.iter().map(as_member).collect();
    let warnings = policy.review(&members);
    if output.is_json() {
        let shown = warnings.iter().map(|one| json!({"rule": one.rule.map(|rule| rule + 1), "message": one.message}));
        return Ok(output.json(&json!({
            "schema": SCHEMA, "rules": policy.len(), "mistakes": [], "warnings": shown.collect::<Vec<Value>>()
        }))?);
    }
    for Warning { rule, message } in &warnings {
        let about = rule.map_or_else(String::new, |rule| format!("{} ", policy.describe(rule)));
        output.data(&format!("{}: warning: {about}{message}\n", file.display()))?;
    }
    output.data(&format!("{} is a policy of {} rules\n", file.display(), policy.len()))?;
    Ok(())
}
