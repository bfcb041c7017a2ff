//! The cost on the wire, and the time to the first byte, of a request between nodes that know one another.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use hdrhistogram::Histogram;
use roost_transport::Transport;
use roost_wire::messages::{Accept, FlowDescription, Message, Reason, Request, RequestMessage, ServiceRequest};
use roost_wire::{Area, Cell, ConnectionId, Nonce, RequestId, Role, RoleSet, ServiceSet};
use tokio::sync::oneshot;

use super::lookups::THROTTLED;
use super::node::{BenchNode, NodeFactory, PATIENCE, RETRY, header_bytes};
use crate::failure::{Code, Failure, Outcome};

/// Measured requests: fewer than a hub relays for one node at a time.
const ROUNDS: u32 = 100;

/// The time for acknowledgements after the last answer.
const SETTLE: Duration = Duration::from_millis(200);

#[derive(Clone, Debug)]
pub(super) struct Warm {
    /// Bytes of a request on the wire, with its answer but without payload. In a star a datagram between the nodes
    /// crosses two connections, the provider's and the requester's, and counts twice.
    pub(super) bytes: f64,
    /// From the request to the acceptance.
    pub(super) nanos: Histogram<u64>,
    /// True if the hub relayed the answers.
    pub(super) relayed: bool,
}

/// Requests an empty object from a provider again and again.
pub(super) async fn run(maker: &Arc<NodeFactory>) -> Outcome<Warm> {
    let place = place(maker.epoch);
    let mut requester = maker.attach(Some(maker.host()?)).await?;
    let [.., object] = requester.services;
    requester.publish(place, ServiceSet::EMPTY).await?;
    let mut provider = maker.attach(Some(maker.host()?)).await?;
    provider.publish(place, ServiceSet::EMPTY.with(object)).await?;
    let Some(address) = requester.transport.local_addresses().first().cloned() else {
        return Err(Failure::failed("the requester of the bench does not listen"));
    };
    // The requester must be reading while it is dialled.
    let dialling = tokio::spawn(async move {
        let direct = provider.dial(address, RoleSet::only(Role::Node)).await;
        direct.map(|direct| (provider, direct))
    });
    while !dialling.is_finished() {
        // Only the transport sends yet.
        let _ = requester.message(Instant::now() + Duration::from_millis(20)).await;
    }
    let joined: Result<Outcome<(BenchNode, ConnectionId)>, _> = dialling.await;
    let (provider, direct) = joined.map_err(|error| Failure::failed(error.to_string()))??;
    measure(requester, provider, direct, place).await
}

/// The provider's cell: away from the population, and from the provider of an earlier bench whose lease may not have
/// ended.
fn place(epoch: u32) -> Cell {
    Cell::new(-1 - (epoch % 1_000).cast_signed(), -1 - (epoch / 1_000 % 1_000).cast_signed())
}

async fn measure(mut requester: BenchNode, provider: BenchNode, direct: ConnectionId, place: Cell) -> Outcome<Warm> {
    let wire = {
        let (at_requester, at_provider) = (requester.transport.clone(), provider.transport.clone());
        let (to_requester, to_provider) = (requester.hub, provider.hub);
        move || {
            // Each of these small messages is one datagram.
            let of = |transport: &Transport, connection, crossings| {
                transport.connection(connection).map_or(0, |connection| {
                    let datagrams = connection.messages_sent + connection.messages_received;
                    (connection.bytes_sent + connection.bytes_received + datagrams * header_bytes(connection.scheme))
                        * crossings
                })
            };
            of(&at_requester, to_requester, 1) + of(&at_provider, to_provider, 1) + of(&at_provider, direct, 2)
        }
    };
    let (done, stop) = oneshot::channel();
    let serving = tokio::spawn(serve(provider, direct, place, stop));
    let mut nanos = Histogram::new_with_max(10_000_000_000, 3).map_err(|error| Failure::failed(error.to_string()))?;
    let mut relayed = false;
    // The first request is not measured: it finds the way.
    request(&mut requester, place, 0).await?;
    let before = wire();
    for round in 1..=ROUNDS {
        let sent = Instant::now();
        relayed |= request(&mut requester, place, round).await? == requester.hub;
        nanos.saturating_record(u64::try_from(sent.elapsed().as_nanos()).unwrap_or(u64::MAX));
    }
    let _ = requester.message(Instant::now() + SETTLE).await;
    let bytes = (wire() - before) as f64 / f64::from(ROUNDS);
    let _ = done.send(());
    if let Ok(provider) = serving.await {
        provider.leave().await;
    }
    requester.leave().await;
    Ok(Warm { bytes, nanos, relayed })
}

