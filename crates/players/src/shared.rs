//! The streams that are watched here, each by one request to the node.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use bytes::Bytes;
use roost_api::query::MAX_DURATION;
use roost_api::{
    Accepted, Client, ClientError, Code, Error, Frame, PlaceQuery, PlacedRequest, RequestEvent, RequestStream,
};
use roost_wire::messages::{ReflectionPolicy, ServiceRequest};
use roost_wire::{Area, NodeSelector, Service};
use tokio::sync::{Mutex as AsyncMutex, broadcast};

use crate::recent::RecentFrames;

const MAX_STREAMS: usize = 16;

/// Datagrams that wait for a slow viewer; it misses those before.
const BACKLOG: usize = 4096;

/// A service, and the node or the place that it comes from.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Selection {
    pub service: Service,
    pub provider: Option<NodeSelector>,
    /// The place of the provider in any notation; the nearest one is taken.
    pub near: Option<String>,
}

#[derive(Debug, thiserror::Error)]
pub enum WatchError {
    #[error("{MAX_STREAMS} streams are watched here already: close one")]
    TooMany,
    #[error("{0} is no stream")]
    NoStream(String),
    #[error(transparent)]
    Client(#[from] ClientError),
}

/// The streams that are watched here. Clones are cheap, and share them.
#[derive(Clone, Debug)]
pub struct SharedStreams {
    client: Client,
    open: Arc<Mutex<HashMap<Selection, Slot>>>,
}

/// The place of a stream, held by who opens it.
type Slot = Arc<AsyncMutex<Weak<SharedStream>>>;

/// A stream as it comes. Dropping the last reference ends its request.
#[derive(Debug)]
pub struct SharedStream {
    accepted: Accepted,
    state: Mutex<State>,
    parts: broadcast::Sender<Part>,
}

#[derive(Debug)]
struct State {
    recent: RecentFrames,
    first: Option<Bytes>,
    has_ended: bool,
}

#[derive(Clone, Debug)]
enum Part {
    Data(Bytes),
    End,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Datagram {
    pub bytes: Bytes,
    pub age: Age,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Age {
    /// The datagram was there before the viewer, since the last key frame.
    Past,
    Live,
}

#[derive(Debug)]
pub struct Viewer {
    stream: Arc<SharedStream>,
    past: std::vec::IntoIter<Bytes>,
    parts: broadcast::Receiver<Part>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl SharedStreams {
    pub fn new(client: Client) -> Self {
        Self { client, open: Arc::default() }
    }

    /// The stream of this selection: the one that is already watched, or a new request's.
    pub async fn watch(&self, selection: &Selection) -> Result<Arc<SharedStream>, WatchError> {
        let slot = {
            let mut open = locked(&self.open);
            // A stream that nobody watches and nobody opens is forgotten.
            open.retain(|_, slot| {
                Arc::strong_count(slot) > 1 || slot.try_lock().is_ok_and(|stream| stream.strong_count() > 0)
            });
            if !open.contains_key(selection) && open.len() >= MAX_STREAMS {
                return Err(WatchError::TooMany);
            }
            Arc::clone(open.entry(selection.clone()).or_default())
        };
        let mut slot = slot.lock().await;
        if let Some(stream) = slot.upgrade().filter(|stream| !stream.has_ended()) {
            return Ok(stream);
        }
        let stream = self.begin(selection).await?;
        *slot = Arc::downgrade(&stream);
        Ok(stream)
    }

    /// Requests a stream that super nodes reflect, or the provider's own where nobody reflects.
    async fn begin(&self, selection: &Selection) -> Result<Arc<SharedStream>, WatchError> {
        let reflected = self.request(selection, ReflectionPolicy::Always).await;
        let (accepted, events) = match reflected {
            Err(WatchError::Client(ClientError::Api(error))) if may_go_directly(&error) => {
                self.request(selection, ReflectionPolicy::IfBusy).await?
            }
            other => other?,
        };
        let state = State { recent: RecentFrames::for_format(&accepted.format), first: None, has_ended: false };
        let stream =
            Arc::new(SharedStream { accepted, state: Mutex::new(state), parts: broadcast::channel(BACKLOG).0 });
        tokio::spawn(pass_on(events, Arc::downgrade(&stream)));
        Ok(stream)
    }

    async fn request(
        &self,
        selection: &Selection,
        reflect: ReflectionPolicy,
    ) -> Result<(Accepted, RequestStream), WatchError> {
        let request = ServiceRequest {
            provider: selection.provider,
            reflect,
            // A stream that nobody reflects has an end.
            duration: (reflect != ReflectionPolicy::Always).then_some(MAX_DURATION),
            ..ServiceRequest::new(selection.service, Area::Anywhere)
        };
        let place = selection.near.clone().map(PlaceQuery::Near);
        let mut events = self.client.request_at(&PlacedRequest { request, place }).await?;
        loop {
            match events.next().await? {
                Some(Frame::Event(RequestEvent::Accepted(accepted))) if accepted.bytes.is_none() => {
                    return Ok((accepted, events));
                }
                Some(Frame::Event(RequestEvent::Accepted(_))) => {
                    return Err(WatchError::NoStream(selection.service.to_string()));
                }
                Some(Frame::Event(RequestEvent::Failed { error, .. })) => return Err(ClientError::Api(error).into()),
                Some(_) => {}
                None => return Err(ClientError::Malformed("it has ended early".to_owned()).into()),
            }
        }
    }
}

/// True if the stream may come without reflection.
fn may_go_directly(error: &Error) -> bool {
    matches!(error.code, Code::Usage | Code::Refused | Code::Busy)
}

/// Passes the datagrams of a request on, as long as somebody watches.
async fn pass_on(mut events: RequestStream, stream: Weak<SharedStream>) {
    loop {
        // Progress comes each second, so that a stream without data ends, too.
        let next = events.next().await;
        let Some(stream) = stream.upgrade() else { return };
        match next {
            Ok(Some(Frame::Data(datagram))) => stream.add(datagram),
            Ok(Some(Frame::Event(RequestEvent::Finished(_) | RequestEvent::Failed { .. })) | None) | Err(_) => {
                return stream.end();
            }
            Ok(Some(_)) => {}
        }
    }
}

impl SharedStream {
    pub fn format(&self) -> &str {
        &self.accepted.format
    }

    pub(crate) fn first(&self) -> Option<Bytes> {
        locked(&self.state).first.clone()
    }

    pub fn has_ended(&self) -> bool {
        locked(&self.state).has_ended
    }

    /// A viewer that begins with the last key frame.
    pub fn view(self: &Arc<Self>) -> Viewer {
        // No datagram comes in between: the state is held.
        let state = locked(&self.state);
        let (past, parts) = (state.recent.datagrams().to_vec().into_iter(), self.parts.subscribe());
        if state.has_ended {
            // Without viewers nobody listens.
            let _ = self.parts.send(Part::End);
        }
        drop(state);
        Viewer { stream: Arc::clone(self), past, parts }
    }

    fn add(&self, datagram: Bytes) {
        let mut state = locked(&self.state);
        state.first.get_or_insert_with(|| datagram.clone());
        state.recent.add(&datagram);
        let _ = self.parts.send(Part::Data(datagram));
    }

    fn end(&self) {
        locked(&self.state).has_ended = true;
        let _ = self.parts.send(Part::End);
    }
}

impl Viewer {
    pub fn stream(&self) -> &SharedStream {
        &self.stream
    }

    /// The next datagram; `None` once the stream has ended.
    pub async fn next(&mut self) -> Option<Datagram> {
        if let Some(bytes) = self.past.next() {
            return Some(Datagram { bytes, age: Age::Past });
        }
        loop {
            match self.parts.recv().await {
                Ok(Part::Data(bytes)) => return Some(Datagram { bytes, age: Age::Live }),
                Ok(Part::End) | Err(broadcast::error::RecvError::Closed) => return None,
                Err(broadcast::error::RecvError::Lagged(_)) => {}
            }
        }
    }
}
