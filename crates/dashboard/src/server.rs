//! The page's server: its files, the picture, its changes, and searches.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{FromRef, Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use futures_util::Stream;
use roost_api::server::{CallerLimits, QueryPairs};
use roost_api::{Client, ClientError, LookupQuery};
use rust_embed::RustEmbed;
use serde::Serialize;
use tokio::net::TcpListener;
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;

use crate::access::{Access, Entry};
use crate::feed::Feed;
use crate::guard;
use crate::listener::PageListener;
use crate::media::Media;
use crate::picture::Change;
use crate::tiles::Tiles;
use crate::trace::Tracer;

/// The built page; `crates/dashboard/web` has its source.
#[derive(RustEmbed)]
#[folder = "page"]
struct Page;

/// The pause after which a browser that is disconnected tries again, and after which a silent stream says that it lives.
const RETRY: Duration = Duration::from_secs(1);
const KEEP_ALIVE: Duration = Duration::from_secs(10);

#[derive(Clone)]
struct Served {
    feed: Feed,
    client: Client,
    parts: PageParts,
    tracer: Tracer,
    media: Media,
    patience: Duration,
}

impl FromRef<Served> for Feed {
    fn from_ref(served: &Served) -> Self {
        served.feed.clone()
    }
}

/// Parts of the page that not everybody has.
#[derive(Clone, Debug, Default)]
pub struct PageParts {
    /// The map under the network, if that has places on the Earth.
    pub tiles: Option<Tiles>,
    /// The node that requests data for the page of a hub, which itself requests nothing.
    pub through: Option<Client>,
    pub access: Access,
}

/// The longest wait for the daemon's answer to a search, and for a trace.
const PATIENCE: Duration = Duration::from_secs(30);

/// Each browser keeps one connection open, and uses up to five more for a while. The longest body is an offer to receive
/// video.
const LIMITS: CallerLimits = CallerLimits { connections: 256, body: 64 * 1024, document: 0 };

/// Serves the page for ever.
///
/// # Errors
/// That of the listener.
pub async fn serve(listener: TcpListener, feed: Feed, client: Client, parts: PageParts) -> std::io::Result<()> {
    let tracer = Tracer::new(client.clone(), PATIENCE);
    let media = Media::new(parts.through.clone().unwrap_or_else(|| client.clone()), PATIENCE);
    let access = parts.access.clone();
    serve_guarded(listener, routes(Served { feed, client, parts, tracer, media, patience: PATIENCE }), access).await
}

/// Serves the page over the run of a feed for ever. Nobody searches there: a run has no daemon.
///
/// # Errors
/// That of the listener.
pub async fn serve_run(listener: TcpListener, feed: Feed) -> std::io::Result<()> {
    let routes = picture_routes().route("/api/page", get(settings_of_run));
    serve_guarded(listener, routes.with_state(feed), Access::default()).await
}

fn routes(served: Served) -> Router {
    let media = served.media.clone().routes();
    let routes = Router::new()
        .route("/api/lookup", get(lookup))
        .route("/api/page", get(settings))
        .route("/api/tiles", get(map_tiles))
        .route("/api/trace", post(trace));
    routes.merge(picture_routes()).with_state(served).merge(media)
}

/// The routes of the page itself, and of the picture that it shows.
fn picture_routes<S: Clone + Send + Sync + 'static>() -> Router<S>
where
    Feed: FromRef<S>,
{
    Router::new().route("/api/events", get(events)).route("/api/history", get(history)).fallback(get(file))
}

async fn serve_guarded(listener: TcpListener, routes: Router, access: Access) -> std::io::Result<()> {
    let door = Door { bound: listener.local_addr()?, access };
    let listener = PageListener::start(listener, door.access.tls.clone())?;
    roost_api::server::serve(listener, behind(door, routes), LIMITS, std::future::pending()).await;
    Ok(())
}

/// The server's address, and those who may come in.
#[derive(Clone)]
struct Door {
    bound: SocketAddr,
    access: Access,
}

fn behind(door: Door, routes: Router) -> Router {
    routes.layer(middleware::from_fn_with_state(door, guarded))
}

async fn guarded(State(door): State<Door>, request: Request, next: Next) -> Response {
    let mut response = match entry(&door, &request) {
        Ok(()) => next.run(request).await,
        Err(refused) => *refused,
    };
    response.headers_mut().extend(guard::headers());
    response
}

/// Admits the request, or answers it with a refusal or with the cookie that admits the next.
fn entry(door: &Door, request: &Request) -> Result<(), Box<Response>> {
    let refused = |status: StatusCode, sentence: &dyn std::fmt::Display| {
        Err(Box::new((status, format!("{sentence}\n")).into_response()))
    };
    let Some(token) = &door.access.token else {
        let checked = guard::check_request(request, door.bound);
        return checked.or_else(|stranger| refused(StatusCode::FORBIDDEN, &stranger));
    };
    match door.access.check(token, request.headers(), request.uri(), door.bound) {
        Entry::Admitted => Ok(()),
        Entry::Keep(cookie) => {
            let headers = [(header::SET_COOKIE, cookie), (header::LOCATION, "/".to_owned())];
            Err(Box::new((StatusCode::SEE_OTHER, headers).into_response()))
        }
        Entry::Missing => {
            let sentence =
                "this page has a token: open it as /?token=TOKEN once, with the token that it was started with";
            refused(StatusCode::UNAUTHORIZED, &sentence)
        }
        Entry::Stranger => refused(StatusCode::FORBIDDEN, &guard::Stranger::Origin),
    }
}

