//! Figures of growth with the number of nodes.

use roost_report::figure::{Figure, LineAxes, PlotLine, lines};
use roost_report::text_format::{bytes, count, milliseconds, rate};
use roost_sim::growth::{GrowthResult, Lookups, Requests, hub_memory::HubMemory};

/// The distances of lookups, as figures name them.
const DISTANCES: [&str; 3] = ["at home", "one tier up", "across the top"];
const TIERS: [&str; 3] = ["home", "middle", "root"];

/// Returns names and SVG texts of the figures of these sizes.
pub(super) fn growth(sizes: &[GrowthResult], states: &[HubMemory]) -> Vec<(String, String)> {
    let figures = [latency(sizes), requests(sizes), lookup_bytes(sizes), traffic(sizes), held(states)];
    figures.into_iter().map(|figure| (figure.name, figure.sheet.standing(&figure.title))).collect()
}

fn latency(sizes: &[GrowthResult]) -> Figure {
    of_lookups(sizes, "growth-latency", "A lookup", |one| one.p50_ms, milliseconds)
}

fn requests(sizes: &[GrowthResult]) -> Figure {
    let of = |size: &GrowthResult, distance: usize, of: fn(&Requests) -> f64| {
        Some((size.nodes, of(size.requests[distance].as_ref()?)))
    };
    let line = |distance: usize| {
        drawn(DISTANCES[distance], sizes.iter().filter_map(|size| of(size, distance, |one| one.p50_ms)))
    };
    let all = [line(0), line(1), line(2)];
    let title = reach("A request until it is accepted", &all, sizes, milliseconds);
    figure("growth-requests", &title, &all, sizes.iter().map(|size| size.nodes), milliseconds)
}

fn lookup_bytes(sizes: &[GrowthResult]) -> Figure {
    of_lookups(sizes, "growth-bytes", "The messages of a lookup", |one| one.bytes, bytes)
}

fn of_lookups(
    sizes: &[GrowthResult],
    name: &str,
    what: &str,
    of: fn(&Lookups) -> f64,
    show: fn(f64) -> String,
) -> Figure {
    let line = |distance: usize| {
        let points = sizes.iter().filter_map(|size| Some((size.nodes, of(size.lookups[distance].as_ref()?))));
        drawn(DISTANCES[distance], points)
    };
    let all = [line(0), line(1), line(2)];
    let title = reach(what, &all, sizes, show);
    figure(name, &title, &all, sizes.iter().map(|size| size.nodes), show)
}

fn traffic(sizes: &[GrowthResult]) -> Figure {
    let line = |tier: usize| drawn(TIERS[tier], sizes.iter().map(|size| (size.nodes, size.uplinks[tier].mean)));
    let all = [line(0), line(1), line(2)];
    let show = |bits| rate(bits / 1e6);
    let title = reach("To other super nodes, without headers", &all, sizes, show);
    figure("growth-traffic", &title, &all, sizes.iter().map(|size| size.nodes), show)
}

fn held(states: &[HubMemory]) -> Figure {
    let line = drawn("root", states.iter().map(|state| (state.nodes, state.bytes as f64)));
    // The smallest states are below the system's resolution of a process's memory.
    let most = states.iter().max_by_key(|state| state.bytes);
    let most =
        most.map(|state| format!(": up to {} with {} nodes", bytes(state.bytes as f64), count(state.nodes as u64)));
    let title = format!("The memory of a root{}", most.unwrap_or_default());
    figure("growth-state", &title, &[line], states.iter().map(|state| state.nodes), bytes)
}

/// A title with the least and the greatest value of each line.
fn reach(what: &str, all: &[PlotLine], sizes: &[GrowthResult], show: fn(f64) -> String) -> String {
    let of = |line: &PlotLine| seen(&line.name, line, show);
    let said: Vec<String> = all.iter().filter_map(of).collect();
    match (said.is_empty(), sizes) {
        (true, _) | (_, []) => what.to_owned(),
        (_, [one]) => format!("{what}: {} ({} nodes)", said.join(", "), count(one.nodes as u64)),
        (_, [first, .., last]) => {
            let (first, last) = (count(first.nodes as u64), count(last.nodes as u64));
            format!("{what}: {} (from {first} to {last} nodes)", said.join(", "))
        }
    }
}

/// The least and the greatest value of a line.
fn seen(name: &str, line: &PlotLine, show: fn(f64) -> String) -> Option<String> {
    let values = || line.points.iter().map(|(_, value, _)| *value);
    let (low, high) = (show(values().reduce(f64::min)?), show(values().reduce(f64::max)?));
    Some(if low == high { format!("{name} {low}") } else { format!("{name} {low} to {high}") })
}

fn drawn(name: &str, points: impl Iterator<Item = (usize, f64)>) -> PlotLine {
    let points = points.filter(|(_, value)| value.is_finite());
    PlotLine::new(name, points.map(|(nodes, value)| (place(nodes), value, None)).collect())
}

fn figure(
    name: &str,
    title: &str,
    all: &[PlotLine],
    sizes: impl Iterator<Item = usize>,
    show: impl Fn(f64) -> String,
) -> Figure {
    let places: Vec<(f64, String)> = sizes.map(|nodes| (place(nodes), count(nodes as u64))).collect();
    Figure {
        name: name.to_owned(),
        title: title.to_owned(),
        caption: String::new(),
        sheet: lines(all, &places, LineAxes::with_title("nodes"), show),
    }
}

/// A tenfold number of nodes is one step.
fn place(nodes: usize) -> f64 {
    (nodes.max(1) as f64).log10()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn title_gives_minimum_and_maximum() {
        let line = |values: [f64; 3]| drawn("across the top", [100, 1000, 10_000].into_iter().zip(values));
        let rising = seen("across the top", &line([444.3, 484.4, 484.4]), milliseconds);
        assert_eq!(rising.as_deref(), Some("across the top 444 ms to 484 ms"));
        let level = seen("at home", &line([163.7, 163.7, 163.7]), milliseconds);
        assert_eq!(level.as_deref(), Some("at home 164 ms"));
        assert_eq!(seen("at home", &drawn("at home", std::iter::empty()), milliseconds), None);
    }
}
