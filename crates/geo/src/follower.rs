//! Decisions of a node that follows a receiver of gpsd, or a file with the elements of an orbit.

use std::time::Duration;

use roost_wire::position::{ExactPosition, OrbitElements};
use roost_wire::{Cell, Time};

use crate::datum::Datum;
use crate::gpsd;
use crate::orbit::{Orbit, OrbitError};

/// Without a fix for so long, others must not take the node to go on as it went.
const HOLD: Duration = Duration::from_secs(5);
/// A receiver reports every second, with a fix or without; after this silence the connection counts as dead.
const SILENCE: Duration = Duration::from_secs(30);
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FollowState {
    Fix,
    NoFix,
    OutOfReach,
    Unreachable,
    Unreadable,
    /// The elements of an orbit are too old.
    Expired,
}

/// The place that a follower has for its node.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Followed {
    Fix(ExactPosition),
    /// There is no fix any more: the last position stays, without course and speed.
    Stand {
        cell: Cell,
        position: ExactPosition,
    },
}

/// Follows a receiver: takes the lines of gpsd and the time, and decides when to dial, when a connection is dead, and
/// when the node stands, as there is no fix any more.
#[derive(Clone, Debug)]
pub struct ReceiverFollower {
    datum: Datum,
    state: FollowState,
    link: ReceiverLink,
    pause: Duration,
    /// The last fix in reach, until the node stands.
    fix: Option<TimedFix>,
    /// The last report of a position, in reach or not.
    reported: Time,
}

#[derive(Clone, Copy, Debug)]
enum ReceiverLink {
    Down { dial_at: Time },
    Up { heard: Time },
}

#[derive(Clone, Copy, Debug)]
struct TimedFix {
    at: Time,
    position: ExactPosition,
}

/// Follows the elements of an orbit, which may be replaced in their file.
#[derive(Clone, Debug)]
pub struct OrbitFollower {
    told: OrbitElements,
    state: FollowState,
}

impl FollowState {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fix => "fix",
            Self::NoFix => "no_fix",
            Self::OutOfReach => "out_of_reach",
            Self::Unreachable => "unreachable",
            Self::Unreadable => "unreadable",
            Self::Expired => "expired",
        }
    }
}

impl ReceiverFollower {
    pub const fn new(now: Time, datum: Datum) -> Self {
        let link = ReceiverLink::Down { dial_at: now };
        Self { datum, state: FollowState::NoFix, link, pause: FIRST_PAUSE, fix: None, reported: now }
    }

    pub const fn state(&self) -> FollowState {
        self.state
    }

    /// The time of the next dial; none while a connection is up.
    pub const fn dial_at(&self) -> Option<Time> {
        match self.link {
            ReceiverLink::Down { dial_at } => Some(dial_at),
            ReceiverLink::Up { .. } => None,
        }
    }

    /// The time at which [`on_timeout`](Self::on_timeout) is due while a connection is up.
    pub fn deadline(&self) -> Option<Time> {
        let ReceiverLink::Up { heard } = self.link else { return None };
        let hold = self.fix.map(|fix| fix.at + HOLD);
        let forget = self.tells_positions().then_some(self.reported + HOLD);
        [hold, forget].into_iter().flatten().chain([heard + SILENCE]).min()
    }

    pub const fn on_connected(&mut self, now: Time) {
        (self.link, self.pause, self.state) = (ReceiverLink::Up { heard: now }, FIRST_PAUSE, FollowState::NoFix);
    }

    /// The connection has ended, or a dial has failed.
    pub fn on_disconnected(&mut self, now: Time) -> Option<Followed> {
        self.link = ReceiverLink::Down { dial_at: now + self.pause };
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        self.state = FollowState::Unreachable;
        self.stand()
    }

