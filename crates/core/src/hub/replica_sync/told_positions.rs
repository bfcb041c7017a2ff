//! The positions that a home has told a standby, from which moves lead on.

use std::collections::BTreeMap;

use roost_wire::position::Move;
use roost_wire::{ExactPosition, NodeId};

use crate::directory::DirectoryEntry;

/// By node; one without a position takes no memory here.
#[derive(Debug, Default)]
pub(super) struct ToldPositions(BTreeMap<NodeId, ExactPosition>);

/// The way from the told position of a node to its present one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PositionChange {
    /// There is a position neither here nor there.
    None,
    Move(Move),
    /// Only the whole record says where the node is.
    Whole,
}

impl ToldPositions {
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    pub(super) fn remove(&mut self, node: NodeId) {
        self.0.remove(&node);
    }

    pub(super) fn change(&self, node: NodeId, entry: &DirectoryEntry<'_>) -> PositionChange {
        let now = entry.told_place().1.and(entry.position());
        match (self.0.get(&node), now) {
            (None, None) => PositionChange::None,
            (Some(before), Some(now)) => before.move_to(&now).map_or(PositionChange::Whole, PositionChange::Move),
            _ => PositionChange::Whole,
        }
    }

    pub(super) fn apply(&mut self, node: NodeId, step: Option<Move>) {
        if let (Some(held), Some(step)) = (self.0.get_mut(&node), step) {
            *held = held.moved(step).unwrap_or(*held);
        }
    }

    pub(super) fn record(&mut self, node: NodeId, position: Option<ExactPosition>) {
        match position {
            Some(position) => drop(self.0.insert(node, position.rounded())),
            None => self.remove(node),
        }
    }
}
