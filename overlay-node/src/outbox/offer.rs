//! The search for a receiver, and the offer of one file.

use std::sync::Arc;
use std::time::Duration;

use roost_api::SendQuery;
use roost_api::server::ApiError;
use roost_core::node::{FoundReceiver, NodeCommand, OfferFault, OutboxCommand, PushedDelivery};
use roost_runtime::clock::{Clock as _, SystemClock};
use roost_runtime::driver::DriverStopped;
use roost_services::{SourceError, StoredFile};
use roost_wire::messages::PushState;
use roost_wire::object::parse_digest;
use roost_wire::{DeliveryId, NodeSelector};

use super::Outbox;
use super::store::StoredDelivery;
use crate::node::NodeService;
use crate::sending;
use crate::tickets::{Purpose, Reply};

const LOOK_TIMEOUT: Duration = Duration::from_secs(10);

/// The longest wait for a receiver's answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(20);

/// Looks for a receiver, and tells the machine.
pub(super) async fn look(node: NodeService, to: NodeSelector) {
    let addresses = node.outbox.as_ref().map(|outbox| addresses(outbox, to)).unwrap_or_default();
    let query = SendQuery {
        node: to,
        addresses,
        name: String::new(),
        bytes: 0,
        digest: [0; 32],
        timeout: LOOK_TIMEOUT,
        outbox: None,
    };
    let found = match sending::find(&node, &query).await {
        Ok((to, published_service)) => Ok(FoundReceiver { to, published_service }),
        Err(ApiError(error)) => Err(error.message),
    };
    // The machine is gone when the daemon ends.
    let _ = node.mailbox.command(NodeCommand::Outbox(OutboxCommand::Found { to, found })).await;
}

/// The addresses that were given for a receiver, by any of its files.
fn addresses(outbox: &Outbox, to: NodeSelector) -> Vec<roost_wire::Endpoint> {
    let deliveries = outbox.store.all().into_iter().map(|(_, delivery)| delivery);
    let given = deliveries.filter(|delivery| delivery.end.is_none() && delivery.to == to.as_str());
    let given = given.map(|delivery| delivery.addresses).find(|addresses| !addresses.is_empty());
    given.into_iter().flatten().filter_map(|address| address.parse().ok()).collect()
}

pub(super) struct OfferTask {
    pub(super) id: DeliveryId,
    pub(super) to: FoundReceiver,
    pub(super) tries: u32,
    /// The end of the delivery by the clock that goes on in suspend; past, it only asks what has become of it.
    pub(super) until: Duration,
}

impl OfferTask {
    /// Offers the file, and tells the machine what came of it.
    pub(super) async fn run(self, node: NodeService, outbox: Arc<Outbox>) {
        let id = self.id;
        let answer = self.offer(&node, &outbox).await;
        let _ = node.mailbox.command(NodeCommand::Outbox(OutboxCommand::Tried { id, answer })).await;
    }

    async fn offer(self, node: &NodeService, outbox: &Arc<Outbox>) -> Result<PushState, OfferFault> {
        let (id, to) = (self.id, self.to.to.node);
        let (delivery, file) = self.prepare(outbox).await.map_err(OfferFault::Unoffered)?;
        let left = self.left();
        let StoredDelivery { name, until_s, .. } = delivery.clone();
        let FoundReceiver { to: provider, published_service } = self.to;
        let push = |ticket| NodeCommand::Push {
            ticket,
            to: provider,
            published_service,
            name,
            length: file.length(),
            digest: file.digest(),
            deadline: ANSWER_TIMEOUT,
            delivery: Some(PushedDelivery { id, until_s, left }),
        };
        let unoffered = |ApiError(error)| OfferFault::Unoffered(error.message);
        let mut replies = node.open_ticket(Purpose::Other, push).await.map_err(unoffered)?;
        let selector = delivery.to.parse().ok();
        while let Some(reply) = replies.next().await {
            match reply {
                Reply::Read { .. } if left.is_zero() => {
                    return Err(OfferFault::Object("the receiver does not know deliveries".to_owned()));
                }
                Reply::Read { session, offset, length } => {
                    let changed = |ApiError(error)| OfferFault::Receiver(error.message);
                    node.check_name(selector, to).map_err(changed)?;
                    let unread = |error: SourceError| OfferFault::Object(error.to_string());
                    let bytes = file.read(offset, length).await.map_err(unread)?;
                    let read = NodeCommand::ObjectRead { session, offset, bytes };
                    let stopped = |stopped: DriverStopped| OfferFault::Object(stopped.to_string());
                    node.mailbox.command(read).await.map_err(stopped)?;
                }
                Reply::Pushed(state) => return Ok(state),
                Reply::Failed(failure) => return Err(OfferFault::Receiver(failure.detail)),
                _ => {}
            }
        }
        Err(OfferFault::Receiver("the offer was broken off".to_owned()))
    }

    /// Opens the file, and notes the offer on disk before the receiver hears of it, else a crash hides that it may have
    /// the file.
    async fn prepare(&self, outbox: &Arc<Outbox>) -> Result<(StoredDelivery, StoredFile), String> {
        let gone = || "the file is no longer in the outbox".to_owned();
        let (id, to) = (self.id, self.to.to.node);
        let delivery = outbox.store.get(id).ok_or_else(gone)?;
        if let Some(other) = delivery.node.filter(|other| *other != to) {
            return Err(format!("{} is another node now than {other}, which was offered the file", delivery.to));
        }
        let digest = parse_digest(&delivery.sha256).ok_or_else(gone)?;
        let file = StoredFile::known(&outbox.store.data_path(id), delivery.bytes, digest).await;
        let file = file.map_err(|error| error.to_string())?;
        let noted = outbox.store.noted(StoredDelivery { node: Some(to), tries: self.tries, ..delivery }, self.left());
        let (noting, written) = (Arc::clone(outbox), noted.clone());
        let written = tokio::task::spawn_blocking(move || noting.store.write(id, written)).await;
        let written = written.map_err(std::io::Error::other).and_then(|written| written);
        written.map_err(|error| format!("the outbox cannot be written to: {error}"))?;
        Ok((noted, file))
    }

    fn left(&self) -> Duration {
        self.until.saturating_sub(SystemClock.passed())
    }
}
