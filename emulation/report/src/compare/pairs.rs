//! Pairing of comparable runs.

use std::collections::{BTreeMap, BTreeSet};

use super::load::LoadedRun;
use crate::comparability::NETWORK;
use crate::natural_order::NaturalName;
use crate::sweep::setting_name;

/// Settings that follow from the architecture: if it differs between the sides, so do they.
const PLACES: [&str; 4] = ["hubs", "server", "caches", "super_nodes"];
/// The facts that name cells first.
const NAMING: [&str; 4] = ["topology", "nodes", "transport", "architecture"];

/// Runs of both sides that differ only as the sides do, and in their seeds.
pub(super) struct RunPair<'a> {
    /// A distinctive name; empty if there is only one pair.
    pub(super) name: String,
    pub(super) a: Vec<&'a LoadedRun>,
    pub(super) b: Vec<&'a LoadedRun>,
}

/// The pairs, and the cells without a counterpart.
pub(super) struct Paired<'a> {
    pub(super) pairs: Vec<RunPair<'a>>,
    /// Cells that only one side has: the side, and the cell's name.
    pub(super) alone: Vec<(&'static str, String)>,
}

type FactValues<'a> = BTreeMap<&'a str, BTreeSet<&'a str>>;
type PairKey<'a> = Vec<&'a str>;

/// Pairs the cells of two sides, by each fact that has several values within a side and some of them on both.
/// Facts with one value on a side, or with values that the other side lacks, are the subject of the comparison.
///
/// Refuses, with the reason, if that leaves several kinds of runs on one side for one cell: a mean over them
/// would be meaningless.
pub(super) fn pairs<'a>(a: &[&'a LoadedRun], b: &[&'a LoadedRun]) -> Result<Paired<'a>, String> {
    let keys: BTreeSet<&str> = a.iter().chain(b).flat_map(|one| one.kind.keys()).map(String::as_str).collect();
    let (of_a, of_b) = (values(a, &keys), values(b, &keys));
    let other_architecture = of_a["architecture"].is_disjoint(&of_b["architecture"]);
    let is_shared = |key: &&str| {
        let varies = of_a[key].len() > 1 || of_b[key].len() > 1;
        varies && !of_a[key].is_disjoint(&of_b[key]) && !(other_architecture && PLACES.contains(key))
    };
    let shared: Vec<&str> = keys.iter().copied().filter(is_shared).collect();
    let (mut cells_a, mut cells_b) = (cells("A", a, &shared)?, cells("B", b, &shared)?);
    let places: BTreeSet<PairKey<'_>> = cells_a.keys().chain(cells_b.keys()).cloned().collect();
    let naming = naming(&shared, &places);
    let mut paired = Paired { pairs: Vec::new(), alone: Vec::new() };
    for place in &places {
        let name = name(&shared, &naming, place);
        match (cells_a.remove(place), cells_b.remove(place)) {
            (Some(a), Some(b)) => paired.pairs.push(RunPair { name, a, b }),
            (Some(_), None) => paired.alone.push(("A", name)),
            _ => paired.alone.push(("B", name)),
        }
    }
    if paired.pairs.is_empty() {
        return Err(format!("the sides have no runs that are alike in {}", shared.join(", ")));
    }
    // Sizes of one topology follow each other: star-11, star-26, tree-11.
    paired.pairs.sort_by_cached_key(|pair| {
        let network =
            pair.a.first().map(|one| (one.run.topology.trim_end_matches(|c: char| c.is_ascii_digit()), one.run.nodes));
        (network, NaturalName::new(&pair.name))
    });
    Ok(paired)
}

fn fact<'a>(one: &'a LoadedRun, key: &str) -> &'a str {
    one.kind.get(key).map_or("", String::as_str)
}

fn values<'a>(side: &[&'a LoadedRun], keys: &BTreeSet<&'a str>) -> FactValues<'a> {
    keys.iter().map(|key| (*key, side.iter().map(|one| fact(one, key)).collect())).collect()
}

/// The runs of a side by their cell, all of one kind in each.
fn cells<'a>(
    side: &str,
    runs: &[&'a LoadedRun],
    shared: &[&str],
) -> Result<BTreeMap<PairKey<'a>, Vec<&'a LoadedRun>>, String> {
    let mut cells: BTreeMap<PairKey<'a>, Vec<&'a LoadedRun>> = BTreeMap::new();
    for one in runs {
        let cell = cells.entry(shared.iter().map(|key| fact(one, key)).collect()).or_default();
        if let Some(first) = cell.first().filter(|first| first.kind != one.kind) {
            let keys: BTreeSet<&String> = first.kind.keys().chain(one.kind.keys()).collect();
            let differ: Vec<&str> =
                keys.into_iter().map(String::as_str).filter(|key| fact(first, key) != fact(one, key)).collect();
            return Err(format!(
                "the runs of side {side} are not of one kind, and nothing on the other side tells which belong together: \
                 {} and {} differ in {}",
                first.folder.display(),
                one.folder.display(),
                differ.join(", ")
            ));
        }
        cell.push(one);
    }
    Ok(cells)
}

/// The facts, as indices into `shared`, that suffice to tell the cells apart.
fn naming(shared: &[&str], places: &BTreeSet<PairKey<'_>>) -> Vec<usize> {
    let first = NAMING.iter().filter_map(|key| shared.iter().position(|one| one == key));
    let rest = (0..shared.len()).filter(|index| !NAMING.contains(&shared[*index]) && shared[*index] != NETWORK);
    let mut chosen: Vec<usize> = Vec::new();
    let apart = |chosen: &[usize]| {
        places
            .iter()
            .map(|place| chosen.iter().map(|index| place[*index]).collect())
            .collect::<BTreeSet<PairKey<'_>>>()
            .len()
    };
    for index in first.chain(rest).collect::<Vec<_>>() {
        let more = [chosen.as_slice(), &[index]].concat();
        if apart(&more) > apart(&chosen) {
            chosen = more;
        }
    }
    chosen
}

fn name(shared: &[&str], naming: &[usize], place: &PairKey<'_>) -> String {
    let part = |index: &usize| match (shared[*index], place[*index]) {
        ("topology" | "transport" | "architecture", value) => value.to_owned(),
        ("nodes", value) => format!("{value} nodes"),
        (key, value) => format!("{} {value}", setting_name(key)),
    };
    naming.iter().map(part).collect::<Vec<_>>().join(", ")
}
