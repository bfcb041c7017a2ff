//! Timers of a node.

use std::collections::{BTreeMap, BTreeSet};

use roost_wire::{ConnectionId, NodeId, RequestId, Time};

use super::api::{SessionId, Ticket};
use crate::machine::Deadline;
use crate::request_key::RequestKey;

/// Why the machine wants to be woken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Timer {
    /// Look for a home (again).
    Attach,
    /// The lease wants to be renewed.
    Renew,
    /// A fix that came too early is published.
    Fix,
    /// The home has not answered.
    HomeReply,
    /// The standby is to be found, or asked for a sign of life.
    Standby,
    /// The home that was lost may live again.
    Failback,
    /// Nothing was heard of a request.
    Ask(RequestId),
    /// The node goes from a hub that leaves.
    Depart(ConnectionId),
    /// A provider that has a request is to be dialled, as it has not come.
    Meet(RequestId),
    /// A request is given up.
    Deadline(RequestId),
    /// A flow's receiver reports.
    Report(RequestId),
    /// A flow's sender may have fallen silent, or its stragglers are overdue.
    Receive(RequestId),
    /// A requester takes too long to reach.
    Reach(SessionId),
    /// An acceptance was not confirmed.
    Accept(SessionId),
    /// A session cannot be accepted in time any more.
    Expire(SessionId),
    /// A flow's receiver may have fallen silent.
    Serve(SessionId),
    /// A reflected stream may have no members any more.
    Linger(SessionId),
    /// The keys of a reflected stream are to be sealed without the epoch that is past.
    Seal(SessionId),
    /// Nodes that were never members of a reflected stream and may open it are to be shut out.
    ExcludeNonmembers(SessionId),
    /// A reflected stream is to be asked for again.
    Resubscribe(RequestId),
    /// The home is to hear that this node is in a room.
    Room(Ticket),
    /// A watch was not confirmed, or is to be renewed.
    Watch(RequestId),
    /// Nodes of which a new home does not know are gone.
    Settle(RequestId),
    /// A ping was not answered.
    Ping(u32),
    /// An object that was offered is to be offered again.
    Push(RequestId),
    /// A receiver is to be looked for, or an object in the outbox has come to its end.
    Outbox,
    /// A node that wants a way takes too long to reach.
    IncomingConnect(NodeId),
    /// Reports on the way of a request are not waited for any longer.
    Trace(Ticket),
    /// A direct connection has been idle.
    Idle(ConnectionId),
    /// A remote is to be told of documents, or has not answered.
    Documents,
    /// Nobody on the link has answered an inquiry.
    MulticastSearch(RequestId),
    /// The node answers an inquiry of another one, or forgets it.
    MulticastReply(RequestKey),
}

impl Timer {
    /// The reason in words, for the log.
    fn reason(self) -> &'static str {
        match self {
            Self::Attach => "look for a home",
            Self::Renew => "renew the lease",
            Self::Fix => "publish a position",
            Self::HomeReply => "the home has not answered",
            Self::Standby => "tend the standby",
            Self::Failback => "go back to the home that was lost",
            Self::Ask(_) => "a request is unanswered",
            Self::Depart(_) => "go from a hub that leaves",
            Self::Meet(_) => "a provider has not come",
            Self::Deadline(_) => "a request's deadline",
            Self::Report(_) => "report on a flow",
            Self::Receive(_) => "a provider may be silent",
            Self::Reach(_) => "a requester cannot be reached",
            Self::Accept(_) => "an acceptance is unconfirmed",
            Self::Expire(_) => "a session's deadline",
            Self::Serve(_) => "a requester may be silent",
            Self::Linger(_) => "a reflected stream may have no members",
            Self::Seal(_) => "seal a stream key",
            Self::ExcludeNonmembers(_) => "shut out who may open a reflected stream",
            Self::Resubscribe(_) => "ask for a reflected stream again",
            Self::Room(_) => "be in a room",
            Self::Watch(_) => "renew a watch",
            Self::Settle(_) => "a watch has settled",
            Self::Ping(_) => "a ping is unanswered",
            Self::Push(_) => "repeat an offer",
            Self::Outbox => "tend the outbox",
            Self::IncomingConnect(_) => "a caller cannot be reached",
            Self::Trace(_) => "a trace is complete enough",
            Self::Idle(_) => "a connection is idle",
            Self::Documents => "documents of the group spread",
            Self::MulticastSearch(_) => "a multicast request is unanswered",
            Self::MulticastReply(..) => "answer a multicast request",
        }
    }
}

/// Timers that are set, each at most once. Bounded by the tables whose entries
/// they belong to.
#[derive(Debug, Default)]
pub(super) struct Timers {
    times: BTreeMap<Timer, Time>,
    queue: BTreeSet<(Time, Timer)>,
}

impl Timers {
    /// Sets a timer, instead of an earlier setting.
    pub(super) fn set(&mut self, timer: Timer, at: Time) {
        if self.times.get(&timer) == Some(&at) {
            return;
        }
        self.clear(timer);
        self.times.insert(timer, at);
        self.queue.insert((at, timer));
    }

    /// Takes a timer back.
    pub(super) fn clear(&mut self, timer: Timer) {
        if let Some(at) = self.times.remove(&timer) {
            self.queue.remove(&(at, timer));
        }
    }

    /// True if a timer is set.
    pub(super) fn is_set(&self, timer: Timer) -> bool {
        self.times.contains_key(&timer)
    }

    /// Takes all timers back.
    pub(super) fn clear_all(&mut self) {
        *self = Self::default();
    }

    /// Takes the earliest timer that is due.
    pub(super) fn pop(&mut self, now: Time) -> Option<Timer> {
        let (at, timer) = *self.queue.first()?;
        if at > now {
            return None;
        }
        self.clear(timer);
        Some(timer)
    }

    /// The earliest timer.
    pub(super) fn next(&self) -> Option<Deadline> {
        self.queue.first().map(|(at, timer)| Deadline { at: *at, reason: timer.reason() })
    }

    /// Timers that are set.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.times.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timers_fire_once_in_order() {
        let mut timers = Timers::default();
        let at = Time::from_nanos;
        timers.set(Timer::Renew, at(5));
        timers.set(Timer::Attach, at(3));
        timers.set(Timer::Renew, at(1));
        assert_eq!(timers.next().map(|deadline| deadline.at), Some(at(1)));
        assert_eq!(timers.pop(at(2)), Some(Timer::Renew));
        assert_eq!(timers.pop(at(2)), None);
        assert_eq!(timers.pop(at(3)), Some(Timer::Attach));
        assert_eq!(timers.len(), 0);
    }
}
