//! Objects that are offered to a node. That asks for it as for any other, so that
//! it goes on, is verified and keeps to its window in the same way; the offer is
//! repeated until its end is known, which also keeps the way between the two.

use std::collections::BTreeMap;
use std::time::Duration;

use roost_policy::Action;
use roost_wire::messages::{
    DeliveryTerms, MAX_DELIVERY_S, MAX_OBJECT_NAME_BYTES, Push, PushState, Reason, Request, RequestMessage,
};
use roost_wire::{Address, Cell, ConnectionId, NodeId, RequestId, Role, SchemeSet, Service, Time};

use crate::node::api::{NodeConfig, NodeEvent, Provider, PushedDelivery, Ticket};
use crate::node::connections::{ConnectionLoss, DOUBTFUL_TRIES, DialTarget};
use crate::node::core::Core;
use crate::node::sessions::serve_request::PushedObject;
use crate::node::timers::Timer;
use crate::node::tunnels::ConnectRequests;

/// The most objects that are offered at once.
pub const MAX_PUSHES: usize = 64;

/// The pause between two offers.
const REPEAT: Duration = Duration::from_secs(1);

/// The longest silence about an object that is under way: the receiver may be dialled anew meanwhile, or may
/// have restarted.
const PATIENCE: Duration = Duration::from_secs(30);

/// See the module.
#[derive(Debug)]
pub(crate) struct OutgoingPushes {
    out: BTreeMap<RequestId, OutgoingPush>,
    /// Ways to those that cannot be reached.
    pub(crate) calls: ConnectRequests,
}

#[derive(Debug)]
pub(crate) struct OfferedObject {
    pub(crate) to: Provider,
    /// A service that the receiver publishes, and its cell: hubs find the receiver by it.
    pub(crate) published_service: Option<(Service, Cell)>,
    pub(crate) name: String,
    pub(crate) bytes: u64,
    pub(crate) digest: [u8; 32],
    /// Addresses at which the receiver may dial this node.
    pub(crate) addresses: Vec<Address>,
    pub(crate) deadline: Duration,
    pub(crate) delivery: Option<PushedDelivery>,
}

/// An object that is offered.
#[derive(Debug)]
struct OutgoingPush {
    ticket: Ticket,
    to: Provider,
    /// A service of its and where, by which hubs find it.
    published_service: Option<(Service, Cell)>,
    push: Push,
    /// The end of the delivery, if it is one.
    expires: Time,
    /// The end of the offer, unless more is heard.
    until: Time,
    /// The offers since something was heard.
    tries: u32,
    /// True while the receiver is busy: the object is offered again until `until`.
    is_waiting: bool,
    /// True once the receiver has taken it on.
    was_taken_on: bool,
}

impl OutgoingPushes {
    pub(crate) fn new(config: &NodeConfig) -> Self {
        Self { out: BTreeMap::new(), calls: ConnectRequests::new(config) }
    }

    /// Offers an object to a node.
    pub(crate) fn push(&mut self, core: &mut Core, ticket: Ticket, object: OfferedObject) {
        let OfferedObject { to, published_service, name, bytes, digest, addresses, deadline, delivery } = object;
        let objection = if core.hub_role == Role::Server {
            Some((Reason::NotAllowed, "with a server all data goes through it: a file cannot be sent to a node"))
        } else if to.node == core.node {
            Some((Reason::NotAllowed, "a node does not send to itself"))
        } else if name.is_empty() || name.len() > MAX_OBJECT_NAME_BYTES {
            Some((Reason::NotAllowed, "the name is empty or longer than 200 bytes"))
        } else if self.out.len() >= MAX_PUSHES {
            Some((Reason::TooMany, "this node sends too many files already"))
        } else {
            None
        };
        if let Some((reason, detail)) = objection {
            return core.emit(NodeEvent::failed(ticket, reason, detail));
        }
        let id = core.next_request();
        let expires = core.now + delivery.map_or(Duration::ZERO, |delivery| delivery.left);
        let delivery = delivery.map(|delivery| DeliveryTerms { id: delivery.id, until_s: delivery.until_s, left_s: 0 });
        let push = Push { id, name, bytes, digest, addresses, delivery };
        let until = core.now + deadline;
        self.out.insert(
            id,
            OutgoingPush {
                ticket,
                to,
                published_service,
                push,
                expires,
                until,
                tries: 0,
                is_waiting: false,
                was_taken_on: false,
            },
        );
        self.offer(core, id);
    }

    /// Makes the offer (again), over the connection that is there or a new one.
    fn offer(&mut self, core: &mut Core, id: RequestId) {
        let Some(OutgoingPush { to, push, expires, tries, .. }) = self.out.get_mut(&id) else { return };
        if let Some(delivery) = &mut push.delivery {
            // Rounded down: the receiver stores nothing after the end.
            delivery.left_s =
                u32::try_from(expires.since(core.now).as_secs()).unwrap_or(MAX_DELIVERY_S).min(MAX_DELIVERY_S);
        }
        core.set(Timer::Push(id), REPEAT);
        let connection = core.connections.between(core.now, to.node, SchemeSet::ALL, &to.addresses);
        let connection = connection.or_else(|| core.connections.way_to(to.node));
        if let Some(connection) = connection {
            *tries += 1;
            core.send(connection, RequestMessage::Push(push.clone()));
        }
        // After so much silence a connection may be dead without a word.
        let is_doubted = |way: &ConnectionId| *tries > core.connections.doubtful_tries(core.now, *way);
        let doubted = connection.filter(is_doubted);
        doubted.into_iter().for_each(|doubted| core.doubt(doubted));
        if connection == doubted && !to.addresses.is_empty() {
            core.dial_node(DialTarget { node: to.node, schemes: SchemeSet::ALL }, to.addresses.clone());
        }
    }

