//! A call of the demo: a program that answers with the body.

use std::time::Duration;

use bytes::Bytes;

use roost_api::{Client, LookupQuery, OfferData, OfferEvent, OfferStream};
use roost_wire::{Area, Offer, Service};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::failure::{Failure, Outcome};

const NAME: &str = "demo/echo:call";

/// The longest time until a new offer is found.
const KNOWN: Duration = Duration::from_secs(10);

const LOOK: Duration = Duration::from_millis(50);

const BODY_BYTES: usize = 48_000;

pub(super) fn service() -> Outcome<Service> {
    NAME.parse().map_err(|error| Failure::failed(format!("{NAME}: {error}")))
}

/// A body that is unlike itself everywhere.
pub(super) fn body() -> Bytes {
    (0..BODY_BYTES).map(|at| (at % 251) as u8).collect()
}

/// The program behind the offer, stopped when this is dropped.
pub(super) struct Echo(JoinHandle<()>);

impl Drop for Echo {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Echo {
    /// Offers the call at a node, until a requester finds it.
    pub(super) async fn start(provider: &Client, requester: &Client) -> Outcome<Self> {
        let service = service()?;
        let offered = provider.offer(&Offer::new(service)).await?;
        let echo = Self(tokio::spawn(serve(provider.clone(), offered)));
        let deadline = Instant::now() + KNOWN;
        while requester.lookup(&LookupQuery::new(service, Area::Anywhere)).await?.candidates.is_empty() {
            if Instant::now() > deadline {
                return Err(Failure::failed(format!("nobody finds {service} after {} s", KNOWN.as_secs())));
            }
            tokio::time::sleep(LOOK).await;
        }
        Ok(echo)
    }
}

async fn serve(client: Client, mut requests: OfferStream) {
    while let Ok(Some(event)) = requests.next().await {
        if let OfferEvent::Request(request) = event {
            // The requester's row says what has gone wrong.
            let _ = answer(&client, request.request).await;
        }
    }
}

async fn answer(client: &Client, request: u64) -> Outcome {
    let body = client.offer_body(request).await?;
    let (give, data) = mpsc::channel(2);
    let sent = async {
        // The daemon may have had enough.
        let _ = give.send(OfferData::Part(body)).await;
        let _ = give.send(OfferData::End).await;
    };
    let ((), given) = tokio::join!(sent, client.give(request, "application/octet-stream", data));
    given?;
    Ok(())
}
