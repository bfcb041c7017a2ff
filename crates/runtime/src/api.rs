//! The endpoints that every daemon has, on its Unix socket and, for those that change nothing, over HTTP.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State as Extract};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use roost_api::query::Params;
use roost_api::server::{ApiError, QueryPairs, json_response, with_fallback};
use roost_api::{Code, Connections, DocumentRow, DocumentTaken, Documents, LogLevel, SCHEMA, Status, openapi};
use roost_core::DocumentVerdict;
use roost_policy::Policy;
use roost_wire::Labels;
use roost_wire::messages::{DocumentKind, MAX_DOCUMENT_BYTES};

use crate::config::Settings;
use crate::driver::DriverStopped;
use crate::failure::Failure;
use crate::metrics::TEXT_FORMAT;
use crate::shared::DaemonContext;

/// The part of the local API that differs between daemons.
pub trait DaemonService: Clone + Send + Sync + 'static {
    /// The state that all daemons have.
    fn shared(&self) -> &Arc<DaemonContext>;

    fn status(&self) -> impl Future<Output = Result<Status, DriverStopped>> + Send;

    fn connections(&self) -> impl Future<Output = Result<Connections, DriverStopped>> + Send;

    /// Makes the machine's own loop call `sign`.
    fn check_liveness(&self, sign: fn()) -> impl Future<Output = Result<(), DriverStopped>> + Send + 'static;

    fn update_metrics(&self) -> impl Future<Output = ()> + Send;

    /// The documents of the group that the machine holds.
    fn documents(&self) -> impl Future<Output = Result<Vec<DocumentRow>, DriverStopped>> + Send;

    /// Tells the machine of a document that is in force here.
    fn take_verdict(&self, verdict: DocumentVerdict);

    /// Has the machine apply another policy of the group.
    fn take_policy(&self, policy: Option<Arc<Policy>>);

    /// Tells the machine the labels in this daemon's certificate.
    fn take_labels(&self, labels: Labels);

    fn routes(&self) -> Router;

    /// Applies the reloadable settings: all of them, or none.
    fn reload(&self, settings: &Settings) -> impl Future<Output = Result<(), Failure>> + Send;

    /// Finishes what is under way and takes on nothing more.
    fn drain(&self) -> impl Future<Output = ()> + Send;
}

impl From<DriverStopped> for Unavailable {
    fn from(gone: DriverStopped) -> Self {
        Self(ApiError::new(Code::Leaving, gone.to_string()))
    }
}

/// The answer of a daemon whose machine is no longer driven.
pub struct Unavailable(ApiError);

impl IntoResponse for Unavailable {
    fn into_response(self) -> Response {
        self.0.into_response()
    }
}

/// All endpoints, for the Unix socket.
pub fn local<S: DaemonService>(service: S) -> Router {
    let own = service.routes();
    let common = Router::new()
        .route("/v1/status", get(status::<S>))
        .route("/v1/connections", get(connections::<S>))
        .route("/v1/log", post(log::<S>))
        .route("/v1/audit", get(audit::<S>))
        .route("/v1/openapi.json", get(describe::<S>))
        .route("/v1/documents", get(documents::<S>).put(put_document::<S>))
        .with_state(service.clone());
    with_fallback(own.merge(common).merge(observable(service)))
}

/// The endpoints that only read, for HTTP.
pub fn public<S: DaemonService>(service: S) -> Router {
    with_fallback(observable(service))
}

fn observable<S: DaemonService>(service: S) -> Router {
    Router::new()
        .route("/metrics", get(metrics::<S>))
        .route("/healthz", get(|| async { "alive\n" }))
        .route("/readyz", get(ready::<S>))
        .route("/status", get(status::<S>))
        .with_state(service)
}

async fn status<S: DaemonService>(Extract(service): Extract<S>) -> Result<Response, Unavailable> {
    Ok(json_response(&service.status().await?))
}

async fn describe<S: DaemonService>(Extract(service): Extract<S>) -> Response {
    json_response(&openapi::document(service.shared().role()))
}

async fn connections<S: DaemonService>(Extract(service): Extract<S>) -> Result<Response, Unavailable> {
    Ok(json_response(&service.connections().await?))
}

async fn log<S: DaemonService>(Extract(service): Extract<S>, pairs: QueryPairs) -> Result<Response, ApiError> {
    let level: String = Params::new(&pairs, &["level"])?.required("level")?;
    service.shared().level.set(&level).map_err(|reason| ApiError::new(Code::Usage, reason))?;
    tracing::info!(%level, "the log level was changed through the control socket");
    Ok(json_response(&LogLevel { schema: SCHEMA, level }))
}

/// The most audit records in an answer, and the number of them unless the query says otherwise.
const MAX_AUDIT: usize = 500;
const DEFAULT_AUDIT: usize = 50;

async fn audit<S: DaemonService>(Extract(service): Extract<S>, pairs: QueryPairs) -> Result<Response, ApiError> {
    let limit = Params::new(&pairs, &["limit"])?.parsed::<usize>("limit")?.unwrap_or(DEFAULT_AUDIT).min(MAX_AUDIT);
    let read = service.shared().newest_audit(limit).await;
    let read = read.map_err(|error| ApiError::new(Code::Refused, format!("cannot read the audit records: {error}")))?;
    Ok(json_response(&read))
}

async fn documents<S: DaemonService>(Extract(service): Extract<S>) -> Result<Response, Unavailable> {
    let mut documents = service.documents().await?;
    service.shared().add_revocations(&mut documents).await;
    Ok(json_response(&Documents { schema: SCHEMA, documents }))
}

/// Takes a signed document from the operator, and spreads it.
/// The longest document in PEM form: 65 characters for each 48 bytes, and the lines around them.
const MAX_PEM: usize = MAX_DOCUMENT_BYTES.div_ceil(48) * 65 + 64;

async fn put_document<S: DaemonService>(
    Extract(service): Extract<S>,
    pairs: QueryPairs,
    request: Request,
) -> Result<Response, ApiError> {
    let kind: String = Params::new(&pairs, &["kind"])?.required("kind")?;
    let Some(named) = DocumentKind::named(&kind) else {
        let what = format!("this daemon knows no document {kind:?}: expected revocations, policy or trust");
        return Err(ApiError::new(Code::Usage, what));
    };
    let body = axum::body::to_bytes(request.into_body(), MAX_PEM).await;
    let body = body.map_err(|error| ApiError::new(Code::Usage, format!("the document cannot be read: {error}")))?;
    let shared = service.shared();
    let taken = shared.take_document(named, body).await;
    let taken = taken.map_err(|error| ApiError::new(Code::Refused, error.to_string()))?;
    shared.documents.verdicts().into_iter().for_each(|verdict| service.take_verdict(verdict));
    if shared.apply_document(&taken).await {
        service.take_policy(shared.documents.rules());
    }
    Ok(json_response(&DocumentTaken { schema: SCHEMA, kind, number: taken.number, is_new: taken.is_new }))
}

async fn ready<S: DaemonService>(Extract(service): Extract<S>) -> Response {
    let shared = service.shared();
    let code = if shared.is_ready() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (code, format!("{:?}\n", shared.state()).to_lowercase()).into_response()
}

async fn metrics<S: DaemonService>(Extract(service): Extract<S>) -> Response {
    service.shared().update_metrics();
    service.update_metrics().await;
    match service.shared().metrics.text() {
        Ok(text) => ([(header::CONTENT_TYPE, TEXT_FORMAT)], text).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}