    pub(crate) fn on_timer(&mut self, core: &mut Core, home: Option<ConnectionId>, id: RequestId) {
        let Some(outgoing) = self.out.get(&id) else { return };
        if core.now < outgoing.until {
            let OutgoingPush { to, published_service: place, tries, .. } = outgoing;
            // Nothing has come of a dial, or nothing comes over what is there.
            let sound = core.connections.between(core.now, to.node, SchemeSet::ALL, &to.addresses);
            let is_reached = core.connections.way_to(to.node).is_some() || sound.is_some() && *tries <= DOUBTFUL_TRIES;
            if let Some((service, cell)) = place.filter(|_| !is_reached) {
                self.calls.request_connect(core, home, to.node, service, cell);
            }
            return self.offer(core, id);
        }
        match (outgoing.is_waiting, outgoing.was_taken_on) {
            (true, _) => return self.end(core, id, PushState::Busy),
            (false, true) => return self.end(core, id, PushState::Interrupted),
            (false, false) => {}
        }
        self.fail(core, id, Reason::TimedOut, "that node has not answered in time");
    }

    /// A node is there: perhaps one that is to be offered something.
    pub(crate) fn on_node_up(&mut self, core: &mut Core, node: NodeId) {
        self.calls.on_node_up(core, node);
        for id in self.to(node) {
            if let Some(outgoing) = self.out.get_mut(&id) {
                outgoing.tries = 0;
            }
            self.offer(core, id);
        }
    }

    /// A dial has failed. One that was refused leads nowhere; any other is tried again.
    pub(crate) fn on_unreachable(&mut self, core: &mut Core, way: DialTarget, loss: ConnectionLoss<'_>) {
        for id in self.to(way.node).into_iter().filter(|_| loss.refused) {
            self.fail(core, id, Reason::NotAllowed, &format!("that node could not be reached: {}", loss.reason));
        }
    }

    fn to(&self, node: NodeId) -> Vec<RequestId> {
        self.out.iter().filter(|(_, outgoing)| outgoing.to.node == node).map(|(id, _)| *id).collect()
    }

    /// The receiver tells what has become of it.
    pub(crate) fn on_push_status(
        &mut self,
        core: &mut Core,
        connection: ConnectionId,
        id: RequestId,
        reception: PushState,
    ) {
        let from = core.connections.get(connection).map(|connection| connection.node);
        let Some(outgoing) = self.out.get_mut(&id).filter(|outgoing| from == Some(outgoing.to.node)) else { return };
        outgoing.is_waiting = reception == PushState::Busy;
        match reception {
            PushState::InProgress => {
                outgoing.was_taken_on = true;
                outgoing.tries = 0;
                outgoing.until = core.now + PATIENCE;
            }
            PushState::Busy => outgoing.tries = 0,
            reception => self.end(core, id, reception),
        }
    }

    fn end(&mut self, core: &mut Core, id: RequestId, reception: PushState) {
        if let Some(OutgoingPush { ticket, to, .. }) = self.out.remove(&id) {
            core.timers.clear(Timer::Push(id));
            self.hang_up(core, to.node);
            core.emit(NodeEvent::Pushed { ticket, state: reception });
        }
    }

    /// There is another policy, which may let this node send no files to some.
    pub(crate) fn on_policy(&mut self, core: &mut Core) {
        for id in self.out.keys().copied().collect::<Vec<_>>() {
            let place = self.out.get(&id).and_then(|outgoing| Some(outgoing.published_service?.1));
            if let Some(refusal) = core.objection(Action::Send, None, place) {
                core.counters.forbidden += 1;
                self.fail(core, id, Reason::Forbidden, &refusal);
            }
        }
    }

    /// The object that a node asks for because it was offered it.
    pub(crate) fn offered(&self, core: &Core, connection: ConnectionId, request: &Request) -> Option<PushedObject> {
        let digest = request.spec.resume.filter(|_| request.spec.pushed)?.digest;
        let node = core.connections.get(connection)?.node;
        let wanted = |outgoing: &&OutgoingPush| outgoing.to.node == node && outgoing.push.digest == digest;
        let OutgoingPush { ticket, push, .. } = self.out.values().find(wanted)?;
        Some(PushedObject { ticket: *ticket, length: push.bytes, digest })
    }

    /// The owner no longer wants it. Returns false if the ticket is not here.
    pub(crate) fn cancel(&mut self, core: &mut Core, ticket: Ticket) -> bool {
        let Some(id) = self.out.iter().find(|(_, out)| out.ticket == ticket).map(|(id, _)| *id) else { return false };
        self.fail(core, id, Reason::Cancelled, "it was cancelled");
        true
    }

    fn fail(&mut self, core: &mut Core, id: RequestId, reason: Reason, detail: &str) {
        if let Some(OutgoingPush { ticket, to, .. }) = self.out.remove(&id) {
            core.timers.clear(Timer::Push(id));
            self.hang_up(core, to.node);
            core.emit(NodeEvent::failed(ticket, reason, detail));
        }
    }

    /// An object is no longer offered to a node; with the last one the way to it ends.
    fn hang_up(&mut self, core: &mut Core, node: NodeId) {
        if self.to(node).is_empty() {
            self.calls.end(core, node);
        }
    }

    /// Ends everything.
    pub(crate) fn leave(&mut self, core: &mut Core) {
        for id in self.out.keys().copied().collect::<Vec<_>>() {
            self.fail(core, id, Reason::Leaving, "this node is leaving");
        }
    }
}
