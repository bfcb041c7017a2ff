//! Data that has overtaken its acceptance, kept until that comes.

use std::collections::BTreeMap;

use roost_wire::messages::FlowMessage;
use roost_wire::{ConnectionId, RequestId};

/// Messages of one flow that are kept from one connection: a window of chunks.
const MAX_MESSAGES: usize = 20;

/// Payload that is kept from one connection, bytes: so a remote that guesses
/// numbers leaves room for the others.
const MAX_BYTES_EACH: usize = 512 * 1024;

/// Payload of all flows that is kept, bytes.
const MAX_BYTES: usize = 4 * 1024 * 1024;

/// Messages for requests that are not accepted yet.
#[derive(Debug, Default)]
pub(super) struct EarlyFlowData {
    messages: BTreeMap<(RequestId, ConnectionId), Vec<FlowMessage>>,
    /// Payload kept from each connection, bytes.
    bytes: BTreeMap<ConnectionId, usize>,
}

impl EarlyFlowData {
    /// Keeps a message of the flow `id`, which is one of this node's requests.
    pub(super) fn keep(&mut self, id: RequestId, connection: ConnectionId, message: FlowMessage) {
        let bytes = payload_bytes(&message);
        let (of_connection, of_all) =
            (self.bytes.get(&connection).copied().unwrap_or(0), self.bytes.values().sum::<usize>());
        if of_connection + bytes > MAX_BYTES_EACH || of_all + bytes > MAX_BYTES {
            return;
        }
        let messages = self.messages.entry((id, connection)).or_default();
        if messages.len() < MAX_MESSAGES {
            messages.push(message);
            *self.bytes.entry(connection).or_default() += bytes;
        }
    }

    /// The messages that were kept of a flow, from each connection in its order.
    pub(super) fn take_messages(&mut self, id: RequestId) -> Vec<(ConnectionId, FlowMessage)> {
        let all = (id, ConnectionId(0))..=(id, ConnectionId(u64::MAX));
        let connections: Vec<ConnectionId> = self.messages.range(all).map(|((_, connection), _)| *connection).collect();
        let mut taken = Vec::new();
        for connection in connections {
            let messages = self.messages.remove(&(id, connection)).unwrap_or_default();
            let bytes: usize = messages.iter().map(payload_bytes).sum();
            let left = self.bytes.get(&connection).map_or(0, |held| held.saturating_sub(bytes));
            if left == 0 {
                self.bytes.remove(&connection);
            } else {
                self.bytes.insert(connection, left);
            }
            taken.extend(messages.into_iter().map(|message| (connection, message)));
        }
        taken
    }
}

fn payload_bytes(message: &FlowMessage) -> usize {
    match message {
        FlowMessage::Datagram(packet) => packet.payload.len(),
        FlowMessage::Chunk(chunk) => chunk.payload.len(),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use roost_wire::messages::Chunk;

    const OURS: RequestId = RequestId(1);

    fn chunk(id: RequestId) -> FlowMessage {
        FlowMessage::Chunk(Chunk { id, offset: 0, payload: Bytes::from(vec![0; 16 * 1024]) })
    }

    #[test]
    fn guessed_ids_leave_room_for_provider() {
        let (mut early, rogue, provider) = (EarlyFlowData::default(), ConnectionId(1), ConnectionId(2));
        for number in 0..100 {
            for _ in 0..100 {
                early.keep(RequestId(number), rogue, chunk(RequestId(number)));
            }
        }
        for _ in 0..16 {
            early.keep(OURS, provider, chunk(OURS));
        }
        let kept = early.take_messages(OURS);
        assert_eq!(kept.iter().filter(|(connection, _)| *connection == provider).count(), 16);
        assert!(kept.iter().filter(|(connection, _)| *connection == rogue).count() <= MAX_MESSAGES);
        assert!(early.take_messages(OURS).is_empty());
        (0..100).for_each(|number| drop(early.take_messages(RequestId(number))));
        assert!(early.bytes.is_empty());
    }
}
