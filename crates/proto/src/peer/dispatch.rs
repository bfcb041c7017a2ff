//! Which part a message is for, whoever sent it and however it came.

use std::net::IpAddr;
use std::time::Duration;

use bytes::Bytes;

use super::api::Event;
use super::core::Core;
use super::links::{Link, Loss};
use super::multicast::Parts;
use super::{Peer, liveness, multicast};
use crate::ids::LinkId;
use crate::wire::{Decline, Message, Params, WireError};

/// The reason for which an association ends whose node tries to answer the requests of others.
const GUESSES: &str = "it accepts requests without their secrets";

impl Core {
    /// Skips a message of a later version, and tells of the first one.
    fn on_later_version(&mut self, link: LinkId, message: u64) {
        self.counters.later += 1;
        let Some(entry) = self.links.get_mut(link) else { return };
        (entry.heard, entry.used) = (self.now, self.now);
        if !std::mem::replace(&mut entry.said_later, true) {
            let (node, protocol) = (entry.peer.node, entry.hello.protocol);
            self.emit(Event::Later { node, protocol, message });
        }
    }
}

impl Peer {
    pub(super) fn on_message(&mut self, link: LinkId, bytes: &Bytes) {
        let now = self.core.now;
        let Some(entry) = self.core.links.get_mut(link) else { return };
        let message = match Message::decode(bytes) {
            Ok(message) => message,
            Err(WireError::Later(message)) => return self.core.on_later_version(link, message),
            Err(error) => return self.core.counters.unread(&error),
        };
        entry.heard = now;
        entry.used = now;
        if let Message::Pong(token) = message {
            self.attach.on_pong(&mut self.core, link, token);
            self.pings.on_pong(&mut self.core, link, token);
            self.provide.trips.on_pong(&mut self.core, link, token);
        }
        if liveness::is_answer(&message) {
            if let Some(entry) = self.core.links.get_mut(link) {
                entry.answered = now;
            }
            self.attach.on_answered(&mut self.core, link);
        }
        self.dispatch(link, message);
        if self.core.links.get(link).is_some_and(Link::has_guessed) {
            self.core.bid_farewell(link, GUESSES);
            self.on_link_down(link, Loss { reason: GUESSES, refused: true });
        }
    }

    fn dispatch(&mut self, link: LinkId, message: Message) {
        if let Message::Hello(hello) = message {
            return self.on_hello(link, hello);
        }
        if self.belongs_to_way(link, &message) {
            return;
        }
        let Self { core, attach, requests, provide, watches, pushes, receptions, rooms, .. } = self;
        match message {
            Message::Roster(roster) => rooms.on_roster(core, attach, link, roster),
            Message::Keys(keys) => requests.on_keys(core, link, keys),
            Message::Lease { version, lease_ms, siblings, addresses, media } => {
                let lease = Duration::from_millis(lease_ms.into());
                let siblings = core.told(link, siblings.unwrap_or_default());
                attach.on_lease(core, link, version, lease, siblings);
                attach.on_home_addresses(core, link, addresses.unwrap_or_default());
                core.note_media(link, media);
            }
            Message::Anew => attach.on_anew(core, link),
            Message::Later(after_ms) => attach.on_later(core, link, Duration::from_millis(after_ms.into())),
            Message::Redirect(addresses) if core.is_hub(link) => {
                let addresses = core.told(link, addresses);
                attach.on_redirect(core, link, addresses);
            }
            Message::HandOver if core.is_hub(link) => attach.on_hand_over(core, link),
            Message::Ping(token) => core.send(link, &Message::Pong(token)),
            Message::Pong(_) => {}
            Message::Forward(forward) if Params::call_of(forward.params).is_some() => {
                pushes.calls.on_forward(core, &mut provide.unreached, link, forward);
            }
            Message::Forward(forward) => provide.on_forward(core, link, forward),
            Message::Request(request) => {
                let pushed = pushes.offered(core, link, &request);
                provide.on_request(core, link, request, pushed);
            }
            Message::Push(push) => receptions.on_push(core, link, push),
            Message::Pushed { id, reception } => pushes.on_pushed(core, link, id, reception),
            Message::Accept(accept) => requests.on_accept(core, attach, link, accept),
            Message::Decline(decline) => self.on_decline(link, decline),
            Message::Pending { id, provider, .. } => requests.on_pending(core, link, id, provider),
            Message::Found(found) => requests.on_found(core, link, found),
            Message::Traced(traced) => core.on_traced(link, traced),
            Message::Change(change) => watches.on_change(core, attach, link, change),
            Message::Report(report) => provide.on_report(core, link, report),
            Message::Stop { id, reason } => {
                if !provide.on_stop(core, link, id, reason) {
                    requests.on_data(core, attach, link, id, message);
                }
            }
            Message::End { id, .. } => requests.on_data(core, attach, link, id, message),
            Message::Packet(ref packet) => requests.on_data(core, attach, link, packet.id, message),
            Message::Chunk(ref chunk) => requests.on_data(core, attach, link, chunk.id, message),
            Message::Rekey(ref rekey) => requests.on_data(core, attach, link, rekey.id, message),
            // Taken above.
            Message::Hello(_) => {}
            // For hubs only.
            Message::Publish(_)
            | Message::Renew(_)
            | Message::Withdraw(_)
            | Message::Watch(_)
            | Message::Unwatch(_)
            | Message::StandBy { .. }
            | Message::Moved(_)
            | Message::Aside(_)
            | Message::Adopt(_)
            | Message::Mirror(_)
            | Message::Retell(_)
            | Message::HandOver
            | Message::Redirect(_)
            | Message::Gossip(_)
            | Message::Join(_)
            | Message::Quit(_)
            | Message::Load { .. }
            | Message::Claim { .. }
            | Message::Seek(_)
            | Message::Enrol { .. }
            | Message::Summary(_)
            | Message::Carry(_)
            | Message::Underway { .. } => core.counters.refused += 1,
            // Of a way that is none any more.
            Message::Through { .. } => core.counters.stale += 1,
            // By multicast only.
            Message::Inquiry(_) | Message::Taken(_) | Message::Present(_) => core.counters.refused += 1,
        }
    }

    /// Somebody has said something to all on the link.
    pub(super) fn on_multicast(&mut self, from: IpAddr, bytes: &Bytes) {
        let Self { core, attach, requests, provide, multicast, .. } = self;
        if self.left || !requests.multicast {
            return;
        }
        let message = match Message::decode(bytes) {
            Ok(message) => message,
            Err(error) => return core.counters.unread(&error),
        };
        let said_by = match &message {
            Message::Inquiry(inquiry) => inquiry.requester,
            Message::Taken(taken) => taken.node,
            Message::Present(present) => present.candidate.node,
            _ => {
                core.counters.refused += 1;
                return;
            }
        };
        if said_by == core.node {
            return;
        }
        core.crowd.note(core.now, said_by);
        match message {
            Message::Inquiry(inquiry) => multicast.on_inquiry(Parts { core, attach, provide }, from, inquiry),
            Message::Taken(taken) => {
                multicast.on_taken(core, taken);
                requests.on_taken(core, taken);
            }
            Message::Present(mut present) => {
                multicast::reachable(&mut present.candidate.addresses, from);
                multicast.on_present(core, &present);
                requests.on_present(core, present);
            }
            _ => {}
        }
    }

    fn on_decline(&mut self, link: LinkId, decline: Decline) {
        let Self { core, attach, requests, watches, .. } = self;
        let of_watch = watches.on_decline(core, attach, link, decline);
        if !of_watch && requests.on_decline(core, attach, link, decline) {
            attach.depart(core, link);
        }
    }
}
