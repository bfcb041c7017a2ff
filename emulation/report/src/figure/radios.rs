//! The figure of the links of radios: their rates over a run, and the handovers.

use roost_results::Results;
use roost_topology::Topology;

use super::Figure;
use super::course::{Course, CourseLine, CoursePanel, LineForm, steps};
use super::ink::Ink;
use super::key::FigureKey;
use super::radio_courses::{NEAREST, RadioCourse, RadioLink, UpTime, VisibleLink, courses};
use crate::text_format::{capital, counted, three};

/// The most panels, those with the most changes first.
const MOST: usize = 8;
/// The most access points with an ink of their own.
const POINTS: usize = 6;

/// The access points, in the order of their inks.
struct PointInks<'a> {
    points: Vec<&'a str>,
}

impl PointInks<'_> {
    fn ink(&self, point: &str) -> Ink {
        match self.points.iter().position(|one| *one == point) {
            Some(number) if number < POINTS => Ink::kind(number),
            _ => Ink::Gray,
        }
    }

    fn key(&self) -> FigureKey {
        if self.points.len() < 2 {
            return FigureKey::default();
        }
        let mut key: Vec<(String, Ink)> =
            self.points.iter().take(POINTS).map(|point| ((*point).to_owned(), self.ink(point))).collect();
        key.extend((self.points.len() > POINTS).then(|| ("another access point".to_owned(), Ink::Gray)));
        FigureKey::new(key)
    }

    fn panel(&self, radio: &RadioCourse<'_>, name: &str, link: &VisibleLink<'_>, end: f64) -> CoursePanel {
        let has_inks = self.points.len() > 1 && radio.points.is_some();
        let line = |time: &UpTime<'_>| {
            let ink = if has_inks { self.ink(time.other) } else { Ink::Blue };
            let piece = steps(&time.values, time.until.unwrap_or(end));
            CourseLine { ink, form: LineForm::Area, pieces: vec![piece] }
        };
        let name = format!("{name} over {}, Mbit/s", radio.name);
        let ink = if has_inks { Ink::Text } else { Ink::Blue };
        CoursePanel::new(name, ink, link.times.iter().map(line).collect()).with_marks(link.handovers.clone(), Ink::Text)
    }
}

/// The figure of a run; `None` if no link of a radio was up.
pub(super) fn radios(results: &Results, topology: Option<&Topology>) -> Option<Figure> {
    let last = results.link_states.last()?;
    let end = (results.run.ran_s + results.run.drain_s).max(last.t);
    let radios = courses(&results.link_states, topology);
    let inks = PointInks { points: access_points(&radios) };
    let each = (MOST / radios.len().max(1)).max(1);
    let (mut panels, mut left_out) = (Vec::new(), 0);
    for radio in radios.iter().take(MOST) {
        let mut links: Vec<(&String, &RadioLink<'_>)> = radio.links.iter().collect();
        links.sort_by_key(|(_, link)| std::cmp::Reverse(link.changes()));
        for (name, link) in links.into_iter().take(each) {
            let link = link.visible(end * NEAREST);
            left_out += link.left_out;
            panels.push(inks.panel(radio, name, &link, end));
        }
    }
    if panels.is_empty() {
        return None;
    }
    let links: usize = radios.iter().map(|radio| radio.links.len()).sum();
    let course = Course { panels: &panels, end, title: "seconds since the workload began" };
    Some(Figure {
        name: "radios".into(),
        title: title(&radios, &inks.points),
        caption: caption([panels.len(), links], left_out, end * NEAREST),
        sheet: course.sheet(&inks.key()),
    })
}

/// `links` are those with panels, and all.
fn caption(links: [usize; 2], left_out: u64, nearest: f64) -> String {
    let of = match links {
        [shown, all] if all > shown => format!("The {shown} with the most changes of {all}"),
        _ => "All".to_owned(),
    };
    let left_out = match left_out {
        0 => String::new(),
        many => {
            format!(" Of changes within {} s of each other the last is drawn; {many} are left out.", three(nearest))
        }
    };
    format!(
        "{of} links of radios that were up, while they are up. A panel of a radio with access points is the way from a host \
         to its access points, in their inks, and dashes are handovers. Otherwise it is the way in its name; the way \
         back has none if both were up.{left_out} link-states.csv has all."
    )
}

fn title(radios: &[RadioCourse<'_>], points: &[&str]) -> String {
    let handovers: usize = radios.iter().flat_map(|radio| radio.links.values()).map(|link| link.handovers.len()).sum();
    let handovers = (points.len() > 1).then(|| counted(handovers as u64, "handover"));
    let links: usize = radios.iter().map(|radio| radio.links.len()).sum();
    let late = match radios.iter().map(RadioCourse::began_down).sum::<usize>() {
        0 => None,
        all if all == links => Some("all links of radios began down".to_owned()),
        late => Some(format!("{late} of {links} links of radios began down")),
    };
    let down = match radios.iter().map(RadioCourse::losses).sum::<usize>() {
        0 => "no link of a radio went down".to_owned(),
        1 => "a link of a radio went down once".to_owned(),
        many => format!("links of radios went down {many} times"),
    };
    let never = match radios.iter().map(|radio| radio.never_up).sum::<usize>() {
        0 => None,
        1 => Some("1 was never up".to_owned()),
        many => Some(format!("{many} were never up")),
    };
    capital(&handovers.into_iter().chain(late).chain([down]).chain(never).collect::<Vec<_>>().join(", "))
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
    use roost_results::record::LinkStateRecord;
    use roost_results::testing;

    use super::super::course::CoursePoint;
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
            frequency = '2.4GHz'\npower = '20dBm'\nbandwidth = '20MHz'\nrate = '6Mbit'\nrange = '500m'\nhandover = '200ms'\n";
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
        assert_eq!((link.handovers.as_slice(), link.losses(0.2), link.times.len()), (&[4.2][..], 1, 3));
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
        assert_eq!(figure.title, "All links of radios began down, no link of a radio went down");
        assert!(figure.sheet.standing("radios").contains("x to y over lte, Mbit/s"));
        let mut states = results.link_states.clone();
        states.extend([("x", "z"), ("z", "x"), ("z", "y")].map(|(from, to)| state(0.0, from, to, None)));
        let figure = radios(&Results { link_states: states, ..testing::by_hand() }, None).unwrap();
        assert!(figure.title.ends_with("no link of a radio went down, 2 were never up"), "{}", figure.title);
        assert!(radios(&testing::by_hand(), None).is_none());
    }

    #[test]
    fn way_that_was_up_is_shown() {
        let states = vec![state(0.0, "x", "y", None), state(0.0, "y", "x", Some(6_000_000))];
        let figure = radios(&results(states), None).unwrap();
        assert!(figure.sheet.standing("radios").contains("y to x over lte, Mbit/s"));
        assert!(radios(&results(vec![state(0.0, "x", "y", None)]), None).is_none());
    }

    #[test]
    fn caption_says_what_is_left_out() {
        let rate = |n: u32| n.is_multiple_of(2).then_some(1_000_000);
        let states = (0..7200).map(|n| state(f64::from(n) / 2.0, "x", "y", rate(n))).collect();
        let figure = radios(&results(states), None).unwrap();
        assert!(figure.caption.contains("3,599 are left out") || figure.caption.contains("3599 are left out"));
        let svg = figure.sheet.standing("radios");
        assert!(svg.len() < 5_000, "{}", svg.len());
    }
}
