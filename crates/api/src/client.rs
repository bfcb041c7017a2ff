//! A client of a daemon's local API.

mod answers;
mod offer_data;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::{Body, Incoming};
use hyper::client::conn::http1;
use hyper::{Method, Request, Response, header};
use hyper_util::rt::TokioIo;
use roost_wire::messages::ServiceRequest;
use roost_wire::{Cell, DeliveryId, NodeSelector, Offer};
use serde::de::DeserializeOwned;
use tokio::net::UnixStream;
use tokio::sync::{mpsc, oneshot};

use self::answers::Lines;
pub use self::answers::{
    OfferStream, RequestFeed, RequestStream, RoomStream, STREAM_PAUSES, SendStream, TraceOutcome, WatchStream,
};
use self::offer_data::OfferBody;
pub use self::offer_data::OfferData;
use crate::error::{Code, Error, ErrorBody};
use crate::frame::FrameError;
use crate::query::{LookupQuery, PlaceQuery, PlacedRequest, RoomQuery, SendQuery, WatchQuery, escaped};
use crate::types::{
    AuditRows, Connections, DocumentTaken, Documents, Given, Index, LogLevel, Lookup, Moved, Outbox, Ping, Rooms,
    Services, Status, Streams,
};
use crate::{FRAMES, SCHEMA};

const MAX_JSON_BYTES: usize = 64 << 20;

/// The most that stands before the body of a call, bytes: a daemon reads no longer line.
const MAX_TARGET_BYTES: usize = 60 << 10;

const JSON: &str = "application/json";

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    #[error("no daemon answers on {}: {source}", .socket.display())]
    Unreachable { socket: PathBuf, source: io::Error },
    /// The daemon went away in the middle of an answer.
    #[error("the daemon broke off its answer: {0}")]
    Broken(#[from] hyper::Error),
    #[error(transparent)]
    Api(#[from] Error),
    /// The answer does not have this crate's [`SCHEMA`].
    #[error("the daemon's answer is not understood: {0}")]
    Malformed(String),
}

impl ClientError {
    /// The exit code of the command line.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Unreachable { .. } | Self::Broken(_) => 3,
            Self::Api(error) => error.code.exit_code(),
            Self::Malformed(_) => 1,
        }
    }
}

impl From<FrameError> for ClientError {
    fn from(error: FrameError) -> Self {
        Self::Malformed(error.to_string())
    }
}

/// A client of one daemon. Every call takes a connection of its own, so calls may run side by side. Clones are cheap.
/// Every call fails with a [`ClientError`].
#[derive(Clone, Debug)]
pub struct Client {
    socket: PathBuf,
    /// The connection that showed that the daemon is there, until the first call takes it.
    first: Arc<Mutex<Option<UnixStream>>>,
}

impl Client {
    /// Connects to the daemon at `socket`.
    ///
    /// # Errors
    /// [`ClientError::Unreachable`] when nobody listens there.
    pub async fn connect(socket: impl Into<PathBuf>) -> Result<Self, ClientError> {
        let client = Self { socket: socket.into(), first: Arc::default() };
        let stream = client.open().await?;
        *client.first.lock().unwrap_or_else(PoisonError::into_inner) = Some(stream);
        Ok(client)
    }

    pub fn socket(&self) -> &Path {
        &self.socket
    }

    pub async fn status(&self) -> Result<Status, ClientError> {
        self.json(Method::GET, "/v1/status").await
    }

    pub async fn connections(&self) -> Result<Connections, ClientError> {
        self.json(Method::GET, "/v1/connections").await
    }

    /// Names the reflected streams that begin, end, or are sent on at the daemon.
    pub async fn streams(&self) -> Result<Streams, ClientError> {
        self.json(Method::GET, "/v1/streams").await
    }

    /// Names the rooms that a node is in, or of which a hub has heard, with their members.
    pub async fn rooms(&self) -> Result<Rooms, ClientError> {
        self.json(Method::GET, "/v1/rooms").await
    }

    /// Returns at most `limit` audit records of the daemon, the newest first.
    pub async fn audit(&self, limit: u32) -> Result<AuditRows, ClientError> {
        self.json(Method::GET, &format!("/v1/audit?limit={limit}")).await
    }

    /// Names the services that a node offers, or that a hub knows.
    pub async fn services(&self) -> Result<Services, ClientError> {
        self.json(Method::GET, "/v1/services").await
    }

