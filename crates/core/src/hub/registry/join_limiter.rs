//! Crowds of nodes that join: who is new waits its turn, who is known passes.
//!
//! A turn is a place on a time line on which places are `1 / rate` apart. A
//! node that is told to come later has its place reserved, so the crowd comes
//! back evenly and nobody waits twice.

use std::time::Duration;

use roost_wire::messages::RegistrationMessage;
use roost_wire::{Channel, Time};

use crate::hub::core::HubCore;
use crate::hub::sender::Sender;
use crate::machine::Traffic;

/// Span ahead of the time line in which nodes are taken in at once.
const BURST: Duration = Duration::from_secs(1);

/// Added to a turn at random, up to this: clocks and paths differ anyway.
const JITTER_MS: u64 = 100;

#[derive(Debug, Default)]
pub(crate) struct JoinRateLimiter {
    next: Time,
}

impl JoinRateLimiter {
    pub(crate) fn is_crowded(&self, now: Time) -> bool {
        self.next > now + BURST
    }

    /// True if a new node is taken in now. If not, it was told when to come again.
    pub(super) fn admit(&mut self, core: &mut HubCore, from: Sender) -> bool {
        let now = core.now;
        let Some(remote) = core.remotes.get_mut(from.node) else { return false };
        if remote.turn.is_none() {
            let place = self.next.max(now);
            self.next = place + Duration::from_secs(1) / core.config.limits.joins_per_second.max(1);
            remote.turn = Some(if place <= now + BURST { now } else { place });
        }
        let wait = remote.turn.map_or(Duration::ZERO, |turn| turn.since(now));
        if wait.is_zero() {
            remote.turn = None;
            return true;
        }
        core.counters.postponed += 1;
        let wait = wait + Duration::from_millis(core.random.below(JITTER_MS));
        let later = RegistrationMessage::RetryAfter(u32::try_from(wait.as_millis()).unwrap_or(u32::MAX));
        core.send(from.connection, Channel::Datagram, Traffic::Join, later);
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hub::testing::*;

    fn bench() -> Bench {
        Bench::configured(|config| config.limits.joins_per_second = 4)
    }

    /// Time for which the node is to wait; `None` if it has got a lease.
    fn wait_of(bench: &mut Bench, connection: ConnectionId, number: u8) -> Option<u32> {
        match bench.say(connection, RegistrationMessage::Publish(record(number)))[..] {
            [(_, Message::Registration(RegistrationMessage::RetryAfter(after)))] => Some(after),
            [(_, Message::Registration(RegistrationMessage::Lease { .. }))] => None,
            ref other => panic!("{other:?}"),
        }
    }

    #[test]
    fn join_burst_spread_with_one_wait() {
        let mut bench = bench();
        let connections: Vec<_> = (1..=20).map(|number| (bench.up(number, Role::Node), number)).collect();
        let mut waits: Vec<_> = connections
            .iter()
            .filter_map(|(connection, number)| Some((wait_of(&mut bench, *connection, *number)?, *connection, *number)))
            .collect();
        assert_eq!(waits.len(), 15, "a burst of a second's worth, and the one whose turn it is");
        waits.sort();
        assert!(waits[0].0 >= 1_000 && waits[14].0 <= 5_000, "{waits:?}");
        let from = bench.now;
        for (after, connection, number) in waits {
            let left = (from + Duration::from_millis(after.into())).since(bench.now);
            bench.wait(left);
            assert_eq!(wait_of(&mut bench, connection, number), None, "in its turn");
        }
        assert_eq!(bench.hub.status(bench.now).nodes, 20);
    }

    #[test]
    fn who_is_known_passes() {
        let mut bench = bench();
        let home = bench.up(100, Role::SuperNode);
        bench.say(home, ReplicationMessage::ReplicaUpdate(copies(vec![record(90)])));
        let first = bench.up(1, Role::Node);
        bench.say(first, RegistrationMessage::Publish(record(1)));
        let late = (2..=20).map(|number| bench.provider(number)).last().unwrap();
        assert!(wait_of(&mut bench, late, 20).is_some());
        assert!(matches!(
            bench.say(first, RegistrationMessage::Publish(record(1)))[..],
            [(_, Message::Registration(RegistrationMessage::Lease { .. }))]
        ));
        let mirrored = bench.up(90, Role::Node);
        let (held, capacity) = (record(90).version, record(90).capacity);
        let adopt = Adopt { held_version: held, version: version(2), capacity, is_failback: None };
        assert!(
            !bench
                .say(mirrored, RegistrationMessage::Adopt(adopt))
                .iter()
                .any(|(_, said)| matches!(said, Message::Registration(RegistrationMessage::RetryAfter(_))))
        );
        assert_eq!(bench.hub.counters().adoptions, 1);
    }
}
