//! Round trips to requesters of objects, which tell how much may be under way.

use std::collections::BTreeMap;
use std::time::Duration;

use roost_wire::messages::{Message, ProbeMessage};
use roost_wire::{ConnectionId, Time};

use super::core::Core;

/// How often the round trip to a requester of objects is measured.
const PROBE_PAUSE: Duration = Duration::from_secs(1);

/// Round trips that are being measured, each by a datagram that goes before the
/// data. One for each connection with a requester of objects.
#[derive(Debug, Default)]
pub(super) struct RttProbes(BTreeMap<ConnectionId, (Option<u32>, Time)>);

impl RttProbes {
    /// Measures the round trip over `connection`, unless that was done lately.
    pub(super) fn probe(&mut self, core: &mut Core, connection: ConnectionId) {
        if self.0.get(&connection).is_none_or(|(_, sent)| core.now.since(*sent) >= PROBE_PAUSE) {
            let token = core.random.next_u64() as u32;
            self.0.insert(connection, (Some(token), core.now));
            core.send(connection, &Message::Probe(ProbeMessage::Ping(token)));
        }
    }

    pub(super) fn on_pong(&mut self, core: &mut Core, connection: ConnectionId, token: u32) {
        let Some((asked, sent)) = self.0.get_mut(&connection).filter(|(asked, _)| *asked == Some(token)) else {
            return;
        };
        *asked = None;
        if let Some(entry) = core.connections.get_mut(connection) {
            entry.rtt.sample(core.now.since(*sent));
        }
    }

    pub(super) fn forget(&mut self, connection: ConnectionId) {
        self.0.remove(&connection);
    }
}
