//! A trace over its time: rate, delay and loss above each other.

use std::time::Duration;

use roost_topology::trace::{self, TraceContent, TraceValues};

use super::canvas::{Canvas, Sheet, TextAnchor, WIDTH};
use super::ink::Ink;
use super::plot_area::PlotArea;
use super::scale::AxisScale;
use crate::text_format::three;

const FIELD: f64 = 84.0;
/// The space above it, with its name.
const ABOVE: f64 = 36.0;
/// The most points of a line: more are not visible.
const POINTS: u32 = 600;
const SHORTEST: Duration = Duration::from_millis(100);

/// A panel with its name, and points of seconds and values.
struct TracePanel {
    name: &'static str,
    ink: Ink,
    points: Vec<(f64, f64)>,
}

/// Draws a trace. Rates are means of windows; delays and losses are those at the beginning of each.
pub fn trace(content: &TraceContent) -> Sheet {
    let window = SHORTEST.max(content.period() / POINTS);
    let panels = panels(content, window);
    let (left, right, end) = (52.0, WIDTH - 14.0, content.period().as_secs_f64());
    let x = AxisScale::exact(0.0, end, left, right);
    let bottom = panels.len() as f64 * (ABOVE + FIELD);
    Canvas::sheet(bottom + 42.0, |canvas| {
        for (index, panel) in panels.iter().enumerate() {
            let top = index as f64 * (ABOVE + FIELD) + ABOVE;
            let highest = panel.points.iter().map(|(_, value)| *value).fold(0.0, f64::max);
            let y = AxisScale::from_zero(highest, top + FIELD, top);
            let frame = PlotArea { left, right, top, bottom: top + FIELD, x, y };
            panel.draw(canvas, &frame, end);
            if index + 1 == panels.len() {
                frame.columns(canvas, 8, three, "seconds since the trace began");
            }
        }
    })
}

fn panels(content: &TraceContent, window: Duration) -> Vec<TracePanel> {
    let rates = trace::rates(content, window);
    let rates = rates.into_iter().map(|(at, rate)| (at.as_secs_f64(), rate / 1e6)).collect();
    let of = |value: fn(TraceValues) -> Option<f64>| match content {
        TraceContent::Opportunities(_) => Vec::new(),
        TraceContent::Steps(steps) => {
            let places = (0..=POINTS).map(|n| window * n).take_while(|at| *at < content.period());
            let point = |at: Duration| Some((at.as_secs_f64(), value(steps.values(at.as_nanos() as u64))?));
            places.filter_map(point).collect()
        }
    };
    let all = [
        TracePanel { name: "rate, Mbit/s", ink: Ink::Blue, points: rates },
        TracePanel { name: "delay, ms", ink: Ink::Purple, points: of(|it| Some(it.delay?.as_secs_f64() * 1e3)) },
        TracePanel { name: "loss, %", ink: Ink::Vermilion, points: of(|it| Some(it.loss? * 100.0)) },
        TracePanel { name: "up", ink: Ink::Green, points: of(|it| Some(f64::from(u8::from(it.is_up?)))) },
    ];
    all.into_iter().filter(|panel| !panel.points.is_empty()).collect()
}

impl TracePanel {
    /// Draws steps: a value holds until the next one.
    fn draw(&self, canvas: &mut Canvas<'_>, frame: &PlotArea, end: f64) {
        canvas.bold(self.name, (0.0, frame.top - 17.0), TextAnchor::Right, self.ink);
        frame.rows(canvas, 3, three);
        let ends = self.points.iter().skip(1).map(|(t, _)| *t).chain([end]);
        let corners = self.points.iter().zip(ends).flat_map(|((t, value), until)| [(*t, *value), (until, *value)]);
        let line: Vec<(f64, f64)> = corners.map(|(t, value)| (frame.x.at(t), frame.y.at(value))).collect();
        let (Some(first), Some(last)) = (line.first().copied(), line.last().copied()) else { return };
        let mut shape = line.clone();
        shape.extend([(last.0, frame.bottom), (first.0, frame.bottom)]);
        canvas.shape(&shape, self.ink, 0.16);
        canvas.line(&line, self.ink, 1.4);
    }
}

#[cfg(test)]
mod tests {
    use roost_topology::trace::read_trace;

    use super::*;

    #[test]
    fn panels_are_of_what_is_given() {
        let names = |text: &str| {
            let content = read_trace(text).unwrap();
            assert!(trace(&content).standing("a trace").contains("<svg"));
            panels(&content, SHORTEST).into_iter().map(|panel| panel.name).collect::<Vec<_>>()
        };
        assert_eq!(names("1\n2\n900\n"), ["rate, Mbit/s"]);
        assert_eq!(names("time_s,delay_ms,loss,up\n0,1,0,1\n2,3,0.5,0\n"), ["delay, ms", "loss, %", "up"]);
    }
}
