//! Denials of the group's policy. A member can cause any number of them, and few become audit records: in each
//! [`INTERVAL`] the first of a kind, and at the end the count of the others. That is at most 32 records of a member, and
//! 513 of all.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use roost_core::Denial;
use roost_policy::Action;
use roost_wire::{NodeId, Service};

const INTERVAL: Duration = Duration::from_secs(60);

/// Kinds of denials of one member that are told apart in an interval.
const MAX_OF_MEMBER: usize = 16;

/// Kinds of denials of all members that are told apart in an interval.
const MAX_KINDS: usize = 256;

/// The denials of the interval that runs.
#[derive(Debug, Default)]
pub(crate) struct DenialLog {
    began: Option<Instant>,
    kinds: BTreeMap<(NodeId, Action, Option<Service>), Repeats>,
    /// Denials of kinds that are not told apart.
    others: u64,
}

#[derive(Debug)]
struct Repeats {
    last: Denial,
    count: u64,
}

/// Denials that have no records of their own.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct SuppressedDenials {
    /// The last one of each kind, and the number of them.
    pub(crate) repeated: Vec<(Denial, u64)>,
    pub(crate) others: u64,
}

impl DenialLog {
    /// True if a denial is the first of its kind, and gets a record.
    pub(crate) fn admit(&mut self, now: Instant, denial: &Denial) -> bool {
        self.began.get_or_insert(now);
        let key = (denial.node, denial.action, denial.service);
        if let Some(repeats) = self.kinds.get_mut(&key) {
            (repeats.last, repeats.count) = (denial.clone(), repeats.count + 1);
            return false;
        }
        let of_member = self.kinds.keys().filter(|(node, ..)| *node == denial.node).count();
        let has_place = of_member < MAX_OF_MEMBER && self.kinds.len() < MAX_KINDS;
        if has_place {
            self.kinds.insert(key, Repeats { last: denial.clone(), count: 0 });
        } else {
            self.others += 1;
        }
        has_place
    }

    /// The denials without records, if the interval is over.
    pub(crate) fn due(&mut self, now: Instant) -> Option<SuppressedDenials> {
        self.began.filter(|began| now.duration_since(*began) >= INTERVAL).map(|_| self.drain())
    }

    /// The denials without records, before the interval is over.
    pub(crate) fn drain(&mut self) -> SuppressedDenials {
        let Self { kinds, others, .. } = std::mem::take(self);
        let repeated = kinds.into_values().filter(|repeats| repeats.count > 0);
        SuppressedDenials { repeated: repeated.map(|repeats| (repeats.last, repeats.count)).collect(), others }
    }
}

#[cfg(test)]
mod tests {
    use roost_wire::{Area, Cell};

    use super::*;

    fn denial(node: u16, action: Action, x: i32) -> Denial {
        let mut bytes = [0; 16];
        bytes[..2].copy_from_slice(&node.to_be_bytes());
        let area = Some(Area::Exact(Cell::new(x, 0)));
        let (name, rule) = ("uav7".to_owned(), "no rule allows it".to_owned());
        Denial { node: NodeId::from_bytes(bytes), name, action, service: None, area, rule }
    }

    #[test]
    fn repeats_are_one_record_with_count() {
        let (mut log, now) = (DenialLog::default(), Instant::now());
        assert!(log.admit(now, &denial(1, Action::Request, 0)));
        assert!((1..=9).all(|x| !log.admit(now, &denial(1, Action::Request, x))));
        assert!(log.admit(now, &denial(1, Action::Watch, 0)));
        assert_eq!(log.due(now + INTERVAL / 2), None);
        let over = log.due(now + INTERVAL).unwrap();
        assert_eq!(over, SuppressedDenials { repeated: vec![(denial(1, Action::Request, 9), 9)], others: 0 });
        assert!(log.admit(now + INTERVAL, &denial(1, Action::Request, 0)), "another interval");
        assert_eq!(log.drain(), SuppressedDenials::default());
    }

    #[test]
    fn many_members_fill_no_disk() {
        let (mut log, now) = (DenialLog::default(), Instant::now());
        let actions = [Action::Request, Action::Watch];
        let attempts = (0..1_000).flat_map(|node| actions.map(|action| denial(node, action, 0)));
        let records = attempts.filter(|attempt| log.admit(now, attempt)).count();
        assert_eq!((records, log.drain().others), (MAX_KINDS, 2_000 - MAX_KINDS as u64));
    }
}
