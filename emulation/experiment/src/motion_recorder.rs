//! Records of hosts in motion and of their links, as the network itself computes them.

use std::collections::BTreeMap;
use std::time::Duration;

use roost_motion::{Courses, LinkChange, LinkCourse};
use roost_results::record::{LinkStateRecord, MotionRecord, Record};
use roost_topology::Topology;
use roost_topology::model::HostIndex;

/// Places are recorded once a second, and so are rates, losses and delays.
const PERIOD: Duration = Duration::from_secs(1);

/// A second computation of the same course: it follows from the topology and the seed alone.
#[derive(Debug)]
pub struct MotionRecorder {
    hosts: Vec<String>,
    /// By radio: its name, and the hosts of its members.
    radios: Vec<(String, Vec<HostIndex>)>,
    courses: Option<Courses>,
    links: Option<LinkCourse>,
    /// The last state of each link that is up, and of those whose change waits for the next period.
    waiting: BTreeMap<(usize, usize, usize), LinkChange>,
    up: BTreeMap<(usize, usize, usize), bool>,
    next: Duration,
}

impl MotionRecorder {
    pub fn new(topology: &Topology, seed: u64) -> Self {
        let radio = |radio: &roost_topology::model::Radio| {
            let net = &topology.nets[radio.net];
            (net.name.clone(), net.members.iter().map(|member| member.host).collect())
        };
        Self {
            hosts: topology.hosts.iter().map(|host| host.name.clone()).collect(),
            radios: topology.radios.iter().map(radio).collect(),
            courses: Courses::new(topology).ok().filter(|courses| courses.hosts().next().is_some()),
            // Resolved topologies have courses that make sense.
            links: LinkCourse::new(topology, seed).ok().flatten(),
            waiting: BTreeMap::new(),
            up: BTreeMap::new(),
            next: Duration::ZERO,
        }
    }

    /// The records since the last call, in order of time, up to `now`.
    pub fn records_until(&mut self, now: Duration) -> Vec<Record> {
        let mut records = Vec::new();
        if self.courses.is_none() {
            return records;
        }
        loop {
            let link = self.links.as_ref().and_then(LinkCourse::deadline);
            match link.filter(|at| *at <= self.next) {
                Some(at) if at <= now => self.step_links(at, &mut records),
                None if self.next <= now => self.step_places(&mut records),
                _ => return records,
            }
        }
    }

    fn step_links(&mut self, at: Duration, records: &mut Vec<Record>) {
        let changes = self.links.as_mut().map(|links| links.step(at)).unwrap_or_default();
        for change in changes {
            let key = (change.radio, change.from, change.to);
            let was_up = self.up.insert(key, change.state.is_up).unwrap_or(false);
            if was_up == change.state.is_up {
                if was_up {
                    self.waiting.insert(key, change);
                }
                continue;
            }
            self.waiting.remove(&key);
            records.extend(self.link_record(&change));
        }
    }

    fn step_places(&mut self, records: &mut Vec<Record>) {
        let waiting = std::mem::take(&mut self.waiting);
        records.extend(waiting.values().filter_map(|change| self.link_record(change)));
        let at = self.next;
        let is_first = at.is_zero();
        if let Some(courses) = &self.courses {
            let moving =
                courses.hosts().filter(|host| is_first || courses.rest(*host).is_none_or(|rest| at < rest + PERIOD));
            records.extend(moving.filter_map(|host| self.place_record(courses, host, at)));
        }
        self.next += PERIOD;
    }

    fn place_record(&self, courses: &Courses, host: HostIndex, at: Duration) -> Option<Record> {
        let place = courses.place(host, at)?;
        let rounded = |numbers: [f64; 3], scales: [f64; 3]| {
            let both = numbers.into_iter().zip(scales);
            let all: Vec<Option<f64>> = both.map(|(number, scale)| Some((number * scale).round() / scale)).collect();
            [all[0], all[1], all[2]]
        };
        // Millimeters, and 1e-8 of a degree.
        let [x_m, y_m, z_m] = place.local_m.map_or([None; 3], |local| rounded(local, [1e3; 3]));
        let [lat, lon, alt_m] = place.earth.map_or([None; 3], |earth| rounded(earth, [1e8, 1e8, 1e3]));
        let (t, host) = (at.as_secs_f64(), self.hosts[host].clone());
        Some(Record::Motion(MotionRecord { t, host, x_m, y_m, z_m, lat, lon, alt_m }))
    }

    fn link_record(&self, change: &LinkChange) -> Option<Record> {
        let (link, members) = self.radios.get(change.radio)?;
        let host = |member: usize| Some(self.hosts[*members.get(member)?].clone());
        let state = &change.state;
        let finite = |number: f64, scale: f64| number.is_finite().then(|| (number * scale).round() / scale);
        Some(Record::LinkState(LinkStateRecord {
            t: change.at.as_secs_f64(),
            link: link.clone(),
            from: host(change.from)?,
            to: host(change.to)?,
            up: state.is_up,
            rate_bps: state.is_up.then(|| state.rate.bps()),
            delay_ms: state.is_up.then_some(state.delay.as_secs_f64() * 1e3),
            loss: state.is_up.then_some(state.loss),
            distance_m: finite(state.distance_m, 1e3),
            snr_db: finite(state.snr_db, 1e3),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "[[host]]\nname = ['a', 'b']\n[[motion.host]]\nname = 'a'\nposition = [0, 0]\n\
        [[motion.host]]\nname = 'b'\npath = [{ at = '0s', position = [100, 0] }, { at = '10s', position = [1100, 0] }]\n\
        [[radio]]\nname = 'r'\nmembers = ['a', 'b']\nfrequency = '2.4GHz'\npower = '20dBm'\nbandwidth = '20MHz'\n\
        rate = '6Mbit'\nrange = '500m'\n";

    #[test]
    fn records_are_equal_in_any_steps() {
        let topology = roost_topology::file::parse("t", TEXT).unwrap();
        let all = MotionRecorder::new(&topology, 1).records_until(Duration::from_secs(30));
        let mut recorder = MotionRecorder::new(&topology, 1);
        let parts: Vec<Record> =
            (0..=100).flat_map(|tenth| recorder.records_until(Duration::from_millis(300 * tenth))).collect();
        assert_eq!(all, parts);
        let places = all.iter().filter(|record| matches!(record, Record::Motion(_))).count();
        // Both at the start, and then the one that moves.
        assert_eq!(places, 2 + 10);
        let states = all.iter().filter_map(|record| match record {
            Record::LinkState(state) => Some((state.t, state.from.as_str(), state.up)),
            _ => None,
        });
        let states: Vec<_> = states.filter(|(t, from, _)| *from == "a" && (*t <= 0.0 || *t > 4.0)).collect();
        assert_eq!(states, [(0.0, "a", true), (4.1, "a", false)]);
    }
}
