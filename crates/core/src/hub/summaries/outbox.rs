//! Blocks of which another hub is still to be told, and the rate of that.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use roost_wire::Time;
use roost_wire::block::BlockService;
use roost_wire::messages::MAX_SUMMARY_BLOCKS;

/// The least time between two summaries to the same hub. The first news goes
/// at once, what follows it closely goes together.
pub(super) const BATCH: Duration = Duration::from_millis(200);

/// Cost of a summary besides its blocks, bytes: its own header, and the headers and the seal of the datagram.
const OVERHEAD_BYTES: u32 = 80;

/// The most that one block costs, bytes.
const BLOCK_BYTES: u32 = 11;

/// Span by which a connection may be ahead of its rate, for news.
pub(super) const AHEAD: Duration = Duration::from_secs(60);

/// Span for blocks that are only told again: news has always something left.
pub(super) const AHEAD_AGAIN: Duration = Duration::from_secs(30);

/// A budget that is used up has room for a few blocks again after this time.
const REFILL: Duration = Duration::from_secs(2);

/// Summaries that another hub is still to be told.
#[derive(Debug)]
pub(super) struct Outbox {
    /// Patches in which it believes something to be, and in which round it last
    /// heard so; no more than it keeps.
    pub(super) told: BTreeMap<BlockService, u32>,
    /// Patches of which that is wrong: never more than there are in `told` and
    /// in the aggregate.
    news: ChangeQueue,
    /// The round that tells everything, and where it stands; `None` between rounds.
    pub(super) round: Option<RefreshRound>,
    pub(super) rounds: u32,
    pub(super) next_round: Time,
    /// Up to when the connection's budget is used.
    charged: Time,
    pub(super) due: Time,
    /// No summary goes before.
    pub(super) not_before: Time,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct RefreshRound {
    /// The version that was the next one when the round began.
    pub(super) since: u64,
    pub(super) after: Option<BlockService>,
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
    pub(super) fn new(now: Time) -> Self {
        let (told, news) = (BTreeMap::new(), ChangeQueue::default());
        Self { told, news, round: None, rounds: 0, next_round: now, charged: now, due: now, not_before: now }
    }

    /// Something is in the block now, or nothing: news, unless the hub believes
    /// just that. `limit` is how many blocks it keeps.
    pub(super) fn announce(&mut self, block_service: BlockService, filled: bool, limit: usize) {
        if self.told.contains_key(&block_service) == filled || filled && self.told.len() >= limit {
            self.news.remove(block_service);
        } else {
            self.news.insert(block_service);
            self.due = self.due.min(self.not_before);
        }
    }

    /// Takes as many of the oldest news as there is room for.
    pub(super) fn take_changes(&mut self, room: usize) -> BTreeSet<BlockService> {
        std::iter::from_fn(|| self.news.pop()).take(room).collect()
    }

    /// True if the round passes the block by: it is told in it, or will be, as news.
    pub(super) fn is_fresh(&self, block_service: BlockService) -> bool {
        self.told.get(&block_service) == Some(&self.rounds) || self.news.numbers.contains_key(&block_service)
    }

    /// Takes note of what the hub has been told.
    pub(super) fn record_sent(&mut self, block_services: &BTreeMap<BlockService, u32>) {
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

    /// Number of blocks that may go now, if the connection may be `ahead` of its rate.
    pub(super) fn room(&self, now: Time, bits_per_second: u64, ahead: Duration) -> usize {
        let left = ahead.saturating_sub(self.charged.since(now)).as_millis() as u64;
        let bytes = (left * bits_per_second / 8_000).saturating_sub(OVERHEAD_BYTES.into());
        ((bytes / u64::from(BLOCK_BYTES)) as usize).min(MAX_SUMMARY_BLOCKS)
    }

    /// Takes note of a summary that goes now, and says when to look again.
    pub(super) fn sent(&mut self, now: Time, bits_per_second: u64, bytes: usize) {
        let bits = (bytes as u64 + u64::from(OVERHEAD_BYTES)) * 8;
        self.charged = self.charged.max(now) + Duration::from_millis(bits * 1_000 / bits_per_second.max(1));
        self.not_before = now + BATCH;
    }

    pub(super) fn plan(&mut self, now: Time, bits_per_second: u64) {
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
