//! Finds the node that a person means, and the names of nodes.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::join_all;
use roost_api::server::ApiError;
use roost_api::{self as control, Code, LookupQuery, Roster, WatchEvent};
use roost_runtime::naming::{certified, connected, resolve_node};
use roost_wire::messages::{Candidate, Coverage, MAX_CANDIDATES, WatchChange};
use roost_wire::node_selector::is_node_name;
use roost_wire::room::RoomMember;
use roost_wire::{Area, NodeId, NodeSelector, Service, ServiceSet};

use crate::api::{explain_not_found, leaving};
use crate::node::NodeService;
use crate::rows;

/// Longest time that a room's list waits for the names of new members.
const NAMES_TIMEOUT: Duration = Duration::from_secs(2);

/// The most names of a room's members that are looked up at once.
const AT_ONCE: usize = 8;

/// The most members that are remembered as looked up, so that each is looked up once.
const MAX_ASKED: usize = 4_096;

/// The selector of all names, if names are wanted.
pub(crate) fn everybody(names: bool) -> Option<NodeSelector> {
    names.then_some(NodeSelector::EVERYBODY)
}

/// The nodes among which a person may mean one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NameScope {
    Offers(Service),
    /// All nodes, also those without offers.
    Whoever,
}

impl NameScope {
    /// The services to look up.
    fn services(&self) -> &[Service] {
        match self {
            Self::Offers(service) => std::slice::from_ref(service),
            Self::Whoever => &Service::ALL,
        }
    }

    fn admits(self, services: ServiceSet) -> bool {
        match self {
            Self::Offers(service) => services.contains(service),
            Self::Whoever => true,
        }
    }
}

impl NodeService {
    /// Notes the names that hubs have told.
    pub(crate) fn note_names(&self, candidates: &[Candidate]) {
        for candidate in candidates {
            if let Some(name) = candidate.name.as_ref().filter(|name| is_node_name(name)) {
                self.names.record_name(candidate.node, name);
            }
        }
    }

    /// Adds a candidate's name, if it is known: its certificate's before a hub's.
    pub(crate) fn name_candidate(&self, candidate: &mut control::Candidate) {
        // No certificate has a name that commands a terminal, whatever a hub tells.
        candidate.name = self.name(candidate.node).or(candidate.name.take().filter(|name| is_node_name(name)));
    }

    /// A change with the names that it tells, and others that are known.
    pub(crate) fn watch_event(&self, change: &WatchChange) -> WatchEvent {
        self.note_names(&change.updated);
        let mut event = rows::watch_event(change);
        event.present.iter_mut().for_each(|candidate| self.name_candidate(candidate));
        let named = |node: &NodeId| Some((node.to_string(), self.name(*node)?));
        event.gone_names = change.removed.iter().filter_map(named).collect();
        event
    }

    /// Finds the node that a person means, among the connected ones and those that hubs, or the multicast link, know.
    pub(crate) async fn meant(
        &self,
        selector: NodeSelector,
        among: NameScope,
        timeout: Option<Duration>,
    ) -> Result<NodeId, ApiError> {
        if let Ok(node) = selector.as_str().parse() {
            return Ok(node);
        }
        // A lookup anywhere would end at the first match.
        let everywhere = Area::Nearest(self.machine_status().await.map_err(leaving)?.cell);
        let look_up = |service: &Service| {
            let query = LookupQuery::new(*service, everywhere);
            self.find(LookupQuery { count: MAX_CANDIDATES as u8, timeout, ..query }, Some(selector))
        };
        let answers = join_all(among.services().iter().map(look_up)).await;
        let (mut known, mut coverage, mut knows_names, mut failure) =
            (connected(&self.shared), Coverage::Complete, true, None);
        for answer in answers {
            let found = match answer {
                Ok(found) => found,
                Err(refusal) => {
                    failure = Some(refusal);
                    continue;
                }
            };
            coverage = coverage.with(found.coverage);
            for Candidate { node, name, services, .. } in found.candidates {
                // A hub of an older version names all nodes, without names.
                knows_names &= selector.matches(node, name.as_deref());
                if !among.admits(services) {
                    continue;
                }
                known.entry(node).or_insert(name);
            }
        }
        resolve_node(&selector, &known, || {
            failure.unwrap_or_else(|| nobody(selector, among, knows_names.then_some(coverage)))
        })
    }

    /// Checks that a node that was meant by its name has that name in its certificate, since a hub may tell any name.
    /// Without a connection to the node there is no proof, and the check passes.
    pub(crate) fn check_name(&self, selector: Option<NodeSelector>, node: NodeId) -> Result<(), ApiError> {
        let (Some(selector), Some(name)) = (selector, certified(&self.shared, node)) else { return Ok(()) };
        if selector.matches(node, Some(&name)) {
            return Ok(());
        }
        let message =
            format!("a hub calls node {node} {selector}, but its certificate says {name}; tell the hub's operator");
        Err(ApiError::new(Code::Refused, message))
    }
}

/// The error if no node is meant; without a coverage, the hubs tell no names.
fn nobody(selector: NodeSelector, among: NameScope, coverage: Option<Coverage>) -> ApiError {
    let Some(coverage) = coverage else {
        let message = format!("no hub knows a node named {selector}: give the node's id, or the beginning of it");
        return ApiError::new(Code::NotFound, message);
    };
    let (code, why) = explain_not_found(coverage, 0);
    let whom = match among {
        NameScope::Offers(service) => format!("no node {selector} is among those that offer {service}"),
        NameScope::Whoever => format!("no node {selector} is known"),
    };
    ApiError::new(code, format!("{whom}: {why}"))
}

/// Adds names to the lists of a room's members.
pub(crate) struct MemberNames {
    node: NodeService,
    asks: bool,
    asked: Mutex<BTreeSet<NodeId>>,
}

impl MemberNames {
    /// With `asks`, hubs are asked for names.
    pub(crate) fn new(node: NodeService, asks: bool) -> Self {
        Self { node, asks, asked: Mutex::default() }
    }

    /// The members with the known names; those of new members are looked up first.
    pub(crate) async fn named(&self, members: &[RoomMember]) -> Roster {
        if self.asks {
            let fresh = self.fresh(members);
            let learn = async {
                for some in fresh.chunks(AT_ONCE) {
                    join_all(some.iter().map(|member| self.learn(member))).await;
                }
            };
            // A member whose name has not come by then is shown without one.
            let _ = tokio::time::timeout(NAMES_TIMEOUT, learn).await;
        }
        let mut roster = rows::roster(members);
        for member in &mut roster.members {
            member.name = self.node.name(member.node);
        }
        roster
    }

    /// The members whose names are not known and were not looked up.
    fn fresh(&self, members: &[RoomMember]) -> Vec<RoomMember> {
        let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        if asked.len() >= MAX_ASKED {
            asked.clear();
        }
        let unknown = members.iter().filter(|member| self.node.name(member.node).is_none());
        unknown.filter(|member| asked.insert(member.node)).cloned().collect()
    }

    /// Looks a member's name up, by its services and its cell.
    async fn learn(&self, member: &RoomMember) {
        // A node that is named by its id is found by any service.
        let service = member.services.iter().next().unwrap_or(Service::Video);
        let there = Area::Radius { center: member.cell, radius: 0 };
        let query = LookupQuery { count: 1, timeout: Some(NAMES_TIMEOUT), ..LookupQuery::new(service, there) };
        // The lookup notes the names that it finds; a failed one has none.
        let _ = self.node.find(query, Some(member.node.into())).await;
    }
}
