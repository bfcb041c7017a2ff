//! The driver's view of a network, and the transports as such a network.

use bytes::Bytes;
use roost_transport::{Event, Events, SendError, Transport};
use roost_wire::{Address, Channel, ConnectionId, Delivery, DialId, NodeId, RoleSet};

use crate::resolve::EndpointResolver;

pub trait Network: Send {
    /// Waits for events and adds up to `max` to `into`. Loses nothing when dropped.
    fn recv_many(&mut self, into: &mut Vec<Event>, max: usize) -> impl Future<Output = usize> + Send;

    /// # Errors
    /// A [`SendError`] if the message was not taken.
    fn send(
        &mut self,
        connection: ConnectionId,
        channel: Channel,
        delivery: &Delivery,
        message: Bytes,
    ) -> Result<(), SendError>;

    /// Sends a message to all members of the group on the link, if multicast is on.
    fn multicast(&mut self, message: Bytes);

    fn flush(&mut self);

    fn dial(&mut self, dial: DialId, addresses: Vec<Address>, expect: RoleSet, node: Option<NodeId>);

    fn close(&mut self, connection: ConnectionId, reason: String);
}

pub struct Sockets {
    transport: Transport,
    events: Events,
    redial: EndpointResolver,
}

impl Sockets {
    /// Makes a network that resolves names again at each dial.
    pub fn new(transport: Transport, events: Events, redial: EndpointResolver) -> Self {
        Self { transport, events, redial }
    }
}

impl Network for Sockets {
    async fn recv_many(&mut self, into: &mut Vec<Event>, max: usize) -> usize {
        self.events.recv_many(into, max).await
    }

    fn send(
        &mut self,
        connection: ConnectionId,
        channel: Channel,
        delivery: &Delivery,
        message: Bytes,
    ) -> Result<(), SendError> {
        self.transport.send_as(connection, channel, delivery, message)
    }

    fn multicast(&mut self, message: Bytes) {
        self.transport.multicast(message);
    }

    fn flush(&mut self) {
        self.transport.flush();
    }

    fn dial(&mut self, dial: DialId, addresses: Vec<Address>, expect: RoleSet, node: Option<NodeId>) {
        if !self.redial.concerns(&addresses) {
            return self.transport.dial(dial, addresses, expect, node);
        }
        let (redial, transport) = (self.redial.clone(), self.transport.clone());
        // The task ends when the resolver answers; a machine has few dials under way.
        tokio::spawn(async move {
            match redial.refresh(addresses).await {
                Ok(addresses) => transport.dial(dial, addresses, expect, node),
                Err(error) => transport.fail_dial(dial, error.to_string()),
            }
        });
    }

    fn close(&mut self, connection: ConnectionId, reason: String) {
        self.transport.close(connection, reason);
    }
}
