//! Keys of reflected streams: an epoch's key, its secret, and the box in which a secret waits at a hub.

mod key_sealer;
mod seal;

pub use key_sealer::KeySealer;
use roost_wire::reflection::SECRET_BYTES;
use roost_wire::{Epoch, EpochSecret, NodeId, StreamId};
pub(crate) use seal::EpochKey;

/// The system's randomness, from which secrets come. Virtual time has a seeded one.
pub trait SecretSource: Send {
    /// Fills `bytes` with what nobody can guess; `false` if there is none at the moment.
    fn fill(&mut self, bytes: &mut [u8]) -> bool;
}

impl<F: FnMut(&mut [u8]) -> bool + Send> SecretSource for F {
    fn fill(&mut self, bytes: &mut [u8]) -> bool {
        self(bytes)
    }
}

/// An epoch, and the secret that opens it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnnouncedKey {
    pub epoch: Epoch,
    pub secret: EpochSecret,
}

/// Draws the number and the first key of a new stream of `publisher`; `None` without randomness.
///
/// The first epoch is the time in seconds since 1970: later than any of an earlier run, as long as
/// the clock is right.
pub fn draw_stream(secrets: &mut dyn SecretSource, publisher: NodeId, unix_s: u64) -> Option<(StreamId, AnnouncedKey)> {
    let (mut secret, mut number) = ([0; SECRET_BYTES], [0; 4]);
    if !secrets.fill(&mut secret) || !secrets.fill(&mut number) {
        return None;
    }
    let epoch = Epoch(u32::try_from(unix_s).unwrap_or(u32::MAX));
    let key = AnnouncedKey { epoch, secret: EpochSecret::from_bytes(secret) };
    Some((StreamId::from_publisher(publisher, u32::from_be_bytes(number)), key))
}
