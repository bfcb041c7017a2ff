//! Services that programs offer over the local API, each as long as its program holds the connection.

mod data;
mod routes;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use roost_api::{OfferEvent, OfferRequest};
use roost_core::flow::MAX_STREAM_DURATION;
use roost_services::{Feed, FeedItem, OpenedSource, SourceError};
use roost_wire::messages::{Sentence, ServiceRequest};
use roost_wire::object::MAX_HELD_BYTES;
use roost_wire::service::MAX_OFFERS;
use roost_wire::{FlowKind, NodeId, Offer, Service, ServiceSet};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};

pub(crate) use routes::{body, decline, give, offer};

/// The most requests of all offers that wait for a program or get its data.
const MAX_REQUESTS: usize = 1000;

/// The most memory of all objects that programs are giving, KiB: as much as a node sends from memory.
const MAX_GIVEN_KIB: usize = 256 * 1024;

/// A stream is accepted once its first data is there, or after this time: a program that cannot start fails before.
const FAILS_SOON: Duration = Duration::from_secs(1);

/// A program that leaves a request unanswered for this time declines it.
const ANSWER: Duration = Duration::from_secs(10);

/// Lines that a program may leave unread: two of each request.
const MAX_LINES: usize = 2 * MAX_REQUESTS;

/// The offers of all programs. Clones share them.
#[derive(Clone, Debug)]
pub(crate) struct ProgramOffers {
    table: Arc<Mutex<Table>>,
    room: Arc<Semaphore>,
    /// KiB of objects that programs may be giving at once.
    memory: Arc<Semaphore>,
}

#[derive(Debug, Default)]
struct Table {
    offers: BTreeMap<Service, Offered>,
    /// Requests that no program has answered yet, by number.
    waiting: BTreeMap<u64, Waiting>,
    bodies: BTreeMap<u64, Bytes>,
    last_request: u64,
    last_offer: u64,
}

#[derive(Debug)]
struct Offered {
    /// Counts the offers, so that an older one is not taken for a later one of its service.
    number: u64,
    offer: Offer,
    events: mpsc::Sender<OfferEvent>,
}

#[derive(Debug)]
struct Waiting {
    offer: Offer,
    answer: oneshot::Sender<Answer>,
}

#[derive(Debug)]
enum Answer {
    Data { format: String, items: mpsc::Receiver<FeedItem> },
    Declined { sentence: Option<Sentence> },
}

/// The node that wants a service, with its name.
#[derive(Clone, Debug)]
pub(crate) struct Requester {
    pub(crate) node: NodeId,
    pub(crate) name: Option<String>,
}

/// A service that is wanted of a program.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    pub(crate) request: ServiceRequest,
    pub(crate) requester: Requester,
    pub(crate) body: Bytes,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum OfferError {
    #[error("{0} is offered here already: end the program that offers it, or offer an instance such as {0}#2")]
    Twice(Service),
    #[error("programs offer at most {MAX_OFFERS} services of a node")]
    TooMany,
    #[error("{0}")]
    Wrong(String),
}

/// An offer of a program, with its events.
#[derive(Debug)]
pub(crate) struct ProgramOffer {
    number: u64,
    events: mpsc::Receiver<OfferEvent>,
}

impl Default for ProgramOffers {
    fn default() -> Self {
        Self {
            table: Arc::default(),
            room: Arc::new(Semaphore::new(MAX_REQUESTS)),
            memory: Arc::new(Semaphore::new(MAX_GIVEN_KIB)),
        }
    }
}

impl ProgramOffers {
    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives `publish` the services of `configured` and of all programs. Calls follow one another, so that the last
    /// one has all offers.
    pub(crate) fn publish(&self, configured: ServiceSet, publish: impl FnOnce(ServiceSet)) {
        let mut table = self.lock();
        table.yield_to(&configured);
        publish(table.union(configured));
    }

