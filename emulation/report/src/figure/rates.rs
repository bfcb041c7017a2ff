//! The rates of links that play traces over a run, and what of them was used.

use std::collections::BTreeMap;

use roost_results::TraceLoad;

use super::Figure;
use super::course::{Course, CourseLine, CoursePanel, CoursePoint, LineForm, since_zero};
use super::ink::Ink;
use super::key::FigureKey;
use crate::text_format::percent;

/// The most directions that are shown, the fullest first.
const MOST: usize = 6;
/// The most points of a line: more are not visible.
const POINTS: usize = 400;

/// Rate and use of a direction, second by second, in Mbit/s.
struct Direction {
    name: String,
    seconds: Vec<(f64, f64, f64)>,
}

impl Direction {
    /// The part of the rate that was used.
    fn used(&self) -> f64 {
        let sum = |of: fn(&(f64, f64, f64)) -> f64| self.seconds.iter().map(of).sum::<f64>();
        sum(|second| second.2) / sum(|second| second.1).max(f64::MIN_POSITIVE)
    }

    fn panel(&self) -> CoursePanel {
        let points = |value: fn(&(f64, f64, f64)) -> f64| {
            since_zero(self.seconds.iter().map(|one| CoursePoint { t: one.0, value: value(one) }).collect())
        };
        let rate = CourseLine::whole(Ink::Blue, LineForm::Area, points(|second| second.1));
        let used = CourseLine::whole(Ink::Vermilion, LineForm::Line, points(|second| second.2));
        let name = format!("{}, Mbit/s", self.name);
        CoursePanel::new(name, Ink::Blue, vec![rate, used])
    }
}

/// The figure of a run; `None` if no link of it plays a trace of its rate.
pub(super) fn rates(loads: &[TraceLoad]) -> Option<Figure> {
    let mut directions = directions(loads);
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

fn directions(loads: &[TraceLoad]) -> Vec<Direction> {
    let mut by_name: BTreeMap<String, Vec<(f64, f64, f64)>> = BTreeMap::new();
    for TraceLoad { t, rate_bps, link } in whole_seconds(loads) {
        let side = if link.direction == "from-net" { "to" } else { "from" };
        let rate = *rate_bps as f64 / 1e6;
        by_name.entry(format!("{} {side} {}", link.link, link.host)).or_default().push((*t, rate, rate * link.used));
    }
    let thinned = |(name, seconds): (String, Vec<(f64, f64, f64)>)| {
        let together = seconds.len().div_ceil(POINTS).max(1);
        let mean = |chunk: &[(f64, f64, f64)]| {
            let mean = |of: fn(&(f64, f64, f64)) -> f64| chunk.iter().map(of).sum::<f64>() / chunk.len() as f64;
            (mean(|second| second.0), mean(|second| second.1), mean(|second| second.2))
        };
        Direction { name, seconds: seconds.chunks(together).map(mean).collect() }
    };
    by_name.into_iter().map(thinned).collect()
}

#[cfg(test)]
mod tests {
    use roost_results::record::LinkLoad;

    use super::*;

    #[test]
    fn figure_tells_used_part() {
        let load = |t: f64, rate_bps, used| {
            let (link, host) = ("lte".to_owned(), "a".to_owned());
            let link = LinkLoad { link, host, used, rate_bps: Some(rate_bps), ..LinkLoad::default() };
            TraceLoad { t, rate_bps, link }
        };
        assert!(rates(&[]).is_none());
        let figure = rates(&[load(1.0, 1_000_000, 1.0), load(2.0, 3_000_000, 0.0)]).unwrap();
        assert!(figure.title.contains("lte from a") && figure.title.contains("25"), "{}", figure.title);
        let rest = rates(&[load(1.0, 1_000_000, 1.0), load(2.0, 3_000_000, 0.0), load(2.01, 1_000_000, 1.0)]).unwrap();
        assert_eq!(rest.title, figure.title);
    }
}
