//! The stays of one member in one room, without a clock: a member that loses the room enters it again.

use std::time::Duration;

use roost_results::record::RoomStreamRecord;
use roost_wire::{NodeId, Time};

use super::placement::PlacedNode;
use super::room_recorder::RoomRecorder;
use super::rooms::RoomStay;

/// The pause before a member that has lost its room enters it again.
pub const REENTRY_PAUSE: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub struct RoomStays {
    planned: RoomStay,
    /// From an entry until the member leaves or loses the room.
    recorder: Option<RoomRecorder>,
    /// True if an incident tells that the member is not in the room.
    is_told: bool,
}

#[derive(Debug, Default, PartialEq)]
pub struct StayEnd {
    /// Of a member that had a list of the others.
    pub records: Vec<RoomStreamRecord>,
    /// The incident that begins an outage.
    pub incident: Option<String>,
}

impl RoomStays {
    pub const fn new(planned: RoomStay) -> Self {
        Self { planned, recorder: None, is_told: false }
    }

    pub const fn planned(&self) -> &RoomStay {
        &self.planned
    }

    /// The recorder of a stay in progress.
    pub const fn recorder(&mut self) -> Option<&mut RoomRecorder> {
        self.recorder.as_mut()
    }

    /// Begins a stay when the node asks for the room; `ids` are those of the nodes.
    pub fn enter(&mut self, now: Time, ids: &[NodeId]) -> &mut RoomRecorder {
        self.recorder.insert(RoomRecorder::new(now, &self.planned, ids))
    }

    /// Ends a stay in progress at the end of its time, or earlier because the room is `lost` for a reason.
    pub fn leave(&mut self, now: Time, lost: Option<&str>, nodes: &[PlacedNode]) -> StayEnd {
        let Some(recorder) = self.recorder.take() else { return StayEnd::default() };
        let is_told = self.is_told && !recorder.is_inside();
        self.is_told = is_told || lost.is_some();
        if recorder.is_inside() {
            let records = recorder.leave(now.min(self.planned.until), nodes);
            return StayEnd { records, incident: lost.map(|why| self.incident(why)) };
        }
        let why = lost.unwrap_or("no list of the members came");
        StayEnd { records: Vec::new(), incident: (!is_told).then(|| self.incident(why)) }
    }

    fn incident(&self, why: &str) -> String {
        format!("is not in the room {}: {why}", self.planned.room)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(seconds: u64) -> Time {
        Time::from_nanos(seconds * 1_000_000_000)
    }

    /// A member that enters at each of these times. `true`: it has a list of the members. The text is the reason for
    /// which it loses the room a second later.
    fn ends<const N: usize>(stays: [(u64, bool, Option<&str>); N]) -> [Option<String>; N] {
        let (room, from, until) = ("ops".to_owned(), at(0), at(60));
        let mut member =
            RoomStays::new(RoomStay { room, node: 0, services: Vec::new(), from, until, others: Vec::new() });
        stays.map(|(seconds, is_inside, lost)| {
            let recorder = member.enter(at(seconds), &[]);
            if is_inside {
                recorder.set_members(at(seconds), std::iter::empty());
            }
            let end = member.leave(at(seconds + 1), lost, &[]);
            assert_eq!(member.leave(at(seconds + 1), lost, &[]), StayEnd::default(), "it has ended already");
            end.incident
        })
    }

    #[test]
    fn outage_is_one_incident() {
        let told = |why: &str| Some(format!("is not in the room ops: {why}"));
        let (left, full) = (Some("it left"), Some("it is full"));
        assert_eq!(ends([(0, true, left), (2, false, full), (4, false, full)]), [told("it left"), None, None]);
        assert_eq!(ends([(0, false, full), (2, false, left)]), [told("it is full"), None]);
        assert_eq!(ends([(0, true, left), (2, true, left)]), [told("it left"), told("it left")]);
        assert_eq!(ends([(0, false, full), (2, true, None)]), [told("it is full"), None]);
    }

    #[test]
    fn silence_is_an_incident() {
        let silence = Some("is not in the room ops: no list of the members came".to_owned());
        assert_eq!(ends([(0, false, None)]), [silence]);
        assert_eq!(ends([(0, false, Some("it is full")), (59, false, None)])[1], None);
        assert_eq!(ends([(0, true, None)]), [None]);
    }
}
