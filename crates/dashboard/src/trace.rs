//! The way of a request, as `roost trace` asks for it. The data goes nowhere.

use std::sync::Arc;
use std::time::Duration;

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use roost_api::query::Params;
use roost_api::server::QueryPairs;
use roost_api::{Client, ClientError, LookupQuery, PlacedRequest, QueryError};
use roost_wire::messages::ServiceRequest;
use roost_wire::{Form, Service};
use serde_json::json;
use tokio::sync::Semaphore;

/// The duration of a stream of which only the beginning matters.
const STREAM: Duration = Duration::from_secs(1);

/// The longest wait for a provider, and for progress.
const TIMEOUT: Duration = Duration::from_secs(10);
const PATIENCE: Duration = Duration::from_secs(5);

/// Traces one request at a time, so that a page makes little work for others.
#[derive(Clone, Debug)]
pub(crate) struct Tracer {
    client: Client,
    slot: Arc<Semaphore>,
    /// The longest time that all of it takes.
    patience: Duration,
}

#[derive(Debug, thiserror::Error)]
enum TraceError {
    #[error("{0}")]
    Query(#[from] QueryError),
    #[error("{0} is a call, which makes its provider do something: trace it with roost trace")]
    Call(Service),
    #[error("another request is being traced: wait until it is over")]
    Busy,
    #[error("the request took too long: ask for something smaller, or use roost trace")]
    TooLong,
    #[error("{0}")]
    Daemon(#[from] ClientError),
}

impl IntoResponse for TraceError {
    fn into_response(self) -> Response {
        let status = match &self {
            Self::Query(_) | Self::Call(_) | Self::Daemon(ClientError::Api(_)) => StatusCode::BAD_REQUEST,
            Self::Busy => StatusCode::TOO_MANY_REQUESTS,
            Self::TooLong => StatusCode::GATEWAY_TIMEOUT,
            Self::Daemon(_) => StatusCode::BAD_GATEWAY,
        };
        let message = match &self {
            Self::Daemon(ClientError::Api(error)) => error.message.clone(),
            other => other.to_string(),
        };
        (status, message).into_response()
    }
}

/// A query of a lookup, with `from`, the provider that alone is meant.
fn request_of(pairs: QueryPairs) -> Result<PlacedRequest, QueryError> {
    let (from, rest) = pairs.0.into_iter().partition(|(key, _)| key == "from");
    let provider = Params::new(&QueryPairs(from), &["from"])?.selector("from")?;
    let LookupQuery { service, area, place, filter, .. } = LookupQuery::from_parts(&QueryPairs(rest), "")?;
    let request = ServiceRequest {
        provider,
        filter,
        timeout: Some(TIMEOUT),
        patience: Some(PATIENCE),
        trace: true,
        ..ServiceRequest::new(service, area)
    };
    Ok(PlacedRequest { request, place })
}

impl Tracer {
    pub(crate) fn new(client: Client, patience: Duration) -> Self {
        Self { client, slot: Arc::new(Semaphore::new(1)), patience }
    }

    pub(crate) async fn answer(&self, pairs: QueryPairs) -> Response {
        match self.trace(pairs).await {
            Ok(response) => response,
            Err(error) => error.into_response(),
        }
    }

    async fn trace(&self, pairs: QueryPairs) -> Result<Response, TraceError> {
        let placed = request_of(pairs)?;
        let _slot = self.slot.try_acquire().map_err(|_| TraceError::Busy)?;
        tokio::time::timeout(self.patience, self.run(placed)).await.map_err(|_| TraceError::TooLong)?
    }

    async fn run(&self, mut placed: PlacedRequest) -> Result<Response, TraceError> {
        if placed.request.service.form() == Form::Any {
            placed.request.service = self.find_form(&placed).await?;
        }
        let service = placed.request.service;
        if service.is_call() {
            return Err(TraceError::Call(service));
        }
        placed.request.duration = service.is_stream().then_some(STREAM);
        let traced = self.client.request_at(&placed).await?.trace().await?;
        let answer = json!({
            "service": service.full_text(), "trace": traced.trace, "summary": traced.summary, "error": traced.error
        });
        Ok(axum::Json(answer).into_response())
    }

    /// The service with the form of the first offer. Without one it is left to the daemon, which says that there is none.
    async fn find_form(&self, placed: &PlacedRequest) -> Result<Service, ClientError> {
        let ServiceRequest { service, area, ref filter, .. } = placed.request;
        let query = LookupQuery {
            place: placed.place.clone(),
            timeout: Some(TIMEOUT),
            filter: filter.clone(),
            ..LookupQuery::new(service, area)
        };
        let found = self.client.lookup(&query).await?;
        let is_meant = |candidate: &&roost_api::Candidate| {
            let name = candidate.name.as_deref();
            placed.request.provider.is_none_or(|provider| provider.matches(candidate.node, name))
        };
        let mut offers = found.candidates.iter().filter(is_meant).flat_map(|candidate| &candidate.offers);
        let offered = offers.find(|offer| offer.service.satisfies(&service) && offer.metadata.includes(filter));
        // A call that nobody here sees may be found later: it is asked for as something else.
        Ok(service.with_form(offered.map_or(Form::Stream, |offer| offer.service.form())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<PlacedRequest, String> {
        let pair = |part: &str| part.split_once('=').map(|(key, value)| (key.to_owned(), value.to_owned())).unwrap();
        request_of(QueryPairs(text.split('&').map(pair).collect())).map_err(|error| error.to_string())
    }

    #[test]
    fn query_becomes_traced_request() {
        let placed = read("service=video&any=true&from=uav1").unwrap();
        assert!(placed.request.trace && placed.request.provider.is_some() && placed.place.is_none());
        assert!(read("service=video&near=47.1,8.2").unwrap().place.is_some());
    }

    #[test]
    fn wrong_query_says_so() {
        for (text, part) in [
            ("service=video&any=true&from=a&from=b", "given twice"),
            ("service=video&any=true&from=", "is empty"),
            ("service=videos&any=true", "unknown service"),
            ("any=true", "is missing"),
            ("service=video&any=true&duration=9", "unknown parameter"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
