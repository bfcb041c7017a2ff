//! `roost policy`: the group's policy is checked, explained and published.

mod check;
mod explain;
mod publication;

use std::path::Path;
use std::time::SystemTime;

use roost_identity::group::{GroupRecords, Issued};
use roost_policy::{Member, Policy};
use roost_terminal::Output;

use crate::args::{PolicyArgs, PolicyCommand};
use crate::failure::{Failure, Outcome};

pub(crate) fn run(args: &PolicyArgs, output: Output) -> Outcome {
    match &args.command {
        PolicyCommand::Check { file, group } => check::run(file, group.as_deref(), output),
        PolicyCommand::Explain(args) => explain::run(args, output),
        PolicyCommand::Publish { file, signing, force } => publication::publish(file, signing, *force, output),
        PolicyCommand::Show { group } => publication::show(group, output),
        PolicyCommand::Withdraw { signing } => publication::withdraw(signing, output),
    }
}

fn read(file: &Path) -> Outcome<String> {
    std::fs::read_to_string(file).map_err(|error| Failure::file("read", file, &error))
}

/// The text of the group's newest policy, with its number; `None` if the group has none.
fn newest(records: &GroupRecords) -> Outcome<Option<(u64, String)>> {
    let document = records.policy_document()?.filter(|document| !document.content.is_empty());
    let text = document.map(|document| Ok((document.number, String::from_utf8(document.content)?)));
    text.transpose().map_err(|_: std::string::FromUtf8Error| Failure::failed("the group's policy is no text"))
}

fn parse(text: &str) -> Outcome<Policy> {
    text.parse().map_err(|mistake: roost_policy::PolicyError| Failure::failed(mistake.to_string()))
}

/// The newest certificate of each member that has a valid one.
fn members(records: &GroupRecords) -> Outcome<Vec<Issued>> {
    let now = SystemTime::now();
    let mut newest: Vec<Issued> = Vec::new();
    for one in records.show()?.into_iter().rev() {
        let is_valid = one.revoked.is_none() && now <= one.not_after;
        if is_valid && !newest.iter().any(|other| other.node == one.node) {
            newest.push(one);
        }
    }
    newest.reverse();
    Ok(newest)
}

fn as_member(issued: &Issued) -> Member<'_> {
    Member { role: issued.role, name: &issued.name, labels: &issued.labels }
}
