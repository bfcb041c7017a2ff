//! `roost group`: the group's authority and its members' identities.

pub(super) mod audit;
mod invitations;
pub(super) mod labels;
pub(super) mod passphrase;
mod requests;
mod rollover;
mod serve;

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use roost_audit::AuditKind;
use roost_geo::Datum;
use roost_identity::group::{Forced, Group, GroupError, GroupRecords, Issued};
use roost_wire::{Labels, Role};
use serde_json::{Value, json};

use super::date;
use super::publish::{self, LIST};
use roost_terminal::{Output, SCHEMA, Table};

use crate::args::{GroupArgs, GroupCommand, HandInArgs, RolloverCommand};
use crate::failure::{Code, Failure, Outcome};

pub(crate) fn run(args: &GroupArgs, output: Output) -> Outcome {
    let open = |dir: &Path| passphrase::open_group(dir, args.passphrase_file.as_deref());
    match &args.command {
        GroupCommand::Init { dir, name, origin, cell } => {
            let datum = origin.zip(*cell).map(|(origin, cell)| Datum::new(origin, cell)).transpose();
            init(dir, name.as_deref(), datum.map_err(|error| Failure::usage(error.to_string()))?.as_ref(), output)
        }
        GroupCommand::Issue { dir, name, role, valid, output: target, labels } => {
            let target = target.clone().unwrap_or_else(|| dir.join("members").join(name));
            let member = NewMember { name, role: *role, labels: labels::parse(labels)?, valid: *valid };
            issue(&open(dir)?, &member, &target, output)
        }
        GroupCommand::Label { dir, member, labels, .. } => labels::change(dir, member, labels, output),
        GroupCommand::Renew { dir, identity, valid } => renew(&open(dir)?, identity, *valid, output),
        GroupCommand::Show { dir } => show(dir, output),
        GroupCommand::Verify { dir, identity } => verify(dir, identity, output),
        GroupCommand::Revoke { dir, member, hand_in } => revoke(&open(dir)?, member, hand_in, output),
        GroupCommand::Publish { hand_in, .. } if hand_in.via.is_empty() => {
            Err(Failure::usage("name a daemon that spreads the list: --via SOCKET"))
        }
        GroupCommand::Publish { dir, hand_in } => publish::run(dir, hand_in, output),
        GroupCommand::Rollover { step: RolloverCommand::Start { dir, hand_in } } => {
            rollover::start(&open(dir)?, dir, hand_in, output)
        }
        GroupCommand::Rollover { step: RolloverCommand::Finish { dir, force, hand_in } } => {
            let forced = if *force { Forced::Yes } else { Forced::No };
            rollover::finish(&open(dir)?, dir, forced, hand_in, output)
        }
        GroupCommand::Rollover { step: RolloverCommand::Status { dir } } => rollover::status(dir, output),
        GroupCommand::Invite(args) => invitations::invite(args, output),
        GroupCommand::Invitations { dir } => invitations::list(dir, output),
        GroupCommand::Withdraw { dir, invitation } => invitations::withdraw(dir, invitation, output),
        GroupCommand::Requests { dir } => requests::list(dir, output),
        GroupCommand::Approve { dir, device } => requests::approve(&open(dir)?, device, output),
        GroupCommand::Deny { dir, device } => requests::deny(dir, device, output),
        GroupCommand::Serve { dir, listen } => {
            let unusable = |failure: Failure| Failure::new(Code::Configuration, failure.to_string());
            serve::run(open(dir).map_err(unusable)?, *listen, output)
        }
        GroupCommand::Sign { dir, request, name, role, valid, labels } => {
            let labels = labels::parse(labels)?;
            let wanted = requests::Wanted { name: name.as_deref(), role: *role, labels, valid: *valid };
            requests::sign(&open(dir)?, request, wanted, output)
        }
        GroupCommand::Hubs { dir, change } => invitations::hubs(dir, change.as_ref(), output),
        GroupCommand::Seal { dir } => passphrase::seal(dir, args.passphrase_file.as_deref(), output),
        GroupCommand::Unseal { dir } => passphrase::unseal(dir, args.passphrase_file.as_deref(), output),
    }
}

fn init(dir: &Path, name: Option<&str>, datum: Option<&Datum>, output: Output) -> Outcome {
    let dir_name = std::path::absolute(dir).ok().and_then(|dir| Some(dir.file_name()?.to_str()?.to_owned()));
    let Some(name) = name.or(dir_name.as_deref()) else {
        return Err(Failure::usage("the directory gives the group no name: give --name"));
    };
    let made = Group::init_at(dir, name, datum);
    let group = made.map_err(|error| if datum.is_some() { explain_existing_group(error) } else { error.into() })?;
    if output.is_json() {
        let until = unix(group.not_after());
        let made = json!({"schema": SCHEMA, "group": name, "dir": dir, "not_after_unix_s": until, "datum": datum});
        return Ok(output.json(&made)?);
    }
    let until = date(group.not_after());
    output.data(&format!("group {name} made in {}, valid until {until}\n", dir.display()))?;
    if let Some(datum) = datum {
        output.data(&format!("{}\n", grid(datum)))?;
    }
    output.say(format!("Its key makes members: roost group seal {} protects it with a passphrase.", dir.display()));
    output.say(format!("Next: roost group invite {} --role supernode --authority HOST:7703", dir.display()));
    Ok(())
}

