//! Commands: each goes to its part. At the end the node leaves.

use std::time::Duration;

use roost_wire::messages::{Reason, RequestMode, ServiceRequest};
use roost_wire::{Cell, ExactPosition, SchemeSet};

use super::Node;
use super::api::{Discovery, NodeCommand, NodeEvent, NodePlace};
use super::pushes::outgoing::OfferedObject;
use super::requests::WantedService;
use super::timers::Timer;
use super::watch::OutgoingWatch;
use crate::documents::{DocumentVerdict, Spread};

/// The time between two looks of a satellite at its own place.
const ORBIT_LOOK: Duration = Duration::from_secs(1);

impl Node {
    pub(super) fn on_command(&mut self, command: NodeCommand) {
        if needs_home(&command) && self.attach.depart_now(&mut self.core) {
            self.drain_home_events();
        }
        if matches!(command, NodeCommand::Request { .. } | NodeCommand::Lookup { .. }) {
            self.attach.hurry(&mut self.core);
        }
        if let Some((ticket, detail)) = self.objection_to_command(&command) {
            return self.core.forbid(ticket, detail);
        }
        self.follow_orbit();
        let Self { core, attach, requests, provide, watches, pings, pushes, receptions, rooms, .. } = self;
        match command {
            NodeCommand::Request { ticket, request, provider, body } => {
                requests.request(core, attach, ticket, WantedService { request, provider, body });
            }
            NodeCommand::Lookup { ticket, service, area, count, names, filter } => {
                let wanted = ServiceRequest {
                    mode: RequestMode::Lookup,
                    count,
                    provider: names,
                    filter,
                    ..ServiceRequest::new(service, area)
                };
                requests.lookup(core, attach, ticket, wanted);
            }
            NodeCommand::Watch { ticket, .. } if requests.discovery == Discovery::Multicast => {
                let detail = "this node finds others by multicast alone; only a hub tells of changes";
                core.emit(NodeEvent::failed(ticket, Reason::NotAllowed, detail));
            }
            NodeCommand::Watch { ticket, services, area, names } => {
                watches.watch(core, attach.home(), OutgoingWatch::new(ticket, services, area, names));
            }
            NodeCommand::JoinRoom { ticket, room } => rooms.enter(core, attach, ticket, room),
            NodeCommand::Ping { ticket, node } => {
                let connection = match node {
                    Some(node) => {
                        let sound = core.connections.between(core.now, node, SchemeSet::ALL, &[]);
                        sound.or_else(|| core.connections.youngest_with(node))
                    }
                    None => attach.home(),
                };
                pings.ping(core, ticket, connection);
            }
            NodeCommand::Cancel { ticket } => {
                let is_other = requests.cancel(core, ticket)
                    || watches.cancel(core, attach.home(), ticket)
                    || rooms.cancel(core, attach, ticket);
                if !is_other && pushes.cancel(core, ticket) {
                    provide.cancel_pushed(core, ticket);
                } else if !is_other {
                    pings.cancel(core, ticket);
                }
            }
            NodeCommand::EndSubscription { ticket } => requests.end(core, ticket),
            NodeCommand::Push { ticket, to, published_service, name, length: bytes, digest, deadline, delivery } => {
                let addresses = attach.record().addresses.clone();
                let object =
                    OfferedObject { to, published_service, name, bytes, digest, addresses, deadline, delivery };
                pushes.push(core, ticket, object);
            }
            NodeCommand::Outbox(command) => {
                self.outbox.handle(core.now, &mut core.random, command);
                self.drain_outbox();
            }
            NodeCommand::SealedForHome { id, sealed } => {
                self.mailbox.on_sealed(core, attach.home(), &mut self.outbox, id, sealed);
                self.drain_outbox();
            }
            NodeCommand::SealedFileEnded { hub, status } => core.send_mailbox_status(hub, status),
            NodeCommand::PushStarted { from, id } => receptions.begun(from, id),
            NodeCommand::PushEnded { from, id, state: reception } => receptions.received(core, from, id, reception),
            NodeCommand::Move(place) => {
                self.motion.reset(core);
                self.on_place(place);
                self.follow_orbit();
            }
            NodeCommand::Fix(fix) => self.on_fix(fix),
            NodeCommand::SourceOpened { session, opened } => provide.on_opened(core, session, opened),
            NodeCommand::ObjectRead { session, offset, bytes } => provide.on_bytes_read(core, session, offset, bytes),
            NodeCommand::Consumed { ticket, bytes } => requests.taken(core, ticket, bytes),
            NodeCommand::SourceFailed { session, .. } => provide.on_open_failed(core, session, None),
            NodeCommand::SourceDeclined { session, sentence } => provide.on_open_failed(core, session, Some(sentence)),
            NodeCommand::Data { session, payload } => provide.on_payload(core, session, payload),
            NodeCommand::SourceEnded { session } => provide.on_ended(core, session),
            NodeCommand::Rekey { session, epoch, secret } => provide.rekey(core, session, epoch, secret),
            NodeCommand::Sealed { session, sealed } => provide.on_sealed(core, session, sealed),
            NodeCommand::Unsealed { ticket, provider, opening } => {
                requests.on_unsealed(core, ticket, provider, opening)
            }
            NodeCommand::Idle { session } => provide.on_idle(core, session),
            NodeCommand::Suspect => attach.suspect(core, core.now),
            NodeCommand::Resubscribe { ticket, lost } => requests.resubscribe(core, attach, ticket, lost),
            NodeCommand::Reconfigure { services, max_streams, uplink_kbps } => {
                provide.reconfigure(services.clone(), max_streams, uplink_kbps);
                attach.offer(core, services, provide.capacity());
            }
            NodeCommand::Document(verdict) => self.on_document_verdict(verdict),
            NodeCommand::Policy(policy) => self.on_policy(policy),
            NodeCommand::Labels(labels) => {
                self.core.identity.labels = labels;
                self.judge_again();
            }
            NodeCommand::Leave => self.leave(),
        }
    }

