//! Requests for services, and calls: with the form of a service that the request does not say, and a provider that it names.

use std::time::Duration;

use bytes::Bytes;
use roost_api::query::{Params, PlacedRequest};
use roost_api::server::{ApiError, JsonBody, QueryPairs};
use roost_api::{Code, FRAMES, LookupQuery};
use roost_core::node::NodeCommand;
use roost_runtime::http::{Body, HeaderMap, Response, State, header, to_bytes};
use roost_wire::messages::{MAX_BODY_BYTES, MAX_CANDIDATES, ReflectionPolicy, ServiceRequest};
use roost_wire::{Area, Form, Service};
use tokio::time::Instant;

use crate::api::{explain_not_found, find_provider, leaving};
use crate::form_cache::FormQuestion;
use crate::naming::NameScope;
use crate::node::NodeService;
use crate::tickets::Purpose;
use crate::{deliver, region};

/// The least time that is left for a provider's answer after the search for the provider.
const SHORTEST_TIMEOUT: Duration = Duration::from_millis(1);

pub(crate) async fn request(
    State(node): State<NodeService>,
    headers: HeaderMap,
    JsonBody(placed): JsonBody<PlacedRequest>,
) -> Result<Response, ApiError> {
    serve(node, &headers, placed, Bytes::new()).await
}

/// `POST /v1/call`: a request in the query, with a body.
pub(crate) async fn call(
    State(node): State<NodeService>,
    pairs: QueryPairs,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, ApiError> {
    let wrong = |why: String| ApiError::new(Code::Usage, why);
    let params = Params::new(&pairs, &["request"])?;
    let text = params.get("request").ok_or_else(|| wrong("the query lacks request=…, a request in JSON".to_owned()))?;
    let mut placed: PlacedRequest =
        serde_json::from_str(text).map_err(|error| wrong(format!("request is no request in JSON: {error}")))?;
    let request = &mut placed.request;
    if request.service.form() == Form::Any {
        request.service = request.service.with_form(Form::Call);
    }
    if !request.service.is_call() {
        return Err(wrong(format!("{} is no call: ask for it by /v1/request", request.service)));
    }
    let body = to_bytes(body, MAX_BODY_BYTES).await;
    let body = body.map_err(|_| wrong("the body of a call has at most 64 KiB: send a file instead".to_owned()))?;
    serve(node, &headers, placed, body).await
}

async fn serve(
    node: NodeService,
    headers: &HeaderMap,
    placed: PlacedRequest,
    body: Bytes,
) -> Result<Response, ApiError> {
    let mut since = Instant::now();
    let mut request = region::place(&node, placed).await?;
    spend(&mut request, &mut since);
    if request.service.form() == Form::Any {
        request.service = find_form(&node, &request).await?;
        spend(&mut request, &mut since);
    }
    request.check().map_err(|error| ApiError::new(Code::Usage, error.to_string()))?;
    if !request.service.is_stream() {
        request.reflect = ReflectionPolicy::Never;
    }
    let named = request.provider;
    let provider = match named {
        Some(selector) if selector.is_everybody() => {
            let empty = "provider is empty: expected a node's id, the beginning of it, or its name";
            return Err(ApiError::new(Code::Usage, empty));
        }
        Some(selector) => {
            let provider = node.meant(selector, NameScope::Offers(request.service), request.timeout).await?;
            spend(&mut request, &mut since);
            let (provider, cell) = find_provider(&node, provider, &request).await?;
            // Hubs find a provider by its cell.
            let known = cell.filter(|_| !matches!(request.area, Area::Exact(_)));
            request.area = known.map_or(request.area, Area::Exact);
            Some(provider)
        }
        None => None,
    };
    spend(&mut request, &mut since);
    let purpose = Purpose::Request(request.service, request.mode);
    let command = |ticket| {
        node.tickets.feed().begin(ticket, &request);
        NodeCommand::Request { ticket, request, provider, body }
    };
    let replies = node.open_ticket(purpose, command).await?;
    let frames = headers.get(header::ACCEPT).is_some_and(|accept| accept == FRAMES);
    if frames { Ok(deliver::framed(replies, node, named)) } else { deliver::raw(replies, &node, named).await }
}

/// Searches for a form and a provider are part of the time allowed: takes what one took off.
fn spend(request: &mut ServiceRequest, since: &mut Instant) {
    let elapsed = since.elapsed();
    *since += elapsed;
    request.timeout = request.timeout.map(|timeout| timeout.saturating_sub(elapsed).max(SHORTEST_TIMEOUT));
}

/// The service of a request that does not say the form, with the form of the first offer that is found.
async fn find_form(node: &NodeService, request: &ServiceRequest) -> Result<Service, ApiError> {
    let ServiceRequest { service, area, timeout, ref filter, .. } = *request;
    let question = FormQuestion { service, area, filter: filter.clone(), provider: request.provider };
    if let Some(form) = node.forms.find(std::time::Instant::now(), &question) {
        return Ok(service.with_form(form));
    }
    let query = LookupQuery { count: 1, timeout, filter: filter.clone(), ..LookupQuery::new(service, area) };
    let found = match request.provider {
        // A lookup anywhere would end at the first match.
        Some(provider) => {
            let area = match area {
                Area::Exact(_) => area,
                _ => Area::Nearest(node.machine_status().await.map_err(leaving)?.cell),
            };
            node.find(LookupQuery { count: MAX_CANDIDATES as u8, area, ..query }, Some(provider)).await?
        }
        None => node.find(query, None).await?,
    };
    let offered = found.candidates.iter().find_map(|candidate| candidate.services.offer(service, filter));
    let form = offered.map(|offer| offer.service.form()).ok_or_else(|| {
        let (code, why) = explain_not_found(found.coverage, found.candidates.len());
        ApiError::new(code, format!("nobody offers {service} there: {why}"))
    })?;
    node.forms.record(std::time::Instant::now(), question, form);
    Ok(service.with_form(form))
}