/// Sends a request and returns the connection over which the acceptance came.
async fn request(requester: &mut BenchNode, place: Cell, round: u32) -> Outcome<ConnectionId> {
    let [.., object] = requester.services;
    let spec = ServiceRequest::new(object, Area::Exact(place));
    let request = Request::new(RequestId(round + 1), Nonce::from_u64(u64::from(round)), spec, 2_000);
    let id = request.id;
    let request = Message::Request(RequestMessage::Request(request));
    let give_up = Instant::now() + PATIENCE;
    while Instant::now() < give_up {
        requester.send(requester.hub, &request);
        requester.transport.flush();
        let retry = Instant::now() + RETRY;
        while let Some((connection, message)) = requester.message(retry).await {
            match message {
                Message::Request(RequestMessage::Accept(accept)) if accept.id == id => return Ok(connection),
                Message::Request(RequestMessage::Decline(decline))
                    if decline.id == id && decline.reason == Reason::TooMany =>
                {
                    return Err(Failure::new(Code::Refused, THROTTLED));
                }
                Message::Request(RequestMessage::Decline(decline)) if decline.id == id => {
                    let why = format!("the hub declined a request of the bench: {:?}", decline.reason);
                    return Err(Failure::new(Code::Refused, why));
                }
                _ => {}
            }
        }
    }
    Err(Failure::new(Code::TimedOut, "a request of the bench was not answered"))
}

/// Accepts every request until it is told to stop.
async fn serve(
    mut provider: BenchNode,
    direct: ConnectionId,
    place: Cell,
    mut stop: oneshot::Receiver<()>,
) -> BenchNode {
    loop {
        let message = tokio::select! {
            message = provider.message(Instant::now() + PATIENCE) => message,
            _ = &mut stop => return provider,
        };
        // Silence changes nothing.
        if let Some((hub, Message::Request(RequestMessage::Request(forward)))) = message {
            let relayed = forward.reply_to().is_empty();
            let to = if relayed { hub } else { direct };
            provider.send(to, &acceptance(&provider, &forward, place, relayed));
            provider.transport.flush();
        }
    }
}

fn acceptance(provider: &BenchNode, forward: &Request, place: Cell, relayed: bool) -> Message {
    /// SHA-256 of nothing.
    const EMPTY_DIGEST: [u8; 32] = [
        0xe3, 0xb0, 0xc4, 0x42, 0x98, 0xfc, 0x1c, 0x14, 0x9a, 0xfb, 0xf4, 0xc8, 0x99, 0x6f, 0xb9, 0x24, 0x27, 0xae,
        0x41, 0xe4, 0x64, 0x9b, 0x93, 0x4c, 0xa4, 0x95, 0x99, 0x1b, 0x78, 0x52, 0xb8, 0x55,
    ];
    let format = "application/senml+json".to_owned();
    let flow =
        FlowDescription::Object { bytes: 0, digest: EMPTY_DIGEST, format, inline: Some(Bytes::new()), offset: None };
    let provider = relayed.then_some(provider.id);
    Message::Request(RequestMessage::Accept(Accept {
        id: forward.id,
        nonce: forward.nonce,
        flow,
        cell: place,
        provider,
        stream_keys: None,
    }))
}
