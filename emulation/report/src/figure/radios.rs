//! The links of radios over a run: their rates, and the handovers.

use std::collections::BTreeMap;

use roost_results::Results;
use roost_results::record::LinkStateRecord;
use roost_topology::Topology;
use roost_topology::model::RadioLinks;

use super::Figure;
use super::course::{Course, CourseLine, CoursePanel, CoursePoint, LineForm, steps};
use super::ink::Ink;
use super::key::FigureKey;
use crate::text_format::{capital, counted};

/// The most panels, those with the most changes first.
const MOST: usize = 8;
/// The most access points with an ink of their own.
const POINTS: usize = 6;
/// Changes nearer to each other than this part of the run are not visible.
const NEAREST: f64 = 1.0 / 600.0;

/// A stay at one access point, or the time for which a link was up.
#[derive(Clone, Debug, PartialEq)]
struct UpTime<'a> {
    from: f64,
    until: Option<f64>,
    other: &'a str,
    values: Vec<CoursePoint>,
}

/// What a panel shows: a host at its access points, or a pair of hosts.
#[derive(Clone, Debug, Default, PartialEq)]
struct RadioLink<'a> {
    times: Vec<UpTime<'a>>,
    /// The times at which the access point was another one than before.
    handovers: Vec<f64>,
}

impl<'a> RadioLink<'a> {
    fn add(&mut self, state: &'a LinkStateRecord, other: &'a str) {
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

    /// The number of times at which it went down for another reason than a handover.
    fn losses(&self) -> usize {
        let others = self.times.iter().skip(1).map(|next| Some(next.other)).chain([None]);
        let is_loss = |(time, next): &(&UpTime<'_>, Option<&str>)| {
            time.until.is_some() && next.is_none_or(|next| next == time.other)
        };
        self.times.iter().zip(others).filter(is_loss).count()
    }

    /// The number of times at which it was up and went down, and that of changes of its rate.
    fn changes(&self) -> (usize, usize) {
        let pairs = self.times.iter().flat_map(|time| time.values.windows(2));
        (self.times.len() + self.losses(), pairs.filter(|pair| pair[0].value != pair[1].value).count())
    }

    /// A line for each ink, with a piece for each time.
    fn lines(&self, end: f64, ink: impl Fn(&str) -> Ink) -> Vec<CourseLine> {
        let line = |time: &UpTime<'_>| {
            let mut shown: Vec<CoursePoint> = Vec::new();
            for point in &time.values {
                if shown.last().is_none_or(|last| point.t - last.t >= end * NEAREST) {
                    shown.push(*point);
                }
            }
            let piece = steps(&shown, time.until.unwrap_or(end));
            CourseLine { ink: ink(time.other), form: LineForm::Area, pieces: vec![piece] }
        };
        self.times.iter().map(line).collect()
    }
}

/// A radio: its links by their names, and the access points that they went to.
struct RadioCourse<'a> {
    name: &'a str,
    /// The access points; `None` if hosts reach each other.
    points: Option<Vec<&'a str>>,
    links: BTreeMap<String, RadioLink<'a>>,
}

