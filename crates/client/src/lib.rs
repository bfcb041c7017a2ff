//! Roost for programs: finds services by kind and place, receives their data, and offers services of one's own,
//! through the daemon on this host.
//!
//! A daemon `overlay-node` runs on the host; the program talks to it over its Unix socket. All calls may run side by
//! side, and dropping what a call returns ends it.
//!
//! ```no_run
//! use roost_client::{Area, Roost, ServiceRequest};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let roost = Roost::connect().await?;
//! // An image from the node nearest to a place, into a file.
//! let near = Area::Nearest("27,92".parse()?);
//! let picture = roost.request(&ServiceRequest::new("image".parse()?, near)).await?;
//! picture.save("picture.jpg").await?;
//!
//! // A stream, a datagram at a time.
//! let mut video = roost.request(&ServiceRequest::new("video".parse()?, Area::Anywhere)).await?;
//! while let Some(datagram) = video.next().await? {
//!     println!("{} bytes", datagram.len());
//! }
//! # Ok(())
//! # }
//! ```
//!
//! A service of one's own, for as long as the program runs:
//!
//! ```no_run
//! use roost_client::{Offer, Roost};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let roost = Roost::connect().await?;
//! let mut offering = roost.offer(&Offer::new("acme/thermometer:object".parse()?)).await?;
//! while let Some(incoming) = offering.next().await? {
//!     let reading = std::fs::read("/sys/class/thermal/thermal_zone0/temp")?;
//!     // A requester that has gone is no failure of this program.
//!     let _ = incoming.answer("text/plain", reading).await;
//! }
//! # Ok(())
//! # }
//! ```
//!
//! Errors print as a sentence, and have the exit code of the command `roost`:
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! use roost_client::Roost;
//!
//! let error = Roost::at("/nowhere/overlay-node.sock").await.unwrap_err();
//! assert!(error.to_string().starts_with("no daemon answers on /nowhere/overlay-node.sock"));
//! assert_eq!(error.exit_code(), 3);
//! # }
//! ```

#![allow(missing_docs, reason = "a comment stands where it says more than the name")]

mod error;
mod offering;
mod sending;
mod transfer;

use std::path::{Path, PathBuf};

use bytes::Bytes;

pub use error::Error;
pub use offering::{Answer, IncomingRequest, Offering};
use roost_api::PlacedRequest;
pub use roost_api::{
    Accepted, Candidate, ClientError, Code, Error as DaemonError, Lookup, LookupQuery, Member, Moved, OfferRequest,
    OutboxTerms, Ping, PlaceQuery, Priority, Progress, RoomQuery, RoomStream, Roster, Services, Status, Trace,
    TransferSummary, WatchEvent, WatchQuery, WatchStream,
};
pub use roost_wire::messages::{ReflectionPolicy, RequestMode, ServiceRequest};
pub use roost_wire::{Area, Cell, Form, Metadata, NodeId, NodeSelector, Offer, Scope, Service, ServiceSet};
pub use sending::{SendOptions, Sent};
pub use transfer::Transfer;

/// A daemon on this host. Clones are cheap, and calls may run side by side.
#[derive(Clone, Debug)]
pub struct Roost {
    client: roost_api::Client,
}

impl Roost {
    /// Connects to the daemon that the command `roost` would talk to: the socket of `ROOST_SOCKET`, else
    /// `roost/overlay-node.sock` in `XDG_RUNTIME_DIR` or `/run`.
    ///
    /// # Errors
    /// Fails if no daemon answers there.
    pub async fn connect() -> Result<Self, Error> {
        Self::at(default_socket()).await
    }

    /// Connects to the daemon of a socket.
    ///
    /// # Errors
    /// Fails if no daemon answers there.
    pub async fn at(socket: impl Into<PathBuf>) -> Result<Self, Error> {
        Ok(Self { client: roost_api::Client::connect(socket).await? })
    }

    /// The daemon and its state.
    ///
    /// # Errors
    /// Fails if the daemon has gone.
    pub async fn status(&self) -> Result<Status, Error> {
        Ok(self.client.status().await?)
    }

    /// The node's own offers.
    ///
    /// # Errors
    /// Fails if the daemon has gone.
    pub async fn services(&self) -> Result<Services, Error> {
        Ok(self.client.services().await?)
    }

    /// Names the nodes that offer a service, the best first. An empty answer is no error.
    ///
    /// # Errors
    /// Fails if no hub answers in time.
    pub async fn lookup(&self, query: &LookupQuery) -> Result<Lookup, Error> {
        Ok(self.client.lookup(query).await?)
    }