    /// Takes an offer beside those of `configured`. Its events end when it is removed.
    pub(crate) fn insert(&self, offer: Offer, configured: ServiceSet) -> Result<ProgramOffer, OfferError> {
        let service = offer.service;
        offer.check().map_err(|error| OfferError::Wrong(error.to_string()))?;
        let mut table = self.lock();
        let union = table.union(configured);
        if union.iter().any(|offered| offered.name() == service.name()) {
            return Err(OfferError::Twice(service));
        }
        let all = union.with_offer(offer.clone());
        ServiceSet::from_offers(all.offers().iter().cloned()).map_err(|error| OfferError::Wrong(error.to_string()))?;
        if table.offers.len() >= MAX_OFFERS {
            return Err(OfferError::TooMany);
        }
        let (events, lines) = mpsc::channel(MAX_LINES);
        table.last_offer += 1;
        let number = table.last_offer;
        table.offers.insert(service, Offered { number, offer, events });
        Ok(ProgramOffer { number, events: lines })
    }

    fn remove(&self, service: Service, number: u64) {
        let mut table = self.lock();
        if table.offers.get(&service).is_some_and(|offered| offered.number == number) {
            table.offers.remove(&service);
        }
    }

    pub(crate) fn services(&self) -> Vec<Service> {
        self.lock().offers.keys().copied().collect()
    }

    /// Takes a request that waits for its program.
    fn take_waiting(&self, request: u64) -> Option<Waiting> {
        self.lock().waiting.remove(&request)
    }

    fn body(&self, request: u64) -> Option<Bytes> {
        self.lock().bodies.get(&request).cloned()
    }

    /// Asks the program that offers the service, and waits for its data: all of an object, the beginning of a stream.
    /// The program hears that the request is gone when the guard is dropped.
    pub(crate) async fn open(&self, wanted: &Wanted) -> Result<(OpenedSource, RequestGuard), SourceError> {
        let Asked { guard, offer, events, mut answer } = self.ask(wanted)?;
        let failed = |reason: &str| SourceError::Program { reason: reason.to_owned() };
        let answered = async {
            tokio::select! {
                biased;
                answer = &mut answer => answer.map_err(|_| failed("broke off")),
                () = events.closed() => Err(failed("has gone")),
            }
        };
        let answered = tokio::time::timeout(ANSWER, answered).await;
        let answered = answered.map_err(|_| failed("did not answer the request in 10 s"))?;
        let (format, mut items) = match answered? {
            Answer::Data { format, items } => (format, items),
            Answer::Declined { sentence } => return Err(SourceError::Declined { sentence }),
        };
        let opened = match offer.flow_kind() {
            FlowKind::Stream { bits_per_second, .. } => {
                let first = match tokio::time::timeout(FAILS_SOON, items.recv()).await {
                    Ok(Some(FeedItem::Failed(error))) => return Err(error),
                    Ok(None) => return Err(failed("broke off")),
                    Ok(first) => first,
                    Err(_) => None,
                };
                let feed = Feed::given(first, items, wanted.request.duration.unwrap_or(DEFAULT_DURATION));
                OpenedSource::Stream { bits_per_second, format, feed }
            }
            FlowKind::Object { .. } => collect(&self.memory, items, format).await?,
        };
        Ok((opened, guard))
    }

    fn ask(&self, wanted: &Wanted) -> Result<Asked, SourceError> {
        let Wanted { request, requester, body } = wanted;
        let busy = || SourceError::Program { reason: "has too many requests to answer".to_owned() };
        let room = Arc::clone(&self.room).try_acquire_owned().map_err(|_| busy())?;
        let mut table = self.lock();
        let offered = table.offers.get(&request.service).ok_or(SourceError::Withdrawn)?;
        let (offer, events) = (offered.offer.clone(), offered.events.clone());
        let number = table.last_request + 1;
        let told = OfferEvent::Request(OfferRequest {
            request: number,
            service: request.service,
            requester: requester.node,
            requester_name: requester.name.clone(),
            duration_ms: request
                .duration
                .filter(|duration| *duration < MAX_STREAM_DURATION)
                .and_then(|duration| u64::try_from(duration.as_millis()).ok()),
            filter: request.filter.clone(),
            params: request.params.clone(),
            body_bytes: request.service.is_call().then_some(body.len() as u64),
        });
        // There is room for the line about the end before the line about the beginning.
        let gone = events.clone().try_reserve_owned().map_err(|_| busy())?;
        events.try_send(told).map_err(|_| busy())?;
        table.last_request = number;
        let (give, answer) = oneshot::channel();
        table.waiting.insert(number, Waiting { offer: offer.clone(), answer: give });
        if request.service.is_call() {
            table.bodies.insert(number, body.clone());
        }
        drop(table);
        let guard = RequestGuard { number, offers: self.clone(), gone: Some(gone), _room: room };
        Ok(Asked { guard, offer, events, answer })
    }
}