async fn file(request: Request) -> Response {
    let path = request.uri().path().trim_start_matches('/');
    let path = if path.is_empty() { "index.html" } else { path };
    let Some(file) = Page::get(path) else {
        return (StatusCode::NOT_FOUND, "there is no such page\n").into_response();
    };
    let kind = match path.rsplit_once('.').map(|(_, end)| end) {
        Some("html") => "text/html; charset=utf-8",
        Some("js" | "mjs") => "text/javascript; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("svg") => "image/svg+xml",
        Some("txt") => "text/plain; charset=utf-8",
        _ => "application/octet-stream",
    };
    // The names of assets change with their content.
    let keep = if !path.starts_with("assets/") { "no-cache" } else { "max-age=31536000, immutable" };
    ([(header::CONTENT_TYPE, kind), (header::CACHE_CONTROL, keep)], file.data).into_response()
}

/// The whole picture as the first event, and then each change.
async fn events(State(feed): State<Feed>) -> impl IntoResponse {
    Sse::new(changes(feed)).keep_alive(KeepAlive::new().interval(KEEP_ALIVE))
}

fn event(name: &str, content: &impl Serialize) -> Event {
    // Rows are JSON already.
    let data = serde_json::to_string(content).unwrap_or_default();
    Event::default().event(name).retry(RETRY).data(data)
}

fn changes(feed: Feed) -> impl Stream<Item = Result<Event, std::convert::Infallible>> {
    type Receiver = broadcast::Receiver<Arc<Change>>;
    futures_util::stream::unfold((feed, None::<Receiver>), async |(feed, receiver)| {
        if let Some(mut receiver) = receiver {
            match receiver.recv().await {
                Ok(change) => return Some((Ok(event("change", &*change)), (feed, Some(receiver)))),
                Err(RecvError::Closed) => return None,
                // A slow browser begins anew.
                Err(RecvError::Lagged(_)) => {}
            }
        }
        let (picture, receiver) = feed.subscribe();
        // Thousands of rows keep a thread busy for a while, and videos go on meanwhile.
        let whole = tokio::task::spawn_blocking(move || event("picture", &picture)).await.ok()?;
        Some((Ok(whole), (feed, Some(receiver))))
    })
}

async fn history(State(feed): State<Feed>) -> Response {
    let history = feed.picture().history();
    // Megabytes keep a thread busy for a while.
    let text = tokio::task::spawn_blocking(move || serde_json::to_string(&history).unwrap_or_default());
    let text = text.await.unwrap_or_default();
    ([(header::CONTENT_TYPE, "application/json")], text).into_response()
}

async fn settings(State(served): State<Served>) -> Response {
    axum::Json(serde_json::json!({ "tiles": served.parts.tiles.is_some(), "through": served.parts.through.is_some() }))
        .into_response()
}

async fn settings_of_run() -> Response {
    axum::Json(serde_json::json!({ "tiles": false })).into_response()
}

async fn map_tiles(State(served): State<Served>, headers: HeaderMap) -> Response {
    match served.parts.tiles {
        Some(tiles) => tiles.part(&headers).await,
        None => (StatusCode::NOT_FOUND, "no tiles were given with --tiles\n").into_response(),
    }
}

/// A search by the daemon, with the query of `POST /v1/lookup`.
async fn lookup(State(served): State<Served>, pairs: QueryPairs) -> Response {
    let query = match LookupQuery::from_parts(&pairs, "") {
        Ok(query) => LookupQuery { names: true, ..query },
        Err(error) => return (StatusCode::BAD_REQUEST, error.to_string()).into_response(),
    };
    let Ok(found) = tokio::time::timeout(served.patience, served.client.lookup(&query)).await else {
        return (StatusCode::GATEWAY_TIMEOUT, "the daemon has not answered in time: search again later")
            .into_response();
    };
    match found {
        Ok(found) => {
            let is_found = !found.candidates.is_empty();
            served.feed.own_services.add(is_found.then_some(query.service));
            axum::Json(found).into_response()
        }
        Err(ClientError::Api(error)) => (StatusCode::BAD_REQUEST, error.message).into_response(),
        Err(error) => (StatusCode::BAD_GATEWAY, error.to_string()).into_response(),
    }
}

async fn trace(State(served): State<Served>, pairs: QueryPairs) -> Response {
    served.tracer.answer(pairs).await
}

#[cfg(test)]
mod hostile;
