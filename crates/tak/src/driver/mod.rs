//! The driver of the gateway: sockets of TAK on one side, a daemon's local API on the other.

mod connection;
mod dialer;
mod listener;
mod multicast;
mod overlay;
mod places;
mod records;
mod tls;
mod tracks;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use roost_client::{ClientError, IncomingRequest, Offer, Roost, Service, Status, WatchEvent, WatchQuery};
use roost_wire::NodeId;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

pub use tls::{OwnFiles, TlsError, TlsFiles, TlsSetup};

use self::overlay::Overlay;
use self::places::Clients;
use self::records::Requesters;
use self::tracks::Tracks;
use crate::clock::Clock;
use crate::contacts::ConnectionId;
use crate::endpoint::{Endpoint, ListenAddress};
use crate::gateway::{Carriage, ContactNews, Gateway, Requested};
use crate::kinds::TypeRule;
use crate::marks::MarkRules;
use crate::totals::Totals;

/// Inputs that wait for the machine; their senders wait, too.
const BACKLOG: usize = 256;

/// Events that wait for the socket of a connection. All others wait in the machine, where newer ones replace them.
const OUTLET: usize = 2;

/// The pause between two reports of the totals.
const TOTALS_PAUSE: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub struct Setup {
    pub endpoints: Vec<Endpoint>,
    pub listen: Vec<ListenAddress>,
    pub tls: Option<TlsSetup>,
    pub types: Vec<TypeRule>,
    pub video_url: Option<String>,
    pub bits_per_second: f64,
    pub nodes: WatchQuery,
    pub tracks: bool,
    /// The service by which contacts of TAK are offered.
    pub offer: Service,
}

#[derive(Debug)]
pub enum Report {
    Listening(String),
    Connected(String),
    /// A connection that is lost or could not be made, with the reason and the pause before the next attempt.
    Lost {
        name: String,
        reason: String,
        pause: Option<Duration>,
    },
    Contact(ContactNews),
    Totals(Totals),
}

#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    #[error(
        "the group has no datum, and TAK knows places by latitude and longitude only: make a group with \
         `roost group init --origin LAT,LON --cell SIZE`"
    )]
    NoDatum,
    #[error("the daemon has ended the {0}: it is leaving")]
    Leaving(&'static str),
    #[error("cannot listen at {address}: {reason}")]
    CannotListen { address: String, reason: String },
    #[error(transparent)]
    Daemon(ClientError),
    #[error("{0}")]
    Failed(String),
}

impl From<roost_client::Error> for ServeError {
    fn from(error: roost_client::Error) -> Self {
        match error {
            roost_client::Error::Daemon(error) => Self::Daemon(error),
            other => Self::Failed(other.to_string()),
        }
    }
}

/// News for the machine from the tasks around it.
enum Input {
    Listening(String),
    Up {
        id: ConnectionId,
        name: String,
        carriage: Carriage,
        outlet: mpsc::Sender<Bytes>,
    },
    Down {
        id: ConnectionId,
        name: String,
        reason: String,
        pause: Option<Duration>,
    },
    /// An endpoint that could not be reached.
    Failed {
        name: String,
        reason: String,
        pause: Duration,
    },
    Received {
        id: ConnectionId,
        address: Option<IpAddr>,
        bytes: Bytes,
    },
    Written,
    Watch(WatchEvent),
    Status(Box<Status>),
    Line {
        provider: NodeId,
        name: String,
        line: Bytes,
    },
    Request(IncomingRequest),
    Ended(ServeError),
}

type Inputs = mpsc::Sender<Input>;