fn grid(datum: &Datum) -> String {
    let (origin, cell) = (datum.origin(), datum.cell_size());
    format!(
        "grid: origin lat {}, lon {}, cells of {cell}; lengths are right to 0.1 % up to 500 km from it, 1.7 % at 2000 km, where it ends",
        origin.lat(),
        origin.lon()
    )
}

/// A group keeps its datum for life, so whoever wants another one makes another group.
fn explain_existing_group(error: GroupError) -> Failure {
    match error {
        GroupError::Exists { path } => {
            let path = path.display();
            Failure::failed(format!(
                "{path} exists already, and a group's datum cannot be changed: make a new group in another directory and let its members join"
            ))
        }
        other => other.into(),
    }
}

struct NewMember<'a> {
    name: &'a str,
    role: Role,
    labels: Labels,
    valid: Duration,
}

fn issue(group: &Group, member: &NewMember<'_>, target: &Path, output: Output) -> Outcome {
    let NewMember { name, role, labels, valid } = member;
    if let Some(parent) = target.parent() {
        std::fs::create_dir_all(parent).map_err(|error| Failure::file("create", parent, &error))?;
    }
    let is_cut = is_cut(group, *valid);
    let validity = group.validity(*valid, SystemTime::now());
    let issued = group.issue_labelled(name, *role, labels, validity, target).map_err(explain_existing_identity)?;
    audit::record_certificate(group, AuditKind::CertificateIssued, &issued, output);
    if output.is_json() {
        return Ok(output.json(&json!({
            "schema": SCHEMA, "dir": target, "certificate": certificate(&issued), "cut_to_group": is_cut
        }))?);
    }
    let until = date(issued.not_after);
    output.data(&format!("{role} {name}, id {}, valid until {until}, in {}\n", issued.node, target.display()))?;
    say_cut(is_cut, &until, output);
    output.say("Carry that directory to its host over a channel you trust: it holds the private key.");
    Ok(())
}

fn renew(group: &Group, identity: &Path, valid: Duration, output: Output) -> Outcome {
    let is_cut = is_cut(group, valid);
    let issued = group.renew(identity, group.validity(valid, SystemTime::now()))?;
    audit::record_certificate(group, AuditKind::CertificateRenewed, &issued, output);
    if output.is_json() {
        return Ok(output.json(&json!({
            "schema": SCHEMA, "dir": identity, "certificate": certificate(&issued), "cut_to_group": is_cut
        }))?);
    }
    let Issued { role, name, node, .. } = &issued;
    let until = date(issued.not_after);
    output.data(&format!("{role} {name}, id {node}, valid until {until}, in {}\n", identity.display()))?;
    say_cut(is_cut, &until, output);
    output.say("Copy its *.pem and, if it is there, trust.cbor to its host and send SIGHUP to the daemon.");
    Ok(())
}

/// True if a certificate cannot be valid for so long, because the group's ends before.
fn is_cut(group: &Group, valid: Duration) -> bool {
    SystemTime::now().checked_add(valid).is_none_or(|end| end > group.not_after())
}

fn say_cut(is_cut: bool, until: &str, output: Output) {
    if is_cut {
        output.say(format!("It is not valid for longer because the group's own certificate ends then: {until}."));
    }
}

/// Explains how a member that has an identity gets another one.
fn explain_existing_identity(error: GroupError) -> Failure {
    match error {
        GroupError::Exists { path } => {
            let path = path.display();
            Failure::failed(format!("{path} exists already: write to another directory with -o DIR, or remove it"))
        }
        other => other.into(),
    }
}

fn show(dir: &Path, output: Output) -> Outcome {
    let group = GroupRecords::open(dir)?;
    let issued = group.show()?;
    if output.is_json() {
        let certificates: Vec<Value> = issued.iter().map(certificate).collect();
        let until = unix(group.not_after());
        return Ok(output.json(&json!({
            "schema": SCHEMA, "group": group.name(), "not_after_unix_s": until, "datum": group.datum(),
            "certificates": certificates
        }))?);
    }
    let mut table = Table::new(&["NAME", "ROLE", "LABELS", "NODE", "VALID UNTIL", "STATE", "SERIAL"]);
    for one in &issued {
        let (labels, node, until) = (labels::column(one), one.node.to_string(), date(one.not_after));
        let row = [&one.name, one.role.name(), &labels, &node, &until, state(one), &one.serial];
        table.row(row.map(str::to_owned));
    }
    output.table(&table)?;
    let until = date(group.not_after());
    if let Some(datum) = group.datum() {
        output.data(&format!("{}\n", grid(&datum)))?;
    }
    output.say(format!("Group {} has issued {} certificates; it is valid until {until}.", group.name(), issued.len()));
    Ok(())
}