    /// Takes a line of gpsd; none for one that is unreadable.
    pub fn on_line(&mut self, now: Time, line: Option<&str>) -> Option<Followed> {
        self.link = ReceiverLink::Up { heard: now };
        let Some(position) = line.and_then(gpsd::parse) else { return self.on_timeout(now) };
        self.reported = now;
        if self.datum.cell(position.at).is_err() {
            self.state = FollowState::OutOfReach;
            return self.on_timeout(now);
        }
        (self.state, self.fix) = (FollowState::Fix, Some(TimedFix { at: now, position }));
        Some(Followed::Fix(position))
    }

    /// Ends what is due: a connection without a word, and a fix without another.
    pub fn on_timeout(&mut self, now: Time) -> Option<Followed> {
        if matches!(self.link, ReceiverLink::Up { heard } if now.since(heard) >= SILENCE) {
            return self.on_disconnected(now);
        }
        if self.tells_positions() && now.since(self.reported) >= HOLD {
            self.state = FollowState::NoFix;
        }
        let is_late = self.fix.is_some_and(|fix| now.since(fix.at) >= HOLD);
        if is_late { self.stand() } else { None }
    }

    fn tells_positions(&self) -> bool {
        matches!(self.state, FollowState::Fix | FollowState::OutOfReach)
    }

    fn stand(&mut self) -> Option<Followed> {
        let last = self.fix.take()?.position;
        let cell = self.datum.cell(last.at).ok()?;
        Some(Followed::Stand { cell, position: ExactPosition { course_deg: None, speed_mps: None, ..last } })
    }
}

impl OrbitFollower {
    /// Begins with the elements that the node has told.
    pub const fn new(told: OrbitElements) -> Self {
        Self { told, state: FollowState::Fix }
    }

    pub const fn state(&self) -> FollowState {
        self.state
    }

    /// Takes the orbit that the file has at a time since the Unix epoch; none if it cannot be read. Gives the orbit
    /// that is news.
    ///
    /// # Errors
    /// Fails for elements by which the satellite has no position now. The node keeps those that it has told.
    pub fn on_look(&mut self, unix: Duration, orbit: Option<Orbit>) -> Result<Option<Orbit>, OrbitError> {
        let Some(orbit) = orbit else {
            self.state = FollowState::Unreadable;
            return Ok(None);
        };
        let position = orbit.position(unix);
        self.state = if position.is_ok() { FollowState::Fix } else { FollowState::Expired };
        position?;
        let is_news = std::mem::replace(&mut self.told, orbit.elements()) != orbit.elements();
        Ok(is_news.then_some(orbit))
    }
}

#[cfg(test)]
mod tests {
    use roost_wire::position::LatLon;

    use super::*;

    const NO_FIX: &str = r#"{"class":"TPV","mode":1}"#;
    const SKY: &str = r#"{"class":"SKY","satellites":[]}"#;

    fn follower() -> ReceiverFollower {
        let datum = Datum::new(LatLon::new(47.0, 8.0).unwrap(), "1km".parse().unwrap()).unwrap();
        let mut follower = ReceiverFollower::new(at(0.0), datum);
        assert_eq!(follower.dial_at(), Some(at(0.0)));
        follower.on_connected(at(0.0));
        follower
    }

    fn at(seconds: f64) -> Time {
        Time::ZERO + Duration::from_secs_f64(seconds)
    }

