//! Where nodes went that have moved to another home: for a lease requests for
//! them by name follow.

use std::collections::BTreeMap;

use super::Hub;
use crate::ids::NodeId;
use crate::time::Time;

/// How many moved nodes are remembered; further ones have to be sought.
const MAX_MOVED: usize = 16 * 1024;

/// The nodes that have moved, where, and until when that is of interest.
#[derive(Debug, Default)]
pub(super) struct Moved {
    nodes: BTreeMap<NodeId, (NodeId, Time)>,
}

impl Hub {
    /// Another hub has a node that was here.
    pub(super) fn note_moved(&mut self, now: Time, node: NodeId, to: NodeId) {
        let nodes = &mut self.moved.nodes;
        if nodes.len() >= MAX_MOVED {
            nodes.retain(|_, (_, until)| *until > now);
        }
        if nodes.len() < MAX_MOVED {
            nodes.insert(node, (to, now + self.config.lease));
        }
    }

    /// Where a node that was here went, if that hub can be asked.
    pub(super) fn moved_to(&self, now: Time, node: NodeId) -> Option<NodeId> {
        let (to, until) = self.moved.nodes.get(&node)?;
        (*until > now && self.neighbours.is_up(*to)).then_some(*to)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::testing::{Bench, carried, node, version};
    use crate::service::Role;
    use crate::wire::Message;

    #[test]
    fn a_request_follows_a_node_that_has_moved_for_a_lease() {
        let mut bench = Bench::new();
        let (asker, new) = (bench.up(100, Role::SuperNode), bench.up(101, Role::SuperNode));
        let link = bench.provider(1);
        bench.say(new, &Message::Claim { node: node(1), version: version(2) });
        bench.down(link);
        let sent = bench.say(asker, &Message::Carry(carried(1)));
        let followed = |sent: &[(_, Message)]| {
            sent.iter().any(|(link, message)| *link == new && matches!(message, Message::Carry(on) if on.hops == 2))
        };
        assert!(followed(&sent), "{sent:?}");
        for _ in 0..7 {
            bench.say(asker, &Message::Ping(0));
            bench.say(new, &Message::Ping(0));
            bench.wait(Duration::from_secs(10));
        }
        let sent = bench.say(asker, &Message::Carry(carried(2)));
        assert!(!followed(&sent) && sent.len() == 2, "{sent:?}");
    }
}
