//! The endpoints that only a hub has.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::{any, get, post};
use roost_api::query::Params;
use roost_api::server::{ApiError, QueryPairs, TextBody, json_response};
use roost_api::types::{record_text, uplink_left};
use roost_api::{Candidate, Code, Index, Lookup, LookupQuery, Ping, SCHEMA, ServiceRow, Services};
use roost_core::hub;
use roost_geo::Place;
use roost_wire::messages::MAX_CANDIDATES;
use roost_wire::{NodeId, NodeSelector, Service};

use super::HubService;
use super::status_rows::totals;
use crate::driver::DriverStopped;
use crate::naming::{connected, resolve_node};
use crate::places::Grid;
use crate::shared::millis;

/// The most nodes in an answer of the index; `after` leads to the next ones.
const MAX_INDEX: usize = 10_000;

/// The nodes in an answer of the index unless the query says otherwise.
const DEFAULT_INDEX: usize = 100;

/// The nodes that are counted between two inputs of the machine.
const COUNT_STEP: usize = 1_000;

pub(super) fn routes(hub: HubService) -> Router {
    Router::new()
        .route("/v1/services", get(services))
        .route("/v1/index", get(index))
        .route("/v1/streams", get(streams))
        .route("/v1/rooms", get(super::rooms::rooms))
        .route("/v1/lookup", post(lookup))
        .route("/v1/ping", post(ping))
        .route("/v1/request", any(for_nodes))
        .route("/v1/call", any(for_nodes))
        .route("/v1/end", any(for_nodes))
        .route("/v1/watch", any(for_nodes))
        .route("/v1/move", any(for_nodes))
        .with_state(hub)
}

async fn streams(State(hub): State<HubService>) -> Response {
    json_response(&hub.streams().await)
}

fn leaving(gone: DriverStopped) -> ApiError {
    ApiError::new(Code::Leaving, gone.to_string())
}

async fn index(State(hub): State<HubService>, pairs: QueryPairs) -> Result<Response, ApiError> {
    let params = Params::new(&pairs, &["limit", "after"])?;
    let limit = params.parsed::<usize>("limit")?.unwrap_or(DEFAULT_INDEX).min(MAX_INDEX);
    let after = match params.selector("after")? {
        Some(selector) => Some(resolve_meant_node(&hub, selector).await?),
        None => None,
    };
    let entries = hub.index(after, limit).await.map_err(leaving)?;
    let totals = totals(&hub.machine_status().await.map_err(leaving)?);
    let names = connected(&hub.shared);
    let grid = Grid { datum: hub.shared.datum(), own: None };
    let nodes = entries.iter().map(|entry| row(entry, &names, &grid)).collect();
    Ok(json_response(&Index { schema: SCHEMA, totals, nodes }))
}

/// Finds the node that the selector means; an id need not be in the index.
async fn resolve_meant_node(hub: &HubService, selector: NodeSelector) -> Result<NodeId, ApiError> {
    let mut known = BTreeMap::new();
    let mut after = None;
    while selector.as_str().parse::<NodeId>().is_err() {
        let step = hub.index(after, COUNT_STEP).await.map_err(leaving)?;
        after = step.last().map(|last| last.node);
        let fits = step.iter().filter(|entry| selector.matches(entry.node, entry.name.as_deref()));
        known.extend(fits.map(|entry| (entry.node, entry.name.clone())));
        if step.len() < COUNT_STEP {
            break;
        }
    }
    resolve_node(&selector, &known, || ApiError::new(Code::NotFound, format!("no node {selector} is in this index")))
}

fn row(entry: &hub::IndexEntry, names: &BTreeMap<NodeId, Option<String>>, grid: &Grid) -> Candidate {
    Candidate {
        node: entry.node,
        cell: entry.cell,
        services: entry.services.iter().collect(),
        offers: entry.services.offers().to_vec(),
        streams_left: entry.capacity.streams,
        uplink_left_kbps: uplink_left(entry.capacity),
        addresses: entry.addresses.iter().map(ToString::to_string).collect(),
        record: record_text(entry.version),
        name: entry.name.clone(),
        place: grid.on_earth(&Place { cell: entry.cell, exact: entry.position }, None),
        position: entry.position.map(Into::into),
        expires_in_s: Some(entry.expires_in.as_secs_f64()),
        suspended: Some(entry.suspended),
        home: entry.home,
        home_name: entry.home.and_then(|home| names.get(&home).cloned().flatten()),
        standby: entry.standby,
        standby_name: entry.standby.and_then(|standby| names.get(&standby).cloned().flatten()),
    }
}

