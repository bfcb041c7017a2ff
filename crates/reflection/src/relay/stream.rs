//! The state of a stream at a relay: its upstreams, its downstreams, and its names.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::ops::Bound;
use std::time::Duration;

use roost_wire::{Cell, NodeId, ReflectionGrant, Service, StreamId, Time};

use super::downstream_state::Downstream;
use super::pause::PauseDetector;
use super::upstream_state::{ROOTLESS, Upstream};
use crate::control::{ControlPacket, PathToken};
use crate::fanout::FanoutConfig;
use crate::fec::{MAX_PARITY, ParityDecoder, ParityEncoder, ParityPacket};
use crate::loss_tracker::LossTracker;
use crate::packet::ReadPacket;
use crate::reflector::StreamReflector;
use crate::replay::FilterOutcome;
use crate::transmit::{TargetId, Transmit};

/// Key frames are asked for no more often, however many need one.
const KEY_FRAME: Duration = Duration::from_secs(1);
/// Downstreams of a stream without a way are told so again after this time.
const MOVING_AGAIN: Duration = Duration::from_secs(5);
/// The most parity of the downstreams is looked up so often.
const PARITY: Duration = Duration::from_secs(1);
/// The most parity that waits: of the packets of one batch.
const MAX_PARITIES: usize = 4 * MAX_PARITY as usize;
/// The most upstreams: two ways, each before and after a change.
const MAX_UPSTREAMS: usize = 4;
/// The most ways of asking for a stream that are remembered.
const MAX_NAMES: usize = 8;

/// By what a stream was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamName {
    pub service: Service,
    /// The provider's cell, if the request named it.
    pub cell: Option<Cell>,
    /// The provider, if the request named it.
    pub provider: Option<NodeId>,
}

impl From<&ReflectionGrant> for StreamName {
    fn from(grant: &ReflectionGrant) -> Self {
        Self { service: grant.service, cell: grant.cell, provider: grant.provider }
    }
}

impl StreamName {
    /// True if both mean one stream: of the same provider, or of the same place if nobody said which provider.
    fn means(&self, other: &Self) -> bool {
        let is_place = self.cell.is_some() && self.cell == other.cell;
        let same = match (self.provider, other.provider) {
            (Some(one), Some(another)) => one == another,
            (None, _) | (_, None) => is_place,
        };
        self.service == other.service && same
    }
}

pub(super) struct RelayStream {
    pub(super) reflector: StreamReflector,
    pub(super) is_published: bool,
    /// True if it is watched here, and the number of tags under which it was taken for that.
    pub(super) is_local: bool,
    pub(super) watchers: u32,
    /// True if its publisher was told that it is watched.
    pub(super) is_watched: bool,
    pub(super) names: Vec<StreamName>,
    pub(super) downstreams: BTreeMap<SocketAddr, Downstream>,
    /// In the order in which they were asked for.
    pub(super) upstreams: Vec<Upstream>,
    pub(super) gaps: LossTracker,
    pub(super) decoder: ParityDecoder,
    pub(super) encoder: ParityEncoder,
    /// The most parity that a downstream gets, and when that was last looked at.
    parity: (u8, Time),
    /// Parity that waits for its packets to leave, and who was last sent the first of it.
    parities: VecDeque<ParityPacket>,
    parity_turn: Option<SocketAddr>,
    key_frame: Option<Time>,
    pause: PauseDetector,
    /// The time at which its downstreams, or its watcher, were told that it needs another way.
    moving: Option<Time>,
    pub(super) is_lost: bool,
    /// The time since which it has no upstream.
    rootless: Option<Time>,
}

