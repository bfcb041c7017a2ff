//! Requests of devices: those that wait at the authority, and those that come as files.

use std::path::Path;
use std::time::{Duration, SystemTime};

use roost_audit::{AuditEvent, AuditKind};
use roost_identity::SigningRequest;
use roost_identity::group::{Group, GroupError, GroupRecords};
use roost_terminal::{Output, SCHEMA, Table};
use roost_wire::{Labels, Role, format_node};
use serde_json::{Value, json};

use super::super::date;
use super::{audit, certificate, labels, unix};
use crate::failure::{Failure, Outcome};

pub(super) fn list(dir: &Path, output: Output) -> Outcome {
    let waiting = GroupRecords::open(dir)?.requests()?;
    if output.is_json() {
        let shown = waiting.iter().map(|one| {
            json!({
                "node": one.node.to_string(), "name": one.name, "role": one.role.name(), "host": one.origin.host,
                "labels": one.labels, "address": one.origin.address, "asked_unix_s": unix(one.asked), "words": one.fingerprint.words()
            })
        });
        return Ok(output.json(&json!({"schema": SCHEMA, "requests": shown.collect::<Vec<Value>>()}))?);
    }
    let mut table = Table::new(&["NAME", "ROLE", "LABELS", "NODE", "HOST", "ADDRESS", "ASKED", "WORDS"]);
    for one in &waiting {
        let (labels, node) = (labels::shown(&one.labels), format!("{:?}", one.node));
        let (asked, words) = (date(one.asked), one.fingerprint.words());
        let (host, address) = (&one.origin.host, &one.origin.address);
        let row = [&one.name, one.role.name(), &labels, &node, host, address, &asked, &words];
        table.row(row.map(str::to_owned));
    }
    output.table(&table)?;
    if !waiting.is_empty() {
        output.say(format!(
            "Compare the words with those on the device, then: roost group approve {} NAME",
            dir.display()
        ));
    }
    Ok(())
}

pub(super) fn approve(group: &Group, device: &str, output: Output) -> Outcome {
    let issued = group.approve(device, SystemTime::now())?;
    audit::record_certificate(group, AuditKind::CertificateIssued, &issued, output);
    if output.is_json() {
        return Ok(output.json(&json!({"schema": SCHEMA, "certificate": certificate(&issued)}))?);
    }
    let member = format_node(issued.node, Some(&issued.name));
    Ok(output.data(&format!("{} {member} is a member until {}\n", issued.role, date(issued.not_after)))?)
}

pub(super) fn deny(dir: &Path, device: &str, output: Output) -> Outcome {
    let records = GroupRecords::open(dir)?;
    let denied = records.deny(device, SystemTime::now())?;
    let event = AuditEvent::new(AuditKind::JoinDenied).about(denied.node, Some(&denied.name));
    audit::record(&records, event.with("address", denied.origin.address.clone()), output);
    if output.is_json() {
        let denied = json!({"node": denied.node.to_string(), "name": denied.name});
        return Ok(output.json(&json!({"schema": SCHEMA, "denied": denied}))?);
    }
    Ok(output.data(&format!("denied {}\n", format_node(denied.node, Some(&denied.name))))?)
}

/// The operator's choice, which stands above the request's.
pub(super) struct Wanted<'a> {
    pub(super) name: Option<&'a str>,
    pub(super) role: Option<Role>,
    pub(super) labels: Labels,
    pub(super) valid: Duration,
}

pub(super) fn sign(group: &Group, file: &Path, wanted: Wanted<'_>, output: Output) -> Outcome {
    let text = std::fs::read(file).map_err(|error| Failure::file("read", file, &error))?;
    let request = SigningRequest::from_pem(&text).map_err(GroupError::from)?;
    let name = wanted.name.or(request.name.as_deref());
    let name = name.ok_or_else(|| Failure::usage("the request has no name: give one with --name"))?;
    let role = wanted.role.or(request.role);
    let role = role.ok_or_else(|| Failure::usage("the request has no role: give one with --role"))?;
    let validity = group.validity(wanted.valid, SystemTime::now());
    let (issued, answer) = group.sign(&request, name, role, &wanted.labels, validity)?;
    audit::record_certificate(group, AuditKind::CertificateIssued, &issued, output);
    if output.is_json() {
        let certificate = certificate(&issued);
        return Ok(output.json(&json!({"schema": SCHEMA, "certificate": certificate, "bundle": answer}))?);
    }
    let bundle = serde_json::to_string_pretty(&answer).map_err(|error| Failure::failed(error.to_string()))?;
    output.data(&format!("{bundle}\n"))?;
    let (node, until) = (format_node(issued.node, Some(name)), date(issued.not_after));
    output.say(format!("Signed for {role} {node}, valid until {until}. Key: {}.", request.fingerprint().words()));
    output
        .say("Nothing in it is secret: the multicast key is sealed for that key. Next, on the device: roost join FILE");
    output.say(format!("The device shows these words for the group: {}.", group.fingerprint().words()));
    Ok(())
}
