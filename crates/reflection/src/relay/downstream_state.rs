//! The state of a downstream: its offers and its lease.

use std::collections::BTreeMap;
use std::time::Duration;

use roost_wire::reflection::DownstreamKind;
use roost_wire::{StreamTag, Time};

use crate::control::{PathToken, ReceiverReport};
use crate::fec::{BLOCK_PACKETS, ParityPacket, ParityRate};
use crate::transmit::TargetId;

/// A downstream gets the stream for this time after its last report, of which there is one a second.
pub(super) const LEASE: Duration = Duration::from_secs(5);
/// An offer that is not answered is repeated after this time, which doubles, and made so often in all.
const OFFER_AGAIN: Duration = Duration::from_millis(200);
const OFFERS: u8 = 5;
/// The most tags under which one downstream is offered one stream: several who watch at one
/// node, and their changes of way. More wait for the others.
const MAX_TAGS: usize = 8;
/// A downstream that has not reported for so long, which is a tenth more than a report, may be gone: its other
/// remotes should know. If it is not, that costs a ping.
const UNHEARD: Duration = Duration::from_millis(1100);
/// A downstream that is known to be there gets the stream for this time without having answered.
const TRUSTED: Duration = Duration::from_secs(1);
/// A downstream gets a sign of life so often.
const ALIVE: Duration = Duration::from_secs(1);

#[derive(Debug)]
struct Offered {
    times: u8,
    /// The time of the next offer; none once one was answered.
    next: Option<Time>,
}

#[derive(Debug)]
pub(super) struct Downstream {
    pub(super) kind: DownstreamKind,
    pub(super) word: PathToken,
    /// The target that sends the stream; none before the first answer.
    pub(super) target: Option<TargetId>,
    offered: BTreeMap<StreamTag, Offered>,
    since: Time,
    /// Until when it wants the stream; none before it has answered.
    lease: Option<Time>,
    /// The time from which its silence means something; none once that was told.
    unheard: Option<Time>,
    pub(super) reported: ReceiverReport,
    share: ParityRate,
    /// The parity that it gets for a full block, and the number of parity packets that it was sent.
    pub(super) parity: u8,
    pub(super) parities: u64,
    /// The packets that it had been sent at the last look, and the time of that look.
    sent: u64,
    looked: Time,
}

pub(super) enum Answered {
    First {
        /// True if it was offered more than once.
        was_repeated: bool,
    },
    /// The downstream gets the stream already.
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

    /// Offers it the stream under this tag too, unless it has answered under the tag.
    pub(super) fn offer(&mut self, now: Time, tag: StreamTag) {
        if self.offered.len() >= MAX_TAGS && !self.offered.contains_key(&tag) {
            self.offered.retain(|_, offered| offered.next.is_some());
        }
        if self.offered.len() < MAX_TAGS {
            self.offered.entry(tag).or_insert(Offered { times: 0, next: Some(now) });
        }
    }

    /// Offers it the stream under this tag no more; true if that was the last one.
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

    /// True if it has fallen silent; once for each silence.
    pub(super) fn falls_silent(&mut self, now: Time) -> bool {
        self.unheard.take_if(|at| *at <= now).is_some()
    }

    /// Takes a report, of a stream of which so much was missed here. A downstream that misses packets behind a
    /// queue gets no parity, which would make the queue longer.
    pub(super) fn report(&mut self, now: Time, reported: ReceiverReport, own_missed: u64, is_congested: bool) {
        self.renew(now);
        self.reported = reported;
        self.share.report(now, reported, own_missed);
        self.parity = if is_congested { 0 } else { self.share.parity(now) };
    }

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

    /// True if it has been offered the stream and did not answer that yet.
    pub(super) fn is_offered(&self) -> bool {
        self.offered.values().any(|offered| offered.next.is_some())
    }

    /// Ends the stream that it had; offers that it has not answered are made again under another word. Returns
    /// the target.
    pub(super) fn begin_again(&mut self, now: Time, word: PathToken) -> Option<TargetId> {
        self.offered.retain(|_, offered| offered.next.is_some());
        self.offered.values_mut().for_each(|offered| offered.next = Some(now));
        (self.word, self.since, self.lease, self.unheard) = (word, now, None, None);
        self.target.take()
    }

    pub(super) fn has_answered(&self) -> bool {
        self.lease.is_some()
    }

    /// True if it was trusted to answer, and did not.
    pub(super) fn abuses_trust(&self, now: Time) -> bool {
        self.target.is_some() && !self.has_answered() && now.since(self.since) >= TRUSTED
    }

    /// True if it does not want the stream any more, or never did.
    pub(super) fn is_gone(&self, now: Time) -> bool {
        self.lease.map_or(self.offered.is_empty(), |lease| lease <= now)
    }

    /// True if it has been sent nothing for a while, of what is known to have been sent to it.
    pub(super) fn is_quiet(&mut self, now: Time, sent: u64) -> bool {
        if now.since(self.looked) < ALIVE {
            return false;
        }
        let was = std::mem::replace(&mut self.sent, sent);
        self.looked = now;
        was == sent
    }

    /// The time of the next look at it.
    pub(super) fn due(&self) -> Time {
        let offers = self.offered.values().filter_map(|offered| offered.next).min();
        let others = offers.into_iter().chain(self.unheard);
        others.fold(self.looked + ALIVE, Time::min)
    }
}
