//! The links of all radios over time, as changes that are computed when they are due.

use std::collections::BTreeSet;
use std::time::Duration;

use roost_topology::model::{HostIndex, Note, Radio, RadioLinks, Topology};

use super::attachment::Attachment;
use super::budget::{Budget, LinkEnd, Transceiver, shadow_db};
use super::course::Courses;
use super::frame::Spot;
use super::link_state::LinkState;

/// A change of one direction of a radio's link, with its members by their numbers in the net.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinkChange {
    pub at: Duration,
    pub radio: usize,
    pub from: usize,
    pub to: usize,
    pub state: LinkState,
}

/// The machine. [`Self::step`] yields the changes of one moment, and [`Self::deadline`] tells the next moment.
#[derive(Clone, Debug)]
pub struct LinkCourse {
    courses: Courses,
    radios: Vec<MovingRadio>,
    step: Duration,
    /// The time from which on all hosts stand still.
    rest: Option<Duration>,
    now: Option<Duration>,
    next: Option<Duration>,
}

#[derive(Clone, Debug)]
struct MovingRadio {
    radio: Radio,
    budget: Budget,
    members: Vec<MovingMember>,
    links: Vec<PairLink>,
    attachments: Vec<Attachment>,
}

#[derive(Clone, Debug)]
struct MovingMember {
    host: HostIndex,
    transceiver: Transceiver,
    /// The time from which on it stands still.
    rest: Option<Duration>,
    /// An index into the access points, if it is one.
    point: Option<usize>,
    spot: Option<Spot>,
}

/// Two members that may have a link, and the last states of its directions.
#[derive(Clone, Debug)]
struct PairLink {
    ends: [usize; 2],
    shadow_db: f64,
    /// As the places make it, whatever the attachment.
    physical: [LinkState; 2],
    told: [LinkState; 2],
}

impl LinkCourse {
    /// The machine of a topology whose files are resolved; `None` without radios.
    ///
    /// # Errors
    /// As [`Courses::new`].
    pub fn new(topology: &Topology, seed: u64) -> Result<Option<Self>, Vec<Note>> {
        if topology.radios.is_empty() {
            return Ok(None);
        }
        let courses = Courses::new(topology)?;
        let step = topology.motion.step;
        let radio = |radio: &Radio| MovingRadio::new(topology, radio, &courses, seed);
        let radios: Vec<MovingRadio> = topology.radios.iter().map(radio).collect();
        let members: BTreeSet<HostIndex> =
            radios.iter().flat_map(|radio| radio.members.iter().map(|member| member.host)).collect();
        let rests: Option<Vec<Duration>> = members.iter().map(|host| courses.rest(*host)).collect();
        let rest = rests.map(|rests| rests.into_iter().max().unwrap_or_default());
        Ok(Some(Self { courses, radios, step, rest, now: None, next: Some(Duration::ZERO) }))
    }

    /// The time of the next step; `None` if no link changes any more.
    pub const fn deadline(&self) -> Option<Duration> {
        self.next
    }

    fn next_after(&self, now: Duration) -> Option<Duration> {
        let handovers = self.radios.iter().flat_map(|radio| &radio.attachments);
        let handover = handovers.filter_map(|attachment| attachment.deadline(now)).min();
        let next = self.grid_after(now);
        // The last places are seen one step beyond the end.
        let moving = self.rest.is_none_or(|rest| now < rest).then_some(next);
        [handover, moving].into_iter().flatten().min()
    }

    /// The first moment after `now` at which positions are computed.
    fn grid_after(&self, now: Duration) -> Duration {
        let step = self.step.as_nanos().max(1);
        let next = (now.as_nanos() / step + 1) * step;
        Duration::from_nanos(u64::try_from(next).unwrap_or(u64::MAX))
    }

    /// Goes on to `now`, which is the [`Self::deadline`] or later, and returns the changes since the last step. The
    /// first step has the state of every link.
    pub fn step(&mut self, now: Duration) -> Vec<LinkChange> {
        let is_first = self.now.is_none();
        let last = self.now.replace(now);
        let mut changes = Vec::new();
        for (index, radio) in self.radios.iter_mut().enumerate() {
            radio.place_members(&self.courses, now, last);
            radio.evaluate(last);
            radio.attach(now);
            for link in 0..radio.links.len() {
                for (from, to, state) in radio.changes(link, now, is_first) {
                    changes.push(LinkChange { at: now, radio: index, from, to, state });
                }
            }
        }
        self.next = self.next_after(now);
        changes
    }

    /// The access points, by radio and member.
    pub fn access_points(&self) -> impl Iterator<Item = (usize, usize)> {
        let of_radio = |(index, radio): (usize, &MovingRadio)| {
            let points = radio.members.iter().enumerate().filter(|(_, member)| member.point.is_some());
            points.map(|(member, _)| (index, member)).collect::<Vec<_>>()
        };
        self.radios.iter().enumerate().flat_map(of_radio)
    }

