//! The machine's status in the types of the local API.

use roost_api::{HubConnection, IndexTotals, Relation};
use roost_core::hub::{self, HubStatus, RemoteHubStatus};

use crate::resolve::EndpointResolver;

pub(super) fn totals(status: &HubStatus) -> IndexTotals {
    use hub::Relation::{Child, Parent};
    IndexTotals {
        nodes: status.nodes as u64,
        replicas: status.replicas as u64,
        entries: status.entries as u64,
        pending_requests: status.requests as u64,
        relays: status.relays as u64,
        watches: status.watches as u64,
        hubs: connected(status, |_| true) as u64,
        warming_up: status.young,
        tier: status.tier,
        parents: connected(status, |relation| relation == Parent) as u64,
        parents_configured: status.hubs.iter().filter(|hub| hub.relation == Parent).count() as u64,
        children: connected(status, |relation| matches!(relation, Child(_))) as u64,
        cut_off: status.cut_off,
    }
}

/// Counts the connected hubs of certain relations.
pub(super) fn connected(status: &HubStatus, which: fn(hub::Relation) -> bool) -> usize {
    status.hubs.iter().filter(|hub| hub.up.is_some() && which(hub.relation)).count()
}

/// The relation to another hub, and the tier of a child.
pub(super) const fn relation(relation: hub::Relation) -> (Relation, Option<u8>) {
    match relation {
        hub::Relation::Parent => (Relation::Parent, None),
        hub::Relation::Child(tier) => (Relation::Child, Some(tier)),
        hub::Relation::Sibling => (Relation::Sibling, None),
        hub::Relation::StandbyOnly => (Relation::StandbyOnly, None),
    }
}

/// Describes another hub with the endpoints of the configuration, but without the round trip.
pub(super) fn hub_connection(hub: &RemoteHubStatus, redial: &EndpointResolver) -> HubConnection {
    let (relation, tier) = relation(hub.relation);
    let mut endpoints: Vec<String> = hub.addresses.iter().map(|address| redial.name(address)).collect();
    // A name with several addresses is still one endpoint.
    endpoints.dedup();
    HubConnection {
        relation,
        tier,
        node: hub.node,
        name: hub.name.clone(),
        endpoints,
        rtt_ms: None,
        up_s: hub.up.map(|up| up.as_secs_f64()),
        down_s: hub.down.map(|down| down.as_secs_f64()),
        reason: hub.reason.clone(),
        protocol: hub.protocol.map(|protocol| protocol.to_string()),
        clock_ahead_s: hub.clock_ahead_s,
    }
}
