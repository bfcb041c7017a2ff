//! Errors of opening the sockets and of sending messages.

use std::io;

use roost_wire::{ConnectionId, Endpoint};

/// [`crate::bind`] failed. No socket is left open.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BindError {
    #[error("cannot listen on {endpoint}: {host} has no address: {source}")]
    Resolve { endpoint: Endpoint, host: String, source: io::Error },
    /// The system refused to open or bind the socket.
    #[error("cannot listen on {endpoint}: {source}")]
    Listen { endpoint: Endpoint, source: io::Error },
    #[error("cannot use this identity: {0}")]
    Identity(String),
}

/// A message was not queued. The message is gone; the connection is as it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SendError {
    #[error("connection {} is down", .0.0)]
    NoConnection(ConnectionId),
    /// The message is longer than [`roost_wire::messages::MAX_MESSAGE_BYTES`]. The caller is at fault.
    #[error("the message of {0} bytes is longer than 65536")]
    TooLong(usize),
    /// The remote does not keep up, so the connection's queue of reliable messages is full.
    #[error("the remote does not keep up: the queue of connection {} is full", .0.0)]
    Full(ConnectionId),
}