    /// Names at most `limit` nodes of a hub's own directory, those whose ids come after `after`. Makes as many calls as
    /// that takes.
    pub async fn index(&self, limit: u32, after: Option<NodeSelector>) -> Result<Index, ClientError> {
        let mut index = self.index_page(limit, after).await?;
        let mut page = index.nodes.len();
        while let Some(last) = index.nodes.last().filter(|_| page > 0 && index.nodes.len() < limit as usize) {
            let more = self.index_page(limit - index.nodes.len() as u32, Some(last.node.into())).await?;
            page = more.nodes.len();
            index.nodes.extend(more.nodes);
        }
        Ok(index)
    }

    async fn index_page(&self, limit: u32, after: Option<NodeSelector>) -> Result<Index, ClientError> {
        let after = after.map(|node| format!("&after={}", escaped(node.as_str()))).unwrap_or_default();
        self.json(Method::GET, &format!("/v1/index?limit={limit}{after}")).await
    }

    /// Names the nodes that offer a service in an area.
    pub async fn lookup(&self, query: &LookupQuery) -> Result<Lookup, ClientError> {
        let polygons = body_of(query.place.as_ref());
        let response = self.send_body(Method::POST, &format!("/v1/lookup?{}", query.to_text()), JSON, polygons).await?;
        read_json(&collect(response).await?)
    }

    /// Requests a service and returns its events and data as they come. Dropping the stream cancels the request.
    ///
    /// # Errors
    /// A [`ClientError`]. An error after the start is an event of the stream.
    pub async fn request(&self, request: &ServiceRequest) -> Result<RequestStream, ClientError> {
        self.request_at(&PlacedRequest { request: request.clone(), place: None }).await
    }

    /// Like [`Self::request`], in an area that may be said in words of people.
    ///
    /// # Errors
    /// As there.
    pub async fn request_at(&self, placed: &PlacedRequest) -> Result<RequestStream, ClientError> {
        let body = placed.to_json().map_err(|error| ClientError::Malformed(error.to_string()))?;
        let response = self.send_body(Method::POST, "/v1/request", FRAMES, Full::new(body.into())).await?;
        Ok(RequestStream::new(response))
    }

    /// Calls a service with a body of at most 64 KiB. The answer comes as that of [`Self::request`].
    pub async fn call(&self, request: &ServiceRequest, body: Bytes) -> Result<RequestStream, ClientError> {
        self.call_at(&PlacedRequest { request: request.clone(), place: None }, body).await
    }

    /// As [`Self::call`], with an area in words of people.
    pub async fn call_at(&self, placed: &PlacedRequest, body: Bytes) -> Result<RequestStream, ClientError> {
        let request = placed.to_json().map_err(|error| ClientError::Malformed(error.to_string()))?;
        let target = format!("/v1/call?request={}", escaped(&String::from_utf8_lossy(&request)));
        if target.len() > MAX_TARGET_BYTES {
            return Err(Error::new(Code::Usage, "the area of a call is too long: give a simpler polygon").into());
        }
        let response = self.send_body(Method::POST, &target, FRAMES, Full::new(body)).await?;
        Ok(RequestStream::new(response))
    }

    /// Reports the changes in an area as they happen. The first event has the nodes that are there at the start.
    pub async fn watch(&self, query: &WatchQuery) -> Result<WatchStream, ClientError> {
        let target = format!("/v1/watch?{}", query.to_text());
        let place = query.place.as_ref();
        let method = if place.is_none_or(|place| place.body().is_empty()) { Method::GET } else { Method::POST };
        let response = self.send_body(method, &target, crate::JSON_LINES, body_of(place)).await?;
        Ok(WatchStream(Lines::new(response)))
    }

    /// Reports the node's requests as they begin and end; the first lines are those under way.
    pub async fn requests(&self) -> Result<RequestFeed, ClientError> {
        let response = self.send(Method::GET, "/v1/requests", crate::JSON_LINES).await?;
        Ok(RequestFeed(Lines::new(response)))
    }

    /// Enters a room and reports its other members, again with every change. Dropping the stream leaves the room.
    pub async fn room(&self, query: &RoomQuery) -> Result<RoomStream, ClientError> {
        let target = format!("/v1/room?{}", query.to_text());
        let response = self.send(Method::GET, &target, crate::JSON_LINES).await?;
        Ok(RoomStream(Lines::new(response)))
    }

