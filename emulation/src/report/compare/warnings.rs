//! What a person should know before believing a ratio.

use super::differences::{Difference, differences, respects};
use super::load::Loading;

/// One sentence each.
pub(super) fn warnings(a: &Loading, b: &Loading, found: &[Difference]) -> Vec<String> {
    let mut warnings = Vec::new();
    let names: Vec<&str> = respects(found).into_iter().collect();
    if names.len() > 1 {
        let (count, names) = (names.len(), names.join(", "));
        warnings
            .push(format!("The sides differ in {count} respects ({names}): a ratio cannot be laid to one of them."));
    }
    for (name, side) in [("A", a), ("B", b)] {
        warnings.extend(of_side(name, side));
    }
    match (a.runs.len(), b.runs.len()) {
        (1, 1) => warnings.push(
            "One run each: the intervals cover chance within these runs, not other seeds. \
             Several seeds on each side would."
                .into(),
        ),
        (1, _) | (_, 1) => {
            warnings.push("One side has a single run, so there is no interval: run it with other seeds too.".into());
        }
        _ => {}
    }
    warnings
}

fn of_side(name: &str, side: &Loading) -> Vec<String> {
    let mut warnings = Vec::new();
    let first = side.runs.first();
    let others = side.runs.iter().filter_map(|one| Some(differences(first?.facts(), one.facts())));
    if let Some(odd) = others.flatten().next() {
        warnings.push(format!("The runs of side {name} are not of one kind: they differ in {}.", odd.setting));
    }
    let stopped = side.runs.iter().filter(|one| one.run.interrupted).count();
    if stopped > 0 {
        let of = side.runs.len();
        warnings.push(format!(
            "On side {name} {stopped} of {of} runs stopped before their time: counts are smaller for it."
        ));
    }
    warnings
}
