//! Data of services for the page: video by WebRTC, records as they come, and objects.
//!
//! All of it is requested by the node whose page it is, or by the node that the page was given for it.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Path, State};
use axum::http::{StatusCode, header};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use axum::routing::{delete, get, post};
use axum::{Extension, Router};
use bytes::{Bytes, BytesMut};
use futures_util::stream;
use roost_api::query::{Params, QueryError};
use roost_api::server::QueryPairs;
use roost_api::{Client, ClientError, Code, Frame, PlaceQuery, PlacedRequest, RequestEvent};
use roost_players::whep::{Answer, Whep, WhepError};
use roost_players::{Selection, SharedStreams, WatchError};
use roost_wire::Area;
use roost_wire::messages::ServiceRequest;
use tokio::time::timeout;

use crate::listener::OwnEnd;

/// The most bytes of an object for the page.
const MAX_OBJECT_BYTES: usize = 16 << 20;

/// The types of objects that a browser may show; others it keeps as files.
const SHOWN: [&str; 5] = ["image/jpeg", "image/png", "application/senml+json", "application/json", "text/plain"];

#[derive(Clone)]
pub(crate) struct Media {
    client: Client,
    streams: SharedStreams,
    whep: Whep,
    patience: Duration,
}

impl Media {
    pub(crate) fn new(client: Client, patience: Duration) -> Self {
        let streams = SharedStreams::new(client.clone());
        Self { client, whep: Whep::new(streams.clone()), streams, patience }
    }

    pub(crate) fn routes(self) -> Router {
        Router::new()
            .route("/api/video", post(play))
            .route("/api/video/{session}", delete(end))
            .route("/api/records", get(records))
            .route("/api/object", get(object))
            .with_state(Arc::new(self))
    }
}

/// The service and the provider of a query: `service=video&from=uav1`, or `near=` with a place.
fn selection(pairs: &QueryPairs) -> Result<Selection, QueryError> {
    let params = Params::new(pairs, &["service", "from", "near"])?;
    let (service, provider) = (params.required("service")?, params.selector("from")?);
    let near = params.get("near").map(str::to_owned);
    Ok(Selection { service, provider, near })
}

fn refusal(status: StatusCode, message: impl std::fmt::Display) -> Response {
    (status, format!("{message}\n")).into_response()
}

fn failure(error: &ClientError) -> Response {
    match error {
        ClientError::Api(error) if error.code == Code::NoSuchEndpoint => {
            refusal(StatusCode::NOT_FOUND, "a hub requests nothing: give the page a node with --through SOCKET")
        }
        ClientError::Api(error) => {
            let status = StatusCode::from_u16(error.code.http_status()).unwrap_or(StatusCode::BAD_GATEWAY);
            refusal(status, &error.message)
        }
        other => refusal(StatusCode::BAD_GATEWAY, other),
    }
}

fn watch_failure(error: &WatchError) -> Response {
    match error {
        WatchError::Client(error) => failure(error),
        WatchError::TooMany => refusal(StatusCode::SERVICE_UNAVAILABLE, error),
        WatchError::NoStream(_) => refusal(StatusCode::BAD_REQUEST, error),
    }
}

async fn play(
    State(media): State<Arc<Media>>,
    Extension(own): Extension<OwnEnd>,
    pairs: QueryPairs,
    offer: String,
) -> Response {
    let selection = match selection(&pairs) {
        Ok(selection) => selection,
        Err(error) => return refusal(StatusCode::BAD_REQUEST, error),
    };
    match timeout(media.patience, media.whep.answer(&selection, &offer, own.0.ip().to_canonical())).await {
        Err(_) => silence(),
        Ok(answered) => answered_offer(answered),
    }
}

fn silence() -> Response {
    refusal(StatusCode::GATEWAY_TIMEOUT, "nobody has answered in time: try again later")
}