    /// Offers a file to a node. The stream's events name the chunks to send with [`Self::send_chunk`]. Dropping the
    /// stream ends the transfer.
    ///
    /// # Errors
    /// A [`ClientError`]. An error after the start is an event of the stream.
    pub async fn send_file(&self, query: &SendQuery) -> Result<SendStream, ClientError> {
        let target = format!("/v1/send?{}", query.to_text());
        let response = self.send(Method::POST, &target, crate::JSON_LINES).await?;
        Ok(SendStream(Lines::new(response)))
    }

    /// Sends the chunk of a file that [`SendEvent::Read`] asks for.
    pub async fn send_chunk(&self, session: u64, offset: u64, bytes: Bytes) -> Result<(), ClientError> {
        let target = format!("/v1/chunk?session={session}&offset={offset}");
        collect(self.send_body(Method::POST, &target, "application/json", Full::new(bytes)).await?).await.map(drop)
    }

    /// Offers a service. The stream's events name the requests; dropping the stream withdraws the offer.
    pub async fn offer(&self, offer: &Offer) -> Result<OfferStream, ClientError> {
        let body = serde_json::to_vec(offer).map_err(|error| ClientError::Malformed(error.to_string()))?;
        let response = self.send_body(Method::POST, "/v1/offer", crate::JSON_LINES, Full::new(body.into())).await?;
        Ok(OfferStream(Lines::new(response)))
    }

    /// Gives the data of a request for an offer: the bytes of an object, or a [`Frame`](crate::Frame) for each
    /// datagram. Without an [`OfferData::End`] the transfer breaks off.
    pub async fn give(
        &self,
        request: u64,
        format: &str,
        data: mpsc::Receiver<OfferData>,
    ) -> Result<Given, ClientError> {
        let target = format!("/v1/offer/data?request={request}&format={}", escaped(format));
        let (enough, ended) = oneshot::channel();
        let body = OfferBody { data, ended: Some(ended) };
        let response = match self.send_body(Method::POST, &target, "application/json", body).await {
            Err(error @ ClientError::Broken(_)) => {
                // Data that breaks off at once keeps even the head from the daemon, which would wait. A daemon that has
                // the head refuses this.
                let _ = self.decline(request, "").await;
                return Err(error);
            }
            answered => answered?,
        };
        // The daemon ends its answer when it has the end of the body; nobody waits if that has come.
        let _ = enough.send(());
        let answer = collect(response).await?;
        check_schema(&answer)?;
        serde_json::from_slice(&answer).map_err(|error| ClientError::Malformed(error.to_string()))
    }

    pub async fn offer_body(&self, request: u64) -> Result<Bytes, ClientError> {
        let target = format!("/v1/offer/body?request={request}");
        collect(self.send(Method::GET, &target, "application/octet-stream").await?).await
    }

    pub async fn decline(&self, request: u64, reason: &str) -> Result<(), ClientError> {
        let target = format!("/v1/offer/decline?request={request}&reason={}", escaped(reason));
        collect(self.send(Method::POST, &target, "application/json").await?).await.map(drop)
    }

    pub async fn outbox(&self) -> Result<Outbox, ClientError> {
        self.json(Method::GET, "/v1/outbox").await
    }

    /// Takes a file out of the outbox. The receiver may have it nevertheless, if it is being sent.
    pub async fn cancel_outbox(&self, id: DeliveryId) -> Result<(), ClientError> {
        let target = format!("/v1/outbox/cancel?id={id}");
        collect(self.send(Method::POST, &target, "application/json").await?).await.map(drop)
    }

    /// Ends a stream that super nodes reflect, by [`Accepted::request`](crate::Accepted). Its summary follows.
    pub async fn end_request(&self, request: u64) -> Result<(), ClientError> {
        let target = format!("/v1/end?request={request}");
        collect(self.send(Method::POST, &target, "application/json").await?).await.map(drop)
    }

    /// Measures the round trip to a node, or to the hub if there is no `node`.
    pub async fn ping(&self, node: Option<NodeSelector>) -> Result<Ping, ClientError> {
        let query = node.map(|node| format!("?node={}", escaped(node.as_str()))).unwrap_or_default();
        self.json(Method::POST, &format!("/v1/ping{query}")).await
    }

    pub async fn move_to(&self, cell: Cell) -> Result<Moved, ClientError> {
        self.move_to_place(&cell.to_string()).await
    }