/// A request of which a program has been told.
struct Asked {
    guard: RequestGuard,
    offer: Offer,
    events: mpsc::Sender<OfferEvent>,
    answer: oneshot::Receiver<Answer>,
}

/// The length of a stream if the request does not give one.
const DEFAULT_DURATION: Duration = Duration::from_secs(10);

/// The whole of an object that a program gives.
async fn collect(
    memory: &Semaphore,
    mut items: mpsc::Receiver<FeedItem>,
    format: String,
) -> Result<OpenedSource, SourceError> {
    let busy =
        || SourceError::Program { reason: "gives more than there is memory for now: try again later".to_owned() };
    let (mut bytes, mut held) = (BytesMut::new(), Vec::new());
    loop {
        match items.recv().await {
            Some(FeedItem::Payload(piece)) => {
                bytes.extend_from_slice(&piece);
                let missing = bytes.len().div_ceil(1024) - held.len();
                for _ in 0..missing {
                    held.push(memory.try_acquire().map_err(|_| busy())?);
                }
            }
            Some(FeedItem::End) => return Ok(OpenedSource::Object { bytes: bytes.freeze(), format }),
            Some(FeedItem::Failed(error)) => return Err(error),
            None => return Err(SourceError::Program { reason: "broke off".to_owned() }),
        }
    }
}

impl Table {
    /// Ends the offers of services that the settings offer by now, and the youngest ones that do not fit beside those
    /// of the settings any more.
    fn yield_to(&mut self, configured: &ServiceSet) {
        let mut by_age: Vec<(u64, Service)> =
            self.offers.iter().map(|(service, offered)| (offered.number, *service)).collect();
        by_age.sort_unstable();
        let mut kept = configured.clone();
        for (_, service) in by_age {
            let Some(offered) = self.offers.get(&service) else { continue };
            let with = kept.clone().with_offer(offered.offer.clone());
            let is_double = configured.iter().any(|other| other.name() == service.name());
            if is_double || ServiceSet::from_offers(with.offers().iter().cloned()).is_err() {
                tracing::warn!(%service, "the offer of a program has given way to those of the settings");
                self.offers.remove(&service);
            } else {
                kept = with;
            }
        }
    }

    fn union(&self, configured: ServiceSet) -> ServiceSet {
        self.offers.values().map(|offered| offered.offer.clone()).fold(configured, ServiceSet::with_offer)
    }
}

/// The greatest size of an object of this offer, bytes.
fn max_bytes(offer: &Offer) -> usize {
    offer.max_bytes.map_or(MAX_HELD_BYTES, |bytes| (bytes as usize).min(MAX_HELD_BYTES))
}

/// A request under way at a program.
#[derive(Debug)]
pub(crate) struct RequestGuard {
    number: u64,
    offers: ProgramOffers,
    gone: Option<mpsc::OwnedPermit<OfferEvent>>,
    _room: OwnedSemaphorePermit,
}

impl Drop for RequestGuard {
    fn drop(&mut self) {
        self.offers.take_waiting(self.number);
        self.offers.lock().bodies.remove(&self.number);
        if let Some(gone) = self.gone.take() {
            gone.send(OfferEvent::Gone { request: self.number });
        }
    }
}
