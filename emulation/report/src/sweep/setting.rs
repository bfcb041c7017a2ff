//! Settings of plans for people: their paths, names and units.

use super::RunSummary;
use super::axes::number;

/// The tables of plans below which names stand, which tell more than the table.
const NAMED: [&str; 8] = [
    "environment.",
    "links.",
    "classes.",
    "topology.link.",
    "topology.lan.",
    "topology.radio.",
    "topology.host.",
    "topology.",
];
/// The limit of a queue, in packets unless the plan has it in bytes.
const QUEUE_LIMIT: &str = "queue.limit";

/// A setting for people: `links.backhaul.queue.limit` is `backhaul queue limit`.
pub(crate) fn setting_name(path: &str) -> String {
    let named = NAMED.iter().find_map(|table| path.strip_prefix(table));
    named.unwrap_or(path).replace(['.', '_'], " ")
}

/// The path of a varied key, of which a sweep records the end alone: the only path in the plans that ends with the key and
/// has its value in each run.
pub(super) fn path_of<'a>(points: &[&'a RunSummary], key: &'a str) -> &'a str {
    let is_end = |path: &&String| path.strip_suffix(key).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'));
    let has_value = |path: &&String| {
        points.iter().all(|point| {
            let values = point.decided.get(*path).zip(point.run.varied.get(key));
            values.is_some_and(|(one, other)| one == other || number(one).is_some_and(|one| number(other) == Some(one)))
        })
    };
    let paths = points.first().into_iter().flat_map(|point| point.decided.keys());
    let mut found = paths.filter(is_end).filter(has_value);
    match (found.next(), found.next()) {
        (Some(only), None) => only,
        _ => key,
    }
}

/// The unit of plain numbers at a path; empty where it is unknown.
pub(super) fn unit_of(points: &[&RunSummary], path: &str) -> &'static str {
    let Some(queue) = path.strip_suffix(QUEUE_LIMIT) else { return "" };
    let is_in_bytes =
        |point: &&RunSummary| point.decided.get(&format!("{queue}queue.in")).is_some_and(|of| of == "bytes");
    match points.iter().filter(|point| is_in_bytes(point)).count() {
        0 => "packets",
        all if all == points.len() => "bytes",
        _ => "",
    }
}