impl RelayStream {
    pub(super) fn new(stream: StreamId, config: FanoutConfig) -> Self {
        let mut reflector = StreamReflector::new(stream, config);
        reflector.sends_on = false;
        Self {
            reflector,
            is_published: false,
            is_local: false,
            watchers: 0,
            is_watched: false,
            names: Vec::new(),
            downstreams: BTreeMap::new(),
            upstreams: Vec::new(),
            gaps: LossTracker::new(config.patience.repair),
            decoder: ParityDecoder::default(),
            encoder: ParityEncoder::default(),
            parity: (0, Time::ZERO),
            parities: VecDeque::new(),
            parity_turn: None,
            key_frame: None,
            pause: PauseDetector::default(),
            moving: None,
            is_lost: false,
            rootless: None,
        }
    }

    pub(super) fn upstream_mut(&mut self, address: SocketAddr) -> Option<&mut Upstream> {
        self.upstreams.iter_mut().find(|leg| leg.address == address)
    }

    /// Answers an upstream's offer. The upstream that this number of the request is of replaces the oldest one if
    /// there are too many, which is returned.
    pub(super) fn answer_upstream(
        &mut self,
        now: Time,
        from: SocketAddr,
        word: PathToken,
        number: u64,
    ) -> Option<Upstream> {
        let place = self.upstreams.iter().position(|leg| leg.address == from);
        let mut leg = place.map_or_else(|| Upstream::new(now, from, word), |place| self.upstreams.remove(place));
        leg.answer(now, word, number);
        // The latest request counts, whichever is offered first.
        let place = self.upstreams.partition_point(|other| other.request <= leg.request);
        self.upstreams.insert(place, leg);
        (self.upstreams.len() > MAX_UPSTREAMS).then(|| self.upstreams.remove(0))
    }

    pub(super) fn is_called(&self, name: &StreamName) -> bool {
        self.names.iter().any(|known| known.means(name))
    }

    pub(super) fn call(&mut self, name: StreamName) {
        if self.names.len() < MAX_NAMES && !self.names.contains(&name) {
            self.names.push(name);
        }
    }

    /// True if it begins here, or whoever asked for it knows whose it is.
    pub(super) fn has_known_publisher(&self, stream: StreamId) -> bool {
        let is_known = |name: &StreamName| name.provider.is_some_and(|provider| stream.is_of(provider));
        self.is_published || self.names.iter().any(is_known)
    }

    /// Takes a packet of this host's publisher; answers whether it is one that comes next.
    pub(super) fn push(&mut self, now: Time, packet: &[u8]) -> bool {
        let pushed = self.reflector.publish(now, packet);
        pushed.is_ok_and(|counter| {
            self.protect(now, counter, packet);
            true
        })
    }

    /// Takes a packet from an upstream; answers whether it is to be sent on.
    pub(super) fn receive_packet(&mut self, now: Time, from: SocketAddr, packet: ReadPacket<'_>) -> bool {
        let taken = self.reflector.take_read(now, from, packet);
        if taken == Ok(FilterOutcome::Resynced) {
            self.gaps.reset_sequence();
            self.upstreams.iter_mut().for_each(Upstream::reset_sequence);
            self.decoder = ParityDecoder::default();
        }
        taken.is_ok()
    }

    /// The hops from the publisher to this host.
    pub(super) fn depth(&self) -> u8 {
        let upstream = self.upstreams.iter().map(|leg| leg.depth).min();
        if self.is_published { 0 } else { upstream.map_or(u8::MAX, |depth| depth.saturating_add(1)) }
    }

    /// True if it has an upstream that stays, or needs none.
    pub(super) fn is_rooted(&self, now: Time) -> bool {
        self.is_published || self.upstreams.iter().any(|leg| !leg.is_leaving(now))
    }

    /// The time at which a stream without upstreams is given up.
    pub(super) fn ends(&mut self, now: Time) -> Option<Time> {
        let is_rootless = self.upstreams.is_empty() && !self.is_published;
        self.rootless = is_rootless.then(|| self.rootless.unwrap_or(now));
        self.rootless.map(|since| since + ROOTLESS)
    }

