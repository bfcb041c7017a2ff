//! One downstream of a stream: what it was offered, and how long it holds.

use std::collections::BTreeMap;
use std::time::Duration;

use roost_wire::reflection::DownstreamKind;
use roost_wire::{StreamTag, Time};

use crate::control::{PathToken, ReceiverReport};
use crate::fec::{BLOCK_PACKETS, ParityPacket, ParityRate};
use crate::transmit::TargetId;

/// How long a downstream gets the stream after its last report, of which there is one a second.
pub(super) const LEASE: Duration = Duration::from_secs(5);
/// When an offer that is not answered is repeated first, twice as long after each, and how
/// often it is made in all.
const OFFER_AGAIN: Duration = Duration::from_millis(200);
const OFFERS: u8 = 5;
/// The most tags under which one downstream is offered one stream: several who watch at one
/// node, and their changes of way. More wait for the others.
const MAX_TAGS: usize = 8;
/// A downstream that has not reported for so long, which is a tenth more than a report, may be gone: its other
/// remotes should know. If it is not, that costs a ping.
const UNHEARD: Duration = Duration::from_millis(1100);
/// How long one that is known to be there gets the stream without having answered this time.
const TRUSTED: Duration = Duration::from_secs(1);
/// How often it hears something.
const ALIVE: Duration = Duration::from_secs(1);

#[derive(Debug)]
struct Offered {
    times: u8,
    /// When it is made again; none once it was answered.
    next: Option<Time>,
}

#[derive(Debug)]
pub(super) struct Downstream {
    pub(super) kind: DownstreamKind,
    pub(super) word: PathToken,
    /// Where the stream is sent from; none before it has answered.
    pub(super) target: Option<TargetId>,
    offered: BTreeMap<StreamTag, Offered>,
    since: Time,
    /// Until when it wants the stream; none before it has answered.
    lease: Option<Time>,
    /// When its silence means something; none once that was told.
    unheard: Option<Time>,
    pub(super) reported: ReceiverReport,
    share: ParityRate,
    /// How much parity it gets for a full block, and how much it was sent.
    pub(super) parity: u8,
    pub(super) parities: u64,
    /// How many packets it had been sent when it was last looked at, and when that was.
    sent: u64,
    looked: Time,
}

/// What an answer means.
pub(super) enum Answered {
    /// It is the first: the stream begins.
    First {
        /// Whether it was offered more than once.
        was_repeated: bool,
    },
    /// It gets the stream already.
    Again,
}

impl Downstream {
    pub(super) fn new(now: Time, kind: DownstreamKind, word: PathToken) -> Self {
        Self {
            kind,
            word,
            target: None,
            offered: BTreeMap::new(),
            since: now,
            lease: None,
            unheard: None,
            reported: ReceiverReport::default(),
            share: ParityRate::default(),
            parity: 0,
            parities: 0,
            sent: 0,
            looked: now,
        }
    }

    /// It is to be offered the stream under this tag too. One that has answered under it need not.
    pub(super) fn offer(&mut self, now: Time, tag: StreamTag) {
        if self.offered.len() >= MAX_TAGS && !self.offered.contains_key(&tag) {
            self.offered.retain(|_, offered| offered.next.is_some());
        }
        if self.offered.len() < MAX_TAGS {
            self.offered.entry(tag).or_insert(Offered { times: 0, next: Some(now) });
        }
    }

    /// It is offered the stream under this tag no more; true if that was the last one.
    pub(super) fn withdraw(&mut self, tag: StreamTag) -> bool {
        self.offered.remove(&tag);
        self.offered.is_empty()
    }

    /// The tags under which an offer is due, each of which is taken for made.
    pub(super) fn due_offers(&mut self, now: Time) -> Vec<StreamTag> {
        let mut due = Vec::new();
        self.offered.retain(|tag, offered| {
            let Some(_) = offered.next.filter(|next| *next <= now) else { return true };
            if offered.times >= OFFERS {
                return false;
            }
            offered.next = Some(now + OFFER_AGAIN * (1 << u32::from(offered.times)));
            offered.times += 1;
            due.push(*tag);
            true
        });
        due
    }

