//! The agent's ear: it reads what the command says, also while a call is carried out.

use std::io::{self, Read, Write};

use super::protocol::{AgentCall, MAX_BYTES, Message, Packet};
use super::queue::{ByteQueue, Queued, QueuedBytes, queue_of};

/// Bytes of messages that wait while a call is carried out: twice the longest one, so that the end is always heard.
const MAX_WAITING: usize = 2 * (MAX_BYTES as usize);

pub(super) fn message_queue() -> (ByteQueue<Packet>, QueuedBytes<Packet>) {
    queue_of(MAX_WAITING)
}

/// Reads messages until the command ends the conversation; the error says why it cannot go on.
pub(super) fn listen(input: &mut impl Read, queue: &ByteQueue<Packet>) -> Result<(), String> {
    loop {
        let packet = Packet::read(input).map_err(|error| format!("the conversation broke off: {error}"))?;
        let Some(packet) = packet else { return Ok(()) };
        let full = |_| format!("more than {} MiB of messages wait for a call to end", MAX_WAITING >> 20);
        queue.push(packet).map_err(full)?;
    }
}

pub(super) fn complain(why: &str) -> i32 {
    let _ = writeln!(io::stderr(), "emulate agent: {why}");
    1
}

impl Queued for Packet {
    fn bytes(&self) -> usize {
        let head = match &self.message {
            Message::Call { call: AgentCall::Start(start), .. } => start.topology.len(),
            _ => 0,
        };
        self.body.len() + head
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frames(bodies: &[usize]) -> Vec<u8> {
        let mut frames = Vec::new();
        bodies.iter().for_each(|body| Packet::write(&Message::Data { id: 1 }, &vec![0; *body], &mut frames).unwrap());
        frames
    }

    #[test]
    fn messages_are_heard_until_the_end() {
        let (queue, packets) = queue_of(1 << 10);
        assert_eq!(listen(&mut frames(&[1, 2, 3]).as_slice(), &queue), Ok(()));
        drop(queue);
        assert_eq!(packets.map(|packet| packet.body.len()).collect::<Vec<usize>>(), [1, 2, 3]);
    }

    #[test]
    fn waiting_bytes_have_a_limit() {
        let (queue, _packets) = queue_of(1 << 10);
        assert!(listen(&mut frames(&[900, 900]).as_slice(), &queue).unwrap_err().contains("wait for a call"));
        let (queue, _packets) = queue_of(1 << 20);
        assert_eq!(listen(&mut frames(&[0; 2000]).as_slice(), &queue), Ok(()), "many small ones wait");
    }

    #[test]
    fn broken_frame_is_an_error() {
        let (queue, _packets) = queue_of(1 << 10);
        let cut = |end: usize| listen(&mut &frames(&[10])[..end], &queue);
        assert_eq!(cut(0), Ok(()));
        assert!(cut(5).unwrap_err().contains("broke off"));
        assert!(listen(&mut [255u8; 64].as_slice(), &queue).unwrap_err().contains("does not speak our protocol"));
    }
}
