//! How long frames may have waited to be read: the other half of the
//! emulator's error, which shows only here when the carrier cannot keep up.
//!
//! A host's interface does not say when a frame was put into it. What is known
//! is when the wire was last seen empty: a frame that is read came after that.
//! A wire that is emptied at each visit gives frames of a few microseconds; one
//! whose queue stands gives the time for which it has stood.

use roost_proto::Time;

/// Since when what is read from each wire may have waited.
#[derive(Debug)]
pub(super) struct UnreadSince {
    /// How often all wires were looked at.
    looks: u64,
    /// When they were looked at last.
    looked: Time,
    /// A wire that was empty at the look before the last one has had frames
    /// since then at the earliest.
    fresh: Time,
    /// By wire, the look at which frames were left in it, and since when it
    /// had had some then.
    standing: Vec<(u64, Time)>,
}

impl UnreadSince {
    /// For so many wires, all empty.
    pub(super) fn new(wires: usize) -> Self {
        Self { looks: 0, looked: Time::ZERO, fresh: Time::ZERO, standing: vec![(0, Time::ZERO); wires] }
    }

    /// All wires were looked at, which returned at `now`. If it may have
    /// `slept`, it was woken by the first frame, or by the time.
    pub(super) fn look(&mut self, now: Time, slept: bool) {
        self.fresh = if slept { now } else { self.looked };
        self.looked = now;
        self.looks += 1;
    }

    /// Since when the frames may have waited that are read from a wire that the
    /// last look found not empty.
    pub(super) fn since(&self, wire: usize) -> Time {
        match self.standing.get(wire) {
            // Look 0 is none: nothing was left then.
            Some(&(look, since)) if look > 0 && look + 1 == self.looks => since,
            _ => self.fresh,
        }
    }

    /// A wire was left before it was empty.
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
        // The next look does not find it: it was empty then.
        unread.look(at(1_300), false);
        unread.look(at(1_400), false);
        assert_eq!(unread.since(0), at(1_300));
        // Nor has another wire's queue to do with it.
        assert_eq!(unread.since(1), at(1_300));
    }
}
