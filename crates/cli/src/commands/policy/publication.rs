//! `roost policy publish`, `show` and `withdraw`: signed texts in the folder of the group.

use std::path::{Path, PathBuf};

use roost_audit::{AuditEvent, AuditKind};
use roost_identity::group::GroupRecords;
use roost_policy::{Action, Member, Policy};
use roost_terminal::{Output, SCHEMA};
use serde_json::json;

use super::super::group::audit;
use super::super::group::passphrase::open_group;
use super::super::publish::{self, POLICY};
use super::{as_member, check, members, newest, read};
use crate::args::SigningArgs;
use crate::failure::{Failure, Outcome};

pub(super) fn publish(file: &Path, signing: &SigningArgs, force: bool, output: Output) -> Outcome {
    let text = read(file)?;
    if text.is_empty() {
        let words = format!("{} is empty, which would end the policy: roost policy withdraw does that", file.display());
        return Err(Failure::failed(words));
    }
    let policy = check::parse(file, &text, output)?;
    if !force {
        check_use(&policy, signing)?;
    }
    sign(&text, signing, output)
}

/// Refuses a policy that would stop the group, or the daemon through which the next policy might come.
fn check_use(policy: &Policy, signing: &SigningArgs) -> Outcome {
    let issued = members(&GroupRecords::open(&signing.group)?)?;
    let members: Vec<Member<'_>> = issued.iter().map(as_member).collect();
    for action in [Action::Offer, Action::Request] {
        if !policy.allows_somebody(action, &members) {
            let words = format!("no member may {action} anything by this policy: correct it, or give --force");
            return Err(Failure::failed(words));
        }
    }
    for (socket, status) in publish::statuses(&signing.hand_in.via)? {
        let member = Member { role: status.role, name: &status.name, labels: &status.labels };
        if policy.denies_all(member) {
            let words = format!("{} may do nothing by this policy: correct it, or give --force", status.name);
            return Err(Failure::failed(format!("{}, the daemon at {}", words, socket.display())));
        }
    }
    Ok(())
}

pub(super) fn withdraw(signing: &SigningArgs, output: Output) -> Outcome {
    sign("", signing, output)
}

/// Signs a text, which is empty to end all policies, and hands it in.
fn sign(text: &str, signing: &SigningArgs, output: Output) -> Outcome {
    let SigningArgs { group: dir, passphrase_file, hand_in } = signing;
    let group = open_group(dir, passphrase_file.as_deref())?;
    let number = group.sign_policy(text)?.0.number;
    let event = AuditEvent::new(AuditKind::PolicySigned).with("number", number).with("withdrawn", text.is_empty());
    audit::record(&group, event, output);
    let signed: PathBuf = dir.join("policy.cbor");
    let handed = (!hand_in.via.is_empty()).then(|| publish::hand_in(&POLICY, &signed, hand_in));
    if output.is_json() {
        let mut answer = json!({"schema": SCHEMA, "number": number, "document": signed, "withdrawn": text.is_empty()});
        if let Some(handed) = &handed {
            handed.add_to(&mut answer);
        }
        output.json(&answer)?;
        return handed.map_or(Ok(()), publish::HandIn::outcome);
    }
    let done = if text.is_empty() { "ends the group's policy" } else { "is signed" };
    output.data(&format!("policy {number} {done}\n"))?;
    if let Some(handed) = handed {
        handed.say(output);
        return handed.outcome();
    }
    output.say(format!("Hand it to a daemon, which spreads it: roost group publish {} --via SOCKET", dir.display()));
    Ok(())
}

pub(super) fn show(dir: &Path, output: Output) -> Outcome {
    let records = GroupRecords::open(dir)?;
    let newest = newest(&records)?;
    if output.is_json() {
        let (number, text) = newest.unzip();
        return Ok(output.json(&json!({"schema": SCHEMA, "number": number, "text": text}))?);
    }
    let Some((number, text)) = newest else {
        output.say("The group has no policy: members may do everything.");
        return Ok(());
    };
    output.data(&text)?;
    output.say(format!("Policy {number} of group {}.", records.name()));
    Ok(())
}
