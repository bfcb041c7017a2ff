//! Audit records of the operator's commands, in the group's folder.

use roost_audit::{AuditEvent, AuditKind, AuditLog, Limits};
use roost_identity::group::{GroupRecords, Issued};
use roost_terminal::Output;

/// Appends a record. The command has done its work, so a failure is only said.
pub(in crate::commands) fn record(group: &GroupRecords, event: AuditEvent, output: Output) {
    let event = event.with("by_user_id", rustix::process::getuid().as_raw());
    let path = group.audit_path();
    let written = AuditLog::open(&path, Limits::default()).and_then(|mut log| log.append(&[event]));
    if let Err(error) = written {
        output.say(format!("The audit record was not written to {}: {error}.", path.display()));
    }
}

pub(super) fn record_certificate(group: &GroupRecords, kind: AuditKind, issued: &Issued, output: Output) {
    let event = AuditEvent::new(kind).about(issued.node, Some(&issued.name)).with("role", issued.role.name());
    let event = event.with("labels", issued.next_labels.to_string()).with("serial", issued.serial.clone());
    record(group, event, output);
}
