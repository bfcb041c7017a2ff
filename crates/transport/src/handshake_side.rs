//! The two sides of a handshake.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HandshakeSide {
    /// Sends the first packet.
    Client,
    Server,
}
