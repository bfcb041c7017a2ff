//! Telling those above, or the owners among the tops, what there is here.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use roost_wire::block::BlockService;
use roost_wire::messages::{HierarchyMessage, MAX_SUMMARY_BLOCKS, Message, Summary};
use roost_wire::{Channel, NodeId, Time};

use super::super::HubKind;
use super::super::route::owners;
use crate::hub::core::HubCore;
use crate::hub::relation::Relation;
use crate::hub::summaries::Summaries;
use crate::machine::Traffic;

/// The least time between two summaries to the same hub. The first news goes
/// at once, what follows it closely goes together.
const BATCH: Duration = Duration::from_millis(200);

/// What a summary costs besides its patches: its own header, and the headers
/// and the seal of the datagram.
const OVERHEAD_BYTES: u32 = 80;

/// What one patch costs at most.
const PATCH_BYTES: u32 = 11;

/// How far ahead of its rate a connection may be, for news.
const AHEAD: Duration = Duration::from_secs(60);

/// The same for what is only told again: news has always something left.
const AHEAD_AGAIN: Duration = Duration::from_secs(30);

/// In so long enough of a budget that is used up comes back for a few patches.
const REFILL: Duration = Duration::from_secs(2);

/// One part in so many of what may go with news is the round's: it heals what
/// was lost, and news may never end.
const ROUND_SHARE: usize = 4;

/// How many patches one wake looks at, to see whether a hub is to know them.
const MAX_EXAMINED: usize = 4 * 1024;

/// The tops' connections are this many times faster than those to a parent.
const TOPS_FACTOR: u64 = 100;

/// What another hub is still to be told.
#[derive(Debug)]
pub(super) struct Outbox {
    /// Patches in which it believes something to be, and in which round it last
    /// heard so; no more than it keeps.
    told: BTreeMap<BlockService, u32>,
    /// Patches of which that is wrong: never more than there are in `told` and
    /// in the aggregate.
    news: ChangeQueue,
    /// The round that tells everything, and where it stands; `None` between rounds.
    round: Option<RefreshRound>,
    /// How many rounds have begun.
    rounds: u32,
    next_round: Time,
    /// Up to when the connection's budget is used.
    charged: Time,
    due: Time,
    /// No summary goes before.
    not_before: Time,
}

#[derive(Clone, Copy, Debug)]
struct RefreshRound {
    /// The version that was the next one when the round began.
    since: u64,
    after: Option<BlockService>,
}

/// Patches in the order in which they became news, each once. Who makes news
/// without end stands behind everybody else.
#[derive(Debug, Default)]
struct ChangeQueue {
    order: BTreeMap<u64, BlockService>,
    numbers: BTreeMap<BlockService, u64>,
    last: u64,
}

impl ChangeQueue {
    fn insert(&mut self, block_service: BlockService) {
        if let Entry::Vacant(free) = self.numbers.entry(block_service) {
            self.last += 1;
            free.insert(self.last);
            self.order.insert(self.last, block_service);
        }
    }

    fn remove(&mut self, block_service: BlockService) {
        if let Some(number) = self.numbers.remove(&block_service) {
            self.order.remove(&number);
        }
    }

    fn pop(&mut self) -> Option<BlockService> {
        let (_, block_service) = self.order.pop_first()?;
        self.numbers.remove(&block_service);
        Some(block_service)
    }

    fn is_empty(&self) -> bool {
        self.order.is_empty()
    }
}

impl Outbox {
    fn new(now: Time) -> Self {
        let (told, news) = (BTreeMap::new(), ChangeQueue::default());
        Self { told, news, round: None, rounds: 0, next_round: now, charged: now, due: now, not_before: now }
    }

    /// Something is in the patch now, or nothing: news, unless the hub believes
    /// just that. `limit` is how many patches it keeps.
    fn announce(&mut self, block_service: BlockService, filled: bool, limit: usize) {
        if self.told.contains_key(&block_service) == filled || filled && self.told.len() >= limit {
            self.news.remove(block_service);
        } else {
            self.news.insert(block_service);
            self.due = self.due.min(self.not_before);
        }
    }

    /// Takes as many of the oldest news as there is room for.
    fn take_changes(&mut self, room: usize) -> BTreeSet<BlockService> {
        std::iter::from_fn(|| self.news.pop()).take(room).collect()
    }

