//! Objects that wait until their receiver is there, on disk at the owner's.
//!
//! The owner finds receivers, sends and writes to disk; it answers each [`OutboxEvent::Look`] by
//! [`OutboxCommand::Found`] and each [`OutboxEvent::Send`] by [`OutboxCommand::Tried`]. Here is decided when, in which
//! order, and what an answer means.
//!
//! No receiver and no object holds back others: free places go to receivers with the fewest objects under way, then to
//! those that answer; an object that breaks off each time takes one of the two places of its receiver, never both.
//!
//! An object ends delivered, refused, cancelled or expired, by the time that has passed: a wall clock that jumps
//! changes nothing. One that was offered may be stored at the receiver although its answer was lost, so after its end
//! the receiver is asked for [`SETTLE`] what has become of it.

mod entry;
mod messages;

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use roost_wire::messages::PushState;
use roost_wire::random::SplitMix64;
use roost_wire::{DeliveryId, NodeId, NodeSelector, Time};

use crate::connections::Backoff;
use entry::{Entry, Stage, pauses};
pub use entry::{LeftAt, OutboxRow, OutboxState};
pub use messages::{FoundReceiver, OfferFault, OutboxCommand, OutboxEnd, OutboxEvent, OutboxItem, OutboxPriority};

pub const MAX_OUTBOX: usize = 1_000;

/// The most receivers that are looked for at once.
const MAX_LOOKS: usize = 4;

/// The most objects that are sent at once, and those to one receiver, which takes four from one sender.
const MAX_SENDS: usize = 8;
const MAX_SENDS_TO_ONE: usize = 2;

/// A file whose receiver was looked for in vain.
#[derive(Clone, Copy, Debug)]
pub(super) struct AbsentFile {
    pub(super) id: DeliveryId,
    /// The offers, with the one at the home.
    pub(super) tries: u32,
    pub(super) left: Duration,
}

/// After its end, an object that was offered is asked about for so long.
const SETTLE: Duration = Duration::from_secs(600);

#[derive(Debug)]
enum Search {
    Due(Time),
    Looking,
    Found(FoundReceiver),
}

#[derive(Debug)]
struct Receiver {
    search: Search,
    backoff: Backoff,
    /// The offers that broke off since it answered last.
    broken: u32,
    obstacle: Option<String>,
}

#[derive(Debug, Default)]
pub(super) struct NodeOutbox {
    entries: BTreeMap<DeliveryId, Entry>,
    receivers: BTreeMap<NodeSelector, Receiver>,
    events: VecDeque<OutboxEvent>,
}

impl NodeOutbox {
    pub(super) fn handle(&mut self, now: Time, random: &mut SplitMix64, command: OutboxCommand) {
        match command {
            OutboxCommand::Deposit(item) => self.deposit(now, item),
            OutboxCommand::Cancel { id } => self.cancel(id),
            OutboxCommand::Found { to, found } => self.on_found(now, random, to, found),
            OutboxCommand::Tried { id, answer } => self.on_tried(now, random, id, answer),
        }
        self.advance(now);
    }

    fn deposit(&mut self, now: Time, item: OutboxItem) {
        if self.entries.contains_key(&item.id) || self.entries.len() >= MAX_OUTBOX {
            return;
        }
        let new = || Receiver { search: Search::Due(now), backoff: pauses(), broken: 0, obstacle: None };
        let receiver = self.receivers.entry(item.to).or_insert_with(new);
        if item.tries == 0 {
            receiver.hurry(now);
        }
        self.entries.insert(item.id, Entry::new(now, item));
    }

    fn cancel(&mut self, id: DeliveryId) {
        if self.entries.get(&id).is_some_and(Entry::is_sending) {
            self.events.push_back(OutboxEvent::Stop { id });
        }
        self.end(id, OutboxEnd::Cancelled);
    }

    fn on_found(&mut self, now: Time, random: &mut SplitMix64, to: NodeSelector, found: Result<FoundReceiver, String>) {
        let Some(receiver) = self.receivers.get_mut(&to) else { return };
        match found {
            Ok(found) => (receiver.search, receiver.obstacle) = (Search::Found(found), None),
            Err(obstacle) => receiver.lose(now, random, obstacle),
        }
    }

