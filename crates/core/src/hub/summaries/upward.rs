//! Telling those above, or the owners among the roots, what there is here.

use std::collections::{BTreeMap, BTreeSet};

use roost_wire::block::BlockService;
use roost_wire::messages::{HierarchyMessage, Message, Summary};
use roost_wire::{Channel, NodeId};

use super::Summaries;
use super::outbox::{AHEAD, AHEAD_AGAIN, BATCH, Outbox, RefreshRound};
use crate::hub::HubKind;
use crate::hub::core::HubCore;
use crate::hub::relation::Relation;
use crate::hub::route::owners;
use crate::machine::Traffic;

/// The round has one part in so many of what may go with news: it heals what was lost, and news may never end.
const ROUND_SHARE: usize = 4;

/// Number of blocks that one wake looks at, to see whether a hub is to know them.
const MAX_EXAMINED: usize = 4 * 1024;

/// The roots' connections are this many times faster than those to a parent.
const ROOTS_FACTOR: u64 = 100;

impl Summaries {
    /// Something is there where nothing was, or the other way round: those who
    /// are to know hear of it.
    pub(crate) fn announce(&mut self, core: &mut HubCore, block_service: BlockService) {
        if self.outboxes.is_empty() {
            return;
        }
        let (is_root, limit) = (core.is_root(), core.config.limits.block_services_per_hub);
        let owners = if is_root { core.owners(block_service) } else { Vec::new() };
        let filled = self.aggregate.contains_key(&block_service);
        for (hub, outbox) in &mut self.outboxes {
            if !is_root || owners.contains(hub) {
                outbox.announce(block_service, filled, limit);
            }
        }
    }

    /// The roots among which this one is have changed, or so have the parents:
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

    /// A hub is told everything, if it is to know anything.
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
            let (block_services, since) = self.take_block_services(core, hub);
            self.tell_summary(core, hub, block_services, since);
        }
    }

    /// Takes the blocks that go now from a hub's outbox: news first. Says
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
        for block_service in
            self.aggregate.range((start, std::ops::Bound::Unbounded)).map(|(block_service, _)| *block_service)
        {
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
        block_services: BTreeSet<BlockService>,
        since: Option<u64>,
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
        let told: BTreeMap<BlockService, u32> = block_services.into_iter().map(counted).collect();
        core.counters.summaries_sent += 1;
        core.counters.block_services_sent += told.len() as u64;
        let message = Message::Hierarchy(HierarchyMessage::Summary(Summary {
            run,
            version,
            block_services: told.clone(),
            since,
        }));
        let bytes = message.encode().len();
        core.send(connection, Channel::Reliable { flow: 0 }, Traffic::Summary, message);
        if let Some(outbox) = self.outboxes.get_mut(&hub) {
            outbox.record_sent(&told);
            outbox.sent(now, rate, bytes);
            outbox.plan(now, rate);
        }
    }
}

impl HubCore {
    /// The rate of the summaries on the link to another hub.
    fn summary_rate(&self) -> u64 {
        let rate = u64::from(self.config.summary_bits_per_second);
        if self.is_root() { rate * ROOTS_FACTOR } else { rate }
    }
}
