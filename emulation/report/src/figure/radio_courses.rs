//! The links of radios over the time of a run, in as many pieces as are visible.

use std::collections::BTreeMap;

use roost_results::record::LinkStateRecord;
use roost_topology::Topology;
use roost_topology::model::RadioLinks;

use super::course::CoursePoint;

/// Changes nearer to each other than this part of the run are not visible.
pub(super) const NEAREST: f64 = 1.0 / 600.0;
/// States are computed in steps of this many seconds at most.
const STEP: f64 = 0.1;

/// A stay at one access point, or the time for which a link was up.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct UpTime<'a> {
    pub(super) from: f64,
    pub(super) until: Option<f64>,
    pub(super) other: &'a str,
    pub(super) values: Vec<CoursePoint>,
}

/// The content of a panel: the way of a host to its access points, or that to another host.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct RadioLink<'a> {
    pub(super) times: Vec<UpTime<'a>>,
    /// The times at which the access point was another one than before.
    pub(super) handovers: Vec<f64>,
}

/// The pieces and marks of a link that are far enough from each other.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct VisibleLink<'a> {
    pub(super) times: Vec<UpTime<'a>>,
    pub(super) handovers: Vec<f64>,
    /// The number of changes that have no place of their own.
    pub(super) left_out: u64,
}

impl<'a> RadioLink<'a> {
    fn add(&mut self, state: &'a LinkStateRecord) {
        let other = state.to.as_str();
        let value = state.rate_bps.map(|rate| CoursePoint { t: state.t, value: rate as f64 / 1e6 });
        let goes_on = self.times.last_mut().filter(|last| last.until.is_none());
        match (goes_on, state.up) {
            (Some(last), true) if last.other == other => last.values.extend(value),
            (Some(last), false) if last.other == other => last.until = Some(state.t),
            (_, false) => {}
            (before, true) => {
                if let Some(before) = before {
                    before.until = Some(state.t);
                }
                if self.times.last().is_some_and(|last| last.other != other) {
                    self.handovers.push(state.t);
                }
                let values = value.into_iter().collect();
                self.times.push(UpTime { from: state.t, until: None, other, values });
            }
        }
    }

    /// The number of gaps that are longer than a handover to another access point takes.
    pub(super) fn losses(&self, handover_s: f64) -> usize {
        let nexts = self.times.iter().skip(1).map(Some).chain([None]);
        let is_loss = |(time, next): &(&UpTime<'_>, Option<&UpTime<'_>>)| match (time.until, next) {
            (None, _) => false,
            (Some(until), Some(next)) if next.other != time.other => next.from - until > handover_s + STEP,
            (Some(_), _) => true,
        };
        self.times.iter().zip(nexts).filter(is_loss).count()
    }

    /// The number of times at which it came or went, and that of changes of its rate.
    pub(super) fn changes(&self) -> (usize, usize) {
        let pairs = self.times.iter().flat_map(|time| time.values.windows(2));
        (self.times.len() + self.losses(0.0), pairs.filter(|pair| pair[0].value != pair[1].value).count())
    }

    fn has_rates(&self) -> bool {
        self.times.iter().any(|time| !time.values.is_empty())
    }

    /// The visible part of it. Of changes within `nearest` seconds the last one counts.
    pub(super) fn visible(&self, nearest: f64) -> VisibleLink<'a> {
        let mut shown = VisibleLink::default();
        for time in &self.times {
            shown.add_time(time, nearest);
        }
        for mark in &self.handovers {
            match shown.handovers.last() {
                Some(last) if mark - last < nearest => shown.left_out += 1,
                _ => shown.handovers.push(*mark),
            }
        }
        shown
    }
}

impl<'a> VisibleLink<'a> {
    fn add_time(&mut self, time: &UpTime<'a>, nearest: f64) {
        let thin = UpTime { values: Vec::new(), ..time.clone() };
        match self.times.last_mut() {
            Some(last) if last.other == time.other && last.until.is_none_or(|until| time.from - until < nearest) => {
                last.until = time.until;
                self.left_out += 1;
            }
            Some(last) if time.from - last.from < nearest => {
                *last = UpTime { from: last.from, ..thin };
                self.left_out += 1;
            }
            _ => self.times.push(thin),
        }
        let Some(last) = self.times.last_mut() else { return };
        for point in &time.values {
            match last.values.last_mut() {
                Some(kept) if point.t - kept.t < nearest => {
                    self.left_out += u64::from(kept.value != point.value);
                    kept.value = point.value;
                }
                Some(kept) if kept.value == point.value => {}
                _ => last.values.push(*point),
            }
        }
    }
}

/// The access points of a radio, and the time that a handover takes.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct AccessPoints<'a> {
    names: Vec<&'a str>,
    handover_s: f64,
}

/// A radio: its links by their names.
pub(super) struct RadioCourse<'a> {
    pub(super) name: &'a str,
    /// `None` if hosts reach each other without access points.
    pub(super) points: Option<AccessPoints<'a>>,
    pub(super) links: BTreeMap<String, RadioLink<'a>>,
    /// The number of links that were down all the time.
    pub(super) never_up: usize,
}

