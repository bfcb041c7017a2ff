//! Audit records of a daemon. Without the setting `audit` nothing is recorded.

use std::io;
use std::path::Path;
use std::sync::PoisonError;
use std::time::{Duration, Instant};

use roost_api::{AuditRow, AuditRows, SCHEMA};
use roost_audit::{AuditEvent, AuditKind, AuditRecord, AuditRecorder, Limits, newest};
use roost_core::Denial;
use roost_wire::{NodeId, RemoteIdentity, Service};

use crate::denials::SuppressedDenials;
use crate::shared::DaemonContext;

/// The longest wait for the disk at the end.
const LAST_RECORDS: Duration = Duration::from_secs(1);

pub(crate) fn start(path: Option<&Path>) -> io::Result<AuditRecorder> {
    path.map_or_else(|| Ok(AuditRecorder::default()), |path| AuditRecorder::start(path, Limits::default()))
}

fn row(record: AuditRecord) -> AuditRow {
    let AuditRecord { time, sequence, kind, who, details, .. } = record;
    let node = who.as_ref().and_then(|who| who.id.parse().ok());
    AuditRow { time, sequence, kind, node, name: who.and_then(|who| who.name), details }
}

impl DaemonContext {
    /// At most `limit` records of this daemon, and of others that write to the same file, the newest first.
    pub(crate) async fn newest_audit(&self, limit: usize) -> io::Result<AuditRows> {
        let Some(path) = self.audit.path().map(Path::to_owned) else {
            return Ok(AuditRows { schema: SCHEMA, is_kept: false, records: Vec::new() });
        };
        let read = tokio::task::spawn_blocking(move || newest(&path, limit));
        let records = read.await.map_err(io::Error::other)??;
        Ok(AuditRows { schema: SCHEMA, is_kept: true, records: records.into_iter().map(row).collect() })
    }

    pub(crate) fn audit_start(&self) {
        let (group, version) = (self.group(), env!("CARGO_PKG_VERSION"));
        let started = AuditEvent::new(AuditKind::Started).about(self.node(), Some(self.name()));
        self.audit.record(started.with("role", self.role().name()).with("group", group).with("version", version));
    }

    /// Writes what is recorded so far to the disk.
    pub(crate) fn audit_stop(&self, clean: bool) {
        let stopped = AuditEvent::new(AuditKind::Stopped).about(self.node(), Some(self.name()));
        let denials = self.denials.lock().unwrap_or_else(PoisonError::into_inner).drain();
        self.audit_suppressed(denials);
        self.audit.record(stopped.with("clean", clean));
        let lost = self.audit.finish(LAST_RECORDS);
        if lost > 0 {
            tracing::warn!(lost, "audit records did not reach the disk");
        }
    }

    pub(crate) fn audit_renewed(&self) {
        self.audit.record(AuditEvent::new(AuditKind::CertificateRenewed).about(self.node(), Some(self.name())));
    }

    pub fn audit_joined(&self, remote: &RemoteIdentity, address: &impl ToString) {
        let joined = AuditEvent::new(AuditKind::MemberJoined).about(remote.node, Some(&remote.name));
        let joined = joined.with("role", remote.role.name()).with("address", address.to_string());
        self.audit.record(joined.with("labels", remote.labels.to_string()));
    }

    pub fn audit_left(&self, node: NodeId, name: Option<&str>, reason: &str) {
        self.audit.record(AuditEvent::new(AuditKind::MemberLeft).about(node, name).with("reason", reason));
    }

    /// A source is opened for a requester.
    pub fn audit_granted(&self, requester: NodeId, name: Option<&str>, service: Service) {
        let granted = AuditEvent::new(AuditKind::RequestGranted).about(requester, name);
        self.audit.record(granted.with("service", service.name()));
    }

    /// The group's policy does not let a remote do something.
    pub fn audit_denied(&self, denial: &Denial) {
        let mut denials = self.denials.lock().unwrap_or_else(PoisonError::into_inner);
        if denials.admit(Instant::now(), denial) {
            self.audit.record(self.denied(denial));
        }
    }

    /// Records the denials of an interval that is over, of which there are no records.
    pub(crate) fn audit_due_denials(&self) {
        let due = self.denials.lock().unwrap_or_else(PoisonError::into_inner).due(Instant::now());
        due.into_iter().for_each(|due| self.audit_suppressed(due));
    }

    fn audit_suppressed(&self, suppressed: SuppressedDenials) {
        for (denial, count) in suppressed.repeated {
            self.audit.record(self.denied(&denial).with("more", count));
        }
        if suppressed.others > 0 {
            self.audit.record(AuditEvent::new(AuditKind::ActionDenied).with("more", suppressed.others));
        }
    }

    fn denied(&self, denial: &Denial) -> AuditEvent {
        let Denial { node, name, action, service, area, rule } = denial;
        let event = AuditEvent::new(AuditKind::ActionDenied).about(node, Some(name)).with("action", action.to_string());
        let event =
            event.with("service", service.as_ref().map(Service::name)).with("area", area.map(|area| area.to_string()));
        let number = self.documents.policy_status().map(|policy| policy.number);
        event.with("rule", rule.as_str()).with("policy", number)
    }

    /// Certificates were refused since the last look. Nothing proves the last one's name.
    pub(crate) fn audit_refusals(&self, count: u64, last_name: Option<&str>, last_address: &str) {
        let refused = AuditEvent::new(AuditKind::CertificateRefused).with("count", count);
        self.audit.record(refused.with("last_calls_itself", last_name).with("last_address", last_address));
    }

    pub(crate) fn audit_document(&self, kind: &str, number: u64) {
        self.audit.record(AuditEvent::new(AuditKind::DocumentTaken).with("document", kind).with("number", number));
    }
}
