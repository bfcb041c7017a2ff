//! Documents of the group: verified, kept on disk, put in force, and handed to the machine, which spreads them.

use std::sync::Arc;

use bytes::Bytes;
use prometheus::{IntGaugeVec, Opts};
use roost_api::{DocumentHolder, DocumentRow, HubHoldings};
use roost_core::hub::DocumentStatus;
use roost_core::machine::Machine;
use roost_core::{DocumentCounters, DocumentVerdict, HeldDocument, ReceivedDocument};
use roost_identity::{ListFault, Policy, SignedList, TakenList};
use roost_wire::NodeId;
use roost_wire::messages::{DocumentKind, HubProgress};

use crate::driver::Mailbox;
use crate::log_limiter::LogLimiter;
use crate::metrics::{CounterRow, CounterSet, Metrics};
use crate::naming::certified;
use crate::shared::DaemonContext;

/// The most nodes of a hub that an answer names.
pub(crate) const MAX_NAMED: usize = 1_000;

const KIND: DocumentKind = DocumentKind::REVOCATIONS;

const COUNTERS: [CounterRow<DocumentCounters>; 3] = [
    CounterRow("roost_documents_received_total", "Documents of the group that remotes have sent.", |counts| {
        counts.received
    }),
    CounterRow(
        "roost_documents_refused_total",
        "Documents that the group's authority has not signed, or not as the number that the remote claimed.",
        |counts| counts.refused,
    ),
    CounterRow(
        "roost_document_messages_dropped_total",
        "Messages about documents, of remotes that have sent bad ones or ask too much.",
        |counts| counts.dropped,
    ),
];

/// The documents in force, with what a daemon tells of them.
pub struct GroupDocuments {
    policy: Arc<Policy>,
    numbers: IntGaugeVec,
    counters: CounterSet<DocumentCounters>,
    refusals: LogLimiter,
}

impl GroupDocuments {
    /// # Errors
    /// Fails if the name of a metric is taken.
    pub(crate) fn register(policy: Arc<Policy>, metrics: &Metrics) -> Result<Self, prometheus::Error> {
        let opts = Opts::new("roost_document_number", "Number of the document of the group in force, by kind.");
        let numbers = metrics.register(IntGaugeVec::new(opts, &["kind"])?)?;
        let counters = CounterSet::register(metrics, &COUNTERS)?;
        Ok(Self { policy, numbers, counters, refusals: LogLimiter::default() })
    }

    pub(crate) fn number(&self) -> u64 {
        self.policy.revocations().0
    }

    /// The document in force, for the machine.
    pub(crate) fn in_force(&self) -> DocumentVerdict {
        verified(&self.policy.signed_list(), None)
    }

    pub(crate) fn update_numbers(&self) {
        let number = i64::try_from(self.number()).unwrap_or(i64::MAX);
        self.numbers.with_label_values(&[kind_name(KIND)]).set(number);
    }

    pub fn update_counters(&self, counters: &DocumentCounters) {
        self.counters.update(counters);
    }
}

fn kind_name(kind: DocumentKind) -> &'static str {
    kind.name().unwrap_or("unknown")
}

fn verified(list: &SignedList, from: Option<NodeId>) -> DocumentVerdict {
    let bytes = Bytes::copy_from_slice(&list.der);
    DocumentVerdict::Verified { kind: KIND, number: list.number, bytes, from }
}

/// A daemon without a thread for it, or whose thread has failed, takes no document.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TakeError {
    #[error("the revocation list is not accepted: {0}")]
    Fault(#[from] ListFault),
    #[error("the revocation list could not be read: {0}")]
    Failed(#[from] tokio::task::JoinError),
}

impl DaemonContext {
    /// Verifies a list and puts it in force if it is newer. Then all connections are checked again.
    pub(crate) async fn take_list(&self, bytes: Bytes) -> Result<TakenList, TakeError> {
        let policy = Arc::clone(&self.documents.policy);
        // A long list takes too long for the daemon's only thread, as does a disk.
        let taken = tokio::task::spawn_blocking(move || policy.take_list(&bytes)).await??;
        if let Some(unkept) = &taken.unkept {
            tracing::warn!("{unkept}");
            self.set_last_error(unkept.to_string());
        }
        Ok(taken)
    }

    /// Ends the connections of members that a new list revokes.
    pub(crate) async fn apply_list(&self, taken: &TakenList) {
        if taken.is_new {
            self.audit_document(kind_name(KIND), taken.list.number);
            let ended = self.transport.recheck().await;
            tracing::info!(number = taken.list.number, ended, "a newer revocation list is in force");
        }
    }

    /// Judges a document that a remote has sent, and tells the machine.
    pub fn judge_document<M>(self: &Arc<Self>, received: ReceivedDocument, mailbox: &Mailbox<M>)
    where
        M: Machine + 'static,
        M::Command: From<DocumentVerdict> + Send,
    {
        let (shared, mailbox) = (Arc::clone(self), mailbox.clone());
        tokio::spawn(async move {
            let ReceivedDocument { kind, bytes, from } = received;
            let taken = shared.take_list(bytes).await;
            let verdict = match &taken {
                Ok(taken) => verified(&taken.list, Some(from)),
                Err(TakeError::Fault(ListFault::Older { offered: number, .. })) => {
                    DocumentVerdict::Known { kind, number: *number, from }
                }
                Err(error) => shared.judge_bad(kind, from, error),
            };
            mailbox.post(verdict.into());
            if let Ok(taken) = taken {
                shared.apply_list(&taken).await;
            }
        });
    }

    fn judge_bad(&self, kind: DocumentKind, from: NodeId, error: &TakeError) -> DocumentVerdict {
        if let Some(suppressed) = self.documents.refusals.admit() {
            let name = certified(self, from);
            tracing::warn!(name, node = ?from, %error, suppressed, "a document of a remote is not taken");
        }
        match error {
            TakeError::Fault(ListFault::Forked(number)) => {
                // The group's key has signed two lists as the same number: a person must publish a newer one.
                self.set_last_error(error.to_string());
                DocumentVerdict::Known { kind, number: *number, from }
            }
            TakeError::Fault(_) => DocumentVerdict::Refused { kind, from },
            TakeError::Failed(_) => DocumentVerdict::Unread { kind, from },
        }
    }

    fn holder(&self, node: NodeId) -> DocumentHolder {
        DocumentHolder { node, name: certified(self, node) }
    }

    /// A node's document, with the hubs around it that hold an older one.
    pub fn node_document(&self, document: HeldDocument, hubs_behind: &[NodeId]) -> DocumentRow {
        DocumentRow {
            kind: kind_name(document.kind).to_owned(),
            number: document.number,
            bytes: document.length as u64,
            nodes: None,
            behind: None,
            nodes_behind: Vec::new(),
            hubs_behind: hubs_behind.iter().map(|hub| self.holder(*hub)).collect(),
            hubs: Vec::new(),
        }
    }

    pub(crate) fn hub_document(&self, status: &DocumentStatus) -> DocumentRow {
        DocumentRow {
            nodes: Some(status.nodes as u64),
            behind: Some(status.behind as u64),
            nodes_behind: status.nodes_behind.iter().map(|node| self.holder(*node)).collect(),
            hubs: status.hubs.iter().map(hub_holdings).collect(),
            ..self.node_document(status.document, &status.hubs_behind)
        }
    }
}

fn hub_holdings(row: &HubProgress) -> HubHoldings {
    HubHoldings {
        hub: row.hub,
        name: row.name.clone(),
        number: row.number,
        nodes: row.nodes.into(),
        behind: row.behind.into(),
        told_unix_s: row.said_s,
    }
}