    fn on_tried(&mut self, now: Time, random: &mut SplitMix64, id: DeliveryId, answer: Result<PushState, OfferFault>) {
        let Some(entry) = self.entries.get_mut(&id) else { return };
        let (was_stopped, was_asking) = (entry.stage == Stage::Stopping, entry.stage == Stage::Asking);
        entry.stage = Stage::Waiting;
        let is_over = now >= entry.until;
        let Some(receiver) = self.receivers.get_mut(&entry.to) else { return };
        match answer {
            Ok(PushState::Interrupted) | Err(OfferFault::Receiver(_)) => entry.broken += 1,
            Ok(_) => receiver.broken = 0,
            Err(OfferFault::Unoffered(_)) => entry.tries = entry.tries.saturating_sub(1),
            Err(OfferFault::Object(_)) => {}
        }
        match answer {
            Ok(PushState::Stored) => {
                receiver.hurry(now);
                receiver.backoff.reset();
                self.end(id, OutboxEnd::Delivered);
            }
            // Only a receiver that was asked remembers that it has denied, and takes the object from no hub either.
            Ok(PushState::Expired) if was_asking => self.end(id, OutboxEnd::Expired),
            // The receiver is asked at once what has become of the offer.
            _ if was_stopped => {}
            Ok(state @ (PushState::NoInbox | PushState::TooLarge | PushState::BadName)) if !is_over => {
                self.end(id, OutboxEnd::Refused(state));
            }
            Ok(PushState::Interrupted) => receiver.lose(now, random, "the transfer broke off".to_owned()),
            Ok(state) => entry.wait(now, random, obstacle(state)),
            Err(OfferFault::Unoffered(fault) | OfferFault::Object(fault)) => entry.wait(now, random, &fault),
            Err(OfferFault::Receiver(fault)) => receiver.lose(now, random, fault),
        }
    }

    /// A node is connected: perhaps a receiver.
    pub(super) fn on_node_up(&mut self, now: Time, node: NodeId, name: Option<&str>) {
        let meant = self.receivers.iter_mut().filter(|(to, _)| to.matches(node, name));
        meant.for_each(|(_, receiver)| receiver.hurry(now));
        self.advance(now);
    }

    /// There is a home again: it may know receivers that could not be found.
    pub(super) fn on_attached(&mut self, now: Time) {
        self.receivers.values_mut().for_each(|receiver| receiver.hurry(now));
        self.advance(now);
    }

    pub(super) fn advance(&mut self, now: Time) {
        self.expire(now);
        let entries = &self.entries;
        self.receivers.retain(|to, _| entries.values().any(|entry| entry.to == *to));
        self.look(now);
        while let Some(id) = self.next_to_send(now) {
            self.send(now, id);
        }
    }

    fn expire(&mut self, now: Time) {
        let over: Vec<DeliveryId> =
            self.entries.iter().filter(|(_, entry)| now >= entry.until).map(|(id, _)| *id).collect();
        for id in over {
            let Some(entry) = self.entries.get_mut(&id) else { continue };
            if entry.stage == Stage::Sending {
                entry.stage = Stage::Stopping;
                self.events.push_back(OutboxEvent::Stop { id });
            } else if entry.tries == 0 {
                self.end(id, OutboxEnd::Expired);
            } else if now >= entry.until + SETTLE {
                self.cancel_ask(id);
                self.end(id, OutboxEnd::ExpiredUnconfirmed);
            }
        }
    }

    fn cancel_ask(&mut self, id: DeliveryId) {
        if self.entries.get(&id).is_some_and(|entry| entry.stage == Stage::Asking) {
            self.events.push_back(OutboxEvent::Stop { id });
        }
    }

    /// Looks for the receivers that have waited longest.
    fn look(&mut self, now: Time) {
        let is_looking = |receiver: &&Receiver| matches!(receiver.search, Search::Looking);
        let places = MAX_LOOKS.saturating_sub(self.receivers.values().filter(is_looking).count());
        let due = self.receivers.iter_mut().filter_map(|(to, receiver)| match receiver.search {
            Search::Due(at) if at <= now => Some((at, to, receiver)),
            _ => None,
        });
        let mut due: Vec<_> = due.collect();
        due.sort_by_key(|(at, to, _)| (*at, **to));
        for (_, to, receiver) in due.into_iter().take(places) {
            receiver.search = Search::Looking;
            self.events.push_back(OutboxEvent::Look { to: *to });
        }
    }

    /// The object whose turn it is among those that may be sent now: of the receivers the one with the fewest under way,
    /// then the one that answers; of a receiver's objects the highest priority, then the oldest. An object that broke
    /// off takes a second place after those that did not.
    fn next_to_send(&self, now: Time) -> Option<DeliveryId> {
        let mut taken = BTreeMap::<NodeSelector, usize>::new();
        let sending = self.entries.values().filter(|entry| entry.is_sending());
        sending.for_each(|entry| *taken.entry(entry.to).or_default() += 1);
        if taken.values().sum::<usize>() >= MAX_SENDS {
            return None;
        }
        let turn = |(id, entry): (&DeliveryId, &Entry)| {
            let receiver = self.receivers.get(&entry.to).filter(|receiver| receiver.is_found())?;
            let places = taken.get(&entry.to).copied().unwrap_or_default();
            let broken = if places == 0 { 0 } else { entry.broken };
            let may = entry.is_due(now) && places < MAX_SENDS_TO_ONE;
            may.then_some((places, receiver.broken, broken, entry.order(), *id))
        };
        self.entries.iter().filter_map(turn).min().map(|(.., id)| id)
    }

