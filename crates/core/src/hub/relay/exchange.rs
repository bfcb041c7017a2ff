//! Limits of what two nodes have under way to one another [through](roost_wire::messages::RequestMessage::Tunneled) the
//! hub. Both send files and answer, so both have an account. What one says shows that it has read what
//! came before, and gives the other one credit back.

use std::collections::BTreeMap;

use bytes::Bytes;
use roost_wire::messages::{FlowMessage, MAX_OBJECT_NAME_BYTES, Message, RequestMessage};
use roost_wire::{RequestId, Time};

use super::header::Side;
use crate::flow::{INLINE_BYTES, WINDOW_BYTES};
use crate::node::MAX_RECEPTIONS_FROM_ONE;

/// The most that a side may be ahead: as many files as one node may send to another at once, each a
/// window and what is sent again after a silence. It is less than what may wait in a connection.
const MAX_AHEAD: u64 = WINDOW_BYTES * MAX_RECEPTIONS_FROM_ONE as u64 * super::credit::TIMES;

/// Bytes that every second gives back: for offers, which are longer than their refusals.
const BYTES_PER_SECOND: u64 = 32 * 1024;

/// Given back by a request: the offer that led to it, and a file that comes with its acceptance.
const REQUEST_BYTES: u64 = (INLINE_BYTES + 2 * MAX_OBJECT_NAME_BYTES) as u64;

/// The longest messages that are looked into: reports and requests are shorter.
const MAX_READ_BYTES: usize = 512;

/// The most files of which the reports are remembered.
const MAX_FILES: usize = 4 * MAX_RECEPTIONS_FROM_ONE;

#[derive(Debug, Default)]
pub(super) struct DuplexCredit {
    by_requester: Account,
    by_provider: Account,
    /// Time up to which credit was given back for time.
    since: Time,
}

#[derive(Debug, Default)]
struct Account {
    /// Bytes that the remote has not shown to have read.
    ahead: u64,
    /// Payload bytes of each file that the other side has reported.
    reported: BTreeMap<RequestId, u64>,
}

impl Account {
    fn give_back(&mut self, bytes: u64) {
        self.ahead = self.ahead.saturating_sub(bytes);
    }

    /// The remote has said so much, and perhaps that it has read something.
    fn answered(&mut self, bytes: usize, inner: Option<Message>) {
        self.give_back(bytes as u64);
        match inner {
            Some(Message::Request(RequestMessage::Request(_))) => self.give_back(REQUEST_BYTES),
            Some(Message::Flow(FlowMessage::Report(report))) => {
                let before = self.reported.insert(report.id, report.bytes).unwrap_or(0);
                if self.reported.len() > MAX_FILES {
                    self.reported.pop_first();
                }
                // Twice: what was sent again is reported once.
                self.give_back(report.bytes.saturating_sub(before).saturating_mul(2));
            }
            _ => {}
        }
    }
}

impl DuplexCredit {
    /// Takes note of a message that one side sends to the other. False if it is beyond all credit.
    pub(super) fn says(&mut self, now: Time, side: Side, message: &[u8]) -> bool {
        let spans = now.since(self.since).as_millis() as u64;
        self.since = self.since.max(now);
        let over_time = BYTES_PER_SECOND.saturating_mul(spans) / 1_000;
        self.by_requester.give_back(over_time);
        self.by_provider.give_back(over_time);
        let (own, other) = match side {
            Side::Requester => (&mut self.by_requester, &mut self.by_provider),
            Side::Provider => (&mut self.by_provider, &mut self.by_requester),
        };
        other.answered(message.len(), inner(message));
        own.ahead = own.ahead.saturating_add(message.len() as u64);
        own.ahead <= MAX_AHEAD
    }
}

/// A short message within one that goes through.
fn inner(message: &[u8]) -> Option<Message> {
    if message.len() > MAX_READ_BYTES {
        return None;
    }
    match Message::decode(&Bytes::copy_from_slice(message)) {
        Ok(Message::Request(RequestMessage::Tunneled { message, .. })) => Message::decode(&message).ok(),
        _ => None,
    }
}
