//! Connection ids, and stateless resets (RFC 9000, section 10.3) that tell remotes of an earlier run that their
//! connections are gone. quinn sends the same reset in answer to a packet that belongs to no connection.

use std::cell::Cell;
use std::io::ErrorKind;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use aws_lc_rs::{hmac, rand};
use quinn::AsyncUdpSocket as _;
use quinn::udp::Transmit;
use quinn_proto::{ConnectionId, ConnectionIdGenerator, HashedConnectionIdGenerator, InvalidCid};

use super::Quic;
use super::socket::CountedSocket;
use crate::known_remotes::{KnownRemote, WireId};
use crate::stateless_reset::{RESET_TOKEN_BYTES, reset_token};

/// Bytes before the token, which make a reset look like any packet.
const PADDING: usize = 25;

thread_local! {
    /// The first id that this thread has made since the cell was emptied.
    static FIRST: Cell<Option<WireId>> = const { Cell::new(None) };
}

/// Runs `accept`, which makes a QUIC connection, and returns also the first id that it made. The remote of an accepted
/// connection sends under that id, and quinn does not reveal it.
pub(super) fn first_id<T>(accept: impl FnOnce() -> T) -> (T, Option<WireId>) {
    FIRST.set(None);
    (accept(), FIRST.take())
}

/// Makes ids that a later run recognizes as ours.
pub(super) struct Ids(HashedConnectionIdGenerator);

impl Ids {
    pub(super) fn new(key: u64) -> Self {
        Self(HashedConnectionIdGenerator::from_key(key))
    }
}

impl ConnectionIdGenerator for Ids {
    fn generate_cid(&mut self) -> ConnectionId {
        let id = self.0.generate_cid();
        FIRST.set(FIRST.get().or_else(|| id[..].try_into().ok()));
        id
    }

    fn validate(&self, id: &ConnectionId) -> Result<(), InvalidCid> {
        self.0.validate(id)
    }

    fn cid_len(&self) -> usize {
        self.0.cid_len()
    }

    fn cid_lifetime(&self) -> Option<Duration> {
        self.0.cid_lifetime()
    }
}

/// A listening socket, and the key of the reset tokens that it sends.
pub(super) struct ResetSender {
    pub(super) socket: Arc<CountedSocket>,
    pub(super) key: hmac::Key,
}

impl ResetSender {
    fn send_reset(&self, known: &KnownRemote) -> bool {
        let mut reset = [0; PADDING + RESET_TOKEN_BYTES];
        if rand::fill(&mut reset[..PADDING]).is_err() {
            return true;
        }
        // The first byte of a packet with a short header.
        reset[0] = 0x40 | reset[0] >> 2;
        reset[PADDING..].copy_from_slice(&reset_token(&self.key, &known.wire_id));
        let (destination, src_ip) = (known.to, known.from);
        let transmit = Transmit { destination, ecn: None, contents: &reset, segment_size: None, src_ip };
        let sent = self.socket.try_send(&transmit);
        // A remote that the system cannot reach notices the silence by itself.
        !sent.is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
    }
}

impl Quic {
    /// As [`crate::Transport::send_reset`], for a remote that dialed over QUIC.
    pub(crate) fn send_reset(&self, known: &KnownRemote) -> bool {
        let voices = self.inner.voices.read().unwrap_or_else(PoisonError::into_inner);
        voices.get(&known.at).is_none_or(|voice| voice.send_reset(known))
    }
}