impl<'a> RadioCourse<'a> {
    fn from_states(name: &'a str, states: &[&'a LinkStateRecord], topology: Option<&'a Topology>) -> Self {
        let points = points_of(name, topology);
        let is_point = |host: &str| points.iter().any(|points| points.names.contains(&host));
        let mut ways: BTreeMap<(&str, &str), RadioLink<'a>> = BTreeMap::new();
        for state in states {
            let (from, to) = (state.from.as_str(), state.to.as_str());
            match &points {
                // The way to the access point; the way back is about as good.
                Some(_) if is_point(to) && !is_point(from) => ways.entry((from, "")).or_default().add(state),
                Some(_) => {}
                None => ways.entry((from, to)).or_default().add(state),
            }
        }
        let never_up = count_never_up(&ways);
        ways.retain(|_, link| link.has_rates());
        let is_shown = |(from, to): &(&str, &str)| to.is_empty() || from < to || !ways.contains_key(&(*to, *from));
        let shown: Vec<(&str, &str)> = ways.keys().copied().filter(is_shown).collect();
        let title = |(from, to): (&str, &str)| if to.is_empty() { from.to_owned() } else { format!("{from} to {to}") };
        let links = shown.into_iter().filter_map(|way| Some((title(way), ways.remove(&way)?))).collect();
        Self { name, points, links, never_up }
    }

    /// The number of links that came up after the beginning.
    pub(super) fn began_down(&self) -> usize {
        self.links.values().filter(|link| link.times.first().is_some_and(|time| time.from > STEP)).count()
    }

    pub(super) fn losses(&self) -> usize {
        let handover_s = self.points.as_ref().map_or(0.0, |points| points.handover_s);
        self.links.values().map(|link| link.losses(handover_s)).sum()
    }
}

/// The number of links that were never up; both ways between two hosts are one.
fn count_never_up(ways: &BTreeMap<(&str, &str), RadioLink<'_>>) -> usize {
    let is_never = |((from, to), link): &(&(&str, &str), &RadioLink<'_>)| {
        let back = ways.get(&(*to, *from));
        link.times.is_empty() && back.is_none_or(|back| back.times.is_empty() && from < to)
    };
    ways.iter().filter(is_never).count()
}

/// The radios with links that were up.
pub(super) fn courses<'a>(states: &'a [LinkStateRecord], topology: Option<&'a Topology>) -> Vec<RadioCourse<'a>> {
    let mut radios: Vec<(&str, Vec<&LinkStateRecord>)> = Vec::new();
    let mut places: BTreeMap<&str, usize> = BTreeMap::new();
    for state in states {
        let place = *places.entry(&state.link).or_insert_with(|| {
            radios.push((&state.link, Vec::new()));
            radios.len() - 1
        });
        radios[place].1.push(state);
    }
    let radios = radios.into_iter().map(|(name, states)| RadioCourse::from_states(name, &states, topology));
    radios.filter(|radio| !radio.links.is_empty()).collect()
}

fn points_of<'t>(radio: &str, topology: Option<&'t Topology>) -> Option<AccessPoints<'t>> {
    let topology = topology?;
    let radio = topology.radios.iter().find(|one| topology.nets.get(one.net).is_some_and(|net| net.name == radio))?;
    let RadioLinks::Access(access) = &radio.links else { return None };
    let names = access.points.iter().filter_map(|host| Some(topology.hosts.get(*host)?.name.as_str())).collect();
    Some(AccessPoints { names, handover_s: access.interruption.as_secs_f64() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(states: &[LinkStateRecord]) -> RadioLink<'_> {
        let mut link = RadioLink::default();
        states.iter().for_each(|state| link.add(state));
        link
    }

    fn state(t: f64, to: &str, rate_bps: Option<u64>) -> LinkStateRecord {
        LinkStateRecord { t, to: to.to_owned(), up: rate_bps.is_some(), rate_bps, ..LinkStateRecord::default() }
    }

    #[test]
    fn last_rate_of_near_ones_holds() {
        let states = [state(0.0, "a", Some(6_000_000)), state(3.0, "a", Some(1_000_000))];
        let shown = link(&states).visible(3600.0 * NEAREST);
        assert_eq!(shown.times[0].values, [CoursePoint { t: 0.0, value: 1.0 }]);
        assert_eq!(shown.left_out, 1);
    }

    #[test]
    fn links_that_flap_have_few_pieces() {
        let rate = |n: u32| n.is_multiple_of(2).then_some(1_000_000);
        let one: Vec<_> = (0..7200).map(|n| state(f64::from(n) / 2.0, "a", rate(n))).collect();
        let shown = link(&one).visible(6.0);
        assert_eq!((shown.times.len(), shown.left_out), (1, 3599));
        assert_eq!(shown.times[0].until, Some(3599.5));
        let two: Vec<_> = (0..7200).map(|n| state(f64::from(n) / 2.0, ["a", "b"][n as usize % 2], Some(1))).collect();
        let shown = link(&two).visible(6.0);
        assert!(shown.times.len() <= 601 && shown.handovers.len() <= 601, "{}", shown.times.len());
        assert!(shown.times.iter().all(|time| time.until.is_none_or(|until| until > time.from)));
    }

    #[test]
    fn long_gap_is_a_loss() {
        let mut states = vec![state(0.0, "a", Some(1)), state(4.0, "a", None), state(4.2, "b", Some(1))];
        assert_eq!((link(&states).losses(0.2), link(&states).handovers.len()), (0, 1));
        states[2].t = 60.0;
        assert_eq!((link(&states).losses(0.2), link(&states).handovers.len()), (1, 1));
    }
}