    /// The home gets what is new at once: it may have come from elsewhere.
    fn on_document_verdict(&mut self, verdict: DocumentVerdict) {
        let home = self.attach.home().and_then(|home| self.core.connections.get(home)).map(|home| home.node);
        let spread = |node| if Some(node) == home { Spread::Push } else { Spread::TellLate };
        self.core.documents.on_verdict(self.core.now, verdict, spread);
    }

    /// A node that has left does nothing more, but every ticket ends.
    pub(super) fn refuse(&mut self, command: &NodeCommand) {
        let (NodeCommand::Request { ticket, .. }
        | NodeCommand::Lookup { ticket, .. }
        | NodeCommand::Watch { ticket, .. }
        | NodeCommand::Push { ticket, .. }
        | NodeCommand::JoinRoom { ticket, .. }
        | NodeCommand::Ping { ticket, .. }) = *command
        else {
            return;
        };
        self.core.emit(NodeEvent::failed(ticket, Reason::Leaving, "this node has left"));
    }

    fn leave(&mut self) {
        let core = &mut self.core;
        self.requests.leave(core);
        self.requests.traces.emit_all(core);
        self.provide.leave(core);
        self.watches.leave(core);
        self.rooms.leave(core, &self.attach);
        self.pings.leave(core);
        self.pushes.leave(core);
        self.attach.leave(core);
        for connection in core.connections.ids() {
            core.close(connection, "leaving");
        }
        core.timers.clear_all();
        core.emit(NodeEvent::Left);
        self.left = true;
    }
}

impl Node {
    /// The node is elsewhere, as others are to hear.
    fn on_place(&mut self, place: NodePlace) {
        self.on_cell(place.cell);
        self.attach.set_place(&mut self.core, place);
        self.rooms.say_all(&mut self.core, &self.attach);
    }

    fn on_cell(&mut self, cell: Cell) {
        if self.provide.cell != cell {
            self.provide.cell = cell;
            self.provide.on_policy(&mut self.core);
        }
    }

    /// A receiver tells the position. Beyond the datum's reach the record stays as it is.
    fn on_fix(&mut self, fix: ExactPosition) {
        let Some(cell) = self.motion.cell(&fix) else { return };
        if let Some(place) = self.motion.on_fix(&mut self.core, fix) {
            self.on_place(place);
        }
        let cell = self.attach.note_fix(cell, fix);
        self.on_cell(cell);
    }

    /// A satellite is where its orbit has it now, of which nobody need be told.
    fn follow_orbit(&mut self) {
        if let Some(cell) = self.attach.follow_orbit(&self.core) {
            self.on_cell(cell);
            self.core.set(Timer::Fix, ORBIT_LOOK);
        }
    }

    pub(super) fn on_fix_timer(&mut self) {
        if let Some(place) = self.motion.on_timer(&mut self.core) {
            self.on_place(place);
        }
        self.follow_orbit();
    }
}

/// True if the home is asked or told something for it.
fn needs_home(command: &NodeCommand) -> bool {
    matches!(
        command,
        NodeCommand::Request { .. }
            | NodeCommand::Lookup { .. }
            | NodeCommand::Watch { .. }
            | NodeCommand::JoinRoom { .. }
            | NodeCommand::Move(_)
            | NodeCommand::Resubscribe { .. }
            | NodeCommand::Reconfigure { .. }
    )
}
