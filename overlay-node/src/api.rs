//! The endpoints that only a node has.

use std::sync::Arc;

use futures_util::stream::{self, Stream, StreamExt as _};
use roost_api::query::{MAX_DURATION, Params};
use roost_api::server::{ApiError, QueryPairs, TextBody, json_line, json_response};
use roost_api::{
    Code, JSON_LINES, LookupQuery, Moved, Ping, RoomQuery, SCHEMA, ServiceRow, Services, State as Doing, WatchQuery,
};
use roost_core::node::{NodeCommand, NodePlace, Provider, Ticket};
use roost_runtime::driver::DriverStopped;
use roost_runtime::http::{Body, IntoResponse, Response, Router, State, get, header, post};
use roost_runtime::naming::{connected, resolve_node};
use roost_runtime::shared::millis;
use roost_wire::messages::{Candidate, Coverage, LookupResult, MAX_CANDIDATES, ReflectionPolicy, ServiceRequest};
use roost_wire::{Area, Cell, NodeId, NodeSelector, RoomId, Service, format_node};
use tokio::time::Instant;

use crate::naming::{MemberNames, everybody};
use crate::node::NodeService;
use crate::region::{self, WatchedRegion};
use crate::tickets::{Purpose, Replies, Reply, TicketError, open_ticket};
use crate::{offers, outbox, requests, rooms, rows, sending};

pub(crate) fn routes(node: NodeService) -> Router {
    Router::new()
        .route("/v1/services", get(services))
        .route("/v1/streams", get(streams))
        .route("/v1/request", post(requests::request))
        .route("/v1/call", post(requests::call))
        .route("/v1/requests", get(request_lines))
        .route("/v1/end", post(end))
        .route("/v1/lookup", post(lookup))
        .route("/v1/watch", get(watch).post(watch))
        .route("/v1/room", get(room))
        .route("/v1/rooms", get(rooms::rooms))
        .route("/v1/ping", post(ping))
        .route("/v1/send", post(sending::send))
        .route("/v1/chunk", post(sending::receive_chunk))
        .route("/v1/offer", post(offers::offer))
        .route("/v1/offer/body", get(offers::body))
        .route("/v1/offer/data", post(offers::give))
        .route("/v1/offer/decline", post(offers::decline))
        .route("/v1/outbox", get(outbox::list))
        .route("/v1/outbox/cancel", post(outbox::cancel))
        .route("/v1/move", post(relocate))
        .with_state(node)
}

impl NodeService {
    pub(crate) async fn open_ticket(
        &self,
        purpose: Purpose,
        command: impl FnOnce(Ticket) -> NodeCommand,
    ) -> Result<Replies, ApiError> {
        if self.shared.state() == Doing::Draining {
            return Err(leaving(DriverStopped));
        }
        open_ticket(&self.tickets, &self.mailbox, purpose, command).await.map_err(|error| match error {
            TicketError::TooMany => {
                ApiError::new(Code::Busy, "too many requests wait for this daemon: try again later")
            }
            TicketError::Gone => leaving(DriverStopped),
        })
    }

    /// Looks up the providers of a service, with the names of the nodes meant, and remembers their addresses.
    pub(crate) async fn find(&self, query: LookupQuery, names: Option<NodeSelector>) -> Result<LookupResult, ApiError> {
        let LookupQuery { service, area, count, timeout, filter, .. } = query;
        let command = |ticket| NodeCommand::Lookup { ticket, service, area, count, names, filter };
        let mut replies = self.open_ticket(Purpose::Other, command).await?;
        // Without a timeout the machine ends the lookup.
        match tokio::time::timeout(timeout.unwrap_or(MAX_DURATION), replies.next()).await {
            Ok(Some(Reply::Found(found))) => {
                self.providers.record_found(std::time::Instant::now(), &found.candidates);
                self.note_names(&found.candidates);
                Ok(found)
            }
            other => Err(no_answer(other.ok().flatten(), "no hub answered in time")),
        }
    }
}

pub(crate) fn leaving(gone: DriverStopped) -> ApiError {
    ApiError::new(Code::Leaving, gone.to_string())
}

/// A provider that a request names, with its addresses and its cell: as the last lookups told them, without both if
/// there is a connection with it, or as the hub tells them. A reflected stream comes through hubs, which need the cell.
pub(crate) async fn find_provider(
    node: &NodeService,
    provider: NodeId,
    request: &ServiceRequest,
) -> Result<(Provider, Option<Cell>), ApiError> {
    let place = || node.providers.find(std::time::Instant::now(), provider, node.shared.datum().as_ref());
    let named = |(cell, addresses)| (Provider { node: provider, addresses }, Some(cell));
    if let Some(place) = place() {
        return Ok(named(place));
    }
    let has_connection =
        node.shared.transport.connections().iter().any(|connection| connection.remote.node == provider);
    let is_placed = request.reflect != ReflectionPolicy::Always || matches!(request.area, Area::Exact(_));
    if has_connection && is_placed {
        return Ok((Provider { node: provider, addresses: Vec::new() }, None));
    }
    let (service, count) = (request.service, MAX_CANDIDATES as u8);
    // A lookup anywhere would end at the first match.
    let everywhere = Area::Nearest(node.machine_status().await.map_err(leaving)?.cell);
    let query = LookupQuery { count, timeout: request.timeout, ..LookupQuery::new(service, everywhere) };
    let found = node.find(query, Some(provider.into())).await?;
    let offers = |candidate: &Candidate| candidate.node == provider && candidate.services.contains(service);
    match place().filter(|_| found.candidates.iter().any(offers)) {
        Some(place) => Ok(named(place)),
        None if has_connection => Ok((Provider { node: provider, addresses: Vec::new() }, None)),
        None => {
            let (code, why) = explain_not_found(found.coverage, found.candidates.len());
            let provider = format_node(provider, node.name(provider).as_deref());
            Err(ApiError::new(code, format!("node {provider} is not among those that offer {service}: {why}")))
        }
    }
}

