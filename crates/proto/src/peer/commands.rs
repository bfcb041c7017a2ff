//! Which part a command is for, and what becomes of all when the node leaves.

use super::Peer;
use super::api::{Command, Discovery, Event, Wanted};
use crate::address::SchemeSet;
use crate::wire::{Mode, Reason};

impl Peer {
    pub(super) fn on_command(&mut self, command: Command) {
        if needs_home(&command) && self.attach.hasten(&mut self.core) {
            self.settle();
        }
        if matches!(command, Command::Request { .. } | Command::Lookup { .. }) {
            self.attach.hurry(&mut self.core);
        }
        let Self { core, attach, requests, provide, watches, pings, pushes, receptions, rooms, .. } = self;
        match command {
            Command::Request { ticket, wanted } => requests.request(core, attach, ticket, wanted),
            Command::Lookup { ticket, service, area, count, names } => {
                let wanted = Wanted { mode: Mode::Locate, count, names, ..Wanted::new(service, area) };
                requests.lookup(core, attach, ticket, wanted);
            }
            Command::Watch { ticket, .. } if requests.discovery == Discovery::Multicast => {
                let detail = "this node finds others by multicast alone; only a hub tells of changes".to_owned();
                core.emit(Event::Failed { ticket, reason: Reason::NotAllowed, detail, retry_after: None });
            }
            Command::Watch { ticket, services, area, names } => {
                watches.watch(core, attach, ticket, (services, area, names));
            }
            Command::Enter { ticket, room } => rooms.enter(core, attach, ticket, room),
            Command::Ping { ticket, node } => {
                let link = match node {
                    Some(node) => core.links.between(core.now, node, SchemeSet::ALL, &[]),
                    None => attach.home(),
                };
                pings.ping(core, ticket, link);
            }
            Command::Cancel { ticket } => {
                let is_other = requests.cancel(core, ticket)
                    || watches.cancel(core, attach, ticket)
                    || rooms.cancel(core, attach, ticket);
                if !is_other && pushes.cancel(core, ticket) {
                    provide.cancel_pushed(core, ticket);
                } else if !is_other {
                    pings.cancel(core, ticket);
                }
            }
            Command::End { ticket } => requests.end(core, ticket),
            Command::Push { ticket, to, place, name, length, digest, deadline } => {
                let addresses = attach.record().addresses.clone();
                pushes.push(core, ticket, (to, place), (name, length, digest), (addresses, deadline));
            }
            Command::Receiving { from, id } => receptions.begun(from, id),
            Command::Received { from, id, reception } => receptions.received(core, from, id, reception),
            Command::Move { cell } => {
                provide.cell = cell;
                attach.relocate(core, cell);
                rooms.say_all(core, attach);
            }
            Command::Opened { session, opened } => provide.on_opened(core, session, opened),
            Command::Piece { session, offset, bytes } => provide.on_piece(core, session, offset, bytes),
            Command::Taken { ticket, bytes } => requests.taken(core, ticket, bytes),
            Command::OpenFailed { session, .. } => provide.on_open_failed(core, session),
            Command::Data { session, payload } => provide.on_payload(core, session, payload),
            Command::Ended { session } => provide.on_ended(core, session),
            Command::Rekey { session, epoch, secret } => provide.rekey(core, session, (epoch, secret)),
            Command::Sealed { session, sealed } => provide.on_sealed(core, session, sealed),
            Command::Unsealed { ticket, provider, opening } => requests.on_unsealed(core, ticket, provider, opening),
            Command::Idle { session } => provide.on_idle(core, session),
            Command::Suspect => attach.suspect(core, core.now),
            Command::Resubscribe { ticket, lost } => requests.resubscribe(core, attach, ticket, lost),
            Command::Reconfigure { services, max_streams, uplink_kbps } => {
                provide.reconfigure(services, max_streams, uplink_kbps);
                attach.offer(core, services, provide.capacity());
            }
            Command::Leave => self.leave(),
        }
    }

    /// Who has left does nothing more, but every ticket ends.
    pub(super) fn refuse(&mut self, command: &Command) {
        let (Command::Request { ticket, .. }
        | Command::Lookup { ticket, .. }
        | Command::Watch { ticket, .. }
        | Command::Push { ticket, .. }
        | Command::Enter { ticket, .. }
        | Command::Ping { ticket, .. }) = *command
        else {
            return;
        };
        let detail = "this node has left".to_owned();
        self.core.emit(Event::Failed { ticket, reason: Reason::Leaving, detail, retry_after: None });
    }

    fn leave(&mut self) {
        let core = &mut self.core;
        self.requests.leave(core);
        core.tell_all_traces();
        self.provide.leave(core);
        self.watches.leave(core);
        self.rooms.leave(core, &self.attach);
        self.pings.leave(core);
        self.pushes.leave(core);
        self.attach.leave(core);
        for link in core.links.ids() {
            core.close(link, "leaving");
        }
        core.timers.clear_all();
        core.emit(Event::Left);
        self.left = true;
    }
}

/// Whether the home is asked or told something for it.
fn needs_home(command: &Command) -> bool {
    matches!(
        command,
        Command::Request { .. }
            | Command::Lookup { .. }
            | Command::Watch { .. }
            | Command::Enter { .. }
            | Command::Move { .. }
            | Command::Resubscribe { .. }
            | Command::Reconfigure { .. }
    )
}
