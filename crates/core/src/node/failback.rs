//! Going back to the home that was lost, once it lives again: configuration, or balance among
//! hubs, had put the node there, and without a way back each outage leaves hubs less even.
//!
//! It stands by first, until it has shown that it lives and knows of everybody, and then changes
//! places with the home, so that nothing under way fails.

use std::time::Duration;

use roost_wire::random::SplitMix64;
use roost_wire::{ConnectionId, Role};

use super::connections::{DIAL_LIMIT, NodeDialPurpose};
use super::core::Core;
use super::registration::{HomeConnection, HomeEvent, HomeRegistration, HomeRequest, RegistrationState};
use super::timers::Timer;

/// The pause before a home that was lost is tried, doubled each time that it is in vain.
const FIRST_PAUSE: Duration = Duration::from_secs(60);

/// The longest pause; a home that was kept for as long is none that comes and goes.
const LONGEST_PAUSE: Duration = Duration::from_secs(15 * 60);

/// How long it stands by: longer than a hub is young, which is a lease.
const TRIAL: Duration = Duration::from_secs(80);

/// What became of going back to the home that was lost.
#[derive(Debug, Default)]
pub(super) struct Failback {
    lost: Option<LostHome>,
    /// How often going back came to nothing, or did not last.
    failures: u32,
}

#[derive(Clone, Copy, Debug)]
struct LostHome {
    /// Which hub of the list.
    index: usize,
    /// Whether it held the record; else it is the one that the node would have had first.
    was_home: bool,
}

impl Failback {
    /// A hub has gone that was home for so long, or was to be. The first home counts until the node is there
    /// again; one that has never been had counts less.
    pub(super) fn lose(&mut self, index: usize, stayed: Option<Duration>) {
        let was_home = stayed.is_some();
        if self.lost.is_none_or(|lost| was_home && !lost.was_home) {
            self.lost = Some(LostHome { index, was_home });
            self.failures = if stayed.unwrap_or_default() < LONGEST_PAUSE { self.failures } else { 0 };
        }
    }

    /// The node has this home now, where it was before or where it was sent: there is no other to go back to.
    /// If it goes at once, the node waits longer. Returns whether it is the one that was lost.
    pub(super) fn end(&mut self, index: usize) -> bool {
        let lost = self.lost.take();
        self.failures = self.failures.saturating_add(u32::from(lost.is_some()));
        lost.is_some_and(|lost| lost.index == index)
    }

    fn lost(&self) -> Option<usize> {
        self.lost.map(|lost| lost.index)
    }

    fn fails(&mut self) {
        self.failures = self.failures.saturating_add(1);
    }

    fn pause(&self, random: &mut SplitMix64) -> Duration {
        random.jitter((FIRST_PAUSE * (1 << self.failures.min(8))).min(LONGEST_PAUSE))
    }
}

impl HomeRegistration {
    /// There is a home: perhaps not the one that was lost.
    pub(super) fn schedule_failback(&mut self, core: &mut Core) {
        match self.failback.lost() {
            Some(lost) if lost == self.hubs.current_index() => drop(self.failback.end(lost)),
            // Servers stand by for nobody.
            Some(_) if core.hub_role != Role::SuperNode => {}
            Some(_) => {
                let pause = self.failback.pause(&mut core.random);
                core.set(Timer::Failback, pause);
            }
            None => {}
        }
    }

    pub(super) fn on_failback_timer(&mut self, core: &mut Core) {
        let (Some(lost), Some(home)) = (self.failback.lost(), self.home()) else { return };
        if self.is_being_redirected() || core.timers.is_set(Timer::Depart(home)) {
            return self.schedule_failback(core);
        }
        if let Some(since) = self.standby.since_at(lost) {
            return match core.now.since(since) >= TRIAL * 3 / 4 && self.standby.answers() {
                true => self.return_home(core, home),
                false => self.begin_trial(core),
            };
        }
        let Some(addresses) = self.hubs.list().get(lost).cloned() else { return };
        let role = core.hub_role;
        self.redirect_to(lost, true);
        core.dial(NodeDialPurpose::Redirect, addresses, role, None);
        core.set(Timer::Attach, DIAL_LIMIT);
    }

    /// The one that was lost is reached: it stands by instead of another one.
    pub(super) fn try_lost_home_as_standby(&mut self, core: &mut Core, connection: ConnectionId, index: usize) {
        self.drop_standby(core);
        self.accept_standby(core, connection, index);
        self.name_standby(core);
        self.begin_trial(core);
    }

    fn begin_trial(&mut self, core: &mut Core) {
        let pause = core.random.jitter(TRIAL);
        core.set(Timer::Failback, pause);
    }

    /// It is not there, or did not last as a standby.
    pub(super) fn on_failback_failed(&mut self, core: &mut Core, index: usize) {
        if self.failback.lost() == Some(index) {
            self.failback.fails();
            self.schedule_failback(core);
        }
    }

    /// The home and the standby, which was it before, change places.
    fn return_home(&mut self, core: &mut Core, home: ConnectionId) {
        let Some((connection, index)) = self.standby.take_connection() else { return };
        for timer in [Timer::HomeReply, Timer::Renew] {
            core.timers.clear(timer);
        }
        self.accept_standby(core, home, self.hubs.current_index());
        self.hubs.turn_to(index);
        core.counters.returns += u64::from(self.failback.end(index));
        self.state =
            RegistrationState::Linked(HomeConnection { attached: Some(core.now), ..HomeConnection::new(connection) });
        self.events.push_back(HomeEvent::Attached(connection));
        let held = self.record.version;
        self.record.version = held.next();
        self.ask(core, HomeRequest::Return(held), 1, core.now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unstable_home_backs_off_failback() {
        let (mut homing, mut random) = (Failback::default(), SplitMix64::new(1));
        let mut pauses = |stayed: u64, homing: &mut Failback| {
            homing.lose(0, Some(Duration::from_secs(stayed)));
            let pause = homing.pause(&mut random).as_secs();
            assert!(homing.end(0));
            pause
        };
        for expected in [60, 120, 240, 480, 900, 900] {
            let pause = pauses(30, &mut homing);
            assert!((expected * 3 / 4..=expected * 5 / 4).contains(&pause), "{pause} s, not {expected}");
        }
        assert!(pauses(1_000, &mut homing) <= 75);
    }

    #[test]
    fn failback_targets_first_lost_home() {
        let mut homing = Failback::default();
        homing.lose(2, Some(Duration::ZERO));
        homing.lose(3, Some(Duration::ZERO));
        homing.lose(4, None);
        assert_eq!(homing.lost(), Some(2));
    }

    #[test]
    fn failed_candidate_does_not_replace_home() {
        let mut homing = Failback::default();
        homing.lose(0, None);
        homing.lose(1, None);
        assert_eq!(homing.lost(), Some(0));
        homing.lose(2, Some(Duration::ZERO));
        assert_eq!(homing.lost(), Some(2));
    }
}
