//! The routes of one connection: reads bodies, waits, and writes replies.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use axum::Router;
use axum::body::Body;
use axum::extract::{Path, Query, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use roost_identity::group::Joined;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::time::{sleep, timeout};

use crate::desk::{Desk, Now, Refused, refused};
use crate::jobs::Jobs;
use crate::messages::{DocumentsBody, ErrorBody, Holdings, JoinBody, MAX_BODY, RenewBody, WaitingBody};

/// Longest time for the body of a request.
const BODY: Duration = Duration::from_secs(10);

/// Time for which a request for a ticket or for documents waits.
const WAIT: Duration = Duration::from_secs(55);

/// The pause between two looks at the group's folder, which other processes change.
const LOOK: Duration = Duration::from_secs(1);

/// A connection, as its requests see it.
#[derive(Clone)]
pub(crate) struct Caller {
    pub(crate) desk: Arc<Desk>,
    pub(crate) jobs: Jobs,
    pub(crate) clock: fn() -> SystemTime,
    pub(crate) from: IpAddr,
    /// The certificate that the handshake has verified, DER.
    pub(crate) member: Option<Arc<[u8]>>,
}

impl Caller {
    pub(crate) fn routes(self) -> Router {
        Router::new()
            .route("/v1/join", post(join))
            .route("/v1/join/{ticket}", get(wait))
            .route("/v1/renew", post(renew))
            .route("/v1/documents", get(documents))
            .fallback(|| async { refused(404, "not-found", "an authority does not serve this") })
            .method_not_allowed_fallback(|| async { refused(405, "not-found", "an authority does not serve this") })
            .with_state(self)
    }

    fn now(&self) -> Now {
        Now { calendar: (self.clock)(), steady: Instant::now() }
    }

    /// Lets the desk decide on a thread that may block.
    async fn ask<T: Send + 'static>(
        &self,
        action: impl FnOnce(&Desk, &Self) -> Result<T, Refused> + Send + 'static,
    ) -> Result<T, Refused> {
        let caller = self.clone();
        let asked = self.jobs.run(move || action(&caller.desk, &caller)).await;
        asked.unwrap_or_else(|| Err(refused(500, "internal", "the authority failed")))
    }

    /// Asks again and again until there is something, or [`WAIT`] is over.
    async fn wait_for<T: Send + 'static>(
        &self,
        action: impl Fn(&Desk, &Self) -> Result<Option<T>, Refused> + Clone + Send + 'static,
    ) -> Result<Option<T>, Refused> {
        let began = tokio::time::Instant::now();
        loop {
            let found = self.ask(action.clone()).await?;
            if found.is_some() || began.elapsed() >= WAIT {
                return Ok(found);
            }
            sleep(LOOK).await;
        }
    }
}

async fn join(State(caller): State<Caller>, body: Body) -> Result<Response, Refused> {
    let body: JoinBody = read(body).await?;
    let joined = caller.ask(move |desk, caller| desk.join(caller.from, &body, caller.now())).await?;
    Ok(match joined {
        Joined::Issued(answer) => json(StatusCode::OK, &answer),
        Joined::Waiting { ticket } => json(StatusCode::ACCEPTED, &WaitingBody { ticket }),
    })
}

async fn wait(State(caller): State<Caller>, Path(ticket): Path<String>) -> Result<Response, Refused> {
    let named = ticket.clone();
    let answer = caller.wait_for(move |desk, caller| desk.ticket(&named, caller.now())).await?;
    Ok(match answer {
        Some(answer) => json(StatusCode::OK, &answer),
        None => json(StatusCode::ACCEPTED, &WaitingBody { ticket }),
    })
}

async fn renew(State(caller): State<Caller>, body: Body) -> Result<Response, Refused> {
    let body: RenewBody = read(body).await?;
    let renewed = caller.ask(move |desk, caller| desk.renew(caller.member.as_deref(), &body, caller.now()));
    Ok(json(StatusCode::OK, &renewed.await?))
}

async fn documents(State(caller): State<Caller>, Query(held): Query<Holdings>) -> Result<Response, Refused> {
    let look = move |desk: &Desk, caller: &Caller| desk.documents(caller.member.as_deref(), held);
    let newer = if held.waits { caller.wait_for(look).await? } else { caller.ask(look).await? };
    Ok(json(StatusCode::OK, &DocumentsBody { documents: newer.unwrap_or_default() }))
}

async fn read<T: DeserializeOwned>(body: Body) -> Result<T, Refused> {
    let read = timeout(BODY, axum::body::to_bytes(body, MAX_BODY)).await;
    let late = |_| refused(408, "timed-out", "the request did not arrive in time");
    let bytes = read.map_err(late)?.map_err(|_| refused(413, "too-large", "the request is longer than 16 KiB"))?;
    serde_json::from_slice(&bytes).map_err(|_| refused(400, "bad-request", "the request is not the expected JSON"))
}

fn json(status: StatusCode, value: &impl Serialize) -> Response {
    let text = serde_json::to_string(value).unwrap_or_default();
    (status, [(header::CONTENT_TYPE, "application/json")], text).into_response()
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        json(status, &ErrorBody { error: self.error, code: self.code.to_owned() })
    }
}