/// Searches this hub's own directory. The coverage says so if there are other hubs, since nodes ask those too.
async fn lookup(
    State(hub): State<HubService>,
    pairs: QueryPairs,
    TextBody(geojson): TextBody,
) -> Result<Response, ApiError> {
    let LookupQuery { service, area, place, count, filter, .. } = LookupQuery::from_parts(&pairs, &geojson)?;
    let began = Instant::now();
    let search = Grid { datum: hub.shared.datum(), own: None }.search(area, place.as_ref())?;
    let count = if count == 0 { MAX_CANDIDATES } else { usize::from(count) };
    let limit = if filter.is_empty() && search.whole().is_some() { count } else { MAX_CANDIDATES };
    let areas = search.areas().to_vec();
    let look = move |hub: &hub::Hub, now| {
        let parts: Vec<_> = areas.iter().map(|area| hub.find(service, *area, limit)).collect();
        (parts, hub.status(now))
    };
    let (parts, status) = hub.mailbox.inspect(look).await.map_err(leaving)?;
    // A part that is full may leave out a node of the region.
    let is_cut = search.whole().is_none() && parts.iter().any(|part| part.len() >= MAX_CANDIDATES);
    let found = parts.into_iter().flatten().collect();
    let mut found = search.select(found);
    found.retain(|candidate| candidate.services.has(service, &filter));
    found.truncate(count);
    let coverage = match (status.young, status.hubs.is_empty()) {
        (true, _) => "hub_starting",
        (false, _) if is_cut => "first_match",
        (false, true) => "complete",
        (false, false) => "own",
    };
    let row = |candidate| Candidate { place: search.on_earth(candidate), ..candidate.into() };
    Ok(json_response(&Lookup {
        schema: SCHEMA,
        coverage: coverage.to_owned(),
        candidates: found.iter().map(row).collect(),
        elapsed_ms: millis(began.elapsed()),
    }))
}

/// The most services that an answer names, beside which others are left out.
const MAX_SERVICES: usize = 1024;

/// Counts the providers of each service, in steps so that requests do not wait. Instances count as one.
async fn services(State(hub): State<HubService>) -> Result<Response, ApiError> {
    let mut providers: BTreeMap<Service, u64> = Service::ALL.map(|service| (service, 0)).into();
    let mut after: Option<NodeId> = None;
    loop {
        let step = hub.index(after, COUNT_STEP).await.map_err(leaving)?;
        for entry in step.iter().filter(|entry| entry.home.is_none()) {
            let bases: BTreeSet<Service> = entry.services.iter().map(Service::base).collect();
            for service in bases {
                if providers.len() < MAX_SERVICES || providers.contains_key(&service) {
                    *providers.entry(service).or_default() += 1;
                }
            }
        }
        match step.last() {
            Some(last) if step.len() == COUNT_STEP => after = Some(last.node),
            _ => break,
        }
    }
    let row = |(service, count)| ServiceRow {
        service,
        source: None,
        active: None,
        served: None,
        providers: Some(count),
        position: None,
    };
    Ok(json_response(&Services { schema: SCHEMA, services: providers.into_iter().map(row).collect() }))
}

/// The round trip to a connected remote, as its connection measured it last.
async fn ping(State(hub): State<HubService>, pairs: QueryPairs) -> Result<Response, ApiError> {
    let none = || ApiError::new(Code::Usage, "a hub has no hub of its own: name the node to ping");
    let selector = Params::new(&pairs, &["node"])?.selector("node")?.ok_or_else(none)?;
    let none = || ApiError::new(Code::NotFound, format!("no connection with {selector} is up"));
    let node = resolve_node(&selector, &connected(&hub.shared), none)?;
    let connections = hub.shared.transport.connections();
    let connection =
        connections.iter().filter(|connection| connection.remote.node == node).min_by_key(|connection| connection.rtt);
    let connection = connection.ok_or_else(none)?;
    let (name, address) = (Some(connection.remote.name.clone()), connection.address.to_string());
    Ok(json_response(&Ping { schema: SCHEMA, node: Some(node), name, address, rtt_ms: millis(connection.rtt) }))
}

/// The answer of a hub to what only a node can do.
async fn for_nodes(State(hub): State<HubService>) -> ApiError {
    let what = hub.shared.role().title();
    let message = format!("this daemon is a {what}: requests, watches and moves are put to a node's socket");
    ApiError::new(Code::NoSuchEndpoint, message)
}