fn answered_offer(answered: Result<Answer, WhepError>) -> Response {
    match answered {
        Ok(answer) => {
            let location = format!("/api/video/{}", answer.session);
            let headers = [(header::CONTENT_TYPE, "application/sdp".to_owned()), (header::LOCATION, location)];
            (StatusCode::CREATED, headers, answer.description).into_response()
        }
        Err(WhepError::Watch(error)) => watch_failure(&error),
        Err(WhepError::TooMany) => refusal(StatusCode::SERVICE_UNAVAILABLE, WhepError::TooMany),
        Err(error @ WhepError::Socket(_)) => refusal(StatusCode::INTERNAL_SERVER_ERROR, error),
        Err(error @ (WhepError::Format(_) | WhepError::Offer(_))) => refusal(StatusCode::BAD_REQUEST, error),
    }
}

async fn end(State(media): State<Arc<Media>>, Path(session): Path<u64>) -> StatusCode {
    if media.whep.end(session) { StatusCode::OK } else { StatusCode::NOT_FOUND }
}

/// The datagrams of a stream of text, each as an event.
async fn records(State(media): State<Arc<Media>>, pairs: QueryPairs) -> Response {
    let selection = match selection(&pairs) {
        Ok(selection) => selection,
        Err(error) => return refusal(StatusCode::BAD_REQUEST, error),
    };
    let Ok(watched) = timeout(media.patience, media.streams.watch(&selection)).await else { return silence() };
    match watched {
        Ok(stream) => {
            let records = stream::unfold(Some(stream.view()), async |viewer| {
                let mut viewer = viewer?;
                let Some(datagram) = viewer.next().await else {
                    return Some((Event::default().event("end").data(""), None));
                };
                let text = String::from_utf8_lossy(&datagram.bytes).replace('\r', "");
                Some((Event::default().event("records").data(text), Some(viewer)))
            });
            let events = futures_util::StreamExt::map(records, Ok::<_, std::convert::Infallible>);
            Sse::new(events).keep_alive(KeepAlive::default()).into_response()
        }
        Err(error) => watch_failure(&error),
    }
}

async fn object(State(media): State<Arc<Media>>, pairs: QueryPairs) -> Response {
    let Selection { service, provider, near } = match selection(&pairs) {
        Ok(selection) => selection,
        Err(error) => return refusal(StatusCode::BAD_REQUEST, error),
    };
    let request = ServiceRequest { provider, ..ServiceRequest::new(service, Area::Anywhere) };
    let placed = PlacedRequest { request, place: near.map(PlaceQuery::Near) };
    let Ok(fetched) = timeout(media.patience, fetch(&media.client, &placed)).await else { return silence() };
    match fetched {
        Ok(Object { format, .. }) if format.is_empty() => refusal(StatusCode::BAD_GATEWAY, "it has ended early"),
        Ok(Object { format, bytes }) => {
            let is_shown = SHOWN.contains(&format.split(';').next().unwrap_or_default().trim());
            let kind = if is_shown { format } else { "application/octet-stream".to_owned() };
            ([(header::CONTENT_TYPE, kind), (header::CACHE_CONTROL, "no-store".to_owned())], bytes).into_response()
        }
        Err(FetchError::TooLong) => {
            refusal(StatusCode::BAD_GATEWAY, format!("it is longer than {} MiB", MAX_OBJECT_BYTES >> 20))
        }
        Err(FetchError::Client(error)) => failure(&error),
    }
}

struct Object {
    format: String,
    bytes: Bytes,
}

enum FetchError {
    TooLong,
    Client(ClientError),
}

impl From<ClientError> for FetchError {
    fn from(error: ClientError) -> Self {
        Self::Client(error)
    }
}

async fn fetch(client: &Client, placed: &PlacedRequest) -> Result<Object, FetchError> {
    let mut events = client.request_at(placed).await?;
    let (mut format, mut bytes) = (String::new(), BytesMut::new());
    while let Some(frame) = events.next().await? {
        match frame {
            Frame::Data(data) if bytes.len() + data.len() > MAX_OBJECT_BYTES => return Err(FetchError::TooLong),
            Frame::Data(data) => bytes.extend_from_slice(&data),
            Frame::Event(RequestEvent::Accepted(accepted)) => format = accepted.format,
            Frame::Event(RequestEvent::Failed { error, .. }) => return Err(ClientError::Api(error).into()),
            Frame::Event(RequestEvent::Finished(_)) => return Ok(Object { format, bytes: bytes.freeze() }),
            Frame::Event(_) => {}
        }
    }
    Ok(Object { format: String::new(), bytes: bytes.freeze() })
}
