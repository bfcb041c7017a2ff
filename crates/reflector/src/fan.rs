//! One stream and its targets.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use roost_proto::Time;
use roost_proto::reflection::Kind;

use crate::packet::{Flags, MAX_HOPS, StreamId};
use crate::ring::{Keep, Mark, Ring, caught_up};
use crate::target::{Item, Patience, Statistics, Target, Terms};
use crate::words::{Nack, Said, Word};

/// The most targets of a stream. Their state is some hundred bytes each; packets are there once.
pub const MAX_TARGETS: usize = 1024;

/// How a stream is kept and sent on.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// What is kept of it.
    pub keep: Keep,
    /// How far behind targets may be.
    pub patience: Patience,
    /// How often a packet is sent on at most, from its publisher to a subscriber: 2, or
    /// [`MAX_HOPS`] with super nodes in layers. More is a loop.
    pub max_hops: u8,
}

impl Default for Config {
    fn default() -> Self {
        Self { keep: Keep::default(), patience: Patience::default(), max_hops: 2 }
    }
}

/// Why a target is not added.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refused {
    /// There is no such stream.
    #[error("no such stream is reflected here")]
    NoStream,
    /// There are as many as there may be.
    #[error("the stream has {MAX_TARGETS} targets: subscribe at another super node")]
    Full,
    /// There are as many streams as there may be.
    #[error("there are as many streams as a super node reflects")]
    TooManyStreams,
}

/// Packets to hand to the system, as one message where it takes them so.
#[derive(Debug)]
pub struct Transmit {
    /// Where they go.
    pub to: SocketAddr,
    /// One packet after the other.
    pub contents: Bytes,
    /// The size of each but the last.
    pub segment: usize,
    /// Whether the system has taken several at once for this target so far.
    pub offload: bool,
    slot: usize,
    item: Item,
}

/// What the system did with a [`Transmit`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Packets that it took, the first ones.
    pub sent: u32,
    /// Packets that it refused, and would again.
    pub failed: u32,
    /// It takes one packet at a time only for this target.
    pub refuses_offload: bool,
    /// It has no room for the rest now.
    pub is_full: bool,
}

/// A stream that is sent on to its targets.
///
/// ```text
/// push … push, close, then: while poll_transmit is something { send it; settle }
/// ```
#[derive(Debug)]
pub struct Fan {
    stream: StreamId,
    config: Config,
    ring: Ring,
    targets: Vec<Target>,
    /// Whose turn it is, and with whom the last batch began.
    turn: usize,
    first: usize,
}

impl Fan {
    /// A stream without targets.
    pub fn new(stream: StreamId, config: Config) -> Self {
        let max_hops = config.max_hops.min(MAX_HOPS);
        let config = Config { max_hops, ..config };
        Self { stream, config, ring: Ring::new(config.keep), targets: Vec::new(), turn: 0, first: 0 }
    }

    /// Adds a target, or renews its lease on these terms. It has to answer the challenge first, if
    /// there is one, and did not yet.
    ///
    /// # Errors
    /// [`Refused::Full`].
    pub fn add_target(&mut self, now: Time, address: SocketAddr, terms: Terms) -> Result<(), Refused> {
        if let Some(target) = self.target(address) {
            target.expires = now + terms.lease;
            let challenge = target.terms.challenge;
            target.terms = Terms { challenge, ..terms };
            return Ok(());
        }
        if self.targets.len() >= MAX_TARGETS {
            return Err(Refused::Full);
        }
        self.targets.push(Target::new(now, address, terms, &self.ring));
        Ok(())
    }

    /// Sends a target nothing more; answers whether there was one.
    pub fn remove_target(&mut self, address: SocketAddr) -> bool {
        let before = self.targets.len();
        self.targets.retain(|target| target.address != address);
        self.targets.len() < before
    }

    /// Each target, whether it has proved its address, and what it has had.
    pub fn targets(&self) -> impl Iterator<Item = (SocketAddr, bool, Statistics)> {
        self.targets.iter().map(|target| (target.address, target.is_proven(), target.statistics))
    }

