//! The events beside the workload, in order: a schedule without a clock.
//!
//! An item is due at its time. If it waits for a program that another item starts, it is due when that program
//! has ended, if that is later.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use roost_topology::model::{
    Action, Event, HostIndex, NetIndex, PacketOrder, ProgramAction, Topology, TopologyChange, TrafficAction,
};
use roost_topology::units::format_duration;

use super::plan::DaemonAction;

#[derive(Clone, Debug, PartialEq)]
pub(super) struct ScheduleItem {
    pub(super) at: Duration,
    /// The item whose program must end first.
    pub(super) after: Option<usize>,
    /// The host, link, program or agent of the event.
    pub(super) object: String,
    /// A description for records.
    pub(super) what: String,
    pub(super) act: ScheduledAction,
}

/// A host's hub or its node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DaemonSlot {
    pub(super) host: HostIndex,
    pub(super) is_hub: bool,
}

/// An action, by the part that executes it.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum ScheduledAction {
    /// The lab executes it itself at its exact time: it is only recorded.
    LabEvent,
    /// A change of a link or LAN that waits for a program.
    Net(NetIndex, Option<HostIndex>, TopologyChange),
    /// An action on a daemon.
    Daemon(DaemonSlot, DaemonAction),
    Program(usize, ProgramAction),
    Traffic(usize, TrafficAction),
    Halt,
}

