//! The titles of figures across several runs: the largest difference at the last place, and its certainty.

use roost_statistics::{Method, RatioInterval};

use super::{Mean, Overview, SeedGroup, axes};
use crate::measure::Measure;
use crate::text_format::{capital, three};

/// Ratios of means with a smaller logarithm are no difference for a title.
const ALIKE: f64 = 0.005;

/// A title, and the origin of its ratio.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct SweepTitle {
    pub(super) text: String,
    /// The method of the interval in it, if there is one.
    pub(super) method: Option<Method>,
    /// True if its ratio is that of geometric means; drawn means are arithmetic.
    pub(super) is_geometric: bool,
}

impl From<String> for SweepTitle {
    fn from(text: String) -> Self {
        Self { text, ..Self::default() }
    }
}

impl Overview<'_> {
    pub(super) fn title(&self, measure: &Measure, cells: &[&SeedGroup<'_>], places: &[(f64, String)]) -> SweepTitle {
        let name = capital(&measure.name);
        let Some((last, place)) = places.last() else { return name.into() };
        if cells.iter().any(|cell| cell.panel != cells[0].panel) {
            return name.into();
        }
        let at_last = cells.iter().filter(|cell| cell.x.place.total_cmp(last).is_eq());
        let mut seen: Vec<(&SeedGroup<'_>, Mean)> =
            at_last.filter_map(|cell| Some((*cell, cell.mean(measure)?))).collect();
        seen.sort_by_cached_key(|one| axes::rank(&one.0.series));
        let place = if places.len() > 1 { self.axes.at(place) } else { String::new() };
        match seen.as_slice() {
            [] => name.into(),
            [(only, mean)] => {
                let first = cells.iter().find(|cell| cell.series == only.series && cell.x != only.x);
                let first = first.and_then(|cell| Some((cell, cell.mean(measure)?)));
                let from = first.map_or_else(String::new, |(cell, first)| {
                    format!("{}{}, ", first.measure.show(first.mean), self.axes.at(&cell.x.name))
                });
                format!("{name}: {from}{}{place}", mean.measure.show(mean.mean)).into()
            }
            [first, rest @ ..] => {
                let title = beside(measure, first, rest);
                SweepTitle { text: format!("{name}{place}: {}", title.text), ..title }
            }
        }
    }
}

struct SeriesRatio<'a> {
    series: &'a str,
    ratio: f64,
    is_geometric: bool,
    interval: Option<RatioInterval>,
    few: bool,
}

impl SeriesRatio<'_> {
    fn distance(&self) -> f64 {
        self.ratio.ln().abs()
    }

    fn is_certain(&self) -> bool {
        !self.few && self.interval.is_some_and(|interval| interval.excludes_one())
    }

    fn title(&self, first: &str) -> SweepTitle {
        let (series, ratio) = (self.series, three(self.ratio));
        let text = match self.interval {
            _ if self.few => format!("{series} ({ratio} ×) {first}, of too few requests"),
            None => format!("{series} {ratio} × {first}, without an interval"),
            Some(over) => format!("{series} {ratio} × ({}–{}) {first}", three(over.low), three(over.high)),
        };
        let method = self.interval.filter(|_| !self.few).map(|over| over.method);
        SweepTitle { text, method, is_geometric: self.is_geometric }
    }
}

/// The series that is farthest from the first among those that certainly differ, by the interval of a comparison. If
/// none does, the farthest one without an interval.
fn beside(measure: &Measure, first: &(&SeedGroup<'_>, Mean), rest: &[(&SeedGroup<'_>, Mean)]) -> SweepTitle {
    let (group, base) = first;
    let under = group.values(measure);
    let mut ratios: Vec<SeriesRatio<'_>> = Vec::new();
    for (other, mean) in rest {
        let over = other.values(measure);
        let means = over.means(&under);
        let Some((ratio, is_geometric)) = means.and_then(|means| Some((means.ratio()?, means.is_geometric))) else {
            return without_ratio(first, rest).into();
        };
        let few = base.measure.few || mean.measure.few;
        ratios.push(SeriesRatio { series: &other.series, ratio, is_geometric, interval: over.over(&under), few });
    }
    if ratios.iter().all(|one| one.distance() < ALIKE) {
        return format!("about {} for all", base.measure.show(base.mean)).into();
    }
    let farthest = |is_it: fn(&&SeriesRatio<'_>) -> bool| {
        ratios.iter().filter(is_it).max_by(|a, b| a.distance().total_cmp(&b.distance()))
    };
    let told = farthest(|one| one.is_certain())
        .or_else(|| farthest(|one| one.distance() >= ALIKE && (one.few || one.interval.is_none())));
    told.map_or_else(|| "no difference seen".to_owned().into(), |one| one.title(&group.series))
}

