//! A token shows a remote that its connection is not known here any more, as after a restart.
//!
//! A token for each connection is given to the remote inside it, and said in the clear once the
//! connection is unknown here, as QUIC's stateless reset is (RFC 9000, section 10.3). Tokens follow
//! from the identity's key, so that a daemon that has started again knows those of the run before
//! and keeps no secret about anybody; to tell idle remotes, a hub keeps addresses and ids, see
//! [`crate::known_remotes`]. Nobody else can make one. A live connection's token is never said: what is
//! known at one address is asked about at that alone, as each address that we listen at has a key
//! of its own (RFC 9000, section 21.11).

use std::net::SocketAddr;

use aws_lc_rs::hmac;
use roost_identity::Identity;
use roost_proto::Scheme;

/// Length of a token, bytes.
pub(crate) const RESET_TOKEN_BYTES: usize = 16;

/// The key from which the tokens of all connections follow.
#[derive(Debug)]
pub(crate) struct ResetTokenKey(hmac::Key);

impl ResetTokenKey {
    pub(crate) fn new(identity: &Identity) -> Self {
        let label = hmac::Key::new(hmac::HMAC_SHA256, b"roost links that are forgotten");
        Self(hmac::Key::new(hmac::HMAC_SHA256, hmac::sign(&label, identity.key_pkcs8_der()).as_ref()))
    }

    /// The key of one of our addresses.
    pub(crate) fn key(&self, scheme: Scheme, local: SocketAddr) -> hmac::Key {
        let secret = hmac::sign(&self.0, format!("{scheme} {local}").as_bytes());
        hmac::Key::new(hmac::HMAC_SHA256, secret.as_ref())
    }
}

/// The token of a connection by what it is called.
pub(crate) fn reset_token(key: &hmac::Key, id: &[u8]) -> [u8; RESET_TOKEN_BYTES] {
    let mut token = [0; RESET_TOKEN_BYTES];
    token.copy_from_slice(&hmac::sign(key, id).as_ref()[..RESET_TOKEN_BYTES]);
    token
}
