//! The connection as multicast shows it: how many are there, and how busy it is.

use std::collections::BTreeMap;
use std::time::Duration;

use roost_wire::{Area, NodeId, Time};

/// The most nodes on the link that are told apart. Beyond it the connection counts
/// as so crowded.
const MAX_CROWD: usize = 1024;

/// Time for which a node counts as there after it was last heard.
const MEMORY: Duration = Duration::from_secs(120);

/// The part of each node on the link in the time within which one answers.
const SLOT: Duration = Duration::from_millis(10);

/// The bounds of that time. The lower one lets a node that has just come not
/// answer together with all others.
const SHORTEST: Duration = Duration::from_millis(20);
/// See [`SHORTEST`].
const LONGEST: Duration = Duration::from_millis(500);

/// A connection with more multicast messages in a second is not quiet. Half of them
/// are inquiries; ten inquiries a second of 150 bytes are 1 % of 1 Mbit/s.
const QUIET: u32 = 20;

/// Nodes that were heard on the link.
#[derive(Debug, Default)]
pub(super) struct MulticastLoad {
    heard: BTreeMap<NodeId, Time>,
    second: u64,
    /// Messages in this second, and in the one before.
    messages: [u32; 2],
}

impl MulticastLoad {
    /// A node has said something to all.
    pub(super) fn record_message(&mut self, now: Time, node: NodeId) {
        self.turn(now);
        self.messages[0] = self.messages[0].saturating_add(1);
        if self.heard.len() >= MAX_CROWD && !self.heard.contains_key(&node) {
            self.heard.retain(|_, at| now.since(*at) < MEMORY);
        }
        if self.heard.len() < MAX_CROWD || self.heard.contains_key(&node) {
            self.heard.insert(node, now);
        }
    }

    /// Nodes on the link, as far as this one can tell.
    pub(super) fn len(&self, now: Time) -> usize {
        self.heard.values().filter(|at| now.since(**at) < MEMORY).count()
    }

    /// Within which time the providers of an inquiry answer. For one cell few
    /// can answer, so they do at once.
    pub(super) fn window(&self, now: Time, area: Area) -> Duration {
        if matches!(area, Area::Exact(_)) {
            return Duration::ZERO;
        }
        // There are at most as many as `MAX_CROWD`.
        (SLOT * self.len(now) as u32).clamp(SHORTEST, LONGEST)
    }

    /// True if one more inquiry is no burden.
    pub(super) fn is_quiet(&mut self, now: Time) -> bool {
        self.turn(now);
        self.messages.iter().all(|messages| *messages < QUIET)
    }

    fn turn(&mut self, now: Time) {
        let second = now.as_nanos() / 1_000_000_000;
        match second - self.second.min(second) {
            0 => {}
            1 => self.messages = [0, self.messages[0]],
            _ => self.messages = [0, 0],
        }
        self.second = second;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use roost_wire::grid::Cell;

    fn node(number: u32) -> NodeId {
        let mut bytes = [0; 16];
        bytes[..4].copy_from_slice(&number.to_be_bytes());
        NodeId::from_bytes(bytes)
    }

    fn at(ms: u64) -> Time {
        Time::from_nanos(ms * 1_000_000)
    }

    #[test]
    fn reply_window_grows_with_node_count() {
        let mut crowd = MulticastLoad::default();
        assert_eq!(crowd.window(at(0), Area::Anywhere), SHORTEST);
        for number in 0..30 {
            crowd.record_message(at(0), node(number));
        }
        assert_eq!(crowd.window(at(0), Area::Anywhere), SLOT * 30);
        assert_eq!(crowd.window(at(0), Area::Exact(Cell::new(1, 1))), Duration::ZERO);
        for number in 0..10_000 {
            crowd.record_message(at(1), node(number));
        }
        assert_eq!((crowd.window(at(1), Area::Anywhere), crowd.len(at(1))), (LONGEST, MAX_CROWD));
        assert_eq!(crowd.len(at(121_000)), 0, "who is silent for long is not there");
        crowd.record_message(at(121_000), node(70_000));
        assert_eq!(crowd.heard.len(), 1);
    }

    #[test]
    fn multicast_quiet_after_two_seconds() {
        let mut crowd = MulticastLoad::default();
        assert!(crowd.is_quiet(at(0)));
        for _ in 0..QUIET {
            crowd.record_message(at(500), node(1));
        }
        assert!(!crowd.is_quiet(at(900)) && !crowd.is_quiet(at(1_900)));
        assert!(crowd.is_quiet(at(2_000)));
    }
}
