//! Telling those above, or the owners among the tops, what there is here.

use std::collections::BTreeSet;
use std::time::Duration;

use super::super::route::owners;
use super::super::tree::Relation;
use super::super::{Hub, Kind};
use crate::block::Patch;
use crate::ids::NodeId;
use crate::machine::{Channel, Traffic};
use crate::time::Time;
use crate::wire::{MAX_PATCHES, Message, Summary};

/// The least time between two summaries to the same hub. The first news goes
/// at once, what follows it closely goes together.
const BATCH: Duration = Duration::from_millis(200);

/// What a summary costs besides its patches: its own header, and the headers
/// and the seal of the datagram.
const OVERHEAD_BYTES: u32 = 80;

/// What one patch costs at most.
const PATCH_BYTES: u32 = 11;

/// How far ahead of its rate a link may be, for news.
const AHEAD: Duration = Duration::from_secs(60);

/// The same for what is only told again: news has always something left.
const AHEAD_AGAIN: Duration = Duration::from_secs(30);

/// How many patches one wake looks at, to see whether a hub is to know them.
const MAX_EXAMINED: usize = 16 * 1024;

/// The tops' links are this many times faster than those to a parent.
const TOPS_FACTOR: u64 = 100;

/// What another hub is still to be told.
#[derive(Debug)]
pub(super) struct Outbox {
    /// Patches that were or became empty.
    news: BTreeSet<Patch>,
    /// The round that tells everything, and where it stands; `None` between rounds.
    round: Option<Round>,
    next_round: Time,
    /// Up to when the link's budget is used.
    charged: Time,
    due: Time,
    /// No summary goes before.
    not_before: Time,
}

#[derive(Clone, Copy, Debug)]
struct Round {
    /// The version that was the next one when the round began.
    since: u64,
    after: Option<Patch>,
}

impl Outbox {
    fn new(now: Time) -> Self {
        let (news, round, next_round) = (BTreeSet::new(), None, now);
        Self { news, round, next_round, charged: now, due: now, not_before: now }
    }

    pub(super) fn due(&self) -> Time {
        self.due
    }

    /// How many patches may go now, if the link may be `ahead` of its rate.
    fn room(&self, now: Time, bits_per_second: u64, ahead: Duration) -> usize {
        let left = ahead.saturating_sub(self.charged.since(now)).as_millis() as u64;
        let bytes = (left * bits_per_second / 8_000).saturating_sub(OVERHEAD_BYTES.into());
        ((bytes / u64::from(PATCH_BYTES)) as usize).min(MAX_PATCHES)
    }

    /// Takes note of a summary that goes now, and says when to look again.
    fn sent(&mut self, now: Time, bits_per_second: u64, bytes: usize) {
        let bits = (bytes as u64 + u64::from(OVERHEAD_BYTES)) * 8;
        self.charged = self.charged.max(now) + Duration::from_millis(bits * 1_000 / bits_per_second.max(1));
        self.not_before = now + BATCH;
    }

    fn plan(&mut self, now: Time, bits_per_second: u64) {
        let ahead = if self.news.is_empty() { AHEAD_AGAIN } else { AHEAD };
        self.due = match self.news.is_empty() && self.round.is_none() {
            true => self.next_round,
            false if self.room(now, bits_per_second, ahead) > 0 => self.not_before,
            // Enough of the budget comes back for a few patches.
            false => now + self.charged.since(now + ahead) + Duration::from_secs(2),
        };
    }
}

impl Hub {
    /// Something is there where nothing was, or the other way round: those who
    /// are to know hear of it.
    pub(super) fn announce(&mut self, patch: Patch) {
        if self.summaries.outboxes.is_empty() {
            return;
        }
        let is_top = self.is_top();
        let owners = if is_top { self.owners(patch) } else { Vec::new() };
        for (hub, outbox) in &mut self.summaries.outboxes {
            if !is_top || owners.contains(hub) {
                outbox.news.insert(patch);
                outbox.due = outbox.due.min(outbox.not_before);
            }
        }
    }