    pub const fn courses(&self) -> &Courses {
        &self.courses
    }
}

impl MovingRadio {
    fn new(topology: &Topology, radio: &Radio, courses: &Courses, seed: u64) -> Self {
        let points = match &radio.links {
            RadioLinks::Access(access) => access.points.as_slice(),
            RadioLinks::Pairs | RadioLinks::Shared(_) => &[],
        };
        let hosts = topology.nets.get(radio.net).into_iter().flat_map(|net| net.members.iter().map(|it| it.host));
        let member = |host: HostIndex| MovingMember {
            host,
            transceiver: Transceiver::from_radio(radio, host),
            rest: courses.rest(host),
            point: points.iter().position(|point| *point == host),
            spot: None,
        };
        let members: Vec<MovingMember> = hosts.map(member).collect();
        let is_access = matches!(radio.links, RadioLinks::Access(_));
        let mut links = Vec::new();
        for a in 0..members.len() {
            for b in a + 1..members.len() {
                let is_link = !is_access || members[a].point.is_some() != members[b].point.is_some();
                if is_link {
                    let shadow_db = shadow_db(radio, seed, [members[a].host, members[b].host]);
                    let unknown = [LinkState::NOWHERE; 2];
                    links.push(PairLink { ends: [a, b], shadow_db, physical: unknown, told: unknown });
                }
            }
        }
        let attachments = vec![Attachment::default(); if is_access { members.len() } else { 0 }];
        Self { budget: Budget::new(radio, topology.motion.ground_m), radio: radio.clone(), members, links, attachments }
    }

    fn place_members(&mut self, courses: &Courses, now: Duration, last: Option<Duration>) {
        for member in &mut self.members {
            if !member.rested(last) {
                member.spot = courses.spot(member.host, now);
            }
        }
    }

    /// Computes the links of which an end may have moved since the last step.
    fn evaluate(&mut self, last: Option<Duration>) {
        for link in &mut self.links {
            let [a, b] = link.ends.map(|end| &self.members[end]);
            if a.rested(last) && b.rested(last) {
                continue;
            }
            let (Some(here), Some(there)) = (&a.spot, &b.spot) else {
                link.physical = [LinkState::NOWHERE; 2];
                continue;
            };
            let end = |spot, transceiver| LinkEnd { spot, transceiver };
            let ends = [end(here, &a.transceiver), end(there, &b.transceiver)];
            let geometry = self.budget.geometry(ends, link.shadow_db);
            let state = |ends| LinkState::new(&self.radio, &self.budget, &geometry, ends);
            link.physical = [state([&a.transceiver, &b.transceiver]), state([&b.transceiver, &a.transceiver])];
        }
    }

    /// Attaches each host to an access point that it hears and that hears it.
    fn attach(&mut self, now: Duration) {
        let RadioLinks::Access(rules) = &self.radio.links else { return };
        let mut signals = vec![vec![None; rules.points.len()]; self.members.len()];
        for link in &self.links {
            let [a, b] = link.ends;
            let (mobile, point, down) = match (self.members[a].point, self.members[b].point) {
                (Some(point), _) => (b, point, &link.physical[0]),
                (_, Some(point)) => (a, point, &link.physical[1]),
                _ => continue,
            };
            if link.physical.iter().all(|state| state.is_up) {
                signals[mobile][point] = Some(down.snr_db);
            }
        }
        for (attachment, signals) in self.attachments.iter_mut().zip(&signals) {
            attachment.choose(now, signals, rules);
        }
    }

    /// The directions of a link that have changed enough, as sender, receiver and state.
    fn changes(&mut self, link: usize, now: Duration, is_first: bool) -> Vec<(usize, usize, LinkState)> {
        let is_in_use = self.is_in_use(link, now);
        let PairLink { ends: [a, b], physical, told, .. } = &mut self.links[link];
        let mut changes = Vec::new();
        for (direction, (from, to)) in [(*a, *b), (*b, *a)].into_iter().enumerate() {
            let state = physical[direction];
            let state = LinkState { is_up: state.is_up && is_in_use, ..state };
            if is_first || state.differs(&told[direction]) {
                told[direction] = state;
                changes.push((from, to, state));
            }
        }
        changes
    }

    fn is_in_use(&self, link: usize, now: Duration) -> bool {
        let [a, b] = self.links[link].ends;
        match (self.members[a].point, self.members[b].point) {
            _ if self.attachments.is_empty() => true,
            (Some(point), None) => self.attachments[b].in_use(now) == Some(point),
            (None, Some(point)) => self.attachments[a].in_use(now) == Some(point),
            _ => false,
        }
    }
}

impl MovingMember {
    /// True if it has not moved since the last step.
    fn rested(&self, last: Option<Duration>) -> bool {
        last.is_some_and(|last| self.rest.is_some_and(|rest| rest <= last))
    }
}