/// The figure of a run; `None` if it has no links of radios.
pub(super) fn radios(results: &Results, topology: Option<&Topology>) -> Option<Figure> {
    let last = results.link_states.last()?;
    let end = (results.run.ran_s + results.run.drain_s).max(last.t);
    let radios = courses(&results.link_states, topology);
    let points = access_points(&radios);
    let ink = |other: &str| match points.iter().position(|point| *point == other) {
        Some(number) if number < POINTS => Ink::kind(number),
        _ => Ink::Gray,
    };
    let each = (MOST / radios.len().max(1)).max(1);
    let mut panels = Vec::new();
    for radio in radios.iter().take(MOST) {
        let mut links: Vec<(&String, &RadioLink<'_>)> = radio.links.iter().collect();
        links.sort_by_key(|(_, link)| std::cmp::Reverse(link.changes()));
        panels.extend(links.into_iter().take(each).map(|(name, link)| {
            let has_inks = points.len() > 1 && radio.points.is_some();
            let lines = link.lines(end, |other| if has_inks { ink(other) } else { Ink::Blue });
            let name = format!("{name} over {}, Mbit/s", radio.name);
            CoursePanel::new(name, if has_inks { Ink::Text } else { Ink::Blue }, lines)
                .with_marks(link.handovers.clone())
        }));
    }
    let mut key: Vec<(String, Ink)> =
        points.iter().take(POINTS).map(|point| ((*point).to_owned(), ink(point))).collect();
    key.extend((points.len() > POINTS).then(|| ("another access point".to_owned(), Ink::Gray)));
    let key = FigureKey::new(if points.len() < 2 { Vec::new() } else { key });
    let course = Course { panels: &panels, end, title: "seconds since the workload began" };
    let links: usize = radios.iter().map(|radio| radio.links.len()).sum();
    let of = if links > panels.len() {
        format!("The {} with the most changes of {links}", panels.len())
    } else {
        "All".into()
    };
    Some(Figure {
        name: "radios".into(),
        title: title(&radios, &points),
        caption: format!(
            "{of} links of radios, while they are up. Of a radio with access points a panel is a host's, in the inks of \
             the points that it went to, and dashes are handovers. link-states.csv has all."
        ),
        sheet: course.sheet(&key),
    })
}

fn title(radios: &[RadioCourse<'_>], points: &[&str]) -> String {
    let links: Vec<&RadioLink<'_>> = radios.iter().flat_map(|radio| radio.links.values()).collect();
    let count = |of: fn(&RadioLink<'_>) -> usize| links.iter().map(|link| of(link)).sum::<usize>() as u64;
    let (handovers, down) = (count(|link| link.handovers.len()), count(|link| link.losses()));
    let handovers = (points.len() > 1).then(|| counted(handovers, "handover"));
    let down = match down {
        0 => "no link of a radio went down".to_owned(),
        1 => "a link of a radio went down once".to_owned(),
        many => format!("links of radios went down {many} times"),
    };
    capital(&handovers.into_iter().chain([down]).collect::<Vec<_>>().join(", "))
}

fn courses<'a>(states: &'a [LinkStateRecord], topology: Option<&'a Topology>) -> Vec<RadioCourse<'a>> {
    let mut radios: Vec<RadioCourse<'a>> = Vec::new();
    for state in states {
        let (name, known) = (state.link.as_str(), radios.iter().position(|radio| radio.name == state.link));
        let place = known.unwrap_or_else(|| {
            radios.push(RadioCourse { name, points: points_of(name, topology), links: BTreeMap::new() });
            radios.len() - 1
        });
        let radio = &mut radios[place];
        let is_point = |host: &str| radio.points.iter().flatten().any(|point| *point == host);
        let link = match &radio.points {
            // The way to the access point; the way back is about as good.
            Some(_) if is_point(&state.to) && !is_point(&state.from) => state.from.clone(),
            None if state.from < state.to => format!("{} to {}", state.from, state.to),
            _ => continue,
        };
        radio.links.entry(link).or_default().add(state, &state.to);
    }
    radios
}

/// The names of a radio's access points; `None` if hosts reach each other.
fn points_of<'t>(radio: &str, topology: Option<&'t Topology>) -> Option<Vec<&'t str>> {
    let topology = topology?;
    let radio = topology.radios.iter().find(|one| topology.nets.get(one.net).is_some_and(|net| net.name == radio))?;
    let RadioLinks::Access(access) = &radio.links else { return None };
    Some(access.points.iter().filter_map(|host| Some(topology.hosts.get(*host)?.name.as_str())).collect())
}

/// The access points that hosts went to, in the order of their first use.
fn access_points<'a>(radios: &[RadioCourse<'a>]) -> Vec<&'a str> {
    let times = radios
        .iter()
        .filter(|radio| radio.points.is_some())
        .flat_map(|radio| radio.links.values())
        .flat_map(|link| &link.times);
    let mut times: Vec<&UpTime<'_>> = times.collect();
    times.sort_by(|one, other| one.from.total_cmp(&other.from));
    let mut points = Vec::new();
    for time in times {
        if !points.contains(&time.other) {
            points.push(time.other);
        }
    }
    points
}

#[cfg(test)]
mod tests {
    use roost_results::testing;

    use super::*;

    fn state(t: f64, from: &str, to: &str, rate_bps: Option<u64>) -> LinkStateRecord {
        LinkStateRecord {
            t,
            link: "lte".to_owned(),
            from: from.to_owned(),
            to: to.to_owned(),
            up: rate_bps.is_some(),
            rate_bps,
            ..LinkStateRecord::default()
        }
    }

    fn with_access() -> Topology {
        let text = "[[host]]\nname = ['a', 'b', 'car']\n[[motion.host]]\nname = ['a', 'b', 'car']\nposition = [0, 0]\n\
            [[radio]]\nname = 'lte'\nmembers = ['a', 'b', 'car']\nlinks = 'access'\naccess = ['a', 'b']\n\
            frequency = '2.4GHz'\npower = '20dBm'\nbandwidth = '20MHz'\nrate = '6Mbit'\nrange = '500m'\n";
        roost_topology::file::parse("t", text).unwrap_or_else(|problems| panic!("{problems:?}"))
    }

    fn results(states: Vec<LinkStateRecord>) -> Results {
        let mut results = testing::by_hand();
        results.link_states = states;
        results
    }

    #[test]
    fn handovers_are_marked_and_counted() {
        let results = results(vec![
            state(0.0, "car", "a", Some(5_000_000)),
            state(0.0, "a", "car", Some(5_000_000)),
            state(3.0, "car", "a", Some(1_000_000)),
            state(4.0, "car", "a", None),
            state(4.2, "car", "b", Some(2_000_000)),
            state(6.0, "car", "b", None),
            state(7.0, "car", "b", Some(2_000_000)),
        ]);
        let topology = with_access();
        let radios_of = courses(&results.link_states, Some(&topology));
        let link = &radios_of[0].links["car"];
        assert_eq!((link.handovers.as_slice(), link.losses(), link.times.len()), (&[4.2][..], 1, 3));
        assert_eq!(radios_of[0].links.len(), 1);
        assert_eq!(link.times[0].values, [CoursePoint { t: 0.0, value: 5.0 }, CoursePoint { t: 3.0, value: 1.0 }]);
        let figure = radios(&results, Some(&with_access())).unwrap();
        assert_eq!(figure.title, "1 handover, a link of a radio went down once");
        assert!(figure.sheet.standing("radios").contains("car over lte, Mbit/s"));
    }

    #[test]
    fn pairs_have_panels_of_their_own() {
        let rate = Some(6_000_000);
        let results = results(vec![state(1.0, "x", "y", rate), state(1.0, "y", "x", rate), state(2.0, "x", "y", rate)]);
        let figure = radios(&results, None).unwrap();
        assert_eq!(figure.title, "No link of a radio went down");
        assert!(figure.sheet.standing("radios").contains("x to y over lte, Mbit/s"));
        assert!(radios(&testing::by_hand(), None).is_none());
    }
}
