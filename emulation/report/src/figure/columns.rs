//! Vertical columns: one for each node, or for each bucket of lateness.

use roost_results::metrics::NodeUse;
use roost_results::record::RunVerdict;

use super::canvas::{Canvas, Sheet, TextAnchor, WIDTH, WORDS, width_of};
use super::ink::Ink;
use super::key::FigureKey;
use super::plot_area::PlotArea;
use super::scale::AxisScale;
use crate::text_format::{percent, three};

/// Completed services of each node, most first, in the ink of its class.
pub(super) fn nodes(nodes: &[&NodeUse], ink: impl Fn(&NodeUse) -> Ink, key: &[(String, Ink)]) -> Sheet {
    let highest = nodes.iter().map(|node| node.requests.completed).max().unwrap_or(0);
    let key = FigureKey::new(key.to_vec());
    let (left, right, top) = (46.0, WIDTH - 4.0, key.height() + 12.0);
    let bottom = top + 170.0;
    let x = AxisScale::exact(0.0, nodes.len() as f64, left, right);
    let frame = PlotArea { left, right, top, bottom, x, y: AxisScale::from_zero(highest as f64, bottom, top) };
    let room = x.at(1.0) - x.at(0.0) - 2.0;
    let has_names = nodes.iter().all(|node| width_of(&node.node, WORDS) <= room);
    Canvas::sheet(bottom + 32.0, |canvas| {
        key.draw(canvas, 0.0);
        frame.rows(canvas, 3, three);
        for (index, node) in nodes.iter().enumerate() {
            let (from, to) = (x.at(index as f64), x.at(index as f64 + 1.0));
            let gap = ((to - from) * 0.2).min(6.0) / 2.0;
            let height = frame.y.at(node.requests.completed as f64);
            canvas.rectangle((from + gap, height), (to - gap, bottom), ink(node));
            if has_names {
                canvas.words(&node.node, ((from + to) / 2.0, bottom + 14.0), TextAnchor::Middle, Ink::Muted);
            }
        }
        canvas.line(&[(left, bottom), (right, bottom)], Ink::Muted, 1.0);
        if !has_names {
            let title = format!("{} nodes, from the most to the fewest", nodes.len());
            canvas.words(&title, (right, bottom + 15.0), TextAnchor::Left, Ink::Muted);
        }
    })
}

/// Lateness of deliveries against the model: the fraction in each bucket, and the 99th percentile.
pub(super) fn lateness(verdict: &RunVerdict) -> Sheet {
    let total: u64 = verdict.lateness_us.iter().map(|(_, count)| count).sum();
    let share = |count: u64| count as f64 / total.max(1) as f64;
    let highest = verdict.lateness_us.iter().map(|(_, count)| share(*count)).fold(0.0, f64::max);
    let first = verdict.lateness_us.first().map_or(1.0, |(upper, _)| *upper as f64 / 2.0).max(0.5);
    let last = verdict.lateness_us.last().map_or(1.0, |(upper, _)| *upper as f64);
    let (left, right, top, bottom) = (46.0, WIDTH - 14.0, 30.0, 210.0);
    let x = AxisScale::logarithmic(first, last, left, right);
    let frame = PlotArea { left, right, top, bottom, x, y: AxisScale::from_zero(highest, bottom, top) };
    Canvas::sheet(252.0, |canvas| {
        frame.rows(canvas, 3, percent);
        let mut lower = first;
        for (upper, count) in &verdict.lateness_us {
            let upper = *upper as f64;
            let (from, to) = (x.at(lower), x.at(upper));
            if *count > 0 {
                let height = frame.y.at(share(*count)).min(bottom - 1.0);
                canvas.rectangle((from + 0.5, height), (to - 0.5, bottom), Ink::Blue);
            }
            lower = upper;
        }
        frame.columns(
            canvas,
            6,
            |us| if us >= 1000.0 { format!("{} ms", three(us / 1e3)) } else { format!("{} µs", three(us)) },
            "late",
        );
        let at = x.at(verdict.lateness_p99_us);
        canvas.dashes((at, top - 12.0), (at, bottom), Ink::Vermilion);
        let side = if at > (left + right) / 2.0 { TextAnchor::Left } else { TextAnchor::Right };
        let beside = if side == TextAnchor::Left { at - 6.0 } else { at + 6.0 };
        canvas.bold("99 % are earlier", (beside, top - 12.0), side, Ink::Vermilion);
    })
}
