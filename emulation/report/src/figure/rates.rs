//! The rates of links that play traces over a run, and what of them was used.

use std::collections::BTreeMap;

use roost_results::TraceLoad;
use roost_results::metrics::LinkUse;

use super::course::{Course, CourseLine, CoursePanel, CoursePoint, LineForm, since_zero};
use super::ink::Ink;
use super::key::FigureKey;
use super::{Figure, direction_name};
use crate::text_format::percent;

/// The most directions that are shown, the fullest first.
const MOST: usize = 6;
/// The most points of a line: more are not visible.
const POINTS: usize = 400;

/// Rate and use of a direction in one second, in Mbit/s.
#[derive(Clone, Copy)]
struct TraceSecond {
    t: f64,
    rate: f64,
    used: f64,
}

struct Direction {
    name: String,
    /// The part of the rate that was used over the whole run, as the figure of links has it.
    of_run: Option<f64>,
    seconds: Vec<TraceSecond>,
}

impl Direction {
    /// The part of the rate that was used; from the seconds, which are rounded, only where the run has no counters.
    fn used(&self) -> f64 {
        let sum = |of: fn(&TraceSecond) -> f64| self.seconds.iter().map(of).sum::<f64>();
        self.of_run.unwrap_or_else(|| sum(|second| second.used) / sum(|second| second.rate).max(f64::MIN_POSITIVE))
    }

    fn panel(&self) -> CoursePanel {
        let points = |value: fn(&TraceSecond) -> f64| {
            since_zero(self.seconds.iter().map(|one| CoursePoint { t: one.t, value: value(one) }).collect())
        };
        let rate = CourseLine::whole(Ink::Blue, LineForm::Area, points(|second| second.rate));
        let used = CourseLine::whole(Ink::Vermilion, LineForm::Line, points(|second| second.used));
        let name = format!("{}, Mbit/s", self.name);
        CoursePanel::new(name, Ink::Blue, vec![rate, used])
    }
}

/// The figure of a run; `None` if no link of it plays a trace of its rate.
pub(super) fn rates(loads: &[TraceLoad], links: &[LinkUse]) -> Option<Figure> {
    let mut directions = directions(loads, links);
    directions.sort_by(|a, b| b.used().total_cmp(&a.used()));
    let of = if directions.len() > MOST { format!("The {MOST} fullest of {}", directions.len()) } else { "All".into() };
    directions.truncate(MOST);
    let (first, end) = (directions.first()?, loads.last()?.t);
    let title = format!("Of the trace on {}, {} was used", first.name, percent(first.used()));
    let panels: Vec<CoursePanel> = directions.iter().map(Direction::panel).collect();
    let key = [("rate in force".to_owned(), Ink::Blue), ("what left".to_owned(), Ink::Vermilion)];
    let course = Course { panels: &panels, end, title: "seconds since the workload began" };
    let sheet = course.sheet(&FigureKey::new(key.to_vec()));
    let caption = format!("{of} directions that play traces: the rate in force, and what left, by second.");
    Some(Figure { name: "traces".into(), title, caption, sheet })
}

/// The loads without those of the rest of a second at the end, a few milliseconds in which a trace may have any rate.
fn whole_seconds(loads: &[TraceLoad]) -> impl Iterator<Item = &TraceLoad> {
    let mut times: Vec<f64> = loads.iter().map(|load| load.t).collect();
    times.dedup();
    let rest = match times[..] {
        [.., first, second, last] if last - second < (second - first) / 2.0 => Some(last),
        _ => None,
    };
    loads.iter().filter(move |load| Some(load.t) != rest)
}

fn directions(loads: &[TraceLoad], links: &[LinkUse]) -> Vec<Direction> {
    let mut by_direction: BTreeMap<[&str; 3], Vec<TraceSecond>> = BTreeMap::new();
    for TraceLoad { t, rate_bps, link } in whole_seconds(loads) {
        let rate = *rate_bps as f64 / 1e6;
        let key = [&link.link, &link.host, &link.direction].map(String::as_str);
        by_direction.entry(key).or_default().push(TraceSecond { t: *t, rate, used: rate * link.used });
    }
    by_direction.into_iter().map(|(key, seconds)| thinned(key, &seconds, links)).collect()
}

fn thinned([link, host, side]: [&str; 3], seconds: &[TraceSecond], links: &[LinkUse]) -> Direction {
    let together = seconds.len().div_ceil(POINTS).max(1);
    let mean = |chunk: &[TraceSecond]| {
        let mean = |of: fn(&TraceSecond) -> f64| chunk.iter().map(of).sum::<f64>() / chunk.len() as f64;
        TraceSecond { t: mean(|second| second.t), rate: mean(|second| second.rate), used: mean(|second| second.used) }
    };
    let is_it = |one: &&LinkUse| one.link.link == link && one.link.host == host && one.link.direction == side;
    Direction {
        name: direction_name(link, host, side),
        of_run: links.iter().find(is_it).and_then(|one| one.utilization),
        seconds: seconds.chunks(together).map(mean).collect(),
    }
}

#[cfg(test)]
mod tests {
    use roost_results::record::{LinkLoad, LinkRecord};

    use super::*;

    #[test]
    fn figure_tells_used_part() {
        let load = |t: f64, rate_bps, used| {
            let (link, host) = ("lte".to_owned(), "a".to_owned());
            let direction = "to-net".to_owned();
            let link = LinkLoad { link, host, direction, used, rate_bps: Some(rate_bps), ..LinkLoad::default() };
            TraceLoad { t, rate_bps, link }
        };
        assert!(rates(&[], &[]).is_none());
        let mut loads = vec![load(1.0, 1_000_000, 1.0), load(2.0, 3_000_000, 0.0)];
        let figure = rates(&loads, &[]).unwrap();
        assert_eq!(figure.title, "Of the trace on a\u{a0}→\u{a0}lte, 25 % was used");
        loads.push(load(2.01, 1_000_000, 1.0));
        assert_eq!(rates(&loads, &[]).unwrap().title, figure.title);
        // The counters of the whole run, from which the figure of links has its number too.
        let link =
            LinkRecord { link: "lte".into(), host: "a".into(), direction: "to-net".into(), ..LinkRecord::default() };
        let counted = LinkUse { link, mbit_s: None, utilization: Some(0.2) };
        assert!(rates(&loads, &[counted]).unwrap().title.ends_with(", 20 % was used"));
    }
}
