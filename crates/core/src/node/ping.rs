//! Pings that the owner asks for.

use std::collections::BTreeMap;

use roost_wire::messages::{ProbeMessage, Reason};
use roost_wire::{ConnectionId, Time};

use super::api::{NodeEvent, Ticket};
use super::core::Core;
use super::timers::Timer;

/// The most pings at once.
pub const MAX_PINGS: usize = 64;

/// The pings that are sent before one counts as unanswered.
const TRIES: u32 = 4;

/// Pings under way, by the token last sent.
#[derive(Debug, Default)]
pub(super) struct Pings {
    pings: BTreeMap<u32, Pinging>,
}

#[derive(Debug)]
struct Pinging {
    ticket: Ticket,
    connection: ConnectionId,
    sent: Time,
    tries: u32,
}

impl Pings {
    /// Pings the remote at `connection`; `None` means that there is none.
    pub(super) fn ping(&mut self, core: &mut Core, ticket: Ticket, connection: Option<ConnectionId>) {
        let Some(connection) = connection else {
            return fail(core, ticket, Reason::Unreachable, "there is no connection with that remote");
        };
        if self.pings.len() >= MAX_PINGS {
            return fail(core, ticket, Reason::TooMany, "too many pings are under way");
        }
        self.send(core, Pinging { ticket, connection, sent: core.now, tries: 0 });
    }

    /// Sends a ping under a new token, so that its answer is told from a late
    /// one to its predecessor.
    fn send(&mut self, core: &mut Core, mut pinging: Pinging) {
        let token = core.random.next_u64() as u32;
        pinging.sent = core.now;
        core.send(pinging.connection, ProbeMessage::Ping(token));
        let wait = core.pto(pinging.connection) * (1 << pinging.tries);
        core.set(Timer::Ping(token), wait);
        pinging.tries += 1;
        self.pings.insert(token, pinging);
    }

    pub(super) fn on_pong(&mut self, core: &mut Core, connection: ConnectionId, token: u32) {
        if self.pings.get(&token).is_none_or(|pinging| pinging.connection != connection) {
            return;
        }
        let (Some(pinging), Some(entry)) = (self.pings.remove(&token), core.connections.get_mut(connection)) else {
            return;
        };
        let rtt = core.now.since(pinging.sent);
        entry.rtt.sample(rtt);
        let address = entry.address.clone();
        core.timers.clear(Timer::Ping(token));
        core.emit(NodeEvent::Pong { ticket: pinging.ticket, rtt, address });
    }

    pub(super) fn on_timer(&mut self, core: &mut Core, token: u32) {
        let Some(pinging) = self.pings.remove(&token) else { return };
        if pinging.tries < TRIES {
            return self.send(core, pinging);
        }
        fail(core, pinging.ticket, Reason::TimedOut, "the remote does not answer");
    }

    pub(super) fn on_connection_down(&mut self, core: &mut Core, connection: ConnectionId) {
        self.end(core, |pinging| pinging.connection == connection, Reason::Unreachable, "the connection has ended");
    }

    /// The owner no longer wants it.
    pub(super) fn cancel(&mut self, core: &mut Core, ticket: Ticket) {
        self.end(core, |pinging| pinging.ticket == ticket, Reason::Cancelled, "the ping was cancelled");
    }

    /// Ends everything.
    pub(super) fn leave(&mut self, core: &mut Core) {
        self.end(core, |_| true, Reason::Leaving, "this node is leaving");
    }

    fn end(&mut self, core: &mut Core, which: impl Fn(&Pinging) -> bool, reason: Reason, detail: &str) {
        let chosen = self.pings.iter().filter(|(_, pinging)| which(pinging));
        for token in chosen.map(|(token, _)| *token).collect::<Vec<_>>() {
            core.timers.clear(Timer::Ping(token));
            if let Some(pinging) = self.pings.remove(&token) {
                fail(core, pinging.ticket, reason, detail);
            }
        }
    }
}

fn fail(core: &mut Core, ticket: Ticket, reason: Reason, detail: &str) {
    core.emit(NodeEvent::failed(ticket, reason, detail));
}