    fn send(&mut self, now: Time, id: DeliveryId) {
        let Some(entry) = self.entries.get_mut(&id) else { return };
        let Some(Receiver { search: Search::Found(to), .. }) = self.receivers.get(&entry.to) else { return };
        entry.stage = if now >= entry.until { Stage::Asking } else { Stage::Sending };
        entry.tries += 1;
        let (to, tries, left) = (to.clone(), entry.tries, entry.until.since(now));
        self.events.push_back(OutboxEvent::Send { id, to, tries, left });
    }

    fn end(&mut self, id: DeliveryId, end: OutboxEnd) {
        if self.entries.remove(&id).is_some() {
            self.events.push_back(OutboxEvent::Ended { id, end });
        }
    }

    pub(super) fn is_waiting(&self, id: DeliveryId) -> bool {
        self.entries.contains_key(&id)
    }

    /// The objects whose receivers were looked for in vain, the first ones first.
    pub(super) fn absent(&self, now: Time) -> impl Iterator<Item = AbsentFile> {
        let is_lost = |to: NodeSelector| {
            let receiver = self.receivers.get(&to);
            receiver.is_some_and(|receiver| matches!(receiver.search, Search::Due(_)) && receiver.obstacle.is_some())
        };
        let is_absent = move |entry: &Entry| !entry.is_sending() && now < entry.until && is_lost(entry.to);
        let absent = self.entries.iter().filter(move |(_, entry)| is_absent(entry));
        absent.map(move |(id, entry)| AbsentFile { id: *id, tries: entry.tries + 1, left: entry.until.since(now) })
    }

    /// An object is offered through a hub, so its receiver is asked after its end. The time left; `None` if it has none.
    pub(super) fn count_offer(&mut self, now: Time, id: DeliveryId) -> Option<Duration> {
        let entry = self.entries.get_mut(&id).filter(|entry| now < entry.until)?;
        entry.tries += 1;
        Some(entry.until.since(now))
    }

    pub(super) fn poll_event(&mut self) -> Option<OutboxEvent> {
        self.events.pop_front()
    }

    /// The time at which [`Self::advance`] has something to do, unless something happens before.
    pub(super) fn next(&self, now: Time) -> Option<Time> {
        let looks = self.receivers.values().filter_map(|receiver| match receiver.search {
            Search::Due(at) => Some(at),
            Search::Looking | Search::Found(_) => None,
        });
        let entries = self.entries.values();
        let steps = entries.flat_map(|entry| [entry.until, entry.until + SETTLE, entry.not_before]);
        // A due object without a place waits for one.
        looks.chain(steps).filter(|at| *at > now).min()
    }

    pub(super) fn rows(&self, now: Time) -> Vec<OutboxRow> {
        let of_receiver = |entry: &Entry| self.receivers.get(&entry.to)?.obstacle.clone();
        let row = |(id, entry): (&DeliveryId, &Entry)| OutboxRow {
            id: *id,
            state: entry.state(now),
            tries: entry.tries,
            left: entry.until.since(now),
            obstacle: of_receiver(entry).or_else(|| entry.obstacle.clone()),
            left_at: LeftAt::default(),
        };
        self.entries.iter().map(row).collect()
    }
}

impl Receiver {
    fn is_found(&self) -> bool {
        matches!(self.search, Search::Found(_))
    }

    /// Something has happened: it may be there.
    fn hurry(&mut self, now: Time) {
        if matches!(self.search, Search::Due(_)) {
            self.backoff.reset();
            self.search = Search::Due(now);
        }
    }

    fn lose(&mut self, now: Time, random: &mut SplitMix64, obstacle: String) {
        // Another object that was under way to it tells the same.
        if !matches!(self.search, Search::Due(_)) {
            self.search = Search::Due(now + self.backoff.record_failure(now, random));
        }
        self.broken += 1;
        self.obstacle = Some(obstacle);
    }
}

/// The reason for which a receiver does not take an object yet.
fn obstacle(state: PushState) -> &'static str {
    match state {
        PushState::NoRoom => "the receiver's inbox has no room",
        PushState::Busy => "the receiver takes too many files at the moment",
        PushState::Damaged => "what arrived was not what was sent",
        PushState::Unwritable => "the receiver cannot write the file: its log says why",
        PushState::Forbidden => "the group's policy does not let this node send files there: see roost policy explain",
        PushState::Expired => "the receiver takes the file for expired: compare the clocks of both hosts",
        _ => "the receiver did not take the file",
    }
}

#[cfg(test)]
mod tests;
