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

#[cfg(test)]
mod tests {
    use super::super::Command;
    use super::super::testing::{Bench, forwarded, refused, request};
    use super::*;
    use crate::machine::Input;
    use crate::service::Role;
    use crate::wire::{Message, Mode, Reason};

    #[test]
    fn a_hub_without_flows_leaves_at_once() {
        let mut bench = Bench::new();
        let link = bench.provider(1);
        bench.input(Input::Command(Command::Leave));
        assert_eq!(bench.closed, [(link, REASON.to_owned())]);
        assert_eq!(bench.events.last(), Some(&Event::Left));
        let late = bench.up(2, Role::Node);
        assert_eq!(bench.closed[1].0, late);
        bench.wait(DRAIN * 2);
        assert_eq!(bench.events.iter().filter(|event| **event == Event::Left).count(), 1);
    }

    #[test]
    fn a_relayed_flow_goes_on_until_it_ends_or_the_time_is_up() {
        for ends in [true, false] {
            let mut bench = Bench::new();
            let (provider, asker, idle) = (bench.provider(1), bench.requester(2), bench.requester(3));
            let (_, forward) = forwarded(&bench.ask(asker, request(1, Mode::Relay)));
            bench.input(Input::Command(Command::Leave));
            assert_eq!(bench.closed.iter().map(|(link, _)| *link).collect::<Vec<_>>(), [idle]);
            assert_eq!(refused(&bench.ask(asker, request(2, Mode::Relay))), (asker, Reason::Leaving));
            assert!(!bench.events.contains(&Event::Left));
            if ends {
                bench.say(provider, &Message::Stop { id: forward.id, reason: Reason::SourceFailed });
            } else {
                bench.wait(DRAIN);
            }
            assert_eq!(bench.events.last(), Some(&Event::Left));
            assert_eq!(bench.closed.len(), 3);
        }
    }
}
