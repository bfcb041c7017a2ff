//! Links and what they do to messages.

use std::time::Duration;

use roost_proto::random::SplitMix64;
use roost_proto::wire::Message;
use roost_proto::{LinkId, Scheme, Time};

use super::host::HostId;

/// What every link does to datagrams.
#[derive(Clone, Copy, Debug)]
pub struct Path {
    /// One way.
    pub delay: Duration,
    /// Added at random, up to this; it reorders what is closer together.
    pub spread: Duration,
    /// Lost, per mille.
    pub loss: u32,
    /// Delivered twice, per mille.
    pub duplication: u32,
}

impl Default for Path {
    fn default() -> Self {
        Self { delay: Duration::from_millis(20), spread: Duration::ZERO, loss: 0, duplication: 0 }
    }
}

impl Path {
    pub fn draw(&self, random: &mut SplitMix64) -> Duration {
        self.delay + Duration::from_nanos(random.below(self.spread.as_nanos() as u64 + 1))
    }
}

/// One end of a link, as one host sees it.
#[derive(Clone, Debug)]
pub struct WorldLink {
    pub host: HostId,
    pub far_host: HostId,
    pub far: LinkId,
    pub scheme: Scheme,
    pub up: bool,
    /// Nothing sent reliably from this end arrives before.
    pub ordered_until: Time,
}

impl WorldLink {
    pub fn new(host: HostId, far_host: HostId, far: LinkId, scheme: Scheme) -> Self {
        Self { host, far_host, far, scheme, up: true, ordered_until: Time::ZERO }
    }
}

/// The message with the first payload byte of a chunk changed.
pub fn damaged(message: bytes::Bytes) -> bytes::Bytes {
    match Message::decode(&message) {
        Ok(Message::Chunk(mut chunk)) if !chunk.payload.is_empty() => {
            let mut payload = chunk.payload.to_vec();
            payload[0] = payload[0].wrapping_add(1);
            chunk.payload = payload.into();
            Message::Chunk(chunk).encode()
        }
        _ => message,
    }
}
