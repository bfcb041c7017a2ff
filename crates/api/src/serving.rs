//! HTTP for callers, each of which may hold few resources, and none for ever.

use std::collections::BTreeMap;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use axum::serve::Listener;
use axum::{Extension, Router};
use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper::{Request, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::AbortHandle;
use tokio::time::{Instant, Sleep, sleep, timeout};

use crate::error::Code;
use crate::server::{ApiError, json_line};

/// The most that the callers of a listener may hold.
#[derive(Clone, Copy, Debug)]
pub struct CallerLimits {
    pub connections: usize,
    /// The longest body of a request, bytes.
    pub body: usize,
    /// The longest body with a document of the group, bytes.
    pub document: usize,
}

impl CallerLimits {
    /// For the control socket: a connection for each request that a machine has under way, and as many again for other
    /// calls. A document of 4 MiB in PEM form is a third longer.
    pub const LOCAL: Self = Self { connections: 512, body: 2 << 20, document: 6 << 20 };

    /// For the port of the metrics, which strangers may reach. None of its routes reads a body.
    pub const PUBLIC: Self = Self { connections: 64, body: 0, document: 0 };
}

/// Longest time that a caller may take to send a request, or the next one.
const IDLE: Duration = Duration::from_secs(30);

/// Longest time that an answer may lie unread before its connection breaks.
const UNREAD: Duration = Duration::from_secs(60);

const DOCUMENTS: &str = "/v1/documents";

/// The endpoint that reads its body by itself, as fast as the data is sent on.
const OFFER_DATA: &str = "/v1/offer/data";

/// Longest time that the refusal of a caller takes, and most refusals at once; further callers are cut off.
const REFUSAL: Duration = Duration::from_secs(1);
const REFUSALS: usize = 16;

/// Answers with `router` until `stop` is done, then finishes what is under way. One caller more than
/// `limits` allow takes the place of the one that has been silent for longest, before its first request or
/// since its last answer; if all are being answered, the newcomer is refused. Each request has the address that the
/// listener gives as an extension.
pub async fn serve<L>(mut listener: L, router: Router, limits: CallerLimits, stop: impl Future<Output = ()>)
where
    L: Listener<Addr: Clone + Sync + 'static>,
{
    let slots = Arc::new(Semaphore::new(limits.connections));
    let refusals = Arc::new(Semaphore::new(REFUSALS));
    let callers = Arc::<Callers>::default();
    let (ending, ended) = watch::channel(false);
    tokio::pin!(stop);
    for number in 0.. {
        let (stream, address) = tokio::select! {
            accepted = listener.accept() => accepted,
            () = stop.as_mut() => break,
        };
        let Some(slot) = callers.find_slot(&slots).await else {
            if let Ok(slot) = Arc::clone(&refusals).try_acquire_owned() {
                tokio::spawn(timeout(REFUSAL, refuse(stream, slot)));
            }
            continue;
        };
        let router = router.clone().layer(Extension(address));
        let caller = Caller { number, callers: Arc::clone(&callers), router, limits, _slot: slot };
        callers.enter(number, caller.serve(stream, ended.clone()));
    }
    drop(listener);
    ending.send_replace(true);
    // At most that many permits were given out.
    let _ = slots.acquire_many(u32::try_from(limits.connections).unwrap_or(u32::MAX)).await;
}

/// All callers, by number; at most as many as there are slots.
#[derive(Default)]
struct Callers(Mutex<Table>);

#[derive(Default)]
struct Table {
    /// Counts the times at which callers fell silent.
    turns: u64,
    all: BTreeMap<u64, CallerState>,
}

struct CallerState {
    /// The turn in which the caller fell silent; `None` while it is answered.
    silent: Option<u64>,
    /// The task that serves the caller; `None` until it has begun.
    serving: Option<AbortHandle>,
}

impl Callers {
    fn lock(&self) -> MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Serves a caller, which is silent so far.
    fn enter(&self, number: u64, serving: impl Future<Output = ()> + Send + 'static) {
        self.lock().all.insert(number, CallerState { silent: None, serving: None });
        self.falls_silent(number);
        let serving = tokio::spawn(serving).abort_handle();
        if let Some(known) = self.lock().all.get_mut(&number) {
            known.serving = Some(serving);
        }
    }

    fn falls_silent(&self, number: u64) {
        let mut table = self.lock();
        table.turns += 1;
        let turn = table.turns;
        if let Some(known) = table.all.get_mut(&number) {
            known.silent = Some(turn);
        }
    }

    /// Marks a caller as not silent until the answer's body is dropped.
    fn asks(self: &Arc<Self>, number: u64) -> Answering {
        if let Some(known) = self.lock().all.get_mut(&number) {
            known.silent = None;
        }
        Answering { number, callers: Arc::clone(self) }
    }

    fn leave(&self, number: u64) {
        self.lock().all.remove(&number);
    }

    /// Takes a free slot, or the slot of the caller that has been silent for longest.
    async fn find_slot(&self, slots: &Arc<Semaphore>) -> Option<OwnedSemaphorePermit> {
        if let Ok(slot) = Arc::clone(slots).try_acquire_owned() {
            return Some(slot);
        }
        self.displace()?.abort();
        Arc::clone(slots).acquire_owned().await.ok()
    }

    fn displace(&self) -> Option<AbortHandle> {
        let mut table = self.lock();
        let silent = table.all.iter().filter_map(|(number, known)| Some((known.silent?, *number)));
        let (_, oldest) = silent.min()?;
        table.all.remove(&oldest)?.serving
    }
}

/// A request under way. Its caller falls silent when this is dropped.
struct Answering {
    number: u64,
    callers: Arc<Callers>,
}

impl Drop for Answering {
    fn drop(&mut self) {
        self.callers.falls_silent(self.number);
    }
}

/// Tells a caller that there is no room.
async fn refuse(mut stream: impl AsyncRead + AsyncWrite + Unpin, _slot: OwnedSemaphorePermit) -> io::Result<()> {
    let body = json_line(&ApiError::new(Code::Busy, "too many are connected to this daemon: try again later").body());
    let head = "HTTP/1.1 503 Service Unavailable\r\nconnection: close\r\ncontent-type: application/json";
    let answer = format!("{head}\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    stream.write_all(answer.as_bytes()).await?;
    stream.shutdown().await?;
    // A close with a request unread would take the answer back.
    while stream.read(&mut [0; 1024]).await? > 0 {}
    Ok(())
}

struct Caller {
    number: u64,
    callers: Arc<Callers>,
    router: Router,
    limits: CallerLimits,
    _slot: OwnedSemaphorePermit,
}

impl Caller {
    async fn serve<S>(self, stream: S, mut ended: watch::Receiver<bool>)
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let service = service_fn(|request| {
            let answering = self.callers.asks(self.number);
            answer(self.router.clone(), self.limits, request, answering)
        });
        let mut builder = http1::Builder::new();
        builder.timer(TokioTimer::new()).header_read_timeout(IDLE);
        let connection = builder.serve_connection(TokioIo::new(WriteTimeout::new(stream)), service);
        let told = async move { ended.wait_for(|ended| *ended).await.is_ok() };
        tokio::pin!(connection);
        let outcome = tokio::select! {
            outcome = connection.as_mut() => outcome,
            _ = told => {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
        };
        if let Err(error) = outcome {
            tracing::debug!(%error, "a caller of the local API has gone");
        }
    }
}

impl Drop for Caller {
    fn drop(&mut self) {
        self.callers.leave(self.number);
    }
}

/// Answers a request after its whole body has arrived, or at once where the body is the data of a program's offer.
async fn answer(
    router: Router,
    limits: CallerLimits,
    request: Request<Incoming>,
    answering: Answering,
) -> Result<Response, std::convert::Infallible> {
    let (parts, body) = request.into_parts();
    if parts.uri.path() == OFFER_DATA {
        let request = Request::from_parts(parts, Body::new(body));
        let response = TowerToHyperService::new(router).call(request).await?;
        drop(answering);
        return Ok(response);
    }
    let limit = if parts.uri.path() == DOCUMENTS { limits.document } else { limits.body };
    let body = match timeout(IDLE, Limited::new(body, limit).collect()).await {
        Ok(Ok(body)) => body.to_bytes(),
        Ok(Err(_)) => return Ok(StatusCode::PAYLOAD_TOO_LARGE.into_response()),
        Err(_) => return Ok(StatusCode::REQUEST_TIMEOUT.into_response()),
    };
    let request = Request::from_parts(parts, Full::<Bytes>::new(body));
    let response = TowerToHyperService::new(router).call(request).await?;
    let until_sent = |body: Body| {
        // The closure keeps `answering` alive as long as the body.
        let kept = move |error| {
            let _ = &answering;
            error
        };
        Body::new(body.map_err(kept))
    };
    Ok(response.map(until_sent))
}

/// A stream that breaks if the remote does not read for [`UNREAD`].
struct WriteTimeout<S> {
    stream: S,
    /// The time at which the pending write fails; `None` if no write is pending.
    until: Option<Pin<Box<Sleep>>>,
}

impl<S> WriteTimeout<S> {
    const fn new(stream: S) -> Self {
        Self { stream, until: None }
    }

    /// Limits the time of a pending write.
    fn watch<T>(&mut self, cx: &mut Context<'_>, written: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.until = None;
            return written;
        }
        let until = self.until.get_or_insert_with(|| Box::pin(sleep(UNREAD)));
        ready!(until.as_mut().poll(cx));
        until.as_mut().reset(Instant::now() + UNREAD);
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "nobody reads the answer")))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for WriteTimeout<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, into)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for WriteTimeout<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.watch(cx, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, pieces);
        self.watch(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(cx);
        self.watch(cx, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let closed = Pin::new(&mut self.stream).poll_shutdown(cx);
        self.watch(cx, closed)
    }
}
