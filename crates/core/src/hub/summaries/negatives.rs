//! Cells in which there was nothing a moment ago.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use roost_wire::block::BlockService;
use roost_wire::{Cell, Time};

/// Time for which "there is none" is believed.
const LIFE: Duration = Duration::from_secs(1);

/// Most cells that are remembered; services at further ones are asked for again.
const MAX_NEGATIVES: usize = 4_096;

/// Cells where a service was asked for a moment ago in vain.
#[derive(Debug, Default)]
pub(super) struct Negatives {
    cells: BTreeMap<(BlockService, Cell), Time>,
    /// In the order in which they end; some may be forgotten by now.
    ends: VecDeque<(Time, (BlockService, Cell))>,
}

impl Negatives {
    /// A remembered absence lives no longer for being said again.
    pub(super) fn record_absence(&mut self, now: Time, block_service: BlockService, cell: Cell) {
        while let Some((until, place)) = self.ends.front().copied().filter(|(until, _)| *until <= now) {
            self.ends.pop_front();
            if self.cells.get(&place) == Some(&until) {
                self.cells.remove(&place);
            }
        }
        let place = (block_service, cell);
        if self.ends.len() < MAX_NEGATIVES && !self.cells.contains_key(&place) {
            self.cells.insert(place, now + LIFE);
            self.ends.push_back((now + LIFE, place));
        }
    }

    pub(super) fn holds(&self, now: Time, block_service: BlockService, cell: Cell) -> bool {
        self.cells.get(&(block_service, cell)).is_some_and(|until| *until > now)
    }

    /// Something has come to the block.
    pub(super) fn forget(&mut self, block_service: BlockService) {
        let (first, last) = (Cell::new(i32::MIN, i32::MIN), Cell::new(i32::MAX, i32::MAX));
        let here: Vec<Cell> =
            self.cells.range((block_service, first)..=(block_service, last)).map(|((_, cell), _)| *cell).collect();
        for cell in here {
            self.cells.remove(&(block_service, cell));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use roost_wire::service::Service;

    fn track(x: i32) -> (BlockService, Cell) {
        let cell = Cell::new(x, 0);
        (BlockService::from_cell(Service::Track.code(), cell), cell)
    }

    #[test]
    fn entry_expires_and_forget_is_local() {
        let mut negatives = Negatives::default();
        let at = |ms: u64| Time::ZERO + Duration::from_millis(ms);
        let [(here, first), (_, second), (there, third)] = [track(0), track(1), track(8)];
        assert_ne!(here, there);
        negatives.record_absence(at(0), here, first);
        negatives.record_absence(at(500), here, second);
        negatives.record_absence(at(600), here, first);
        negatives.record_absence(at(700), there, third);
        assert!(negatives.holds(at(999), here, first) && !negatives.holds(at(1_000), here, first));
        assert!(negatives.holds(at(1_499), here, second));
        negatives.forget(here);
        assert!(!negatives.holds(at(700), here, second) && negatives.holds(at(700), there, third));
        // The end of the entry's first life is not that of its second.
        negatives.record_absence(at(800), here, second);
        negatives.record_absence(at(1_600), there, second);
        assert!(negatives.holds(at(1_700), here, second));
    }

    #[test]
    fn so_many_are_remembered() {
        let mut negatives = Negatives::default();
        let all = MAX_NEGATIVES as i32;
        for x in 0..2 * all {
            let (block, cell) = track(x);
            negatives.record_absence(Time::ZERO, block, cell);
        }
        assert_eq!((negatives.cells.len(), negatives.ends.len()), (MAX_NEGATIVES, MAX_NEGATIVES));
        let (block, cell) = track(2 * all);
        negatives.record_absence(Time::ZERO + LIFE, block, cell);
        assert_eq!((negatives.cells.len(), negatives.ends.len()), (1, 1));
    }
}