/// The reason that a provider which a request names is not among those that were found.
pub(crate) fn explain_not_found(coverage: Coverage, found: usize) -> (Code, String) {
    let code = match coverage {
        _ if found >= MAX_CANDIDATES => {
            let why = format!("a lookup names no more than {MAX_CANDIDATES}; look it up at its place first (--at X,Y)");
            return (Code::NotFound, why);
        }
        Coverage::Complete | Coverage::FirstMatch => Code::NotFound,
        Coverage::HubStarting => Code::NotYetKnown,
        Coverage::Partial => Code::TimedOut,
        Coverage::UnreachableAbove => Code::UnreachableAbove,
    };
    let why = match coverage {
        Coverage::Complete | Coverage::FirstMatch => "no hub knows of it",
        Coverage::HubStarting => "a hub has just started and has not heard of everyone yet; try again in a minute",
        Coverage::Partial => "not everybody answered in time; try again",
        Coverage::UnreachableAbove => "the super nodes above cannot be reached",
    };
    (code, why.to_owned())
}

async fn lookup(
    State(node): State<NodeService>,
    pairs: QueryPairs,
    TextBody(geojson): TextBody,
) -> Result<Response, ApiError> {
    let query = LookupQuery::from_parts(&pairs, &geojson)?;
    let (names, began) = (everybody(query.names), Instant::now());
    let search = region::search(&node, query.area, query.place.clone()).await?;
    let found = region::find(&node, query, &search, names).await?;
    let mut lookup = rows::lookup(&found, began.elapsed());
    for (row, candidate) in lookup.candidates.iter_mut().zip(&found.candidates) {
        row.place = search.on_earth(candidate);
        node.name_candidate(row);
    }
    Ok(json_response(&lookup))
}

async fn ping(State(node): State<NodeService>, pairs: QueryPairs) -> Result<Response, ApiError> {
    let selector = Params::new(&pairs, &["node"])?.selector("node")?;
    let none =
        |selector: NodeSelector| move || ApiError::new(Code::NotFound, format!("no connection with {selector} is up"));
    let meant = |selector| resolve_node(&selector, &connected(&node.shared), none(selector));
    let request: Option<NodeId> = selector.map(meant).transpose()?;
    let mut replies = node.open_ticket(Purpose::Other, |ticket| NodeCommand::Ping { ticket, node: request }).await?;
    // The machine ends a ping, after a time that depends on the distance of the remote.
    match replies.next().await {
        Some(Reply::Pong { rtt, address }) => {
            let home = node.machine_status().await.map_err(leaving)?.home.map(|home| home.hub.node);
            let node_id = request.or(home);
            let (name, address) = (node_id.and_then(|id| node.name(id)), address.to_string());
            Ok(json_response(&Ping { schema: SCHEMA, node: node_id, name, address, rtt_ms: millis(rtt) }))
        }
        other => Err(no_answer(other, "it did not answer")),
    }
}

/// The machine's reason for the missing answer, or else a time-out.
fn no_answer(reply: Option<Reply>, late: &str) -> ApiError {
    match reply {
        Some(Reply::Failed(failure)) => ApiError(rows::failure(failure)),
        _ => ApiError::new(Code::TimedOut, late),
    }
}

async fn watch(
    State(node): State<NodeService>,
    pairs: QueryPairs,
    TextBody(geojson): TextBody,
) -> Result<Response, ApiError> {
    let WatchQuery { services, area, place, names } = WatchQuery::from_parts(&pairs, &geojson)?;
    let search = region::search(&node, area, place).await?;
    let area = search.around();
    let command = |ticket| NodeCommand::Watch { ticket, services, area, names };
    let replies = node.open_ticket(Purpose::Other, command).await?;
    let watched = WatchedRegion::new(search.clone());
    let changes = stream::unfold((replies, watched), |(mut replies, mut watched)| async {
        let reply = watched.next(&mut replies).await?;
        Some((reply, (replies, watched)))
    });
    Ok(lines(changes, move |reply| {
        let line = match reply {
            Reply::Changed(change) => Some(json_line(&region::watch_event(&node, &search, &change))),
            _ => None,
        };
        std::future::ready(line)
    }))
}

