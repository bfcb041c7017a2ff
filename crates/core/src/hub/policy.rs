//! The group's policy at a hub: what nodes may publish, ask for and be told. Each is judged by the certificate of its
//! connection. Requests of other hubs are not: their homes have judged them, and providers judge them in the end.

use std::sync::Arc;

use roost_policy::{Action, Policy};
use roost_wire::messages::{Candidate, RegistrationMessage, Request, Watch};
use roost_wire::{Area, Cell, Channel, Labels, NodeId, Record, RemoteIdentity, Service, ServiceSet};

use super::action::{action_of, subject_of};
use super::progress::own_nodes;
use super::sender::Sender;
use super::{Hub, HubEvent};
use crate::allowance::{Allowance, Denial};
use crate::directory::{DirectoryQuery, Judged, PreviousEntry};
use crate::hub::core::HubCore;
use crate::machine::Traffic;

impl HubCore {
    /// True if a remote may do so with a service of a provider at `place`.
    pub(super) fn permits(&self, node: NodeId, action: Action, service: Option<Service>, place: Option<Cell>) -> bool {
        self.is_judged(node, |allowance| allowance.permits(action, service, place))
    }

    /// The judgement about a remote; one that is gone may do nothing, as its certificate is not known.
    fn is_judged(&self, node: NodeId, judge: impl FnOnce(&Allowance) -> bool) -> bool {
        self.remotes.policy().is_none() || self.remotes.get(node).is_some_and(|remote| judge(&remote.allowance))
    }

    /// True if a node has an action at `place`, or, of no place in particular, at some place.
    fn permits_in(&self, judged: Judged, service: Option<Service>, area: Area) -> bool {
        match area {
            Area::Exact(cell) => self.permits(judged.node, judged.action, service, Some(cell)),
            _ => self.is_judged(judged.node, |allowance| allowance.may_permit(judged.action, service)),
        }
    }

    /// True if what a node asks for is denied wherever its provider may be.
    pub(super) fn forbids_request(&mut self, from: Sender, request: &Request) -> bool {
        let judged = Judged { node: from.node, action: action_of(request) };
        let (service, area) = (subject_of(judged.action, request.spec.service), request.spec.area);
        let is_forbidden = !self.permits_in(judged, service, area);
        if is_forbidden {
            self.tell_denial(judged, service, Some(area));
        }
        is_forbidden
    }

    pub(super) fn forbids_watch(&mut self, from: Sender, watch: &Watch) -> bool {
        let judged = Judged { node: from.node, action: Action::Watch };
        let permits = |service| self.permits_in(judged, Some(service), watch.area);
        let is_forbidden = !from.role.is_hub() && !watch.services.iter().any(permits);
        for service in watch.services.iter().filter(|_| is_forbidden) {
            self.tell_denial(judged, Some(service), Some(watch.area));
        }
        is_forbidden
    }

    /// Tells the owner that a remote may not do something, and by which rule.
    pub(super) fn tell_denial(&mut self, judged: Judged, service: Option<Service>, area: Option<Area>) {
        let Judged { node, action } = judged;
        let Some(remote) = self.remotes.get(node) else { return };
        if let Some(rule) = remote.allowance.rule_against(action, service, area) {
            let name = remote.name.clone();
            self.events.push_back(HubEvent::Denied(Denial { node, name, action, service, area, rule }));
        }
    }

    /// True if a search is to leave out places of which the requester may not know.
    pub(super) fn is_limited(&self, query: &DirectoryQuery) -> bool {
        query.judged.is_some() && self.remotes.policy().is_some()
    }

    /// True if providers at this place count in a search.
    pub(super) fn admits(&self, query: &DirectoryQuery, place: Cell) -> bool {
        query.judged.is_none_or(|judged| self.permits(judged.node, judged.action, Some(query.service), Some(place)))
    }

    /// The services of a provider at `place` of which the requester may know.
    pub(super) fn visible(&self, judged: Option<Judged>, services: &ServiceSet, place: Cell) -> ServiceSet {
        let Some(Judged { node, action }) = judged.filter(|_| self.remotes.policy().is_some()) else {
            return services.clone();
        };
        self.remotes.get(node).map_or(ServiceSet::EMPTY, |remote| remote.allowance.permitted(action, services, place))
    }

    /// A candidate as a watcher may see it.
    pub(super) fn visible_to_watcher(&self, watcher: NodeId, candidate: Candidate) -> Candidate {
        let is_hub = self.remotes.get(watcher).is_some_and(|remote| remote.role.is_hub());
        let judged = (!is_hub).then_some(Judged { node: watcher, action: Action::Watch });
        Candidate { services: self.visible(judged, &candidate.services, candidate.cell), ..candidate }
    }

    /// The services of its record that a node may offer.
    pub(super) fn offered(&self, node: NodeId, services: &ServiceSet, place: Cell) -> ServiceSet {
        self.visible(Some(Judged { node, action: Action::Offer }), services, place)
    }

