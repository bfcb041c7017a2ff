//! Documents of the group: verified, kept on disk, put in force, and handed to the machine, which spreads them.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use prometheus::{IntGaugeVec, Opts};
use roost_api::{DocumentHolder, DocumentRow, HubHoldings, PolicyStatus};
use roost_core::hub::DocumentStatus;
use roost_core::machine::Machine;
use roost_core::{DocumentCounters, DocumentVerdict, HeldDocument, ReceivedDocument};
use roost_identity::{Identity, ListFault, NumberedDocument, Policy};
use roost_policy::Policy as Rules;
use roost_wire::messages::{DocumentKind, HubProgress};
use roost_wire::{NodeId, RemoteIdentity};

use crate::driver::Mailbox;
use crate::group_policy::{GroupPolicy, PolicyFault};
use crate::log_limiter::LogLimiter;
use crate::metrics::{CounterRow, CounterSet, Metrics};
use crate::naming::certified;
use crate::shared::DaemonContext;

/// The most nodes of a hub that an answer names.
pub(crate) const MAX_NAMED: usize = 1_000;

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
    /// Decides which remotes are admitted, and verifies documents.
    pub(crate) policy: Arc<Policy>,
    rules: Arc<GroupPolicy>,
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
        Ok(Self { policy, rules: Arc::default(), numbers, counters, refusals: LogLimiter::default() })
    }

    /// Puts the policy in force that was kept before this start, or came with the certificate. True if it is a new one.
    pub(crate) fn load_policy(&self, identity: &Identity) -> bool {
        self.rules.load(&self.policy, identity.given_policy())
    }

    /// The numbers of the documents in force, by their kinds' names.
    pub(crate) fn numbers(&self) -> BTreeMap<String, u64> {
        let numbers =
            self.in_force().into_iter().map(|document| (kind_name(document.kind).to_owned(), document.number));
        numbers.collect()
    }

    fn in_force(&self) -> Vec<TakenDocument> {
        let held = TakenDocument::held;
        let trust = held(DocumentKind::TRUST, &self.policy.signed_trust());
        let list = held(DocumentKind::REVOCATIONS, &self.policy.signed_list());
        let policy = self.rules.held().map(|held| TakenDocument {
            kind: DocumentKind::POLICY,
            number: held.number,
            bytes: held.bytes,
            is_new: false,
        });
        [Some(trust), Some(list), policy].into_iter().flatten().filter(|document| document.number > 0).collect()
    }

    /// The documents in force, for the machine.
    pub(crate) fn verdicts(&self) -> Vec<DocumentVerdict> {
        self.in_force().into_iter().map(|document| document.verdict(None)).collect()
    }

    /// The group's policy, for the machine; `None` if there is none, which allows everything.
    pub fn rules(&self) -> Option<Arc<Rules>> {
        self.rules.held().and_then(|held| held.rules)
    }

    pub(crate) fn policy_status(&self) -> Option<PolicyStatus> {
        self.rules.status()
    }

    pub(crate) fn update_numbers(&self) {
        for document in self.in_force() {
            let number = i64::try_from(document.number).unwrap_or(i64::MAX);
            self.numbers.with_label_values(&[kind_name(document.kind)]).set(number);
        }
    }

    pub fn update_counters(&self, counters: &DocumentCounters) {
        self.counters.update(counters);
    }
}

fn kind_name(kind: DocumentKind) -> &'static str {
    kind.name().unwrap_or("unknown")
}

pub(crate) struct TakenDocument {
    pub(crate) kind: DocumentKind,
    pub(crate) number: u64,
    bytes: Bytes,
    /// False of one that was in force before.
    pub(crate) is_new: bool,
}

impl TakenDocument {
    /// A document that was in force before.
    fn held(kind: DocumentKind, document: &NumberedDocument) -> Self {
        Self { kind, number: document.number, bytes: Bytes::copy_from_slice(&document.bytes), is_new: false }
    }

    fn verdict(&self, from: Option<NodeId>) -> DocumentVerdict {
        DocumentVerdict::Verified { kind: self.kind, number: self.number, bytes: self.bytes.clone(), from }
    }
}