    /// Whether the round passes the patch by: it is told in it, or will be, as news.
    fn is_fresh(&self, block_service: BlockService) -> bool {
        self.told.get(&block_service) == Some(&self.rounds) || self.news.numbers.contains_key(&block_service)
    }

    /// Takes note of what the hub has been told.
    fn record_sent(&mut self, block_services: &[(BlockService, u32)]) {
        for (block_service, count) in block_services {
            self.news.remove(*block_service);
            if *count > 0 {
                self.told.insert(*block_service, self.rounds);
            } else {
                self.told.remove(block_service);
            }
        }
    }

    pub(super) fn due(&self) -> Time {
        self.due
    }

    /// How many patches may go now, if the connection may be `ahead` of its rate.
    fn room(&self, now: Time, bits_per_second: u64, ahead: Duration) -> usize {
        let left = ahead.saturating_sub(self.charged.since(now)).as_millis() as u64;
        let bytes = (left * bits_per_second / 8_000).saturating_sub(OVERHEAD_BYTES.into());
        ((bytes / u64::from(PATCH_BYTES)) as usize).min(MAX_SUMMARY_BLOCKS)
    }

    /// Takes note of a summary that goes now, and says when to look again.
    fn sent(&mut self, now: Time, bits_per_second: u64, bytes: usize) {
        let bits = (bytes as u64 + u64::from(OVERHEAD_BYTES)) * 8;
        self.charged = self.charged.max(now) + Duration::from_millis(bits * 1_000 / bits_per_second.max(1));
        self.not_before = now + BATCH;
    }

    fn plan(&mut self, now: Time, bits_per_second: u64) {
        let ahead = if self.news.is_empty() { AHEAD_AGAIN } else { AHEAD };
        if !self.news.is_empty() && self.room(now, bits_per_second, ahead) == 0 {
            // Further news does not go before either, alone in its datagram.
            self.not_before = now + self.charged.since(now + ahead) + REFILL;
        }
        self.due = match self.news.is_empty() && self.round.is_none() {
            true => self.next_round,
            false if self.room(now, bits_per_second, ahead) > 0 => self.not_before,
            false => now + self.charged.since(now + ahead) + REFILL,
        };
    }
}

impl Summaries {
    /// Something is there where nothing was, or the other way round: those who
    /// are to know hear of it.
    pub(crate) fn announce(&mut self, core: &mut HubCore, block_service: BlockService) {
        if self.outboxes.is_empty() {
            return;
        }
        let (is_top, limit) = (core.is_root(), core.config.limits.block_services_per_hub);
        let owners = if is_top { core.owners(block_service) } else { Vec::new() };
        let filled = self.aggregate.contains_key(&block_service);
        for (hub, outbox) in &mut self.outboxes {
            if !is_top || owners.contains(hub) {
                outbox.announce(block_service, filled, limit);
            }
        }
    }

    /// The tops among which this one is have changed, or so have the parents:
    /// everybody who is to know is told everything.
    pub(crate) fn reset_summary_outboxes(&mut self, core: &mut HubCore) {
        let now = core.now;
        if core.config.kind == HubKind::Server {
            // Caches register each node, so there is nothing to sum up.
            return;
        }
        let wanted = if core.is_root() { Relation::Sibling } else { Relation::Parent };
        let hubs: Vec<NodeId> = core.remotes.hubs().filter(|hub| core.relation(*hub) == Some(wanted)).collect();
        self.outboxes.retain(|hub, _| hubs.contains(hub));
        for hub in hubs {
            self.outboxes.entry(hub).or_insert_with(|| Outbox::new(now));
            self.resend_summary(core, hub);
        }
    }

    /// One hub is told everything, if it is to know anything.
    pub(crate) fn resend_summary(&mut self, core: &mut HubCore, hub: NodeId) {
        let now = core.now;
        if let Some(outbox) = self.outboxes.get_mut(&hub) {
            (outbox.round, outbox.next_round) = (None, now);
            outbox.due = outbox.not_before;
        }
    }

