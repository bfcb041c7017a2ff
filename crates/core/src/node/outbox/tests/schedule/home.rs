//! The hub of the schedules, which keeps what the sender leaves there and brings it to receivers.

use super::*;

/// The longest lateness of a file that a hostile hub brings, seconds: the allowance for clocks, and the most by which a
/// receiver's clock is behind here.
const MOST_LATE_S: u32 = 300 + 250;

#[derive(Clone, Copy)]
struct KeptFile {
    receiver: usize,
    until: Time,
    until_s: u64,
}

pub(super) struct Home {
    is_up: bool,
    /// A hostile hub forgets nothing, brings everything at any time, and says that there is time left.
    is_hostile: bool,
    kept: BTreeMap<DeliveryId, KeptFile>,
    /// The files that the sender takes to be there.
    left: Vec<DeliveryId>,
}

impl Home {
    pub(super) fn new(chance: &mut SplitMix64) -> Self {
        let is_hostile = chance.below(8) == 0;
        Self { is_up: chance.below(4) > 0, is_hostile, kept: BTreeMap::new(), left: Vec::new() }
    }

    /// Crashes, with all that was in memory.
    pub(super) fn crash(&mut self) {
        self.is_up = false;
        if !self.is_hostile {
            self.kept.clear();
        }
    }

    /// The sender has a home again, which it tells everything.
    pub(super) fn start(&mut self) {
        if !std::mem::replace(&mut self.is_up, true) {
            self.left.clear();
        }
    }

    pub(super) fn forget_sender(&mut self) {
        self.left.clear();
    }

    /// A receiver has said that it needs a file no more.
    pub(super) fn end(&mut self, id: DeliveryId, state: PushState) {
        let is_over = !matches!(state, PushState::Interrupted | PushState::Unwritable | PushState::Busy);
        if is_over && !self.is_hostile {
            self.kept.remove(&id);
        }
    }

    /// The latest time at which a file may be stored that the sender wants stored until `until`.
    pub(super) fn latest(&self, until: Time) -> Time {
        if self.is_hostile { until + SECOND * MOST_LATE_S } else { until }
    }
}

impl Schedule {
    /// The sender leaves one file whose receiver is away.
    pub(super) fn leave_at_home(&mut self) {
        let absent = self.outbox.absent(self.now).find(|file| !self.home.left.contains(&file.id));
        let Some(file) = absent.filter(|_| self.home.is_up) else { return };
        self.disk.get_mut(&file.id).unwrap().item.tries = file.tries;
        let Some(left) = self.outbox.count_offer(self.now, file.id) else { return };
        self.home.left.push(file.id);
        // On its way it may be lost, with the connection.
        if self.chance.below(8) > 0 {
            let stored = &self.disk[&file.id];
            let receiver = (0..RECEIVERS).find(|at| NodeSelector::from(receiver(*at)) == stored.item.to).unwrap();
            let until_s = EPOCH_S + stored.until.as_micros() / 1_000_000;
            let kept = KeptFile { receiver, until: self.now + SECOND * left.as_secs() as u32, until_s };
            self.home.kept.insert(file.id, kept);
        }
    }

    /// The hub brings a receiver one file.
    pub(super) fn bring_from_home(&mut self) {
        let count = self.home.kept.len() as u64;
        if !self.home.is_up || count == 0 || self.chance.below(3) > 0 {
            return;
        }
        let at = self.chance.below(count) as usize;
        let Some((id, KeptFile { receiver, until, until_s })) =
            self.home.kept.iter().nth(at).map(|(id, kept)| (*id, *kept))
        else {
            return;
        };
        let left_s = if self.home.is_hostile { 3_600 } else { until.since(self.now).as_secs() as u32 };
        let host = &mut self.hosts[receiver];
        if left_s == 0 || !host.is_reached() || host.refuses.is_some() {
            return;
        }
        let wall_s = (EPOCH_S + self.now.as_micros() / 1_000_000).saturating_add_signed(host.clock_s);
        match host.receipts.offer(sender(), &DeliveryTerms { id, until_s, left_s }, wall_s) {
            Err(state) => self.home.end(id, state),
            Ok(until_s) => {
                let deadline = self.now + SECOND * left_s;
                let (step, by) = (StoreStep::Arriving, Bringer::Home);
                host.receptions.push(Reception { id, deadline, until_s, step, by });
            }
        }
    }
}