    fn target(&mut self, address: SocketAddr) -> Option<&mut Target> {
        self.targets.iter_mut().find(|target| target.address == address)
    }

    /// Adds a datagram that is sent on as it is, of a stream without packets of ours.
    pub fn push_opaque(&mut self, now: Time, from: SocketAddr, datagram: &[u8]) {
        let flags = Flags::default();
        self.push(now, datagram, Mark { from, hops: 1, first_byte: None, counter: None, flags });
    }

    pub(crate) fn push(&mut self, now: Time, datagram: &[u8], mark: Mark) {
        self.ring.push(now, datagram, mark);
    }

    /// Ends a batch: what was pushed may be sent, to another target first than the last time.
    pub fn close(&mut self, now: Time) {
        self.ring.close(now);
        self.first = (self.first + 1) % self.targets.len().max(1);
        self.turn = self.first;
    }

    /// What a target says; who is none is not heard.
    pub(crate) fn hear(&mut self, now: Time, from: SocketAddr, said: &Said) {
        let patience = self.config.patience;
        let Some(target) = self.targets.iter_mut().find(|target| target.address == from) else { return };
        match said {
            Said::Answer(word) => target.answer(*word, &self.ring),
            Said::Nack(nack) => target.repair(now, nack, &self.ring, &patience),
            Said::Challenge(_) => {}
        }
    }

    /// A target's answer to its challenge, however it came.
    pub fn answer(&mut self, from: SocketAddr, word: Word) {
        self.hear(Time::ZERO, from, &Said::Answer(word));
    }

    /// Which packets a target misses, however it said so.
    pub fn repair(&mut self, now: Time, from: SocketAddr, nack: Nack) {
        self.hear(now, from, &Said::Nack(nack));
    }

    /// What is to be sent now, target after target in turn; to be [settled](Self::settle) before
    /// anything else is called.
    pub fn poll_transmit(&mut self, now: Time) -> Option<Transmit> {
        let Self { ring, targets, config, .. } = self;
        for _ in 0..targets.len() {
            let slot = self.turn % targets.len();
            self.turn = slot + 1;
            let target = &mut targets[slot];
            let Some(item) = target.peek(now, ring, &config.patience, config.max_hops) else { continue };
            let (contents, segment) = match &item {
                Item::Challenge(word) => {
                    let datagram = Said::Challenge(*word).encode(self.stream);
                    (datagram.clone(), datagram.len())
                }
                Item::Front(packet) => (packet.clone(), packet.len()),
                Item::Run { run, is_cached: true } => (caught_up(&run.bytes, run.segment), run.segment),
                Item::Run { run, .. } => (run.bytes.clone(), run.segment),
            };
            return Some(Transmit { to: target.address, contents, segment, offload: target.offload, slot, item });
        }
        None
    }

    /// Tells what has become of a [`Transmit`]. What did not fit is next again.
    pub fn settle(&mut self, now: Time, transmit: &Transmit, outcome: Outcome) {
        if let Some(target) = self.targets.get_mut(transmit.slot) {
            target.offload &= !outcome.refuses_offload;
            target.settle(now, &transmit.item, outcome, &self.config.patience);
        }
    }

    /// When there is something to send, or to forget, without anything coming in.
    pub fn poll_deadline(&self) -> Option<Time> {
        self.targets.iter().map(|target| target.deadline(&self.ring)).min()
    }

    /// Forgets the targets whose lease is over; answers how many there are.
    pub fn handle_timeout(&mut self, now: Time) -> usize {
        self.targets.retain(|target| now < target.expires);
        self.targets.len()
    }
}

/// Terms of a target that needs no challenge, as in tests and benchmarks.
impl Terms {
    /// A subscriber whose address is known to be its own, for so long.
    pub const fn proven(lease: Duration) -> Self {
        Self { kind: Kind::Subscriber, lease, bits_per_second: None, challenge: None }
    }
}