    /// Leaves out of a record what its node may not offer in the cell in which the record is listed. The rest stays: a
    /// node is found by its record also to get answers, and may ask for things without offering any.
    pub(super) fn cut_record(&mut self, from: Sender, record: &mut Record, cell: Cell) {
        let offered = self.offered(from.node, &record.services, cell);
        let cut = record.services.filtered(|service| !offered.contains(service));
        let is_cut = !cut.is_empty();
        record.services = offered;
        let Some(remote) = self.remotes.get_mut(from.node) else { return };
        let is_news = is_cut && remote.cut.is_empty();
        remote.cut = cut.clone();
        self.counters.forbidden += u64::from(is_cut);
        if is_news {
            let what = "it publishes services that the group's policy does not let it offer";
            self.events.push_back(HubEvent::Refused { node: from.node, what: what.into() });
            let judged = Judged { node: from.node, action: Action::Offer };
            for service in cut.iter() {
                self.tell_denial(judged, Some(service), Some(Area::Exact(cell)));
            }
        }
    }

    /// True if a node may offer in a cell what was left out of its record.
    fn may_offer_again(&self, node: NodeId, cell: Cell) -> bool {
        let cut = self.remotes.get(node).map_or(ServiceSet::EMPTY, |remote| remote.cut.clone());
        !self.offered(node, &cut, cell).is_empty()
    }

    fn judge_itself(&mut self) {
        let config = &self.config;
        let (name, labels) = (config.name.clone(), config.labels.clone());
        let own = RemoteIdentity { node: config.node, role: config.kind.role(), name, labels };
        self.own = Allowance::new(self.remotes.policy(), &own);
    }

    /// Asks a node for its record, also at its next renewal if this is lost.
    fn ask_for_record_of(&mut self, node: NodeId) {
        let Some(connection) = self.remotes.get(node).and_then(|remote| remote.publisher) else { return };
        if let Some(entry) = self.remotes.connections.get_mut(&connection) {
            entry.own.lacks_record = true;
            self.send(connection, Channel::Datagram, Traffic::Renew, RegistrationMessage::UnknownVersion);
        }
    }
}

impl Hub {
    /// Another policy, or none: what is no longer allowed ends.
    pub(super) fn on_policy(&mut self, policy: Option<Arc<Policy>>) {
        self.core.remotes.set_policy(policy);
        self.core.judge_itself();
        self.judge_again();
    }

    pub(super) fn on_own_labels(&mut self, labels: Labels) {
        self.core.config.labels = labels;
        self.core.judge_itself();
    }

    /// Ends what remotes may not do any more, as the policy or the labels of one are others.
    pub(super) fn judge_again(&mut self) {
        for node in own_nodes(self.registry.records()).collect::<Vec<_>>() {
            self.judge_record(node);
        }
        self.with_requests(|requests, turn| requests.on_policy(turn));
        self.watches.on_policy(&mut self.core);
        self.rooms.on_policy(&mut self.core);
    }

    /// Takes out the record of an own node that has services which the node may not offer, and has the node publish
    /// anew if it may offer others now. One that is not connected does when it comes back.
    pub(super) fn judge_record(&mut self, node: NodeId) {
        let place = self.registry.records().get(node).map(|entry| entry.place());
        if let Some(place) = place {
            self.judge_place(place);
        }
    }

    /// As [`judge_record`](Self::judge_record), of one that was told at `before`. True if it was taken out.
    pub(super) fn judge_place(&mut self, before: PreviousEntry) -> bool {
        let (node, records) = (before.node, self.registry.records());
        let Some(entry) = records.get(node).filter(|_| !records.is_replica(node)) else { return false };
        let (version, services, cell) = (entry.version(), entry.services(), entry.cell());
        let is_allowed = self.core.offered(node, services, cell) == *services;
        if !is_allowed && self.registry.take_out(node, version).is_some() {
            self.core.counters.forbidden += 1;
            self.on_record_removed(before, "forbidden");
        }
        if !is_allowed || self.core.may_offer_again(node, cell) {
            self.core.ask_for_record_of(node);
        }
        !is_allowed
    }

    /// True if another cell of a record may mean that its node may offer other things. A node that is not connected is
    /// judged when it comes back.
    pub(super) fn judges_again(&self, node: NodeId) -> bool {
        self.core.remotes.policy().is_some() && self.core.remotes.get(node).is_some()
    }

    /// True if a node makes this hub its home with a replica that has services which it may not offer. The replica
    /// goes: nobody was to know it.
    pub(super) fn drops_forbidden_replica(&mut self, node: NodeId) -> bool {
        let Some(entry) = self.registry.records().get(node) else { return false };
        let (version, services) = (entry.version(), entry.services());
        let is_forbidden = self.core.offered(node, services, entry.cell()) != *services;
        if is_forbidden {
            self.registry.take_out(node, version);
        }
        is_forbidden
    }
}
