//! Documents of the group at a hub: the remotes that get them, and the nodes that lack them.

use std::collections::BTreeMap;

use roost_wire::NodeId;
use roost_wire::messages::HubProgress;

use super::progress::own_nodes;
use super::relation::Relation;
use super::{Hub, HubEvent};
use crate::documents::{DocumentCounters, DocumentVerdict, HeldDocument, Spread};
use crate::machine::Traffic;

/// A document that a hub holds, and who holds an older one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DocumentStatus {
    pub document: HeldDocument,
    pub nodes: usize,
    pub behind: usize,
    /// Some of the nodes that are behind.
    pub nodes_behind: Vec<NodeId>,
    pub hubs_behind: Vec<NodeId>,
    /// Rows of other hubs, as they have said.
    pub hubs: Vec<HubProgress>,
}

impl Hub {
    /// Parents, children and own nodes get what is new at once; siblings hear of it, as many others have it, too,
    /// unless it has begun here.
    pub(super) fn on_document_verdict(&mut self, verdict: DocumentVerdict) {
        let begins_here = matches!(verdict, DocumentVerdict::Verified { from: None, .. });
        let records = self.registry.records();
        let relations: BTreeMap<NodeId, Spread> = self
            .core
            .remotes
            .hubs()
            .map(|hub| match self.core.relation(hub) {
                Some(Relation::Parent | Relation::Child(_)) => (hub, Spread::Push),
                _ if begins_here => (hub, Spread::Push),
                _ => (hub, Spread::Tell),
            })
            .collect();
        let is_own = |node| records.directory().get(node).is_some() && records.home_of(node).is_none();
        let spread = |node| match relations.get(&node) {
            Some(spread) => *spread,
            None if is_own(node) => Spread::Push,
            None => Spread::TellLate,
        };
        self.core.documents.on_verdict(self.core.now, verdict, spread);
        self.progress.count_soon(&self.core);
    }

    /// Sends what is to be said about documents, and tells the owner of those that have come.
    pub(super) fn drain_documents(&mut self) {
        let core = &mut self.core;
        while let Some((node, message)) = core.documents.poll_send() {
            core.send_to(node, Traffic::Documents, message);
        }
        while let Some(document) = core.documents.poll_event() {
            core.events.push_back(HubEvent::Document(document));
        }
    }

    /// The documents that this hub holds, each with at most `limit` of the nodes that hold an older one.
    pub fn documents(&self, limit: usize) -> Vec<DocumentStatus> {
        let (documents, records) = (&self.core.documents, self.registry.records());
        let status = |document: HeldDocument| {
            let behind = || own_nodes(records).filter(|node| !documents.is_current(*node, document.kind));
            let hubs = self.core.remotes.hubs().filter(|hub| !documents.is_current(*hub, document.kind));
            DocumentStatus {
                nodes: own_nodes(records).count(),
                behind: behind().count(),
                nodes_behind: behind().take(limit).collect(),
                hubs_behind: hubs.collect(),
                hubs: self.progress.of_others(&self.core, document.kind).cloned().collect(),
                document,
            }
        };
        documents.held().map(status).collect()
    }

    pub fn document_counters(&self) -> DocumentCounters {
        self.core.documents.counters()
    }
}