/// A daemon without a thread for it, or whose thread has failed, takes no document.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TakeError {
    #[error("the document is not accepted: {0}")]
    Fault(#[from] ListFault),
    #[error("the policy is not accepted: {0}")]
    Policy(#[from] PolicyFault),
    #[error("this daemon knows no document of the kind {}", .0.0)]
    UnknownKind(DocumentKind),
    #[error("the document could not be read: {0}")]
    Failed(#[from] tokio::task::JoinError),
}

impl TakeError {
    fn fault(&self) -> Option<ListFault> {
        match self {
            Self::Fault(fault) | Self::Policy(PolicyFault::Document(fault)) => Some(*fault),
            Self::Policy(PolicyFault::Rules(_)) | Self::UnknownKind(_) | Self::Failed(_) => None,
        }
    }
}

impl DaemonContext {
    /// Verifies a document and puts it in force if it is newer. [`Self::apply_document`] comes next.
    pub(crate) async fn take_document(&self, kind: DocumentKind, bytes: Bytes) -> Result<TakenDocument, TakeError> {
        let (verifier, rules) = (Arc::clone(&self.documents.policy), Arc::clone(&self.documents.rules));
        // A long list takes too long for the daemon's only thread, as does a disk.
        let take = move || match kind {
            DocumentKind::REVOCATIONS | DocumentKind::TRUST => {
                let is_trust = kind == DocumentKind::TRUST;
                let taken = if is_trust { verifier.take_trust(&bytes) } else { verifier.take_list(&bytes) }?;
                let held = TakenDocument::held(kind, &taken.document);
                Ok((TakenDocument { is_new: taken.is_new, ..held }, taken.unkept))
            }
            DocumentKind::POLICY => {
                let taken = rules.put_in_force(&verifier, bytes)?;
                let (number, bytes) = (taken.held.number, taken.held.bytes);
                Ok((TakenDocument { kind, number, bytes, is_new: taken.is_new }, taken.unkept))
            }
            other => Err(TakeError::UnknownKind(other)),
        };
        let (taken, unkept) = tokio::task::spawn_blocking(take).await??;
        if let Some(unkept) = unkept {
            tracing::warn!("{unkept}");
            self.set_last_error(unkept.to_string());
        }
        Ok(taken)
    }

    /// Applies a new document to the connections. True if the machine is to apply another policy.
    pub(crate) async fn apply_document(&self, taken: &TakenDocument) -> bool {
        if !taken.is_new {
            return false;
        }
        let number = taken.number;
        self.audit_document(kind_name(taken.kind), number);
        if taken.kind == DocumentKind::POLICY {
            let rules = self.documents.rules().map(|rules| rules.len());
            tracing::info!(number, rules, "a newer policy is in force");
            return true;
        }
        let (ended, kind) = (self.transport.recheck().await, kind_name(taken.kind));
        tracing::info!(kind, number, ended, "a newer document is in force");
        if taken.kind == DocumentKind::TRUST {
            self.authority.changed.notify_one();
        }
        false
    }

    /// Judges a document that a remote has sent, and tells the machine.
    pub fn judge_document<M>(self: &Arc<Self>, received: ReceivedDocument, mailbox: &Mailbox<M>)
    where
        M: Machine + 'static,
        M::Command: From<DocumentVerdict> + From<Option<Arc<Rules>>> + Send,
    {
        let (shared, mailbox) = (Arc::clone(self), mailbox.clone());
        tokio::spawn(async move {
            let ReceivedDocument { kind, bytes, from } = received;
            let taken = shared.take_document(kind, bytes).await;
            let verdict = match &taken {
                Ok(taken) => taken.verdict(Some(from)),
                Err(error) => match error.fault() {
                    Some(ListFault::Older { offered: number, .. }) => DocumentVerdict::Known { kind, number, from },
                    _ => shared.judge_bad(kind, from, error),
                },
            };
            mailbox.post(verdict.into());
            let Ok(taken) = taken else { return };
            if shared.apply_document(&taken).await {
                mailbox.post(shared.documents.rules().into());
            }
        });
    }

    fn judge_bad(&self, kind: DocumentKind, from: NodeId, error: &TakeError) -> DocumentVerdict {
        if let Some(suppressed) = self.documents.refusals.admit() {
            let name = certified(self, from);
            tracing::warn!(name, node = ?from, %error, suppressed, "a document of a remote is not taken");
        }
        match (error.fault(), error) {
            (Some(ListFault::Forked(number)), _) => {
                // The group's key has signed two documents as the same number: a person must publish a newer one.
                self.set_last_error(error.to_string());
                DocumentVerdict::Known { kind, number, from }
            }
            (Some(_), _) | (None, TakeError::UnknownKind(_)) => DocumentVerdict::Refused { kind, from },
            (None, _) => {
                self.set_last_error(error.to_string());
                DocumentVerdict::Unread { kind, from }
            }
        }
    }

    /// Adds to the list of revocations which of the nodes that were met are revoked.
    pub(crate) async fn add_revocations(&self, documents: &mut [DocumentRow]) {
        let Some(list) = documents.iter_mut().find(|row| row.kind == kind_name(DocumentKind::REVOCATIONS)) else {
            return;
        };
        let policy = Arc::clone(&self.documents.policy);
        // A thousand certificates take too long for the daemon's only thread.
        let met = tokio::task::spawn_blocking(move || (policy.revocations().1, policy.revoked_nodes()));
        let Ok((count, nodes)) = met.await else { return };
        list.revoked = Some(count as u64);
        let row = |remote: RemoteIdentity| DocumentHolder { node: remote.node, name: Some(remote.name) };
        list.nodes_revoked = nodes.into_iter().map(row).collect();
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
            revoked: None,
            nodes_revoked: Vec::new(),
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
