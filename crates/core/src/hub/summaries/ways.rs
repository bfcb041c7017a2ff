//! Blocks that records in motion will cross. A summary at each border would take the whole rate of a thin connection, so
//! such a record counts in all the blocks of its way until it is looked at again.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use roost_wire::block::BlockService;
use roost_wire::{Cell, NodeId, ServiceSet, Time};

use crate::directory::{DirectoryEntry, WorkAllowance};

/// The time over which the blocks of a way count. Half of it is what a change may take to the parents.
const HORIZON: Duration = Duration::from_secs(60);
/// The least time after which a way is looked at again.
const SHORTEST_PAUSE: Duration = Duration::from_secs(10);
/// Blocks of a way at most. A satellite crosses about 80 of eight kilometers in a minute. A record that would cross more
/// before it is looked at again is found only through the hub that has it.
const MAX_BLOCKS: usize = 128;
/// Places of ways that are worked out at once, at most: four ways of the longest. A record for which nothing is left
/// counts where it is until it is looked at again.
const MOST_AT_ONCE: u32 = 2_048;

/// The ways of a hub's own records in motion; bounded by the records that the directory follows.
#[derive(Debug)]
pub(super) struct Ways {
    nodes: BTreeMap<NodeId, Way>,
    due: BTreeSet<(Time, NodeId)>,
    allowance: WorkAllowance,
}

#[derive(Debug)]
struct Way {
    block_services: BTreeSet<BlockService>,
    due: Time,
}

impl Default for Ways {
    fn default() -> Self {
        Self { nodes: BTreeMap::new(), due: BTreeSet::new(), allowance: WorkAllowance::new(MOST_AT_ONCE) }
    }
}

impl Ways {
    pub(super) fn knows(&self, node: NodeId) -> bool {
        self.nodes.contains_key(&node)
    }

    pub(super) fn next_due(&self) -> Option<Time> {
        self.due.first().map(|(due, _)| *due)
    }

    pub(super) fn first_due(&self, now: Time) -> Option<NodeId> {
        self.due.first().filter(|(due, _)| *due <= now).map(|(_, node)| *node)
    }

    /// Forgets the way of a node. Gives where it counted.
    pub(super) fn forget(&mut self, node: NodeId) -> Option<BTreeSet<BlockService>> {
        let way = self.nodes.remove(&node)?;
        self.due.remove(&(way.due, node));
        Some(way.block_services)
    }

    /// Notes the way of a record in motion from now on, as far as the allowance reaches. Gives where it counts.
    pub(super) fn record(&mut self, now: Time, entry: &DirectoryEntry<'_>) -> BTreeSet<BlockService> {
        let steps = entry.way_steps(HORIZON);
        let mut blocks: BTreeSet<BlockService> = block_services(entry.services(), entry.cell()).collect();
        let (left, mut looked_at) = (self.allowance.refill(now), 0_u32);
        for cell in entry.way(steps).take(left as usize) {
            blocks.extend(cell.into_iter().flat_map(|cell| block_services(entry.services(), cell)));
            looked_at += 1;
            if blocks.len() >= MAX_BLOCKS {
                break;
            }
        }
        self.allowance.spend(looked_at);
        let part = f64::from(looked_at) / f64::from(steps.count.max(1));
        let due = now + (HORIZON / 2).mul_f64(part).max(SHORTEST_PAUSE);
        self.due.insert((due, entry.node()));
        self.nodes.insert(entry.node(), Way { block_services: blocks.clone(), due });
        blocks
    }
}

pub(super) fn block_services(services: &ServiceSet, cell: Cell) -> impl Iterator<Item = BlockService> {
    services.codes().map(move |code| BlockService::from_cell(code, cell))
}

#[cfg(test)]
mod tests {
    use roost_geo::Datum;
    use roost_wire::{ExactPosition, Record, Service};

    use super::*;
    use crate::directory::Directory;
    use crate::hub::testing::record;

    /// A directory with movers at 10 km/s over cells of 1 km, which cross 600 in a minute.
    fn racers(count: u8) -> Directory {
        let datum = Datum::new("0.0,0.0".parse().unwrap(), "1km".parse().unwrap()).unwrap();
        let mut directory = Directory::new(1_000, HORIZON).with_datum(Some(datum));
        for number in 1..=count {
            let at = ExactPosition::new("0.1,-4.0".parse().unwrap());
            let position = ExactPosition { course_deg: Some(90.0), speed_mps: Some(10_000.0), ..at };
            let services = [Service::Track].into_iter().collect();
            directory.publish(Time::ZERO, &Record { services, position: Some(position), ..record(number) });
        }
        directory
    }

    #[test]
    fn long_ways_share_an_allowance() {
        let directory = racers(200);
        let mut ways = Ways::default();
        let blocks: Vec<usize> =
            directory.entries_after(None).map(|entry| ways.record(Time::ZERO, &entry).len()).collect();
        assert!(blocks[0] > 60, "{blocks:?}");
        assert!(blocks.iter().sum::<usize>() <= 200 + MOST_AT_ONCE as usize, "{blocks:?}");
        assert_eq!(blocks[199], 1, "where it is");
        // The last one has its turn later.
        let last = directory.entries_after(None).last().unwrap();
        assert_eq!(ways.next_due(), Some(Time::ZERO + SHORTEST_PAUSE));
        ways.forget(last.node());
        assert!(ways.record(Time::ZERO + SHORTEST_PAUSE, &last).len() > 60);
    }
}
