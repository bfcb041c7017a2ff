//! The figures of growth with the number of nodes.

use super::figure::{Along, Figure, Line, lines};
use super::words::{bytes, count, milliseconds, rate};
use crate::sim::growth::{Lookups, Requests, Size, state::State};

/// The distances of lookups, as figures name them.
const DISTANCES: [&str; 3] = ["at home", "one tier up", "across the top"];
/// The tiers, as figures name them.
const TIERS: [&str; 3] = ["home", "middle", "top"];

/// Names and SVG texts of the figures of these sizes.
pub fn growth(sizes: &[Size], states: &[State]) -> Vec<(String, String)> {
    let figures = [latency(sizes), requests(sizes), lookup_bytes(sizes), traffic(sizes), held(states)];
    figures.into_iter().map(|figure| (figure.name, figure.sheet.standing(&figure.title))).collect()
}

fn latency(sizes: &[Size]) -> Figure {
    of_lookups(
        sizes,
        "growth-latency",
        "A lookup takes the way to who has it and back, however many nodes there are",
        |one| one.p50_ms,
        milliseconds,
    )
}

fn requests(sizes: &[Size]) -> Figure {
    let of = |size: &Size, distance: usize, of: fn(&Requests) -> f64| {
        Some((size.nodes, of(size.requests[distance].as_ref()?)))
    };
    let line = |distance: usize| {
        drawn(DISTANCES[distance], sizes.iter().filter_map(|size| of(size, distance, |one| one.p50_ms)))
    };
    let title = "A request takes its way and nothing else, however many nodes there are";
    let all = [line(0), line(1), line(2)];
    figure("growth-requests", title, &all, sizes.iter().map(|size| size.nodes), milliseconds)
}

fn lookup_bytes(sizes: &[Size]) -> Figure {
    of_lookups(
        sizes,
        "growth-bytes",
        "What a lookup costs depends on its distance and on the number of tops",
        |one| one.bytes,
        bytes,
    )
}

fn of_lookups(sizes: &[Size], name: &str, title: &str, of: fn(&Lookups) -> f64, show: fn(f64) -> String) -> Figure {
    let line = |distance: usize| {
        let points = sizes.iter().filter_map(|size| Some((size.nodes, of(size.lookups[distance].as_ref()?))));
        drawn(DISTANCES[distance], points)
    };
    figure(name, title, &[line(0), line(1), line(2)], sizes.iter().map(|size| size.nodes), show)
}

fn traffic(sizes: &[Size]) -> Figure {
    let line = |tier: usize| drawn(TIERS[tier], sizes.iter().map(|size| (size.nodes, size.uplinks[tier].mean)));
    let title =
        "What a home says to other super nodes, without headers, stays the same; a top says more with more below it";
    let all = [line(0), line(1), line(2)];
    figure("growth-traffic", title, &all, sizes.iter().map(|size| size.nodes), |bits| rate(bits / 1e6))
}

fn held(states: &[State]) -> Figure {
    let line = drawn("top", states.iter().map(|state| (state.nodes, state.bytes as f64)));
    let title = "What a top holds grows with the number of homes, not of nodes";
    figure("growth-state", title, &[line], states.iter().map(|state| state.nodes), bytes)
}

fn drawn(name: &str, points: impl Iterator<Item = (usize, f64)>) -> Line {
    let points = points.filter(|(_, value)| value.is_finite());
    Line::new(name, points.map(|(nodes, value)| (place(nodes), value, None)).collect())
}

fn figure(
    name: &str,
    title: &str,
    all: &[Line],
    sizes: impl Iterator<Item = usize>,
    show: impl Fn(f64) -> String,
) -> Figure {
    let places: Vec<(f64, String)> = sizes.map(|nodes| (place(nodes), count(nodes as u64))).collect();
    Figure {
        name: name.to_owned(),
        title: title.to_owned(),
        caption: String::new(),
        sheet: lines(all, &places, Along::of("nodes"), show),
    }
}

/// Each ten times as many is a step.
fn place(nodes: usize) -> f64 {
    (nodes.max(1) as f64).log10()
}
