//! Latencies of services: the fraction that had begun, or ended, by each time.

use roost_results::metrics::Service;

use super::canvas::{Canvas, Sheet, WIDTH};
use super::ink::Ink;
use super::key::FigureKey;
use super::plot_area::PlotArea;
use super::scale::AxisScale;
use crate::text_format::{milliseconds, quantile};

/// The most points of a curve: more are not visible.
const POINTS: usize = 300;

/// The empirical distribution of each service's latencies, with its median marked.
pub(super) fn curves(services: &[&Service]) -> Sheet {
    let lowest = services.iter().filter_map(|one| one.latency.sorted.first()).copied().fold(f64::INFINITY, f64::min);
    let highest = services.iter().filter_map(|one| one.latency.max).fold(0.0, f64::max);
    let key = FigureKey::new(services.iter().map(|one| (name(one), Ink::service(&one.service))).collect());
    let (left, right, top) = (46.0, WIDTH - 14.0, key.height() + 10.0);
    let bottom = top + 224.0;
    let frame = PlotArea {
        left,
        right,
        top,
        bottom,
        x: AxisScale::logarithmic(lowest.max(0.1) / 1.05, highest * 1.05, left, right),
        y: AxisScale::exact(0.0, 1.0, bottom, top),
    };
    Canvas::sheet(bottom + 42.0, |canvas| {
        key.draw(canvas, 0.0);
        frame.rows(canvas, 4, |part| format!("{} %", (part * 100.0).round()));
        frame.columns(canvas, 7, milliseconds, "latency");
        for one in services {
            canvas.line(&curve(&one.latency.sorted, &frame), Ink::service(&one.service), 2.0);
        }
        for one in services {
            if let Some(median) = one.latency.p50 {
                canvas.dot((frame.x.at(median), frame.y.at(0.5)), 3.6, Ink::service(&one.service));
            }
        }
    })
}

fn name(service: &Service) -> String {
    format!("{} {}", service.service, quantile(&service.latency, 500))
}

/// Steps from 0 to 1, thinned out.
fn curve(sorted: &[f64], frame: &PlotArea) -> Vec<(f64, f64)> {
    let n = sorted.len();
    let every = n.div_ceil(POINTS).max(1);
    let mut points = Vec::new();
    let mut height = frame.bottom;
    let shown = (0..n).filter(|index| (index + 1).is_multiple_of(every) || *index == 0 || index + 1 == n);
    for index in shown {
        let x = frame.x.at(sorted[index]);
        points.push((x, height));
        height = frame.y.at((index + 1) as f64 / n as f64);
        points.push((x, height));
    }
    points.push((frame.right, height));
    points
}
