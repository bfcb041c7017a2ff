//! Blocks that records in motion will cross. A summary at each border would take the whole rate of a thin connection, so
//! such a record counts in all the blocks of its way until it is looked at again.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use roost_wire::block::BlockService;
use roost_wire::{Cell, NodeId, ServiceSet, Time};

use crate::directory::DirectoryEntry;

/// The time over which the blocks of a way count. Half of it is what a change may take to the parents.
const HORIZON: Duration = Duration::from_secs(60);
/// The least time after which a way is looked at again.
const SHORTEST_PAUSE: Duration = Duration::from_secs(10);
/// Blocks of a way at most. A satellite crosses about 80 of eight kilometers in a minute. A record that would cross more
/// before it is looked at again is found only through the hub that has it.
const MAX_BLOCKS: usize = 128;

/// The ways of a hub's own records in motion; bounded by the records that the directory follows.
#[derive(Debug, Default)]
pub(super) struct Ways {
    nodes: BTreeMap<NodeId, Way>,
    due: BTreeSet<(Time, NodeId)>,
}

#[derive(Debug)]
struct Way {
    block_services: BTreeSet<BlockService>,
    due: Time,
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

    /// Notes the way of a record in motion from now on. Gives where it counts.
    pub(super) fn record(&mut self, now: Time, entry: &DirectoryEntry<'_>) -> BTreeSet<BlockService> {
        let cells = entry.way(HORIZON);
        let mut blocks: BTreeSet<BlockService> = BTreeSet::new();
        let mut looked_at = 0_u32;
        for cell in &cells {
            blocks.extend(block_services(entry.services(), *cell));
            looked_at += 1;
            if blocks.len() >= MAX_BLOCKS {
                break;
            }
        }
        let part = f64::from(looked_at) / cells.len().max(1) as f64;
        let due = now + (HORIZON / 2).mul_f64(part).max(SHORTEST_PAUSE);
        self.due.insert((due, entry.node()));
        self.nodes.insert(entry.node(), Way { block_services: blocks.clone(), due });
        blocks
    }
}

pub(super) fn block_services(services: &ServiceSet, cell: Cell) -> impl Iterator<Item = BlockService> {
    services.codes().map(move |code| BlockService::from_cell(code, cell))
}