    pub(super) fn answer(&mut self, now: Time, tag: StreamTag) -> Answered {
        let offered = self.offered.get_mut(&tag);
        let was_repeated = offered.as_ref().is_some_and(|offered| offered.times > 1);
        if let Some(offered) = offered {
            offered.next = None;
        }
        let is_first = !self.has_answered();
        self.renew(now);
        if is_first { Answered::First { was_repeated } } else { Answered::Again }
    }

    pub(super) fn renew(&mut self, now: Time) {
        (self.lease, self.unheard) = (Some(now + LEASE), Some(now + UNHEARD));
    }

    /// Whether it has fallen silent; once for each silence.
    pub(super) fn falls_silent(&mut self, now: Time) -> bool {
        self.unheard.take_if(|at| *at <= now).is_some()
    }

    /// It says what has come, of a stream of which so much was missed here. Who misses it behind
    /// a queue gets no parity: that makes the queue longer.
    pub(super) fn report(&mut self, now: Time, reported: ReceiverReport, own_missed: u64, is_congested: bool) {
        self.renew(now);
        self.reported = reported;
        self.share.report(now, reported, own_missed);
        self.parity = if is_congested { 0 } else { self.share.parity(now) };
    }

    /// Whether it gets this parity.
    pub(super) fn gets(&self, parity: &ParityPacket) -> bool {
        let share = (u32::from(parity.packets) * u32::from(self.parity)).div_ceil(BLOCK_PACKETS.into());
        u32::from(parity.number) < share
    }

    /// Repeats at once the offers that it has not answered.
    pub(super) fn offer_now(&mut self, now: Time) {
        self.offered.values_mut().for_each(|offered| offered.next = offered.next.map(|_| now));
    }

    /// True if it is being offered the stream under this tag, in vain so far.
    pub(super) fn is_offered_under(&self, tag: StreamTag) -> bool {
        self.offered.get(&tag).is_some_and(|offered| offered.next.is_some())
    }

    /// Whether it has been offered the stream and did not answer that yet.
    pub(super) fn is_offered(&self) -> bool {
        self.offered.values().any(|offered| offered.next.is_some())
    }

    /// It has ended what it had; what it has not answered yet is offered under another word.
    /// Returns what it was sent from.
    pub(super) fn begin_again(&mut self, now: Time, word: PathToken) -> Option<TargetId> {
        self.offered.retain(|_, offered| offered.next.is_some());
        self.offered.values_mut().for_each(|offered| offered.next = Some(now));
        (self.word, self.since, self.lease, self.unheard) = (word, now, None, None);
        self.target.take()
    }

    pub(super) fn has_answered(&self) -> bool {
        self.lease.is_some()
    }

    /// Whether it was trusted to answer, and did not.
    pub(super) fn abuses_trust(&self, now: Time) -> bool {
        self.target.is_some() && !self.has_answered() && now.since(self.since) >= TRUSTED
    }

    /// Whether it does not want the stream any more, or never did.
    pub(super) fn is_gone(&self, now: Time) -> bool {
        self.lease.map_or(self.offered.is_empty(), |lease| lease <= now)
    }

    /// Whether it has been sent nothing for a while, of what is known to have been sent to it.
    pub(super) fn is_quiet(&mut self, now: Time, sent: u64) -> bool {
        if now.since(self.looked) < ALIVE {
            return false;
        }
        let was = std::mem::replace(&mut self.sent, sent);
        self.looked = now;
        was == sent
    }

    /// When it has to be looked at again.
    pub(super) fn due(&self) -> Time {
        let offers = self.offered.values().filter_map(|offered| offered.next).min();
        let others = offers.into_iter().chain(self.unheard);
        others.fold(self.looked + ALIVE, Time::min)
    }
}
