//! Waiting time of unread frames: the other half of the emulator's error, which shows only here when the
//! carrier cannot keep up.
//!
//! A host's interface does not tell when a frame was put into it. It is only known when the wire was last seen
//! empty: a frame read now came after that. A wire that is emptied at each visit gives a few microseconds; one
//! with a standing queue gives the time for which it has stood.

use roost_wire::Time;

/// The earliest time at which unread frames of each wire may have come.
#[derive(Debug)]
pub(super) struct UnreadSince {
    /// The number of polls of all wires.
    looks: u64,
    looked: Time,
    /// The earliest time of frames in a wire that was empty at the poll before the last one.
    fresh: Time,
    /// By wire, the last poll at which frames were left in it, and the time since which it has had some.
    standing: Vec<(u64, Time)>,
}

impl UnreadSince {
    pub(super) fn new(wires: usize) -> Self {
        Self { looks: 0, looked: Time::ZERO, fresh: Time::ZERO, standing: vec![(0, Time::ZERO); wires] }
    }

    /// Records a poll of all wires, which returned at `now`. If it may have `slept`, the first frame or the
    /// time woke it.
    pub(super) fn look(&mut self, now: Time, slept: bool) {
        self.fresh = if slept { now } else { self.looked };
        self.looked = now;
        self.looks += 1;
    }

    /// The earliest time at which frames may have come in a wire that the last poll found non-empty.
    pub(super) fn since(&self, wire: usize) -> Time {
        match self.standing.get(wire) {
            // Poll 0 does not exist: nothing was left then.
            Some(&(look, since)) if look > 0 && look + 1 == self.looks => since,
            _ => self.fresh,
        }
    }

    /// Records that a wire was left before it was empty.
    pub(super) fn leave(&mut self, wire: usize) {
        let since = self.since(wire);
        if let Some(standing) = self.standing.get_mut(wire) {
            *standing = (self.looks, since);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(micros: u64) -> Time {
        Time::from_nanos(micros * 1_000)
    }

    #[test]
    fn frame_that_woke_carrier_waited_zero() {
        let mut unread = UnreadSince::new(2);
        unread.look(at(1_000), true);
        assert_eq!(unread.since(0), at(1_000));
    }

    #[test]
    fn awake_frame_waited_since_last_look() {
        let mut unread = UnreadSince::new(2);
        unread.look(at(1_000), true);
        unread.look(at(1_400), false);
        assert_eq!(unread.since(1), at(1_000));
    }

    #[test]
    fn queue_persists_until_wire_is_empty() {
        let mut unread = UnreadSince::new(2);
        unread.look(at(1_000), true);
        unread.leave(0);
        unread.look(at(1_100), false);
        assert_eq!(unread.since(0), at(1_000));
        unread.leave(0);
        unread.look(at(1_200), false);
        assert_eq!(unread.since(0), at(1_000));
        // The next poll does not report it: it was empty then.
        unread.look(at(1_300), false);
        unread.look(at(1_400), false);
        assert_eq!(unread.since(0), at(1_300));
        // Another wire's queue is independent.
        assert_eq!(unread.since(1), at(1_300));
    }
}