    /// True if it is time to say that it is not rooted.
    pub(super) fn tells_moving(&mut self, now: Time) -> bool {
        if self.is_rooted(now) {
            (self.moving, self.is_lost) = (None, false);
            return false;
        }
        let tells = self.moving.is_none_or(|told| now.since(told) >= MOVING_AGAIN);
        if tells {
            self.moving = Some(now);
        }
        tells
    }

    /// True if a key frame is to be asked for now.
    pub(super) fn asks_key_frame(&mut self, now: Time) -> bool {
        let asks = self.key_frame.is_none_or(|asked| now.since(asked) >= KEY_FRAME);
        if asks {
            self.key_frame = Some(now);
        }
        asks
    }

    /// The time of the first look for a pause, unless one is set already.
    pub(super) fn begins_to_run(&mut self) -> Option<Time> {
        self.pause.runs(self.reflector.last(), self.reflector.next(), !self.downstreams.is_empty())
    }

    /// Looks whether there is a pause; answers when to look again, if there is none.
    pub(super) fn look_for_pause(&mut self, now: Time) -> Option<Time> {
        self.pause.look(now, self.reflector.last(), self.reflector.next())
    }

    /// The counter after the last packet that this downstream has been sent; 0 if it lags behind.
    pub(super) fn sent_up_to(&self, member: &Downstream) -> u64 {
        let is_level = member.target.is_some_and(|target| self.reflector.targets().is_level(target));
        if is_level { self.reflector.next() } else { 0 }
    }

    /// A downstream gets so much parity from now on.
    pub(super) fn note_parity(&mut self, now: Time, parity: u8) {
        let (most, looked) = self.parity;
        self.parity.0 = most.max(parity);
        if now.since(looked) >= PARITY {
            let most = self.downstreams.values().map(|member| member.parity).max();
            self.parity = (most.unwrap_or(0), now);
        }
    }

    /// Makes the parity of the block that ends with this packet, if somebody gets it.
    pub(super) fn protect(&mut self, now: Time, counter: u64, packet: &[u8]) {
        if self.parity.0 > 0 {
            self.parities.extend(self.encoder.push(now, counter, packet, self.parity.0));
            while self.parities.len() > MAX_PARITIES {
                self.parities.pop_front();
            }
        }
    }

    /// Polls for datagrams: packets, then the parity of those that have left.
    pub(super) fn poll_transmit(&mut self, now: Time, stream: StreamId) -> Option<Transmit> {
        self.reflector.fanout().poll_transmit(now).or_else(|| self.poll_parity(stream))
    }

    /// The parity that is next, to one after the other. Those that lag behind, which it would reach
    /// before its packets, go without, and those whose budget is spent.
    fn poll_parity(&mut self, stream: StreamId) -> Option<Transmit> {
        while let Some(parity) = self.parities.front() {
            let after = self.parity_turn.map_or(Bound::Unbounded, Bound::Excluded);
            let (fan, bytes) = (self.reflector.fanout(), parity.shard.len());
            let mut affords = |target: Option<TargetId>| target.is_some_and(|target| fan.affords(target, bytes));
            let mut others = self.downstreams.range_mut((after, Bound::Unbounded));
            let next = others.find(|(_, member)| member.gets(parity) && affords(member.target));
            if let Some((to, member)) = next {
                member.parities += 1;
                self.parity_turn = Some(*to);
                let said = ControlPacket::Parity(parity.clone()).encode(stream, member.word);
                return Some(Transmit::control_packet(*to, stream, said));
            }
            self.parity_turn = None;
            self.parities.pop_front();
        }
        None
    }

    /// Bits per second of one copy; until it is measured, what its service usually takes.
    pub(super) fn rate(&self) -> u64 {
        match self.reflector.bits_per_second() {
            0 => self.names.first().map_or(0, |name| name.service.reflected_bits_per_second()),
            measured => measured,
        }
    }

    /// Bits per second that it takes of the uplink.
    pub(super) fn load(&self) -> u64 {
        self.rate().saturating_mul(self.downstreams.len() as u64)
    }
}