/// Serves until the daemon goes. A `report` must not wait: the gateway would wait with it.
///
/// # Errors
/// Says why the gateway cannot begin, or why it ends.
pub async fn serve(setup: Setup, socket: &Path, report: impl FnMut(Report)) -> Result<(), ServeError> {
    let roost = Roost::at(socket).await?;
    let status = roost.status().await?;
    if status.datum.is_none() {
        return Err(ServeError::NoDatum);
    }
    let offer = Offer { kbps: Some(40), ..Offer::new(setup.offer) };
    let offer = Offer { metadata: "source=tak".parse().unwrap_or_default(), ..offer };
    let offering = roost.offer(&offer).await?;
    let changes = roost.watch(&setup.nodes).await?;
    let (inputs, coming) = mpsc::channel(BACKLOG);
    let mut tasks = JoinSet::new();
    let clients = Clients::default();
    listener::listen(&setup.listen, &clients, &inputs, &mut tasks).await?;
    dialer::dial(&setup.endpoints, setup.tls.as_ref(), &inputs, &mut tasks);
    Overlay { roost: roost.clone(), inputs: inputs.clone() }.follow(offering, changes, &mut tasks);
    let rules = MarkRules { types: setup.types, video_url: setup.video_url };
    let tracks = setup.tracks.then(|| Tracks::new(roost, inputs, status.node));
    let gateway = Gateway::new(rules, setup.bits_per_second, Clock::now());
    let outlets = BTreeMap::new();
    Driver { gateway, outlets, clients, tracks, requesters: Requesters::default(), report, _tasks: tasks }
        .run(&status, coming)
        .await
}

struct Driver<R> {
    gateway: Gateway,
    outlets: BTreeMap<ConnectionId, mpsc::Sender<Bytes>>,
    clients: Clients,
    tracks: Option<Tracks>,
    requesters: Requesters,
    report: R,
    _tasks: JoinSet<()>,
}

impl<R: FnMut(Report)> Driver<R> {
    async fn run(mut self, status: &Status, mut coming: mpsc::Receiver<Input>) -> Result<(), ServeError> {
        self.gateway.on_status(status, Clock::now());
        let mut totals = tokio::time::interval_at(tokio::time::Instant::now() + TOTALS_PAUSE, TOTALS_PAUSE);
        loop {
            self.send();
            let outlets = &self.outlets;
            let is_open = |id| outlets.get(&id).is_some_and(|outlet: &mpsc::Sender<Bytes>| outlet.capacity() > 0);
            let deadline = self.gateway.deadline(is_open).min(self.requesters.deadline());
            tokio::select! {
                input = coming.recv() => match input {
                    Some(Input::Ended(error)) => return Err(error),
                    Some(input) => self.handle(input),
                    None => return Err(ServeError::Leaving("gateway")),
                },
                () = tokio::time::sleep_until(deadline.into()) => self.gateway.on_timeout(Clock::now()),
                _ = totals.tick() => (self.report)(Report::Totals(self.gateway.totals())),
            }
        }
    }

    fn handle(&mut self, input: Input) {
        let clock = Clock::now();
        match input {
            Input::Listening(address) => (self.report)(Report::Listening(address)),
            Input::Up { id, name, carriage, outlet } => {
                self.outlets.insert(id, outlet);
                self.gateway.connect(id, carriage, clock);
                (self.report)(Report::Connected(name));
            }
            Input::Down { id, name, reason, pause } => {
                self.outlets.remove(&id);
                self.gateway.disconnect(id);
                (self.report)(Report::Lost { name, reason, pause });
            }
            Input::Failed { name, reason, pause } => {
                (self.report)(Report::Lost { name, reason, pause: Some(pause) });
            }
            Input::Received { id, address, bytes } => {
                if self.gateway.receive(id, address, &bytes, clock) > 0 {
                    self.clients.spoke(id, clock.at);
                }
            }
            Input::Watch(change) => {
                if let Some(tracks) = &mut self.tracks {
                    tracks.follow(&change);
                }
                self.gateway.on_watch(&change, clock);
            }
            Input::Status(status) => self.gateway.on_status(&status, clock),
            Input::Line { provider, name, line } => self.gateway.on_line(provider, &name, &line, clock),
            Input::Request(request) => {
                self.requesters.serve(request);
                self.gateway.offer_records(Requested::Yes, clock);
            }
            Input::Written | Input::Ended(_) => {}
        }
    }

    /// Hands on what may be sent now.
    fn send(&mut self) {
        let clock = Clock::now();
        for (id, outlet) in &self.outlets {
            while let Ok(room) = outlet.try_reserve() {
                let Some(event) = self.gateway.poll_transmit(*id, clock) else { break };
                room.send(event);
            }
        }
        while let Some(record) = self.gateway.poll_record(clock) {
            self.requesters.send(&record, clock.at);
        }
        self.requesters.keep_alive(clock.at);
        if self.requesters.is_empty() {
            self.gateway.offer_records(Requested::No, clock);
        }
        while let Some(news) = self.gateway.poll_news() {
            (self.report)(Report::Contact(news));
        }
    }
}