    fn fix(lat: f64) -> String {
        format!(r#"{{"class":"TPV","mode":3,"lat":{lat},"lon":8.5,"eph":5.0,"track":90.0,"speed":20.0}}"#)
    }

    fn stands(followed: Option<Followed>) -> bool {
        matches!(followed, Some(Followed::Stand { position, .. }) if position.speed_mps.is_none())
    }

    #[test]
    fn receiver_without_fix_stands_soon() {
        let mut follower = follower();
        let lat = fix(47.5);
        assert!(matches!(follower.on_line(at(1.0), Some(&lat)), Some(Followed::Fix(_))));
        // In a tunnel, gpsd goes on to report.
        for tenth in 11..60 {
            let line = if tenth % 2 == 0 { NO_FIX } else { SKY };
            assert_eq!(follower.on_line(at(f64::from(tenth) / 10.0), Some(line)), None, "{tenth}");
            assert_eq!(follower.state(), FollowState::Fix);
            assert_eq!(follower.deadline(), Some(at(6.0)));
        }
        assert!(stands(follower.on_line(at(6.0), Some(NO_FIX))));
        assert_eq!(follower.state(), FollowState::NoFix);
        assert_eq!(follower.on_line(at(7.0), Some(NO_FIX)), None, "once");
        assert_eq!(follower.deadline(), Some(at(37.0)));
        assert!(matches!(follower.on_line(at(8.0), Some(&fix(47.6))), Some(Followed::Fix(_))));
        assert_eq!((follower.state(), follower.deadline()), (FollowState::Fix, Some(at(13.0))));
    }

    #[test]
    fn silence_stands_then_dials_again() {
        let mut follower = follower();
        follower.on_line(at(1.0), Some(&fix(47.5)));
        assert_eq!(follower.on_timeout(at(5.9)), None);
        assert!(stands(follower.on_timeout(at(6.0))));
        assert_eq!((follower.state(), follower.deadline()), (FollowState::NoFix, Some(at(31.0))));
        assert_eq!(follower.on_timeout(at(31.0)), None);
        assert_eq!((follower.state(), follower.dial_at()), (FollowState::Unreachable, Some(at(32.0))));
        let mut pauses = Vec::new();
        for _ in 0..6 {
            let now = follower.dial_at().unwrap();
            follower.on_disconnected(now);
            pauses.push(follower.dial_at().unwrap().since(now).as_secs());
        }
        assert_eq!(pauses, [2, 4, 8, 16, 30, 30]);
        follower.on_connected(at(200.0));
        assert_eq!((follower.dial_at(), follower.state()), (None, FollowState::NoFix));
        follower.on_line(at(201.0), Some(&fix(47.5)));
        assert!(stands(follower.on_disconnected(at(202.0))), "at once");
        assert_eq!(follower.dial_at(), Some(at(203.0)));
    }

    #[test]
    fn receiver_out_of_reach_stands() {
        let mut follower = follower();
        follower.on_line(at(1.0), Some(&fix(47.5)));
        for second in 2..6 {
            assert_eq!(follower.on_line(at(f64::from(second)), Some(&fix(-47.5))), None);
            assert_eq!(follower.state(), FollowState::OutOfReach);
        }
        assert!(stands(follower.on_line(at(6.0), Some(&fix(-47.5)))));
        assert_eq!((follower.state(), follower.deadline()), (FollowState::OutOfReach, Some(at(11.0))));
        assert_eq!(follower.on_line(at(11.0), None), None);
        assert_eq!(follower.state(), FollowState::NoFix);
    }

    #[test]
    fn elements_expire_and_are_renewed() {
        const DAY: Duration = Duration::from_secs(86_400);
        let lines = |drag: &str, last: char| {
            let text = format!(
                "1 25544U 98067A   08264.51782528 -.00002182  00000-0 {drag} 0  292{last}\n\
                 2 25544  51.6416 247.4627 0006703 130.5360 325.0288 15.72125391563537"
            );
            Orbit::from_tle(&text).unwrap()
        };
        let (old, new) = (lines("-11606-4", '7'), lines("-11607-4", '8'));
        let epoch = Duration::from_secs(1_221_913_500);
        let mut follower = OrbitFollower::new(old.elements());
        assert!(follower.on_look(epoch, Some(old.clone())).unwrap().is_none());
        assert_eq!(follower.on_look(epoch + 31 * DAY, Some(old.clone())).unwrap_err(), OrbitError::Age(30));
        assert_eq!(follower.state(), FollowState::Expired);
        assert!(follower.on_look(epoch, None).unwrap().is_none());
        assert_eq!(follower.state(), FollowState::Unreadable);
        let told = follower.on_look(epoch + DAY, Some(new.clone())).unwrap();
        assert_eq!(told.map(|orbit| orbit.elements()), Some(new.elements()));
        assert_eq!(follower.state(), FollowState::Fix);
    }
}