    /// Moves the node to a place in any notation.
    pub async fn move_to_place(&self, place: &str) -> Result<Moved, ClientError> {
        self.json(Method::POST, &format!("/v1/move?at={}", escaped(place))).await
    }

    /// Names the documents of the group that the daemon holds, and who holds older ones.
    pub async fn documents(&self) -> Result<Documents, ClientError> {
        self.json(Method::GET, "/v1/documents").await
    }

    /// Hands a signed document to the daemon, which verifies it and spreads it in the group.
    pub async fn put_document(&self, kind: &str, bytes: Bytes) -> Result<DocumentTaken, ClientError> {
        let target = format!("/v1/documents?kind={}", escaped(kind));
        let body = collect(self.send_body(Method::PUT, &target, "application/json", Full::new(bytes)).await?).await?;
        check_schema(&body)?;
        serde_json::from_slice(&body).map_err(|error| ClientError::Malformed(error.to_string()))
    }

    /// Changes the level of the daemon's log: `error`, `warn`, `info`, `debug`, `trace`.
    pub async fn log_level(&self, level: &str) -> Result<LogLevel, ClientError> {
        self.json(Method::POST, &format!("/v1/log?level={level}")).await
    }

    async fn json<T: DeserializeOwned>(&self, method: Method, target: &str) -> Result<T, ClientError> {
        read_json(&collect(self.send(method, target, JSON).await?).await?)
    }

    async fn send(&self, method: Method, target: &str, accept: &str) -> Result<Response<Incoming>, ClientError> {
        self.send_body(method, target, accept, Full::new(Bytes::new())).await
    }

    async fn send_body(
        &self,
        method: Method,
        target: &str,
        accept: &str,
        body: impl Body<Data = Bytes, Error: std::error::Error + Send + Sync> + Send + Unpin + 'static,
    ) -> Result<Response<Incoming>, ClientError> {
        let stream = match self.take_first() {
            Some(stream) => stream,
            None => self.open().await?,
        };
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        // The connection ends when the answer has been read or dropped.
        tokio::spawn(connection);
        let request = Request::builder()
            .method(method)
            .uri(target)
            .header(header::HOST, "roost")
            .header(header::ACCEPT, accept)
            .body(body)
            .map_err(|error| ClientError::Malformed(error.to_string()))?;
        let response = sender.send_request(request).await?;
        if response.status().is_success() {
            return Ok(response);
        }
        let status = response.status();
        let body = collect(response).await?;
        let error = serde_json::from_slice::<ErrorBody>(&body).map(|body| body.error);
        Err(error.unwrap_or_else(|_| Error::new(Code::Internal, format!("the daemon answered {status}"))).into())
    }

    /// Takes the connection of [`Self::connect`], unless the daemon has closed it since.
    fn take_first(&self) -> Option<UnixStream> {
        let first = self.first.lock().unwrap_or_else(PoisonError::into_inner).take();
        first.filter(|stream| stream.try_read(&mut [0]).is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock))
    }

    async fn open(&self) -> Result<UnixStream, ClientError> {
        let unreachable = |source| ClientError::Unreachable { socket: self.socket.clone(), source };
        UnixStream::connect(&self.socket).await.map_err(unreachable)
    }
}

fn read_json<T: DeserializeOwned>(body: &[u8]) -> Result<T, ClientError> {
    check_schema(body)?;
    serde_json::from_slice(body).map_err(|error| ClientError::Malformed(error.to_string()))
}

fn body_of(place: Option<&PlaceQuery>) -> Full<Bytes> {
    Full::new(place.map_or("", PlaceQuery::body).to_owned().into())
}

async fn collect(response: Response<Incoming>) -> Result<Bytes, ClientError> {
    let limited = http_body_util::Limited::new(response.into_body(), MAX_JSON_BYTES);
    let collected = limited.collect().await.map_err(|error| ClientError::Malformed(error.to_string()))?;
    Ok(collected.to_bytes())
}

fn check_schema(body: &[u8]) -> Result<(), ClientError> {
    #[derive(serde::Deserialize)]
    struct Schema {
        schema: u32,
    }
    match serde_json::from_slice(body) {
        Ok(Schema { schema: SCHEMA }) => Ok(()),
        Ok(Schema { schema }) => Err(ClientError::Malformed(format!("it is of schema {schema}, not {SCHEMA}"))),
        Err(error) => Err(ClientError::Malformed(error.to_string())),
    }
}
