//! Files that are sent to nodes: the endpoints, the search for a node, and its answer.

use std::time::Duration;

use futures_util::future::join_all;
use futures_util::stream;
use roost_api::query::Params;
use roost_api::server::{ApiError, QueryPairs, json_line};
use roost_api::{Code, Error, JSON_LINES, LookupQuery, SendEvent, SendQuery};
use roost_core::node::{NodeCommand, Provider, SessionId};
use roost_runtime::http::{Body, IntoResponse, Response, State, header, to_bytes};
use roost_runtime::resolve::resolve_all;
use roost_wire::messages::{Candidate, MAX_CANDIDATES, PushState, Reason};
use roost_wire::{Area, Cell, NodeId, Role, Service, format_node};

use crate::api::leaving;
use crate::naming::NameScope;
use crate::node::NodeService;
use crate::outbox;
use crate::rows;
use crate::tickets::{Purpose, Reply};

/// A service that a node offers, and the node's cell.
pub(crate) type PublishedService = Option<(Service, Cell)>;

/// The longest chunk of a file that a program may give, bytes.
const MAX_CHUNK_BYTES: usize = 1 << 20;

/// `POST /v1/send`: offers a file to a node. Each line of the answer names a chunk to read.
pub(crate) async fn send(State(node): State<NodeService>, pairs: QueryPairs) -> Result<Response, ApiError> {
    let query = SendQuery::from_pairs(&pairs)?;
    if let Some(terms) = query.outbox {
        return outbox::deposit(node, query, terms).await;
    }
    let (to, place) = find(&node, &query).await?;
    let SendQuery { node: selector, name, bytes: length, digest, timeout: deadline, .. } = query;
    let receiver = to.node;
    let command = |ticket| NodeCommand::Push {
        ticket,
        to,
        published_service: place,
        name,
        length,
        digest,
        deadline,
        delivery: None,
    };
    let replies = node.open_ticket(Purpose::Other, command).await?;
    let lines = stream::unfold((replies, node), move |(mut replies, node)| async move {
        loop {
            let event = match replies.next().await? {
                Reply::Read { session, offset, length } => {
                    if let Err(ApiError(error)) = node.check_name(Some(selector), receiver) {
                        replies.give_up();
                        let failed = SendEvent::Failed { error };
                        return Some((Ok(json_line(&failed)), (replies, node)));
                    }
                    let node_name = node.name(receiver);
                    SendEvent::Read { session: session.0, offset, bytes: length, node: Some(receiver), node_name }
                }
                Reply::Pushed(reception) => ending(reception, receiver, node.name(receiver)),
                Reply::Failed(mut failure) => {
                    if failure.reason == Reason::TimedOut {
                        failure.detail.push_str("; if it is a super node it takes no files");
                    }
                    SendEvent::Failed { error: rows::failure(failure) }
                }
                _ => continue,
            };
            return Some((Ok::<_, std::convert::Infallible>(json_line(&event)), (replies, node)));
        }
    });
    Ok(([(header::CONTENT_TYPE, JSON_LINES)], Body::from_stream(lines)).into_response())
}

/// `POST /v1/chunk`: a chunk of the file.
pub(crate) async fn receive_chunk(
    State(node): State<NodeService>,
    pairs: QueryPairs,
    body: Body,
) -> Result<(), ApiError> {
    let params = Params::new(&pairs, &["session", "offset"])?;
    let (session, offset) = (params.required("session")?, params.required("offset")?);
    let bytes = to_bytes(body, MAX_CHUNK_BYTES).await;
    let bytes = bytes.map_err(|_| {
        let why = format!("a chunk has at most {MAX_CHUNK_BYTES} bytes: send what the line of /v1/send asks for");
        ApiError::new(Code::Usage, why)
    })?;
    if node.outbox.as_ref().is_some_and(|outbox| outbox.receive_chunk(session, offset, &bytes)) {
        return Ok(());
    }
    let session = SessionId(session);
    node.mailbox.command(NodeCommand::ObjectRead { session, offset, bytes }).await.map_err(leaving)
}