    /// Tells the hub whose turn it is; others that are due have the next wake.
    pub(crate) fn tell_summaries(&mut self, core: &mut HubCore) {
        let now = core.now;
        let first = self.outboxes.iter().min_by_key(|(_, outbox)| outbox.due);
        if let Some(hub) = first.filter(|(_, outbox)| outbox.due <= now).map(|(hub, _)| *hub) {
            let block_services = self.take_block_services(core, hub);
            self.tell_summary(core, hub, block_services);
        }
    }

    /// Takes the patches that go now from a hub's outbox: news first. Says
    /// also since when everything has been told, if that is so.
    fn take_block_services(&mut self, core: &mut HubCore, hub: NodeId) -> (BTreeSet<BlockService>, Option<u64>) {
        let now = core.now;
        let (rate, lease, next_version) = (core.summary_rate(), core.config.lease, self.version + 1);
        let (roots, own) = (core.is_root().then(|| core.roots()), core.config.node);
        let Some(outbox) = self.outboxes.get_mut(&hub) else { return Default::default() };
        if outbox.round.is_none() && outbox.next_round <= now {
            outbox.round = Some(RefreshRound { since: next_version, after: None });
            outbox.rounds = outbox.rounds.wrapping_add(1);
            outbox.next_round = now + lease;
        }
        let room = outbox.room(now, rate, AHEAD);
        let kept = if outbox.round.is_some() { room / ROUND_SHARE } else { 0 };
        let mut block_services = outbox.take_changes(room - kept);
        let Some(mut round) = outbox.round else { return (block_services, None) };
        // News takes a part of the round along.
        let along = if block_services.is_empty() { 0 } else { block_services.len() + kept };
        let room = outbox.room(now, rate, AHEAD_AGAIN).max(along);
        let start = round.after.map_or(std::ops::Bound::Unbounded, std::ops::Bound::Excluded);
        let mut examined = 0;
        for block_service in self.aggregate.range((start, std::ops::Bound::Unbounded)).map(|(patch, _)| *patch) {
            if block_services.len() >= room || examined >= MAX_EXAMINED {
                outbox.round = Some(round);
                return (block_services, None);
            }
            (round.after, examined) = (Some(block_service), examined + 1);
            let is_to_know =
                hub != own && roots.as_ref().is_none_or(|roots| owners(roots, block_service).contains(&hub));
            if is_to_know && !outbox.is_fresh(block_service) {
                block_services.insert(block_service);
            }
        }
        let since = (block_services.len() < room).then_some(round.since);
        outbox.round = since.is_none().then_some(round);
        if since.is_some() {
            // The hub forgets whatever it has not heard of in this round.
            let this = outbox.rounds;
            outbox.told.retain(|block_service, round| *round == this || block_services.contains(block_service));
        }
        (block_services, since)
    }

    fn tell_summary(
        &mut self,
        core: &mut HubCore,
        hub: NodeId,
        (block_services, since): (BTreeSet<BlockService>, Option<u64>),
    ) {
        let now = core.now;
        let rate = core.summary_rate();
        let connection = core.connection_to(hub).filter(|_| !block_services.is_empty() || since.is_some());
        let Some(connection) = connection else {
            if let Some(outbox) = self.outboxes.get_mut(&hub) {
                outbox.plan(now, rate);
                outbox.due = outbox.due.max(now + BATCH);
            }
            return;
        };
        self.version += 1;
        let (run, version) = (self.run, self.version);
        let aggregate = &self.aggregate;
        let counted =
            |block_service: BlockService| (block_service, aggregate.get(&block_service).copied().unwrap_or_default());
        let told: Vec<(BlockService, u32)> = block_services.into_iter().map(counted).collect();
        core.counters.summaries_sent += 1;
        core.counters.block_services_sent += told.len() as u64;
        let message = Message::Hierarchy(HierarchyMessage::Summary(Summary {
            run,
            version,
            block_services: told.clone(),
            since,
        }));
        core.send(connection, Channel::Reliable { flow: 0 }, Traffic::Summary, &message);
        if let Some(outbox) = self.outboxes.get_mut(&hub) {
            outbox.record_sent(&told);
            outbox.sent(now, rate, message.encode().len());
            outbox.plan(now, rate);
        }
    }
}

impl HubCore {
    /// The rate of the summaries on the link to another hub.
    fn summary_rate(&self) -> u64 {
        let rate = u64::from(self.config.summary_bits_per_second);
        if self.is_root() { rate * TOPS_FACTOR } else { rate }
    }
}
