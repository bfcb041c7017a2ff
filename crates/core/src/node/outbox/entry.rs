use std::cmp::Reverse;
use std::time::Duration;

use roost_wire::random::SplitMix64;
use roost_wire::{DeliveryId, NodeId, NodeSelector, Time};

use super::messages::{OutboxItem, OutboxPriority};
use crate::connections::Backoff;

/// The pauses between two looks for a receiver, and between two offers of an object that it did not take, before jitter
/// of a quarter.
pub(super) const FIRST_PAUSE: Duration = Duration::from_secs(1);
pub(super) const LONGEST_PAUSE: Duration = Duration::from_secs(60);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    Waiting,
    Sending,
    /// The end has come while it was sent.
    Stopping,
    /// The receiver is asked what has become of it.
    Asking,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutboxState {
    Waiting,
    Sending,
    /// The end has come, and the receiver is asked whether it has the object.
    Settling,
}

#[derive(Clone, Debug)]
pub struct OutboxRow {
    pub id: DeliveryId,
    pub state: OutboxState,
    pub tries: u32,
    pub left: Duration,
    /// The last reason for which it was not delivered.
    pub obstacle: Option<String>,
    pub left_at: LeftAt,
}

/// The state of a file at the home, for people.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeftAt {
    pub hub: Option<NodeId>,
    /// The reason for which no hub keeps it.
    pub obstacle: Option<String>,
}

#[derive(Debug)]
pub(super) struct Entry {
    pub(super) to: NodeSelector,
    priority: OutboxPriority,
    since_s: u64,
    pub(super) until: Time,
    pub(super) tries: u32,
    /// The offers that broke off since the start.
    pub(super) broken: u32,
    /// The end of the pause after an answer.
    pub(super) not_before: Time,
    backoff: Backoff,
    pub(super) stage: Stage,
    pub(super) obstacle: Option<String>,
}

impl Entry {
    pub(super) fn new(now: Time, item: OutboxItem) -> Self {
        let OutboxItem { to, priority, since_s, left, tries, .. } = item;
        let (until, stage) = (now + left, Stage::Waiting);
        let (not_before, backoff) = (now, pauses());
        Self { to, priority, since_s, until, tries, broken: 0, not_before, backoff, stage, obstacle: None }
    }

    pub(super) fn is_sending(&self) -> bool {
        self.stage != Stage::Waiting
    }

    pub(super) fn is_due(&self, now: Time) -> bool {
        self.stage == Stage::Waiting && self.not_before <= now
    }

    pub(super) fn order(&self) -> (Reverse<OutboxPriority>, u64) {
        (Reverse(self.priority), self.since_s)
    }

    pub(super) fn wait(&mut self, now: Time, random: &mut SplitMix64, obstacle: &str) {
        self.not_before = now + self.backoff.record_failure(now, random);
        self.obstacle = Some(obstacle.to_owned());
    }

    pub(super) fn state(&self, now: Time) -> OutboxState {
        match self.stage {
            _ if now >= self.until => OutboxState::Settling,
            Stage::Waiting => OutboxState::Waiting,
            Stage::Sending | Stage::Stopping | Stage::Asking => OutboxState::Sending,
        }
    }
}

pub(super) const fn pauses() -> Backoff {
    Backoff::new(FIRST_PAUSE, LONGEST_PAUSE)
}
