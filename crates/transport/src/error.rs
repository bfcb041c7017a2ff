//! What can go wrong when binding and sending.

use std::io;

use roost_proto::{ConnectionId, Endpoint};

/// Why [`crate::bind`] failed. Nothing is left open.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BindError {
    /// A host to listen on has no address.
    #[error("cannot listen on {endpoint}: {host} has no address: {source}")]
    Resolve {
        /// The endpoint.
        endpoint: Endpoint,
        /// The host.
        host: String,
        /// What the resolver said.
        source: io::Error,
    },
    /// The system refused the socket.
    #[error("cannot listen on {endpoint}: {source}")]
    Listen {
        /// The endpoint.
        endpoint: Endpoint,
        /// What the system said.
        source: io::Error,
    },
    /// The identity cannot be used for encryption.
    #[error("cannot use this identity: {0}")]
    Identity(String),
}

/// Why a message was not taken. The message is gone; the connection is as it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SendError {
    /// There is no such connection, or not any more.
    #[error("connection {} is down", .0.0)]
    NoConnection(ConnectionId),
    /// The message is longer than a message may be. The caller is at fault.
    #[error("the message of {0} bytes is longer than 65536")]
    TooLong(usize),
    /// The peer does not keep up: the connection's queue of reliable messages is full.
    #[error("the remote does not keep up: the queue of connection {} is full", .0.0)]
    Full(ConnectionId),
}