async fn room(State(node): State<NodeService>, pairs: QueryPairs) -> Result<Response, ApiError> {
    let RoomQuery { name, names } = RoomQuery::from_pairs(&pairs)?;
    let room = RoomId::named(&name);
    node.room_names.record_room(room, &name);
    let replies = node.open_ticket(Purpose::Other, |ticket| NodeCommand::JoinRoom { ticket, room }).await?;
    let guests = Arc::new(MemberNames::new(node, names));
    let rosters = stream::unfold(replies, |mut replies| async { Some((replies.next().await?, replies)) });
    Ok(lines(rosters, move |reply| {
        let guests = Arc::clone(&guests);
        async move {
            match reply {
                Reply::Roster(members) => Some(json_line(&guests.named(&members).await)),
                _ => None,
            }
        }
    }))
}

/// Answers with a line for each reply that has one, until either side ends it.
fn lines<F, L>(replies: impl Stream<Item = Reply> + Send + 'static, line: F) -> Response
where
    F: FnMut(Reply) -> L + Send + 'static,
    L: Future<Output = Option<String>> + Send,
{
    let lines = stream::unfold((Box::pin(replies), line), move |(mut replies, mut line)| async move {
        loop {
            let said = match replies.next().await? {
                // The last line gives the reason of the end.
                Reply::Failed(failure) => Some(json_line(&ApiError(rows::failure(failure)).body())),
                reply => line(reply).await,
            };
            if let Some(said) = said {
                return Some((Ok::<_, std::convert::Infallible>(said), (replies, line)));
            }
        }
    });
    ([(header::CONTENT_TYPE, JSON_LINES)], Body::from_stream(lines)).into_response()
}

async fn relocate(State(node): State<NodeService>, pairs: QueryPairs) -> Result<Response, ApiError> {
    let to: String = Params::new(&pairs, &["at"])?.required("at")?;
    let grid = node.grid().await.map_err(leaving)?;
    let place = grid.place(&to)?;
    let (from, to) = (grid.own.map_or(place.cell, |own| own.cell), place.cell);
    let at = NodePlace { position: place.exact, ..to.into() };
    node.mailbox.command(NodeCommand::Move(at)).await.map_err(leaving)?;
    tracing::info!(%from, %to, "moved");
    Ok(json_response(&Moved { schema: SCHEMA, from, to, place: grid.on_earth(&place, None) }))
}

async fn request_lines(State(node): State<NodeService>) -> Response {
    let lines = stream::unfold(node.tickets.feed().subscribe(), |mut lines| async {
        let line = lines.next().await?;
        Some((Ok::<_, std::convert::Infallible>(json_line(&line)), lines))
    });
    ([(header::CONTENT_TYPE, JSON_LINES)], Body::from_stream(lines)).into_response()
}

/// Ends a reflected stream early, so that its requester gets the summary.
async fn end(State(node): State<NodeService>, pairs: QueryPairs) -> Result<(), ApiError> {
    let ticket = Ticket(Params::new(&pairs, &["request"])?.required("request")?);
    let requests = node.machine_status().await.map_err(leaving)?.requests;
    match requests.iter().find(|request| request.ticket == ticket) {
        None => return Err(ApiError::new(Code::NotFound, format!("no request {} is under way here", ticket.0))),
        Some(request) if !request.subscribed => {
            let other = format!("request {} is no reflected stream that its provider has accepted", ticket.0);
            return Err(ApiError::new(Code::Refused, other));
        }
        Some(_) => {}
    }
    node.mailbox.command(NodeCommand::EndSubscription { ticket }).await.map_err(leaving)
}

async fn streams(State(node): State<NodeService>) -> Response {
    json_response(&node.streams().await)
}

async fn services(State(node): State<NodeService>) -> Result<Response, ApiError> {
    let status = node.machine_status().await.map_err(leaving)?;
    let sources = node.registry.sources();
    let row = |service: Service, source: String| {
        let active = status.sessions.iter().filter(|session| session.service == service).count();
        ServiceRow {
            service,
            source: Some(source),
            active: Some(active as u64),
            served: Some(node.metrics.served_total(service)),
            providers: None,
            position: status.position.map(Into::into),
        }
    };
    let configured = sources.iter().map(|spec| row(spec.service(), spec.to_string()));
    let programs = node.registry.programs().services().into_iter().map(|service| row(service, "program".to_owned()));
    Ok(json_response(&Services { schema: SCHEMA, services: configured.chain(programs).collect() }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn not_found_requires_whole_lookup() {
        for (coverage, found, code) in [
            (Coverage::Complete, 3, Code::NotFound),
            (Coverage::HubStarting, 0, Code::NotYetKnown),
            (Coverage::Partial, 63, Code::TimedOut),
            (Coverage::UnreachableAbove, 0, Code::UnreachableAbove),
        ] {
            assert_eq!(explain_not_found(coverage, found).0, code, "{coverage:?}");
        }
        let (_, why) = explain_not_found(Coverage::Complete, MAX_CANDIDATES);
        assert!(why.contains("no more than 64") && why.contains("--at"), "{why}");
        assert!(explain_not_found(Coverage::Complete, 3).1.contains("no hub knows"));
    }
}