/// The first mean and the farthest one, where a mean is zero, negative or no number.
fn without_ratio((group, base): &(&SeedGroup<'_>, Mean), rest: &[(&SeedGroup<'_>, Mean)]) -> String {
    let far = |mean: &Mean| (mean.mean - base.mean).abs();
    match rest.iter().max_by(|a, b| far(&a.1).total_cmp(&far(&b.1))) {
        Some((other, mean)) if far(mean) != 0.0 => {
            let [mean, base] = [mean, base].map(|mean| mean.measure.show(mean.mean));
            format!("{} {mean}, {} {base}", other.series, group.series)
        }
        _ => format!("{} for all", base.measure.show(base.mean)),
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use roost_results::testing::SyntheticShape;

    use super::super::RunSummary;
    use super::*;
    use crate::figure::Figure;
    use crate::measure::MeasureKind;

    /// The title for the services completed by up to three architectures, with one value for each seed.
    fn title<const N: usize>(completed: [&[f64]; N]) -> String {
        titled(completed, |_| {})
    }

    fn titled<const N: usize>(completed: [&[f64]; N], change: impl Fn(&mut Measure)) -> String {
        drawn(&runs(completed, change)).title
    }

    fn drawn(points: &[RunSummary]) -> Figure {
        Overview::from_points(points).figures().remove(0).1.remove(0)
    }

    fn runs<const N: usize>(completed: [&[f64]; N], change: impl Fn(&mut Measure)) -> Vec<RunSummary> {
        let mut points = Vec::new();
        for (architecture, values) in ["client-server", "super-node", "p2p"].into_iter().zip(completed) {
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
        points
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

    #[test]
    fn noisy_series_hides_no_clear_one() {
        let told = title([&[100.0, 101.0, 102.0], &[120.0, 121.0, 122.0], &[20.0, 100.0, 900.0]]);
        assert!(told.starts_with("Completed services: super-node 1.2 × (1.1"), "{told}");
        let told = title([&[100.0, 101.0, 102.0], &[99.0, 102.0, 103.0], &[20.0, 100.0, 900.0]]);
        assert_eq!(told, "Completed services: no difference seen");
    }

    #[test]
    fn farthest_is_by_the_printed_ratio() {
        // The arithmetic means are alike, the geometric ones are not.
        let told = titled([&[10.0, 1000.0], &[500.0, 510.0]], |measure| measure.few = true);
        assert_eq!(told, "Completed services: super-node (5.05 ×) client-server, of too few requests");
    }

    #[test]
    fn zero_has_no_ratio() {
        assert_eq!(title([&[100.0, 100.0], &[0.0, 0.0]]), "Completed services: super-node 0, client-server 100");
        assert_eq!(title([&[0.0, 0.0], &[0.0, 0.0]]), "Completed services: 0 for all");
    }

    #[test]
    fn caption_pairs_seeds_like_the_title() {
        let caption = |other: &[f64]| drawn(&runs([&[100.0, 150.0, 200.0], other], |_| {})).caption;
        assert!(caption(&[50.0, 76.0, 102.0]).contains("runs of the same seed"));
        assert!(caption(&[50.0, 76.0]).contains("runs of the same seed"), "a seed is missing");
        assert!(!caption(&[50.0]).contains("runs of the same seed"));
        assert!(!caption(&[100.0, 151.0, 199.0]).contains("runs of the same seed"));
    }

    #[test]
    fn caption_tells_both_means() {
        let caption = |completed: [&[f64]; 2]| drawn(&runs(completed, |_| {})).caption;
        let told = caption([&[10.0, 1000.0], &[50.0, 5000.0]]);
        assert!(told.contains("Arithmetic means over seeds") && told.contains("that of geometric means"), "{told}");
        let told = caption([&[100.0, 101.0], &[100.0, 101.0]]);
        assert!(told.contains("Arithmetic means over seeds") && !told.contains("geometric"), "{told}");
        assert!(!caption([&[100.0], &[103.0]]).contains("geometric"));
    }

    #[test]
    fn bar_has_brackets_of_its_own() {
        let mut points = runs([&[100.0, 101.0, 102.0], &[150.0, 151.0, 152.0]], |_| {});
        points[4].measures[0].0.few = true;
        let svg = drawn(&points).sheet.standing("parts");
        assert!(svg.contains("(151)") && svg.contains("101") && !svg.contains("(101"), "{svg}");
    }
}