    /// Requests a service, and returns once a provider has accepted.
    ///
    /// # Errors
    /// Says why no provider serves it.
    pub async fn request(&self, request: &ServiceRequest) -> Result<Transfer, Error> {
        Transfer::begin(self.client.clone(), self.client.request(request).await?).await
    }

    /// Calls a service with a body of at most 64 KiB, and returns once a provider has accepted. The answer is an object.
    ///
    /// # Errors
    /// As [`Self::request`].
    pub async fn call(&self, request: &ServiceRequest, body: impl Into<Bytes>) -> Result<Transfer, Error> {
        Transfer::begin(self.client.clone(), self.client.call(request, body.into()).await?).await
    }

    /// As [`Self::request`], in an area in words of people: `47.3769,8.5417`, MGRS, GeoJSON.
    ///
    /// # Errors
    /// As there, or says what is wrong with the place.
    pub async fn request_at(&self, request: &ServiceRequest, place: &PlaceQuery) -> Result<Transfer, Error> {
        let placed = PlacedRequest { request: request.clone(), place: Some(place.clone()) };
        Transfer::begin(self.client.clone(), self.client.request_at(&placed).await?).await
    }

    /// As [`Self::call`], in an area in words of people.
    ///
    /// # Errors
    /// As [`Self::request_at`].
    pub async fn call_at(
        &self,
        request: &ServiceRequest,
        place: &PlaceQuery,
        body: impl Into<Bytes>,
    ) -> Result<Transfer, Error> {
        let placed = PlacedRequest { request: request.clone(), place: Some(place.clone()) };
        Transfer::begin(self.client.clone(), self.client.call_at(&placed, body.into()).await?).await
    }

    /// Subscribes to a stream that super nodes reflect. Without a duration it has no end.
    ///
    /// # Errors
    /// As [`Self::request`].
    pub async fn subscribe(&self, request: &ServiceRequest) -> Result<Transfer, Error> {
        let request = ServiceRequest { reflect: ReflectionPolicy::Always, ..request.clone() };
        self.request(&request).await
    }

    /// Reports changes in an area. The first one has the nodes that are there at the start.
    ///
    /// # Errors
    /// Fails if the daemon has gone.
    pub async fn watch(&self, query: &WatchQuery) -> Result<WatchStream, Error> {
        Ok(self.client.watch(query).await?)
    }

    /// Enters a room and reports its other members, again with every change.
    ///
    /// # Errors
    /// Fails if the daemon has gone.
    pub async fn room(&self, query: &RoomQuery) -> Result<RoomStream, Error> {
        Ok(self.client.room(query).await?)
    }

    /// Offers a service until the offering is dropped.
    ///
    /// # Errors
    /// Fails if the node offers the service already, or has too many offers.
    pub async fn offer(&self, offer: &Offer) -> Result<Offering, Error> {
        Offering::begin(self.client.clone(), self.client.offer(offer).await?).await
    }

    /// Sends a file to a node with an inbox. Returns once the receiver has verified it, or once it is in the outbox.
    ///
    /// # Errors
    /// Says why the receiver does not have it.
    pub async fn send(&self, path: impl AsRef<Path>, to: NodeSelector, options: SendOptions) -> Result<Sent, Error> {
        sending::send(&self.client, path.as_ref(), to, options).await
    }

    /// Measures the round trip to a node, or to the hub.
    ///
    /// # Errors
    /// Fails if there is no connection, or no answer.
    pub async fn ping(&self, node: Option<NodeSelector>) -> Result<Ping, Error> {
        Ok(self.client.ping(node).await?)
    }

    /// Moves this node to a cell.
    ///
    /// # Errors
    /// Fails if the daemon has gone.
    pub async fn move_to(&self, cell: Cell) -> Result<Moved, Error> {
        Ok(self.client.move_to(cell).await?)
    }

    /// Moves this node to a place in any notation, such as `47.3769,8.5417`.
    ///
    /// # Errors
    /// Fails if the daemon has gone, or says what is wrong with the place.
    pub async fn move_to_place(&self, place: &str) -> Result<Moved, Error> {
        Ok(self.client.move_to_place(place).await?)
    }
}

fn default_socket() -> PathBuf {
    if let Some(named) = std::env::var_os("ROOST_SOCKET") {
        return named.into();
    }
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").filter(|folder| !folder.is_empty()).map(PathBuf::from);
    let places =
        || runtime.clone().into_iter().chain(["/run".into()]).map(|folder| folder.join("roost/overlay-node.sock"));
    places().find(|place| place.exists()).or_else(|| places().next()).unwrap_or_default()
}
