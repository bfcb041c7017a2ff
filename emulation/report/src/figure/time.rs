//! The course of a run: panels above each other along one axis of time.

use roost_results::Incident;
use roost_results::metrics::Second;

use super::canvas::{Canvas, Sheet, TextAnchor, WIDTH, WORDS, cut_to};
use super::course::{Course, CourseLine, CoursePanel, CoursePoint, LineForm, since_zero};
use super::ink::Ink;
use crate::text_format::moment;

/// The most points of a panel: more are not visible.
const POINTS: usize = 220;
const MARKS: usize = 20;
/// The most marks that are explained below the panels.
const EXPLAINED: usize = 8;
const EXPLANATION: f64 = 17.0;
const NUMBER: f64 = 22.0;
/// The length of a mark below its number, which ends above the name of the first panel.
const TICK: f64 = 8.0;

/// The part of a run that a panel is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PanelSubject {
    Network,
    Requests,
    Emulator,
}

/// A panel: its subject, unit and values.
struct Panel {
    name: &'static str,
    ink: Ink,
    value: fn(&Second) -> f64,
    subject: PanelSubject,
    /// True if seconds that share a point show their highest value, false for their mean.
    peaks: bool,
}

const PANELS: [Panel; 4] = [
    Panel {
        name: "offered by hosts, Mbit/s",
        ink: Ink::Blue,
        value: |s| s.offered_mbit_s,
        subject: PanelSubject::Network,
        peaks: false,
    },
    Panel {
        name: "requests under way",
        ink: Ink::Green,
        value: |s| f64::from(s.active),
        subject: PanelSubject::Requests,
        peaks: false,
    },
    Panel {
        name: "services completed each second",
        ink: Ink::Purple,
        value: per_second,
        subject: PanelSubject::Requests,
        peaks: false,
    },
    Panel {
        name: "lateness of the core, p99, ms",
        ink: Ink::Amber,
        value: |s| s.lateness_p99_ms,
        subject: PanelSubject::Emulator,
        peaks: true,
    },
];

fn per_second(second: &Second) -> f64 {
    second.completed as f64 / second.length
}

/// The run second by second, with the events of the schedule and failures.
pub(super) fn panels(timeline: &[Second], incidents: &[&Incident], subjects: &[PanelSubject]) -> Sheet {
    let times: Vec<f64> = incidents.iter().take(MARKS).map(|incident| incident.t).collect();
    let shown = PANELS.iter().filter(|panel| subjects.contains(&panel.subject));
    let panels: Vec<CoursePanel> =
        shown.map(|panel| panel.course(timeline).with_marks(times.clone(), Ink::Vermilion)).collect();
    let end = timeline.last().map_or(1.0, |second| second.t);
    let mark_room = if incidents.is_empty() { 0.0 } else { 20.0 };
    let course = Course { panels: &panels, end, title: "seconds since the workload began" };
    let explanations = explanations(incidents);
    let bottom = mark_room + course.height();
    Canvas::sheet(bottom + explanations.len() as f64 * EXPLANATION, |canvas| {
        let marks: Vec<f64> = times.iter().map(|t| course.x().at(*t)).collect();
        for at in &marks {
            canvas.dashes((*at, mark_room - 1.0), (*at, mark_room + TICK), Ink::Vermilion);
        }
        for (at, numbers) in numbers(&marks) {
            canvas.bold(&numbers, (at, mark_room - 8.0), TextAnchor::Middle, Ink::Vermilion);
        }
        for (row, explanation) in explanations.iter().enumerate() {
            let y = bottom + (row as f64 + 0.5) * EXPLANATION;
            canvas.words(&cut_to(explanation, WORDS, WIDTH), (0.0, y), TextAnchor::Right, Ink::Muted);
        }
        course.draw(canvas, mark_room);
    })
}

/// The numbers of marks, at their places: `3–5` for marks that are too near for a number each.
fn numbers(marks: &[f64]) -> Vec<(f64, String)> {
    let mut groups: Vec<(f64, usize, usize)> = Vec::new();
    for (number, at) in marks.iter().enumerate() {
        match groups.last_mut() {
            Some((first, _, last)) if *at - *first < NUMBER => *last = number + 1,
            _ => groups.push((*at, number + 1, number + 1)),
        }
    }
    let text = |first: usize, last: usize| if first == last { first.to_string() } else { format!("{first}–{last}") };
    groups.into_iter().map(|(at, first, last)| (at, text(first, last))).collect()
}

/// A line for each of the first incidents.
fn explanations(incidents: &[&Incident]) -> Vec<String> {
    let line = |(number, incident): (usize, &&Incident)| {
        let Incident { t, object, what } = *incident;
        // Most sentences name their object themselves.
        let of = if what.contains(object.as_str()) { String::new() } else { format!("{object}: ") };
        format!("{}  {}, {of}{what}", number + 1, moment(*t))
    };
    let more = incidents.len().saturating_sub(EXPLAINED);
    let more = (more > 0).then(|| format!("and {more} more, in the list"));
    incidents.iter().take(EXPLAINED).enumerate().map(line).chain(more).collect()
}

impl Panel {
    fn course(&self, timeline: &[Second]) -> CoursePanel {
        let line = CourseLine::whole(self.ink, LineForm::Area, since_zero(points(timeline, self)));
        CoursePanel::new(self.name.to_owned(), self.ink, vec![line])
    }
}

/// Time and value; several seconds are merged if there are too many.
fn points(timeline: &[Second], panel: &Panel) -> Vec<CoursePoint> {
    let together = timeline.len().div_ceil(POINTS).max(1);
    let point = |seconds: &[Second]| {
        let values = || seconds.iter().map(panel.value);
        let value =
            if panel.peaks { values().fold(0.0, f64::max) } else { values().sum::<f64>() / seconds.len() as f64 };
        CoursePoint { t: seconds[seconds.len() / 2].t, value }
    };
    timeline.chunks(together).map(point).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_marks_share_a_number() {
        let texts: Vec<String> = numbers(&[10.0, 15.0, 20.0, 90.0, 200.0]).into_iter().map(|(_, text)| text).collect();
        assert_eq!(texts, ["1–3", "4", "5"]);
        assert!(numbers(&[]).is_empty());
    }

    #[test]
    fn marks_are_explained() {
        let incident = |t, object: &str, what: &str| Incident { t, object: object.into(), what: what.into() };
        let all = [incident(3.0, "net", "net is down"), incident(4.0, "node1", "died")];
        let lines = explanations(&all.each_ref());
        assert!(lines[0].ends_with(", net is down") && lines[1].ends_with(", node1: died"), "{lines:?}");
        let one = incident(1.0, "a", "b");
        let many = vec![&one; 30];
        assert_eq!(explanations(&many).last().unwrap(), "and 22 more, in the list");
    }
}
