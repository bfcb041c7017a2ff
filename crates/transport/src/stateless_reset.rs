//! A token shows a remote that this side does not know its connection any more, as after a restart.
//!
//! The remote gets the token of each connection inside it. Once the connection is unknown here, the token is sent in
//! the clear, as in QUIC's stateless reset (RFC 9000, section 10.3). Tokens follow from the identity's key, so that a
//! daemon which has started again knows those of its last run and keeps no secret for each remote. Nobody else can make
//! one. To reach idle remotes, a hub keeps their addresses and ids, see [`crate::known_remotes`].
//!
//! The token of a live connection is never sent: each address at which we listen has a key of its own, so a packet that
//! is sent to another address does not reveal it (RFC 9000, section 21.11).

use std::net::SocketAddr;

use aws_lc_rs::hmac;
use roost_identity::Identity;
use roost_wire::Scheme;

/// Length of a token, bytes. QUIC prescribes 16.
pub(crate) const RESET_TOKEN_BYTES: usize = 16;

/// The key from which the tokens of all connections follow.
#[derive(Debug)]
pub(crate) struct ResetTokenKey(hmac::Key);

impl ResetTokenKey {
    pub(crate) fn new(identity: &Identity) -> Self {
        let label = hmac::Key::new(hmac::HMAC_SHA256, b"roost links that are forgotten");
        Self(hmac::Key::new(hmac::HMAC_SHA256, hmac::sign(&label, identity.key_pkcs8_der()).as_ref()))
    }

    /// The key for the connections at one of our addresses.
    pub(crate) fn key(&self, scheme: Scheme, local: SocketAddr) -> hmac::Key {
        let secret = hmac::sign(&self.0, format!("{scheme} {local}").as_bytes());
        hmac::Key::new(hmac::HMAC_SHA256, secret.as_ref())
    }
}

/// The token of the connection with this id.
pub(crate) fn reset_token(key: &hmac::Key, id: &[u8]) -> [u8; RESET_TOKEN_BYTES] {
    let mut token = [0; RESET_TOKEN_BYTES];
    token.copy_from_slice(&hmac::sign(key, id).as_ref()[..RESET_TOKEN_BYTES]);
    token
}
