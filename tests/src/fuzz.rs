//! One function for each parser that sees the network. `tests/fuzz` runs them
//! under libFuzzer; `tests/tests/corpus.rs` replays the committed corpus.

use roost_proto::wire::Message;
use roost_proto::{Cell, Endpoint};

/// A parser under test: must return, whatever the bytes.
pub type Target = fn(&[u8]);

/// Every target by the name of its corpus folder.
pub const TARGETS: [(&str, Target); 2] = [("wire_message", wire_message), ("notation", notation)];

/// The overlay's messages: what is read must encode to what reads the same.
pub fn wire_message(bytes: &[u8]) {
    if let Ok(message) = Message::decode(bytes) {
        assert_eq!(Message::decode(&message.encode()), Ok(message));
    }
}

/// Endpoints and cells as people write them: what is read prints to what reads the same.
pub fn notation(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Ok(endpoint) = text.parse::<Endpoint>() {
        assert_eq!(endpoint.to_string().parse(), Ok(endpoint));
    }
    if let Ok(cell) = text.parse::<Cell>() {
        assert_eq!(cell.to_string().parse(), Ok(cell));
    }
}