fn verify(dir: &Path, identity: &Path, output: Output) -> Outcome {
    let verdict = GroupRecords::open(dir)?.verify(identity, SystemTime::now())?;
    if output.is_json() && verdict.refusal.is_none() {
        let outdated = verdict.list_outdated;
        let certificate = certificate(&verdict.certificate);
        return Ok(output.json(&json!({
            "schema": SCHEMA, "accepted": true, "certificate": certificate, "revocation_list_outdated": outdated
        }))?);
    }
    let who = format!("{} {}", verdict.certificate.role, verdict.certificate.name);
    if let Some(refusal) = verdict.refusal {
        let message = format!("{who} would be refused: {refusal}");
        return Err(Failure::new(Code::Refused, message));
    }
    let until = date(verdict.certificate.not_after);
    output.data(&format!("{who} is accepted, until {until}\n"))?;
    if verdict.list_outdated {
        let list = dir.join("revoked.pem");
        output.say(format!("Its revocation list is not the newest: copy {} into it.", list.display()));
    }
    Ok(())
}

fn revoke(group: &Group, member: &str, hand_in: &HandInArgs, output: Output) -> Outcome {
    let revocation = group.revoke(member)?;
    for one in &revocation.revoked {
        audit::record_certificate(group, AuditKind::CertificateRevoked, one, output);
    }
    if !output.is_json() {
        for one in &revocation.revoked {
            output.data(&format!("revoked {} {}, id {}\n", one.role, one.name, one.node))?;
        }
    }
    if !output.is_json() {
        let has_name = |one: &Issued| revocation.revoked.iter().any(|revoked| revoked.name == one.name);
        for one in group.show()?.iter().filter(|one| has_name(one) && state(one) == "valid") {
            output.say(format!(
                "Another certificate of {} still counts: revoke {}, too, if it must not.",
                one.name, one.serial
            ));
        }
    }
    let handed = (!hand_in.via.is_empty()).then(|| publish::hand_in(&LIST, &revocation.list, hand_in));
    if output.is_json() {
        let certificates: Vec<Value> = revocation.revoked.iter().map(certificate).collect();
        let list: &PathBuf = &revocation.list;
        let mut answer =
            json!({ "schema": SCHEMA, "number": revocation.number, "list": list, "revoked": certificates });
        if let Some(handed) = &handed {
            handed.add_to(&mut answer);
        }
        output.json(&answer)?;
        return handed.map_or(Ok(()), publish::HandIn::outcome);
    }
    if let Some(handed) = handed {
        handed.say(output);
        return handed.outcome();
    }
    let folder = revocation.list.parent().unwrap_or(Path::new(".")).display();
    let number = revocation.number;
    output.say(format!("Hand list {number} to a daemon, which spreads it: roost group publish {folder} --via SOCKET"));
    Ok(())
}

fn state(issued: &Issued) -> &'static str {
    let now = SystemTime::now();
    match issued.revoked {
        Some(_) => "revoked",
        None if now > issued.not_after => "expired",
        None if now < issued.not_before => "not yet valid",
        None => "valid",
    }
}

fn certificate(issued: &Issued) -> Value {
    json!({
        "name": issued.name,
        "role": issued.role.name(),
        "node": issued.node.to_string(),
        "labels": issued.labels,
        "next_labels": issued.next_labels,
        "serial": issued.serial,
        "not_before_unix_s": unix(issued.not_before),
        "not_after_unix_s": unix(issued.not_after),
        "revoked_unix_s": issued.revoked.map(unix),
        "state": state(issued),
    })
}

fn unix(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

impl From<GroupError> for Failure {
    fn from(error: GroupError) -> Self {
        match error {
            GroupError::Name(_)
            | GroupError::Validity(_)
            | GroupError::Several { .. }
            | GroupError::NotHub(_)
            | GroupError::Address(_)
            | GroupError::Invitation(_)
            | GroupError::ShortPassphrase(_) => Self::usage(error.to_string()),
            GroupError::NotIssued(_) | GroupError::NotWaiting(_) | GroupError::NotInvited(_) => {
                Self::new(Code::NotFound, error.to_string())
            }
            GroupError::ShutOut { .. } | GroupError::Join(_) => Self::new(Code::Refused, error.to_string()),
            _ => Self::failed(error.to_string()),
        }
    }
}
