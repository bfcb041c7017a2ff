//! The rates of links that play traces over a run, and what of them was used.

use std::collections::BTreeMap;

use roost_results::TraceLoad;

use super::Figure;
use super::canvas::{Canvas, TextAnchor, WIDTH};
use super::ink::Ink;
use super::plot_area::PlotArea;
use super::scale::AxisScale;
use crate::text_format::{percent, three};

const FIELD: f64 = 72.0;
/// The space above it, with its name.
const ABOVE: f64 = 36.0;
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

    fn draw(&self, canvas: &mut Canvas<'_>, frame: &PlotArea) {
        canvas.bold(&format!("{}, Mbit/s", self.name), (0.0, frame.top - 17.0), TextAnchor::Right, Ink::Blue);
        frame.rows(canvas, 2, three);
        let of = |value: fn(&(f64, f64, f64)) -> f64| {
            let place = |second: &(f64, f64, f64)| (frame.x.at(second.0), frame.y.at(value(second)));
            self.seconds.iter().map(place).collect::<Vec<_>>()
        };
        let (rate, used) = (of(|second| second.1), of(|second| second.2));
        let (Some(first), Some(last)) = (rate.first().copied(), rate.last().copied()) else { return };
        let mut shape = rate.clone();
        shape.extend([(last.0, frame.bottom), (first.0, frame.bottom)]);
        canvas.shape(&shape, Ink::Blue, 0.16);
        canvas.line(&rate, Ink::Blue, 1.4);
        canvas.line(&used, Ink::Vermilion, 1.6);
    }
}

/// The figure of a run; `None` if no link of it plays a trace of its rate.
pub(super) fn rates(loads: &[TraceLoad]) -> Option<Figure> {
    let mut directions = directions(loads);
    directions.sort_by(|a, b| b.used().total_cmp(&a.used()));
    let of = if directions.len() > MOST { format!("The {MOST} fullest of {}", directions.len()) } else { "All".into() };
    directions.truncate(MOST);
    let (first, end) = (directions.first()?, loads.last()?.t);
    let (left, right, bottom) = (46.0, WIDTH - 14.0, directions.len() as f64 * (ABOVE + FIELD));
    let x = AxisScale::exact(0.0, end, left, right);
    let title = format!("Of the trace on {}, {} was used", first.name, percent(first.used()));
    let sheet = Canvas::sheet(bottom + 42.0, |canvas| {
        for (index, direction) in directions.iter().enumerate() {
            let top = index as f64 * (ABOVE + FIELD) + ABOVE;
            let highest = direction.seconds.iter().map(|second| second.1).fold(0.0, f64::max);
            let y = AxisScale::from_zero(highest, top + FIELD, top);
            let frame = PlotArea { left, right, top, bottom: top + FIELD, x, y };
            direction.draw(canvas, &frame);
            if index + 1 == directions.len() {
                frame.columns(canvas, 7, three, "seconds since the workload began");
            }
        }
    });
    let caption =
        format!("{of} directions that play traces: the rate in force (blue), and what left (red), by second.");
    Some(Figure { name: "traces".into(), title, caption, sheet })
}

fn directions(loads: &[TraceLoad]) -> Vec<Direction> {
    let mut by_name: BTreeMap<String, Vec<(f64, f64, f64)>> = BTreeMap::new();
    for TraceLoad { t, rate_bps, link } in loads {
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
    }
}
