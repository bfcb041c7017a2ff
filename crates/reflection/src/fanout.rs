//! The fan-out of a stream to its targets.

use std::collections::{BTreeSet, VecDeque};
use std::net::SocketAddr;

use roost_wire::Time;

use crate::admission::{AdmissionError, MAX_TARGETS};
use crate::control::Nack;
use crate::packet::{Flags, MAX_HOPS, StreamId};
use crate::ring::{Mark, RetentionLimits, Ring, caught_up};
use crate::target::{LagLimits, StartPoint, Target, TargetOptions, TargetStats, Wait};
use crate::transmit::{Item, SendOutcome, TargetId, Transmit};

/// The limits of a stream and of its targets.
#[derive(Clone, Copy, Debug)]
pub struct FanoutConfig {
    /// The packets that are kept for targets that join or ask for repairs.
    pub keep: RetentionLimits,
    /// The limits of targets that are behind.
    pub patience: LagLimits,
    /// The most hops of a packet from its publisher to a subscriber: 2, or [`MAX_HOPS`] with super nodes in
    /// layers. More is a loop.
    pub max_hops: u8,
}

impl Default for FanoutConfig {
    fn default() -> Self {
        Self { keep: RetentionLimits::default(), patience: LagLimits::default(), max_hops: 2 }
    }
}

/// A stream that is sent on to its targets.
///
/// ```text
/// push … push, close, then: while poll_transmit is something { send it; settle }
/// ```
#[derive(Debug)]
pub struct Fanout {
    stream: StreamId,
    config: FanoutConfig,
    ring: Ring,
    /// By number, so that a change moves no other; at most [`MAX_TARGETS`].
    targets: Vec<Option<Target>>,
    /// Targets that have a turn, in order, each once.
    line: VecDeque<usize>,
    /// Targets whose connections are busy, by the time at which they are free again.
    due: BTreeSet<(Time, usize)>,
    /// Targets for which the system had no room.
    stalled: Vec<usize>,
    /// With whom the last batch began.
    first: usize,
    /// The head of the ring when targets were last put in line.
    offered: u64,
    wants_key: bool,
}

impl Fanout {
    pub fn new(stream: StreamId, config: FanoutConfig) -> Self {
        let max_hops = config.max_hops.min(MAX_HOPS);
        Self {
            stream,
            config: FanoutConfig { max_hops, ..config },
            ring: Ring::new(config.keep),
            targets: Vec::new(),
            line: VecDeque::new(),
            due: BTreeSet::new(),
            stalled: Vec::new(),
            first: 0,
            offered: 0,
            wants_key: false,
        }
    }

    /// Sends the stream to this address too, whose owner has agreed.
    ///
    /// # Errors
    /// [`AdmissionError::TooManyTargets`].
    pub fn add_target(
        &mut self,
        now: Time,
        address: SocketAddr,
        terms: TargetOptions,
        start: StartPoint,
    ) -> Result<TargetId, AdmissionError> {
        let free = self.targets.iter().position(Option::is_none);
        let slot = free.unwrap_or(self.targets.len());
        if slot >= MAX_TARGETS {
            return Err(AdmissionError::TooManyTargets);
        }
        if free.is_none() {
            self.targets.push(None);
        }
        let target = Target::new(now, address, terms, start, &self.ring);
        self.wants_key |= target.awaits_key();
        let wait = target.due(&self.ring).map_or(Wait::Packets, |_| Wait::Turn);
        self.targets[slot] = Some(target);
        self.wait(slot, wait);
        Ok(TargetId(slot))
    }

    /// Sends a target so many bytes at most, until [`allow_all`](Self::allow_all).
    pub fn allow(&mut self, target: TargetId, bytes: u64) {
        if let Some(known) = self.targets.get_mut(target.0).and_then(Option::as_mut) {
            known.allow(Some(bytes));
        }
    }

    /// Sends a target whatever there is for it.
    pub fn allow_all(&mut self, target: TargetId) {
        let Some(known) = self.targets.get_mut(target.0).and_then(Option::as_mut) else { return };
        known.allow(None);
        if known.wait == Wait::Packets {
            self.wait(target.0, Wait::Turn);
        }
    }

    /// Lets a target begin at another place of the stream.
    pub fn restart_target(&mut self, now: Time, target: TargetId, start: StartPoint) {
        if let Some(known) = self.targets.get_mut(target.0).and_then(Option::as_mut) {
            known.join(now, start, &self.ring);
            self.wants_key |= known.awaits_key();
            self.wait(target.0, Wait::Turn);
        }
    }

    /// Sends a target nothing more; returns what it had, if there was one.
    pub fn remove_target(&mut self, target: TargetId) -> Option<TargetStats> {
        self.wait(target.0, Wait::Packets);
        self.targets.get_mut(target.0)?.take().map(|target| target.statistics)
    }

    pub fn statistics(&self, target: TargetId) -> Option<TargetStats> {
        self.targets.get(target.0)?.as_ref().map(|target| target.statistics)
    }

    /// True if a target has had all that there is for it.
    pub(crate) fn is_level(&self, target: TargetId) -> bool {
        let known = self.targets.get(target.0).and_then(Option::as_ref);
        known.is_some_and(|known| !known.awaits_key() && known.due(&self.ring).is_none())
    }

