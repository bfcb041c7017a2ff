//! `roost policy explain`: names the rule that decides, and why others do not.

use roost_identity::group::{GroupRecords, Issued};
use roost_policy::{Attempt, Member, Policy, Verdict};
use roost_terminal::{Output, SCHEMA};
use roost_wire::{Labels, Role};
use serde_json::{Value, json};

use super::super::group::labels;
use super::{check, members, newest, parse, read};
use crate::args::ExplainArgs;
use crate::failure::{Code, Failure, Outcome};

pub(super) fn run(args: &ExplainArgs, output: Output) -> Outcome {
    let records = args.group.as_deref().map(GroupRecords::open).transpose()?;
    let (role, labels) = role_and_labels(args, records.as_ref())?;
    let policy = match (&args.policy, &records) {
        (Some(file), _) => Some(check::parse(file, &read(file)?, output)?),
        (None, Some(records)) => newest(records)?.map(|(_, text)| parse(&text)).transpose()?,
        (None, None) => return Err(Failure::usage("name a policy: --policy FILE or --group DIR")),
    };
    let Some(policy) = policy else {
        return report_none(output);
    };
    let member = Member { role, name: &args.member, labels: &labels };
    let attempt = Attempt {
        action: args.action,
        service: args.service.as_ref().map(roost_wire::Service::base_name),
        place: args.at,
    };
    report(&policy, member, &attempt, output)
}

/// Of the flags, else of the member's newest certificate.
fn role_and_labels(args: &ExplainArgs, records: Option<&GroupRecords>) -> Outcome<(Role, Labels)> {
    let flags = labels::parse(&args.labels)?;
    if let Some(role) = args.role {
        return Ok((role, flags));
    }
    let issued: Vec<Issued> = records.map_or_else(|| Ok(Vec::new()), members)?;
    let found = issued.into_iter().rev().find(|one| one.name == args.member);
    let unknown = || {
        let remedy = "see roost group show, or give --role";
        Failure::new(
            Code::NotFound,
            format!("no member with a valid certificate has the name {}: {remedy}", args.member),
        )
    };
    let Issued { role, labels, .. } = found.ok_or_else(unknown)?;
    Ok((role, if flags.is_empty() { labels } else { flags }))
}

fn report_none(output: Output) -> Outcome {
    if output.is_json() {
        return Ok(output.json(&json!({"schema": SCHEMA, "allowed": true, "rule": null, "misfits": []}))?);
    }
    Ok(output.data("allowed: the group has no policy\n")?)
}

fn report(policy: &Policy, member: Member<'_>, attempt: &Attempt<'_>, output: Output) -> Outcome {
    let (verdict, misfits) = policy.explain(member, attempt);
    if output.is_json() {
        let shown = misfits.iter().map(|one| json!({"rule": one.rule + 1, "reason": one.reason}));
        output.json(&json!({
            "schema": SCHEMA, "allowed": verdict.is_allowed(), "rule": verdict.rule().map(|rule| rule + 1),
            "misfits": shown.collect::<Vec<Value>>()
        }))?;
    } else {
        for misfit in &misfits {
            output.data(&format!("{} does not fit: {}\n", policy.describe(misfit.rule), misfit.reason))?;
        }
    }
    let decides = policy.decisive(verdict);
    match verdict {
        Verdict::Allowed(_) if output.is_json() => Ok(()),
        Verdict::Allowed(_) => Ok(output.data(&format!("allowed: {decides}\n"))?),
        Verdict::Denied(_) | Verdict::NoRule => Err(Failure::new(Code::Refused, format!("denied: {decides}"))),
    }
}
