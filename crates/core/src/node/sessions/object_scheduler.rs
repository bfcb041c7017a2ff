//! The sharing of paths among the objects under way: what may be on its way on each connection, and on all,
//! is shared evenly.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use roost_wire::messages::{FlowMessage, ProbeMessage};
use roost_wire::{ConnectionId, Time};

use super::ProviderSessions;
use super::session::{Session, SessionPhase};
use crate::flow::{MAX_WINDOW_BYTES, MAX_WINDOWS_BYTES, SendBudget, WINDOW_BYTES};
use crate::node::api::{NodeEvent, SessionId};
use crate::node::core::Core;

/// Shortest time between two measurements of the round trip to a requester of objects.
const PROBE_PAUSE: Duration = Duration::from_secs(1);

/// Measures the round trip over `connection`, unless that was done lately, by a datagram that goes before the data.
pub(super) fn probe_path(core: &mut Core, connection: ConnectionId) {
    let now = core.now;
    let Some(entry) = core.connections.get_mut(connection).filter(|it| !it.probe.was_sent_within(now, PROBE_PAUSE))
    else {
        return;
    };
    let token = core.random.next_u64() as u32;
    entry.probe.begin(now, token);
    core.send(connection, ProbeMessage::Ping(token));
}

/// The objects under way, and their bytes.
#[derive(Clone, Copy, Debug, Default)]
struct ObjectLoad {
    objects: u64,
    bytes: u64,
}

impl ObjectLoad {
    fn add(&mut self, bytes: u64) {
        self.objects += 1;
        self.bytes += bytes;
    }
}

impl ProviderSessions {
    /// A piece of an object has been read.
    pub(crate) fn on_bytes_read(&mut self, core: &mut Core, id: SessionId, offset: u64, bytes: Bytes) {
        let Some(Session { phase: SessionPhase::Sending(object), .. }) = self.sessions.get_mut(&id) else { return };
        object.supply(offset, bytes);
        self.pump(core);
    }

    /// Sends of all objects under way what there is room for. At most
    /// [`MAX_OBJECT_SESSIONS`](crate::node::MAX_OBJECT_SESSIONS) are looked at.
    pub(super) fn pump(&mut self, core: &mut Core) {
        let (mut connections, mut all) = (BTreeMap::<ConnectionId, ObjectLoad>::new(), ObjectLoad::default());
        let mut sending = Vec::new();
        for (id, session) in self.under_way() {
            if let (SessionPhase::Sending(object), Some(connection)) = (&session.phase, session.connection) {
                connections.entry(connection).or_default().add(object.in_flight());
                all.add(object.in_flight());
                sending.push((id, connection));
            }
        }
        for (id, connection_of) in sending {
            let (Some(session), Some(load)) = (self.sessions.get_mut(&id), connections.get_mut(&connection_of)) else {
                continue;
            };
            let share = (MAX_WINDOW_BYTES / load.objects).min(MAX_WINDOWS_BYTES / all.objects);
            let left = (MAX_WINDOW_BYTES.saturating_sub(load.bytes)).min(MAX_WINDOWS_BYTES.saturating_sub(all.bytes));
            let is_through =
                core.connections.get(connection_of).is_some_and(|connection| connection.own.tunnel.is_some());
            let share = if session.request.relayed || is_through { share.min(WINDOW_BYTES) } else { share };
            let sent = session.pump(core, id, SendBudget { share, left });
            load.bytes += sent;
            all.bytes += sent;
        }
    }
}

impl Session {
    /// Sends what the object's sender has to send and there is `room` for, and
    /// has read what comes next.
    fn pump(&mut self, core: &mut Core, id: SessionId, mut room: SendBudget) -> u64 {
        let before = room.left;
        while let Some(message) = self.next_chunk(core.now, room) {
            if let FlowMessage::Chunk(chunk) = &message {
                room.left -= chunk.payload.len() as u64;
            }
            self.send_reliably(core, message);
        }
        if let SessionPhase::Sending(object) = &mut self.phase
            && let Some((offset, length)) = object.next_read()
        {
            let pushed = self.request.pushed.map(|pushed| pushed.ticket);
            core.emit(NodeEvent::ReadObject { session: id, pushed, offset, length });
        }
        before - room.left
    }

    fn next_chunk(&mut self, now: Time, room: SendBudget) -> Option<FlowMessage> {
        match &mut self.phase {
            SessionPhase::Sending(object) if self.connection.is_some() => object.poll(now, room),
            _ => None,
        }
    }
}
