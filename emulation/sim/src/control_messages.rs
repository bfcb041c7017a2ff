//! Messages from node to node other than data, and the packets that they take.

use roost_core::Traffic;
use roost_wire::Time;

use super::connections::MachineId;

/// Data of at most this many bytes leaves room for a message in its packet.
const SHORT_BYTES: u64 = 512;

/// The sender, the receiver and the time.
type MessageRoute = (MachineId, MachineId, Time);

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ControlMessages {
    /// Messages with a packet of their own.
    pub(super) alone: u64,
    /// Messages in another message's packet.
    pub(super) shared: u64,
    /// Bytes of both, without any header.
    pub(super) bytes: u64,
    /// The route of the last message, while its packet is counted in `alone`.
    open: Option<MessageRoute>,
}

impl ControlMessages {
    /// Counts a message. Consecutive messages with the same route and time share a packet.
    pub(super) fn count(&mut self, way: MessageRoute, traffic: Traffic, bytes: u64) {
        let follows = self.open == Some(way);
        if traffic != Traffic::Payload {
            *if follows { &mut self.shared } else { &mut self.alone } += 1;
            self.bytes += bytes;
            self.open = Some(way);
        } else if follows && bytes <= SHORT_BYTES {
            // The packet is one of data, as of a report.
            (self.alone, self.shared) = (self.alone - 1, self.shared + 1);
            self.open = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts messages of ten bytes, `A`, beside short data, `P`, and long data, `L`. A digit sets the
    /// receiver, a space lets time pass.
    fn counted(story: &str) -> (u64, u64) {
        let (mut control_messages, mut to, mut now) = (ControlMessages::default(), 1, Time::ZERO);
        for step in story.chars() {
            match step {
                'A' => control_messages.count((0, to, now), Traffic::Lookup, 10),
                'P' => control_messages.count((0, to, now), Traffic::Payload, SHORT_BYTES),
                'L' => control_messages.count((0, to, now), Traffic::Payload, SHORT_BYTES + 1),
                ' ' => now = now + std::time::Duration::from_millis(1),
                digit => to = digit as usize,
            }
        }
        assert_eq!(control_messages.bytes, 10 * story.matches('A').count() as u64);
        (control_messages.alone, control_messages.shared)
    }

    #[test]
    fn simultaneous_messages_share_packet() {
        let cases = [
            ("A", (1, 0)),
            ("AA", (1, 1)),
            ("A A", (2, 0)),
            ("AP", (0, 1)),
            ("AAP", (0, 2)),
            ("APP", (0, 1)),
            ("APAP", (0, 2)),
            ("AL", (1, 0)),
            ("A P", (1, 0)),
            ("P", (0, 0)),
            ("A2P", (1, 0)),
            ("A2A1P", (2, 0)),
        ];
        for (story, expected) in cases {
            assert_eq!(counted(story), expected, "{story}");
        }
    }
}
