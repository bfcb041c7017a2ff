//! Labels of members: read from flags, shown, and changed.

use std::path::Path;
use std::time::SystemTime;

use roost_audit::AuditKind;
use roost_identity::group::{GroupRecords, Issued};
use roost_terminal::{Output, SCHEMA};
use roost_wire::{Labels, format_node};
use serde_json::{Value, json};

use super::{audit, certificate};
use crate::args::LabelArgs;
use crate::failure::{Failure, Outcome};

pub(in crate::commands) fn parse(args: &LabelArgs) -> Outcome<Labels> {
    parse_all(&args.labels)
}

fn parse_all(texts: &[String]) -> Outcome<Labels> {
    Labels::parse_all(texts.iter().map(String::as_str)).map_err(|error| Failure::usage(error.to_string()))
}

pub(super) fn change(dir: &Path, member: &str, labels: &[String], output: Output) -> Outcome {
    let labels = parse_all(labels)?;
    let records = GroupRecords::open(dir)?;
    let changed = records.set_labels(member, &labels, SystemTime::now())?;
    for one in &changed {
        audit::record_certificate(&records, AuditKind::LabelsChanged, one, output);
    }
    if output.is_json() {
        let certificates: Vec<Value> = changed.iter().map(certificate).collect();
        return Ok(output.json(&json!({"schema": SCHEMA, "labels": labels, "certificates": certificates}))?);
    }
    for one in &changed {
        output.data(&format!("{} {}: {}\n", one.role, format_node(one.node, Some(&one.name)), shown(&labels)))?;
    }
    output.say("In force with the next renewal: a daemon that knows the authority renews by itself.");
    output.say("Until then the member has the labels of its certificate; to end that at once, revoke it.");
    Ok(())
}

/// The labels in a certificate, and those of the next one if they are others.
pub(super) fn column(issued: &Issued) -> String {
    if issued.labels == issued.next_labels {
        return shown(&issued.labels);
    }
    format!("{}, next {}", shown(&issued.labels), shown(&issued.next_labels))
}

pub(super) fn shown(labels: &Labels) -> String {
    if labels.is_empty() { "-".to_owned() } else { labels.to_string() }
}
