//! A trace over its time: rate, delay and loss above each other.

use std::time::Duration;

use roost_topology::trace::{self, TraceContent, TraceValues};

use super::canvas::Sheet;
use super::course::{Course, CourseLine, CoursePanel, CoursePoint, LineForm, steps};
use super::ink::Ink;
use super::key::FigureKey;

/// The most points of a line: more are not visible.
const POINTS: u32 = 600;
const SHORTEST: Duration = Duration::from_millis(100);

/// Draws a trace. Rates are means of windows; delays and losses are those at the beginning of each.
pub fn trace(content: &TraceContent) -> Sheet {
    let window = SHORTEST.max(content.period() / POINTS);
    let panels = panels(content, window);
    Course { panels: &panels, end: content.period().as_secs_f64(), title: "seconds since the trace began" }
        .sheet(&FigureKey::default())
}

fn panels(content: &TraceContent, window: Duration) -> Vec<CoursePanel> {
    let rates = trace::rates(content, window);
    let point = |at: Duration, value: f64| CoursePoint { t: at.as_secs_f64(), value };
    let rates: Vec<CoursePoint> = rates.into_iter().map(|(at, rate)| point(at, rate / 1e6)).collect();
    let of = |value: fn(TraceValues) -> Option<f64>| match content {
        TraceContent::Opportunities(_) => Vec::new(),
        TraceContent::Steps(steps) => {
            let places = (0..=POINTS).map(|n| window * n).take_while(|at| *at < content.period());
            let point = |at: Duration| Some(point(at, value(steps.values(at.as_nanos() as u64))?));
            places.filter_map(point).collect()
        }
    };
    let all = [
        ("rate, Mbit/s", Ink::Blue, rates),
        ("delay, ms", Ink::Purple, of(|it| Some(it.delay?.as_secs_f64() * 1e3))),
        ("loss, %", Ink::Vermilion, of(|it| Some(it.loss? * 100.0))),
        ("up", Ink::Green, of(|it| Some(f64::from(u8::from(it.is_up?))))),
    ];
    let end = content.period().as_secs_f64();
    let panel = |(name, ink, points): (&str, Ink, Vec<CoursePoint>)| {
        let line = CourseLine::whole(ink, LineForm::Area, steps(&points, end));
        CoursePanel::new(name.to_owned(), ink, vec![line])
    };
    all.into_iter().filter(|(.., points)| !points.is_empty()).map(panel).collect()
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
