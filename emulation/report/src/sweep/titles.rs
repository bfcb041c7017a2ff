//! The titles of figures across several runs: the largest difference at the last place, and its certainty.

use super::{Mean, Overview, SeedGroup, axes};
use crate::measure::Measure;
use crate::text_format::{capital, three};

/// Ratios of means with a smaller logarithm are no difference for a title.
const ALIKE: f64 = 0.005;

impl Overview<'_> {
    pub(super) fn title(&self, measure: &Measure, cells: &[&SeedGroup<'_>], places: &[(f64, String)]) -> String {
        let name = capital(&measure.name);
        let Some((last, place)) = places.last() else { return name };
        if cells.iter().any(|cell| cell.panel != cells[0].panel) {
            return name;
        }
        let at_last = cells.iter().filter(|cell| cell.x.place.total_cmp(last).is_eq());
        let mut seen: Vec<(&SeedGroup<'_>, Mean)> =
            at_last.filter_map(|cell| Some((*cell, cell.mean(measure)?))).collect();
        seen.sort_by(|a, b| axes::rank(&a.0.series).cmp(&axes::rank(&b.0.series)));
        let place = if places.len() > 1 { self.axes.at(place) } else { String::new() };
        match seen.as_slice() {
            [] => name,
            [(only, mean)] => {
                let first = cells.iter().find(|cell| cell.series == only.series && cell.x != only.x);
                let first = first.and_then(|cell| Some((cell, cell.mean(measure)?)));
                let from = first.map_or_else(String::new, |(cell, first)| {
                    format!("{}{}, ", first.measure.show(first.mean), self.axes.at(&cell.x.name))
                });
                format!("{name}: {from}{}{place}", mean.measure.show(mean.mean))
            }
            [first, rest @ ..] if first.1.mean > 0.0 => {
                format!("{name}{place}: {}", beside(measure, first, rest))
            }
            _ => name,
        }
    }
}

/// The series that is farthest from the first, and the certainty of that: the interval is that of a comparison.
fn beside(measure: &Measure, (first, base): &(&SeedGroup<'_>, Mean), rest: &[(&SeedGroup<'_>, Mean)]) -> String {
    let far = |mean: &Mean| (mean.mean / base.mean).ln().abs();
    let Some((other, mean)) = rest.iter().max_by(|a, b| far(&a.1).total_cmp(&far(&b.1))) else { return String::new() };
    if far(mean) < ALIKE {
        return format!("about {} for all", base.measure.show(base.mean));
    }
    let (over, under) = (other.values(measure), first.values(measure));
    let ratio = over.geometric_mean().zip(under.geometric_mean()).map_or(f64::NAN, |(over, under)| over / under);
    let ratio = three(ratio);
    if base.measure.few || mean.measure.few {
        return format!("{} ({ratio} ×) {}, of too few requests", other.series, first.series);
    }
    match over.over(&under) {
        None => format!("{} {ratio} × {}, without an interval", other.series, first.series),
        Some(over) if !over.excludes_one() => "no difference seen".to_owned(),
        Some(over) => {
            let [ratio, low, high] = [over.ratio, over.low, over.high].map(three);
            format!("{} {ratio} × ({low}–{high}) {}", other.series, first.series)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use roost_results::testing::SyntheticShape;

    use super::super::RunSummary;
    use super::*;
    use crate::measure::MeasureKind;

    /// The title for the services completed by two architectures, with one value for each seed.
    fn title(completed: [&[f64]; 2]) -> String {
        titled(completed, |_| {})
    }

    fn titled(completed: [&[f64]; 2], change: impl Fn(&mut Measure)) -> String {
        let mut points = Vec::new();
        for (architecture, values) in ["client-server", "super-node"].into_iter().zip(completed) {
            for (seed, value) in (1..).zip(values) {
                let results =
                    SyntheticShape { architecture, seed, requests: 20, ..SyntheticShape::default() }.make().results;
                let mut point = RunSummary::from_results(PathBuf::from(format!("{architecture}-{seed}")), &results);
                point.measures.retain_mut(|(measure, seen)| {
                    *seen = *value;
                    change(measure);
                    measure.kind == MeasureKind::Completed
                });
                points.push(point);
            }
        }
        let overview = Overview::from_points(&points);
        overview.figures().remove(0).1.remove(0).title
    }

    #[test]
    fn title_gives_ratio_and_interval() {
        let told = title([&[100.0, 101.0, 102.0], &[150.0, 151.0, 153.0]]);
        assert!(
            told.starts_with("Completed services: super-node 1.5 × (1.4") && told.ends_with(" client-server"),
            "{told}"
        );
    }

    #[test]
    fn title_agrees_with_comparison() {
        // The means' own intervals overlap, but each seed has half of its own.
        let told = title([&[100.0, 200.0, 400.0], &[50.0, 101.0, 205.0]]);
        assert!(told.starts_with("Completed services: super-node 0.506 × (0.4"), "{told}");
    }

    #[test]
    fn ratio_of_few_is_in_brackets() {
        let told = titled([&[100.0, 101.0], &[300.0, 303.0]], |measure| measure.few = true);
        assert_eq!(told, "Completed services: super-node (3 ×) client-server, of too few requests");
        let told = titled([&[100.0, 101.0], &[100.0, 101.0]], |measure| measure.few = true);
        assert_eq!(told, "Completed services: about (101) for all");
    }

    #[test]
    fn title_states_no_difference_on_overlap() {
        let told = title([&[100.0, 105.0, 110.0], &[108.0, 104.0, 111.0]]);
        assert_eq!(told, "Completed services: no difference seen");
    }

    #[test]
    fn single_run_title_has_no_interval() {
        let told = title([&[100.0], &[103.0]]);
        assert_eq!(told, "Completed services: super-node 1.03 × client-server, without an interval");
    }
}