/// The receiver with its addresses, from the query, the hub, or the last lookups; without addresses if it is connected.
/// With the service and cell by which hubs find it.
pub(crate) async fn find(node: &NodeService, query: &SendQuery) -> Result<(Provider, PublishedService), ApiError> {
    let to = meant(node, query).await?;
    if to == node.shared.node() {
        return Err(ApiError::new(
            Code::Refused,
            format!("{} is this node itself: a file goes to another one", format_node(to, node.name(to).as_deref())),
        ));
    }
    let known = node.shared.transport.connections().into_iter().find(|connection| connection.remote.node == to);
    let hub = known.and_then(|connection| match connection.remote.role {
        Role::Node => None,
        Role::SuperNode => Some("a super node"),
        Role::Server => Some("a central server"),
    });
    if let Some(hub) = hub {
        let who = format_node(to, node.name(to).as_deref());
        return Err(ApiError::new(Code::Refused, format!("{who} is {hub}, which takes no files: send it to a node")));
    }
    if !query.addresses.is_empty() {
        let resolved = resolve_all(&query.addresses).await;
        let addresses = resolved.map_err(|error| ApiError::new(Code::Usage, error.to_string()))?;
        return Ok((Provider { node: to, addresses }, None));
    }
    if let Some(found) = look_up(node, to, Some(query.timeout)).await? {
        return Ok(found);
    }
    if let Some(addresses) = node.providers.addresses(std::time::Instant::now(), to) {
        return Ok((Provider { node: to, addresses }, None));
    }
    if node.shared.transport.connections().iter().any(|connection| connection.remote.node == to) {
        return Ok((Provider { node: to, addresses: Vec::new() }, None));
    }
    let unknown = format!(
        "node {} is not known: there is no connection with it, and neither its home nor a hub that was asked has \
         it; say where it listens with --address",
        format_node(to, node.name(to).as_deref())
    );
    Err(ApiError::new(Code::NotFound, unknown))
}

async fn meant(node: &NodeService, query: &SendQuery) -> Result<NodeId, ApiError> {
    if query.node.as_str() == node.shared.name() {
        return Ok(node.shared.node());
    }
    node.meant(query.node, NameScope::Whoever, Some(query.timeout)).await
}

/// Looks for a node by any service.
async fn look_up(
    node: &NodeService,
    to: NodeId,
    timeout: Option<Duration>,
) -> Result<Option<(Provider, PublishedService)>, ApiError> {
    let everywhere = Area::Nearest(node.machine_status().await.map_err(leaving)?.cell);
    let lookups = Service::ALL.map(|service| {
        let query = LookupQuery::new(service, everywhere);
        node.find(LookupQuery { count: MAX_CANDIDATES as u8, timeout, ..query }, Some(to.into()))
    });
    // A failed lookup has found no node.
    let mut found = join_all(lookups).await.into_iter().flatten().flat_map(|found| found.candidates);
    let candidate = found.find(|candidate| candidate.node == to);
    Ok(candidate.map(|Candidate { node, addresses, services, cell, .. }| {
        // A hub finds its own node without offers, whichever service is looked up.
        let service = Service::ALL.into_iter().find(|service| services.contains(*service)).unwrap_or(Service::Sensor);
        (Provider { node, addresses }, Some((service, cell)))
    }))
}

/// The event for a node's final answer on a file.
fn ending(reception: PushState, node: NodeId, node_name: Option<String>) -> SendEvent {
    let receiver = format_node(node, node_name.as_deref());
    let code = match reception {
        PushState::Stored => return SendEvent::Finished { node: Some(node), node_name },
        PushState::Busy => Code::Busy,
        PushState::Damaged | PushState::Interrupted => Code::Incomplete,
        _ => Code::Refused,
    };
    SendEvent::Failed { error: Error::new(code, format!("{receiver} {}", refusal(reception))) }
}

/// The reason of a node that has not taken a file, to follow its name.
pub(crate) const fn refusal(reception: PushState) -> &'static str {
    match reception {
        PushState::NoInbox => "takes no files: it has no inbox (overlay-node --inbox DIR)",
        PushState::TooLarge => "takes no file as large as this (its inbox_limit)",
        PushState::NoRoom => "has no room in its inbox for the file: its inbox_limit or its disk",
        PushState::BadName => "takes no file of this name: give another one with --name",
        PushState::Busy => "takes too many files at the moment, or this one already",
        PushState::Damaged => "has removed what arrived, as it was not what was sent: send it again",
        PushState::Interrupted => "has only a part, since the transfer broke off: send the file again to resume",
        PushState::Forbidden => "takes no files from this node: the group's policy does not allow it",
        PushState::Unwritable => "cannot write the file: its log says why",
        _ => "did not take the file",
    }
}
