//! The way out: nothing new, the nodes sent on at once, relayed flows to
//! their end.

use std::time::Duration;

use super::{Event, Hub};
use crate::ids::LinkId;
use crate::time::Time;

/// How long relayed flows may go on after [`Command::Leave`](super::Command::Leave).
pub const DRAIN: Duration = Duration::from_secs(10);

const REASON: &str = "the hub is leaving";

impl Hub {
    /// Closes every link that carries no relayed flow, so that its node moves
    /// on at once; the others when their flows are over.
    pub(super) fn leave(&mut self, now: Time) {
        if self.leaving.is_some() {
            return;
        }
        self.leaving = Some(now + DRAIN);
        self.mesh.stop();
        let busy = self.relays.links();
        let idle: Vec<LinkId> = self.neighbours.links.keys().copied().filter(|link| !busy.contains(link)).collect();
        for link in idle {
            self.close(now, link, REASON);
        }
    }

    /// When the drain ends at the latest; `None` unless it is under way.
    pub(super) fn drain_due(&self) -> Option<Time> {
        self.leaving.filter(|_| !self.left)
    }

    /// Says goodbye when nothing is relayed any more, or the time is up.
    pub(super) fn end_drain(&mut self, now: Time) {
        let Some(due) = self.drain_due() else { return };
        if self.relays.len() > 0 && now < due {
            return;
        }
        self.left = true;
        let rest: Vec<LinkId> = self.neighbours.links.keys().copied().collect();
        for link in rest {
            self.close(now, link, REASON);
        }
        self.events.push_back(Event::Left);
    }
}