    /// The tops among which this one is have changed, or so have the parents:
    /// everybody who is to know is told everything.
    pub(in crate::hub) fn tops_changed(&mut self, now: Time) {
        if self.config.kind == Kind::Server {
            // Caches register each node, so there is nothing to sum up.
            return;
        }
        let wanted = if self.is_top() { Relation::Peer } else { Relation::Parent };
        let hubs: Vec<NodeId> = self.neighbours.hubs().filter(|hub| self.relation(*hub) == Some(wanted)).collect();
        self.summaries.outboxes.retain(|hub, _| hubs.contains(hub));
        for hub in hubs {
            let outbox = self.summaries.outboxes.entry(hub).or_insert_with(|| Outbox::new(now));
            (outbox.round, outbox.next_round) = (None, now);
            outbox.due = outbox.not_before;
        }
    }

    /// Sends what is due.
    pub(in crate::hub) fn tell_summaries(&mut self, now: Time) {
        let due = self.summaries.outboxes.iter().filter(|(_, outbox)| outbox.due <= now);
        for hub in due.map(|(hub, _)| *hub).collect::<Vec<_>>() {
            let patches = self.patches_for(now, hub);
            self.tell_summary(now, hub, patches);
        }
    }

    /// The rate of the summaries on the link to another hub.
    fn summary_rate(&self) -> u64 {
        let rate = u64::from(self.config.summary_bits_per_second);
        if self.is_top() { rate * TOPS_FACTOR } else { rate }
    }

    /// Takes the patches that go now from a hub's outbox: news first. Says
    /// also since when everything has been told, if that is so.
    fn patches_for(&mut self, now: Time, hub: NodeId) -> (BTreeSet<Patch>, Option<u64>) {
        let (rate, lease, next_version) = (self.summary_rate(), self.config.lease, self.summaries.version + 1);
        let (tops, own) = (self.is_top().then(|| self.tops()), self.config.node);
        let Some(outbox) = self.summaries.outboxes.get_mut(&hub) else { return Default::default() };
        if outbox.round.is_none() && outbox.next_round <= now {
            outbox.round = Some(Round { since: next_version, after: None });
            outbox.next_round = now + lease;
        }
        let mut patches = BTreeSet::new();
        let room = outbox.room(now, rate, AHEAD);
        while patches.len() < room {
            let Some(patch) = outbox.news.pop_first() else { break };
            patches.insert(patch);
        }
        let Some(mut round) = outbox.round else { return (patches, None) };
        let room = outbox.room(now, rate, AHEAD_AGAIN);
        let start = round.after.map_or(std::ops::Bound::Unbounded, std::ops::Bound::Excluded);
        let mut examined = 0;
        for patch in self.summaries.aggregate.range((start, std::ops::Bound::Unbounded)).map(|(patch, _)| *patch) {
            if patches.len() >= room || examined >= MAX_EXAMINED {
                outbox.round = Some(round);
                return (patches, None);
            }
            (round.after, examined) = (Some(patch), examined + 1);
            if tops.as_ref().is_none_or(|tops| owners(tops, patch).contains(&hub)) && hub != own {
                patches.insert(patch);
            }
        }
        let since = (patches.len() < room).then_some(round.since);
        outbox.round = since.is_none().then_some(round);
        (patches, since)
    }

    fn tell_summary(&mut self, now: Time, hub: NodeId, (patches, since): (BTreeSet<Patch>, Option<u64>)) {
        let rate = self.summary_rate();
        let link = self.link_to(hub).filter(|_| !patches.is_empty() || since.is_some());
        let Some(link) = link else {
            if let Some(outbox) = self.summaries.outboxes.get_mut(&hub) {
                outbox.plan(now, rate);
                outbox.due = outbox.due.max(now + BATCH);
            }
            return;
        };
        self.summaries.version += 1;
        let (run, version) = (self.summaries.run, self.summaries.version);
        let aggregate = &self.summaries.aggregate;
        let counted = |patch: Patch| (patch, aggregate.get(&patch).copied().unwrap_or_default());
        let patches: Vec<(Patch, u32)> = patches.into_iter().map(counted).collect();
        self.counters.summaries_sent += 1;
        self.counters.patches_sent += patches.len() as u64;
        let message = Message::Summary(Summary { run, version, patches, since });
        self.send(link, Channel::Reliable { flow: 0 }, Traffic::Summary, &message);
        if let Some(outbox) = self.summaries.outboxes.get_mut(&hub) {
            outbox.sent(now, rate, message.encode().len());
            outbox.plan(now, rate);
        }
    }
}