    /// Adds a datagram that is sent on as it is, of a stream without packets of ours.
    pub fn push_opaque(&mut self, now: Time, from: SocketAddr, datagram: &[u8]) {
        let flags = Flags::default();
        self.push(now, datagram, Mark { from: Some(from), hops: 1, first_byte: None, counter: None, flags });
    }

    pub(crate) fn push(&mut self, now: Time, datagram: &[u8], mark: Mark) {
        self.ring.push(now, datagram, mark);
    }

    /// Ends a batch: what was pushed may be sent, to another target first than the last time, and
    /// those for whom the system had no room are tried again.
    pub fn close(&mut self, now: Time) {
        self.ring.close(now);
        for slot in std::mem::take(&mut self.stalled) {
            self.wait(slot, Wait::Turn);
        }
        if self.offered == self.ring.head() {
            return;
        }
        self.offered = self.ring.head();
        self.first = (self.first + 1) % self.targets.len().max(1);
        for slot in (self.first..self.targets.len()).chain(0..self.first) {
            if self.targets[slot].as_ref().is_some_and(|target| target.wait == Wait::Packets) {
                self.wait(slot, Wait::Turn);
            }
        }
    }

    /// Changes what a target waits for, here and there.
    fn wait(&mut self, slot: usize, wait: Wait) {
        let Some(target) = self.targets.get_mut(slot).and_then(Option::as_mut) else { return };
        if let Wait::Until(time) = std::mem::replace(&mut target.wait, wait) {
            self.due.remove(&(time, slot));
        }
        match wait {
            Wait::Packets => {}
            Wait::Turn => self.line.push_back(slot),
            Wait::Until(time) => drop(self.due.insert((time, slot))),
        }
    }

    /// Sends packets again that a target misses, if the ring still has them.
    pub fn repair(&mut self, now: Time, target: TargetId, nack: &Nack) {
        let Some(known) = self.targets.get_mut(target.0).and_then(Option::as_mut) else { return };
        known.repair(now, nack, &self.ring, &self.config.patience);
        if known.wait == Wait::Packets {
            self.wait(target.0, Wait::Turn);
        }
    }

    /// A target reports the greatest packet that it has; answers whether what it misses was lost
    /// behind a queue.
    pub(crate) fn note_reported(&mut self, now: Time, target: TargetId, highest: u64) -> bool {
        let Some(known) = self.targets.get_mut(target.0).and_then(Option::as_mut) else { return false };
        known.note_reported(now, highest, &self.ring);
        known.is_congested()
    }

    /// True if a target that has had all there is may be sent so much parity too, which it then is.
    pub(crate) fn affords(&mut self, target: TargetId, bytes: usize) -> bool {
        let is_level = self.is_level(target);
        let known = self.targets.get_mut(target.0).and_then(Option::as_mut);
        is_level && known.is_some_and(|known| known.affords(bytes))
    }

    /// True if somebody has waited for a key frame since this was asked; who goes on waiting is told
    /// of again whenever packets come.
    pub fn take_wants_key(&mut self) -> bool {
        std::mem::take(&mut self.wants_key)
    }

    /// Polls for datagrams, target after target in turn; [`record_outcome`](Self::record_outcome) has to follow
    /// before any other call.
    pub fn poll_transmit(&mut self, now: Time) -> Option<Transmit> {
        while let Some(slot) = self.line.pop_front() {
            let Self { ring, targets, config, .. } = self;
            // A target that has gone since, or whose number has another target, has no turn.
            let Some(target) = targets[slot].as_mut().filter(|target| target.wait == Wait::Turn) else { continue };
            let Some(item) = target.peek(now, ring, &config.patience, config.max_hops) else {
                self.wants_key |= target.awaits_key();
                let wait = target.due(ring).map_or(Wait::Packets, Wait::Until);
                self.wait(slot, wait);
                continue;
            };
            target.wait = Wait::Packets;
            let (contents, segment) = match &item {
                Item::Control => continue,
                Item::Front(packet) => (packet.clone(), packet.len()),
                Item::Run { run, is_cached: true } => (caught_up(&run.bytes, run.segment), run.segment),
                Item::Run { run, .. } => (run.bytes.clone(), run.segment),
            };
            let (to, offload, stream) = (target.address, target.offload, self.stream);
            return Some(Transmit { to, from: None, contents, segment, offload, stream, target: TargetId(slot), item });
        }
        None
    }

    /// Tells what has become of a [`Transmit`]. What did not fit is next again, after the next
    /// [`close`](Self::close).
    pub fn record_outcome(&mut self, now: Time, transmit: &Transmit, outcome: SendOutcome) {
        let slot = transmit.target.0;
        let Some(target) = self.targets.get_mut(slot).and_then(Option::as_mut) else { return };
        if matches!(transmit.item, Item::Control) {
            return;
        }
        target.offload &= !outcome.refuses_offload;
        target.record_sent(now, &transmit.item, outcome, &self.config.patience);
        match target.due(&self.ring) {
            _ if outcome.is_full => self.stalled.push(slot),
            Some(due) if due > now => self.wait(slot, Wait::Until(due)),
            Some(_) => self.wait(slot, Wait::Turn),
            None => {}
        }
    }

    /// The time of the next datagram if no packet comes.
    pub fn poll_deadline(&self) -> Option<Time> {
        self.due.first().map(|(due, _)| *due)
    }

    pub fn handle_timeout(&mut self, now: Time) {
        while let Some((_, slot)) = self.due.first().copied().filter(|(due, _)| *due <= now) {
            self.wait(slot, Wait::Turn);
        }
    }
}