impl ScheduledAction {
    /// The daemon that the action ends.
    pub(super) const fn ends_daemon(&self) -> Option<DaemonSlot> {
        match self {
            Self::Daemon(slot, DaemonAction::Kill | DaemonAction::Stop) => Some(*slot),
            _ => None,
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct RunSchedule {
    items: Vec<Option<ScheduleItem>>,
    /// Items that wait only for their time.
    open: BTreeSet<(Duration, usize)>,
    /// Items that wait for the program of another item.
    blocked: BTreeMap<usize, Vec<usize>>,
}

impl RunSchedule {
    /// The schedule of a topology, without events that have no effect here.
    pub(super) fn from_topology(topology: &Topology) -> Self {
        let mut script = Self::default();
        for event in &topology.events {
            // An item has its event's index, since events refer to each other by index.
            script.add(item(topology, event));
        }
        script
    }

    /// Adds an item, after those of the same time.
    pub(super) fn add(&mut self, item: Option<ScheduleItem>) {
        let place = self.items.len();
        if let Some(item) = &item {
            // An item without effect here is not waited for.
            match item.after.filter(|other| self.items.get(*other).is_none_or(Option::is_some)) {
                Some(other) => self.blocked.entry(other).or_default().push(place),
                None => {
                    self.open.insert((item.at, place));
                }
            }
        }
        self.items.push(item);
    }

    /// Returns the next item that is due by `now`, with its index; each comes once.
    pub(super) fn next(&mut self, now: Duration) -> Option<(usize, ScheduleItem)> {
        let (at, place) = *self.open.first().filter(|(at, _)| *at <= now)?;
        self.open.remove(&(at, place));
        self.items.get_mut(place)?.take().map(|item| (place, item))
    }

    pub(super) fn deadline(&self) -> Option<Duration> {
        self.open.first().map(|(at, _)| *at)
    }

    /// Daemons whose end waits only for its time, with that time, soonest first.
    pub(super) fn endings(&self) -> impl Iterator<Item = (Duration, DaemonSlot)> {
        self.open.iter().filter_map(|(at, place)| Some((*at, self.items.get(*place)?.as_ref()?.act.ends_daemon()?)))
    }

    /// Records that the program of the item at `place` has ended.
    pub(super) fn program_ended(&mut self, place: usize) {
        for waiting in self.blocked.remove(&place).unwrap_or_default() {
            if let Some(Some(item)) = self.items.get(waiting) {
                self.open.insert((item.at, waiting));
            }
        }
    }

    pub(super) fn left(&self) -> usize {
        self.open.len() + self.blocked.values().map(Vec::len).sum::<usize>()
    }

    /// True if it starts programs or traffic.
    pub(super) fn has_work(&self) -> bool {
        let starts = |act: &ScheduledAction| matches!(act, ScheduledAction::Program(..) | ScheduledAction::Traffic(..));
        self.items.iter().flatten().any(|item| starts(&item.act))
    }

    /// All items to come, by time, for tests and displays.
    #[cfg(test)]
    pub(super) fn told(&self) -> Vec<(Duration, &str)> {
        let mut told: Vec<_> = self.items.iter().flatten().map(|item| (item.at, item.what.as_str())).collect();
        told.sort_by_key(|(at, _)| *at);
        told
    }
}

fn item(topology: &Topology, event: &Event) -> Option<ScheduleItem> {
    let (what, act) = match &event.action {
        Action::Net { net, from, change } => {
            let act = if event.after.is_some() {
                ScheduledAction::Net(*net, *from, *change)
            } else {
                ScheduledAction::LabEvent
            };
            (describe_change(topology, *net, *from, *change), act)
        }
        Action::Program { program, what } => {
            let name = topology.programs.get(*program).map_or("?", |program| &program.name);
            (describe_program(name, what), ScheduledAction::Program(*program, what.clone()))
        }
        Action::Traffic { agent, what } => {
            let name = topology.traffic.get(*agent).map_or("?", |agent| &agent.name);
            (describe_traffic(name, *what), ScheduledAction::Traffic(*agent, *what))
        }
        Action::Halt => ("the schedule ends the experiment".to_owned(), ScheduledAction::Halt),
        Action::Other { .. } => return None,
    };
    Some(ScheduleItem { at: event.at, after: event.after, object: event.object.clone(), what, act })
}

/// Describes a change of a link or LAN.
pub fn describe_change(topology: &Topology, net: NetIndex, from: Option<HostIndex>, change: TopologyChange) -> String {
    let name = topology.nets.get(net).map_or("?", |net| net.name.as_str());
    let side = from.and_then(|host| topology.hosts.get(host)).map(|host| format!(", from {}", host.name));
    let side = side.unwrap_or_default();
    match change {
        TopologyChange::Up => format!("{name}{side} is up"),
        TopologyChange::Down => format!("{name}{side} is down"),
        TopologyChange::Rate(rate) => format!("the rate of {name}{side} is {rate}"),
        TopologyChange::Delay(delay) => format!("the delay of {name}{side} is {}", format_duration(delay)),
        TopologyChange::Loss(loss) => format!("the loss of {name}{side} is {} %", loss * 100.0),
        TopologyChange::Order(PacketOrder::Free) => format!("packets overtake on {name}{side}"),
        TopologyChange::Order(PacketOrder::Kept) => format!("packets keep their order on {name}{side}"),
        TopologyChange::Jitter(jitter) => format!("the jitter of {name}{side} is {}", format_duration(jitter)),
        TopologyChange::Burst(Some(_)) => format!("{name}{side} loses in bursts"),
        TopologyChange::Burst(None) => format!("{name}{side} does not lose in bursts any more"),
        TopologyChange::Queue(queue) => format!("the queue of {name}{side} holds {}", queue.limit),
    }
}

fn describe_program(name: &str, what: &ProgramAction) -> String {
    match what {
        ProgramAction::Start(_) | ProgramAction::Run(_) => format!("{name} is started"),
        ProgramAction::Stop => format!("{name} is stopped"),
        ProgramAction::Kill(signal) => format!("{name} gets the signal {signal}"),
        ProgramAction::Set(command) => format!("the command of {name} is `{command}`"),
    }
}

fn describe_traffic(name: &str, what: TrafficAction) -> String {
    match what {
        TrafficAction::Start => format!("{name} begins to send"),
        TrafficAction::Stop => format!("{name} stops"),
        TrafficAction::PacketBytes(bytes) => format!("{name} sends packets of {bytes} bytes"),
        TrafficAction::Rate(rate) => format!("{name} sends at {rate}"),
        TrafficAction::Interval(seconds) => format!("{name} sends every {seconds} s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn script(items: &[(u64, Option<usize>)]) -> RunSchedule {
        let mut script = RunSchedule::default();
        for (index, (at, after)) in items.iter().enumerate() {
            let what = index.to_string();
            script.add(Some(ScheduleItem {
                at: s(*at),
                after: *after,
                object: String::new(),
                what,
                act: ScheduledAction::LabEvent,
            }));
        }
        script
    }

    fn due(script: &mut RunSchedule, now: u64) -> Vec<usize> {
        std::iter::from_fn(|| script.next(s(now)).map(|(place, _)| place)).collect()
    }

    #[test]
    fn items_run_by_time_then_order() {
        let mut script = script(&[(5, None), (1, None), (5, None), (9, None)]);
        assert_eq!(script.deadline(), Some(s(1)));
        assert_eq!((due(&mut script, 0), due(&mut script, 5)), (vec![], vec![1, 0, 2]));
        assert_eq!((script.deadline(), script.left()), (Some(s(9)), 1));
        assert_eq!((due(&mut script, 60), script.left(), script.deadline()), (vec![3], 0, None));
    }

    #[test]
    fn dependent_item_waits_for_program() {
        let mut script = script(&[(1, None), (1, Some(0)), (1, Some(1)), (30, Some(0))]);
        assert_eq!((due(&mut script, 20), script.left()), (vec![0], 3));
        script.program_ended(0);
        assert_eq!(due(&mut script, 20), [1]);
        script.program_ended(0);
        assert_eq!((due(&mut script, 40), script.left()), (vec![3], 1));
        script.program_ended(1);
        assert_eq!((due(&mut script, 40), script.left()), (vec![2], 0));
    }
}
