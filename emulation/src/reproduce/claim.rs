//! What a seed claims, and whether it is so here.
//!
//! A claim has a size, the band in which the seed's figure counts as met, and a
//! direction, the wider band in which what it found holds at all. Ours is a mean
//! or a ratio over seeds with its 95 % confidence interval, and the whole of the
//! interval has to be in a band.

use std::collections::BTreeMap;

use serde::Serialize;

use super::study::Unit;
use crate::statistics::{mean_and_half_width, paired};

/// One statement of a seed.
#[derive(Clone, Debug)]
pub struct Claim {
    /// Its name, by the figure or table that it is from.
    pub id: String,
    /// Where it stands.
    pub figure: &'static str,
    /// What the seed found, in a sentence.
    pub sentence: String,
    /// The seed's figure.
    pub seed: &'static str,
    /// What it is held against.
    pub ours: Estimator,
    /// What that is in.
    pub unit: Unit,
    /// The band, from and to, in which the seed's figure is met.
    pub size: (f64, f64),
    /// The band in which what it found holds at all.
    pub direction: (f64, f64),
    /// Why ours is another, if it is and the reason is known.
    pub why: &'static str,
}

/// The runs that differ in their seed only, and one measure of them.
#[derive(Clone, Debug)]
pub struct At {
    /// The line.
    pub series: String,
    /// The value along the axis.
    pub x: f64,
    /// The measure.
    pub measure: String,
}

impl At {
    pub(super) fn new(series: &str, x: f64, measure: &str) -> Self {
        Self { series: series.to_owned(), x, measure: measure.to_owned() }
    }
}

/// How ours is found.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Estimator {
    /// The mean over seeds.
    Mean(At),
    /// The first over the second, seed by seed: the geometric mean.
    Ratio(At, At),
    /// Where along the axis the first line, of a measure, comes to lie above the
    /// second, seed by seed, interpolated between neighbours; the lowest place.
    Crossing {
        /// The line that is above beyond the crossing.
        above: &'static str,
        /// The line that is below there.
        below: &'static str,
        /// The measure.
        measure: &'static str,
        /// Whether the crossing is looked for from the far end of the axis.
        from_far: bool,
    },
}

/// The values that runs have left: by line, value along the axis (as bits), measure and seed.
pub trait Values {
    /// The values of a measure, by seed, of valid runs only.
    fn at(&self, at: &At) -> BTreeMap<u64, f64>;
    /// The values along the axis that both lines have, ascending.
    fn places(&self, series: &str) -> Vec<f64>;
}

/// Whether it is so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// As the seed found.
    Reproduced,
    /// What it found holds, by another amount.
    Differs,
    /// It does not hold, or could not be seen.
    Not,
}

impl Verdict {
    /// In words.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Reproduced => "reproduced",
            Self::Differs => "differs",
            Self::Not => "not reproduced",
        }
    }
}

/// What has come of a claim.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Judgement {
    /// The claim's name.
    pub id: String,
    /// Where it stands in the paper.
    pub figure: &'static str,
    /// What the seed found.
    pub claim: String,
    /// The seed's figure.
    pub seed: &'static str,
    /// Ours, if there is any.
    pub ours: Option<f64>,
    /// What that is in.
    pub unit: &'static str,
    /// Its 95 % confidence interval; none of a single run.
    pub interval: Option<(f64, f64)>,
    /// Whether it is so.
    pub verdict: Verdict,
    /// What was seen, and why it is another if it is.
    pub why: String,
    /// How many seeds it stands on.
    pub seeds: usize,
    #[serde(skip)]
    pub(super) show: Unit,
}

/// A figure of ours, its interval, on how many seeds; and what there is to say.
#[derive(Clone, Debug, Default, PartialEq)]
struct Estimate {
    value: Option<f64>,
    interval: Option<(f64, f64)>,
    seeds: usize,
    remark: Option<String>,
}

/// Why a claim is not met whose figure is.
const CHANCE: &str = "The figure itself would do, but runs of other seeds differ so much that its interval does not.";

/// And why one is not met that always was.
const UNKNOWN: &str = "The reason is not known.";

impl Claim {
    /// Holds the claim against what runs have left.
    pub fn judge(&self, values: &impl Values) -> Judgement {
        let Estimate { value, interval, seeds, remark } = self.ours.estimate(values, self.unit);
        let value = value.map(six_digits);
        let interval = interval.map(|(low, high)| (six_digits(low), six_digits(high)));
        let (low, high) = interval.or(value.map(|value| (value, value))).unwrap_or((f64::NAN, f64::NAN));
        // Nothing that is measured is less than nothing: only the interval of a few values may reach there.
        let within = |(from, to): (f64, f64)| (from <= 0.0 || low >= from) && high <= to;
        let verdict = match () {
            () if within(self.size) => Verdict::Reproduced,
            () if within(self.direction) => Verdict::Differs,
            () => Verdict::Not,
        };
        let mut why = vec![match value {
            Some(value) => format!("Ours: {}; the seed's: {}.", self.told(value, interval), self.seed),
            None => "No valid run shows it.".to_owned(),
        }];
        why.extend(remark);
        let (least, most) = self.size;
        why.extend(value.filter(|_| verdict != Verdict::Reproduced).map(|value| match interval {
            Some(_) if (least..=most).contains(&value) => CHANCE.to_owned(),
            _ if self.why.is_empty() => UNKNOWN.to_owned(),
            _ => self.why.to_owned(),
        }));
        Judgement {
            id: self.id.clone(),
            figure: self.figure,
            claim: self.sentence.clone(),
            seed: self.seed,
            ours: value,
            unit: self.unit.name(),
            interval,
            verdict,
            why: why.join(" "),
            seeds,
            show: self.unit,
        }
    }

    fn told(&self, value: f64, interval: Option<(f64, f64)>) -> String {
        let show = |value| self.unit.show(value);
        match interval {
            Some((low, high)) if high - low > value.abs() * 1e-3 => {
                format!("{} ({})", show(value), self.unit.range(low, high))
            }
            Some(_) => show(value),
            None => format!("{}, one run only", show(value)),
        }
    }
}

/// The value to six digits. Logarithms differ in the last of sixteen from one
/// machine's library to another's, and claims are to be the same everywhere.
fn six_digits(value: f64) -> f64 {
    format!("{value:.5e}").parse().unwrap_or(value)
}

impl Judgement {
    /// Ours as people read it.
    pub fn ours_said(&self) -> String {
        self.ours.map_or_else(|| "–".to_owned(), |value| self.show.show(value))
    }

    /// Both as people read them.
    pub(super) fn ours_and_interval(&self) -> String {
        match self.interval {
            Some((low, high)) => format!("{} ({})", self.ours_said(), self.show.range(low, high)),
            None => self.ours_said(),
        }
    }

    /// Its interval as people read it.
    pub fn interval_said(&self) -> String {
        self.interval.map_or_else(|| "–".to_owned(), |(low, high)| self.show.range(low, high))
    }
}

impl Estimator {
    fn estimate(&self, values: &impl Values, unit: Unit) -> Estimate {
        match self {
            Self::Mean(at) => Estimate::of_mean(&values.at(at).into_values().collect::<Vec<_>>()),
            Self::Ratio(of, to) => Estimate::of_ratio(&values.at(of), &values.at(to)),
            Self::Crossing { above, below, measure, from_far } => {
                crossing(values, [above, below], measure, *from_far, unit)
            }
        }
    }
}

impl Estimate {
    fn of_mean(values: &[f64]) -> Self {
        let Some((mean, half)) = mean_and_half_width(values) else { return Self::default() };
        let interval = half.map(|half| (mean - half, mean + half));
        Self { value: Some(mean), interval, seeds: values.len(), remark: None }
    }

    /// Of the seeds that both have.
    fn of_ratio(of: &BTreeMap<u64, f64>, to: &BTreeMap<u64, f64>) -> Self {
        let pairs: Vec<(f64, f64)> = to.iter().filter_map(|(seed, to)| Some((*to, *of.get(seed)?))).collect();
        let (to, of): (Vec<f64>, Vec<f64>) = pairs.into_iter().unzip();
        match (paired(&to, &of), &to[..], &of[..]) {
            (Some(found), ..) => {
                let interval = Some((found.low, found.high));
                Self { value: Some(found.ratio), interval, seeds: to.len(), remark: None }
            }
            (None, [to], [of]) if *to > 0.0 => Self { value: Some(of / to), interval: None, seeds: 1, remark: None },
            _ => Self::default(),
        }
    }
}

/// Where the first line comes to lie above the second, over all seeds.
fn crossing(values: &impl Values, lines: [&str; 2], measure: &str, from_far: bool, unit: Unit) -> Estimate {
    let mut places = values.places(lines[1]);
    if from_far {
        places.reverse();
    }
    let of = |line: &str| -> Vec<(f64, BTreeMap<u64, f64>)> {
        places.iter().map(|x| (*x, values.at(&At::new(line, *x, measure)))).collect()
    };
    let (above, below) = (of(lines[0]), of(lines[1]));
    let seeds: Vec<u64> = below.first().map(|(_, values)| values.keys().copied().collect()).unwrap_or_default();
    let differences = |seed: u64| -> Vec<(f64, f64)> {
        let pair = above.iter().zip(&below);
        pair.filter_map(|((x, one), (_, other))| Some((*x, one.get(&seed)? - other.get(&seed)?))).collect()
    };
    let found: Vec<(f64, bool)> = seeds.iter().filter_map(|seed| first_above(&differences(*seed))).collect();
    let at_the_edge = found.iter().filter(|(_, is_edge)| *is_edge).count();
    let estimate = Estimate::of_mean(&found.iter().map(|(x, _)| *x).collect::<Vec<_>>());
    let remark = (at_the_edge > 0).then(|| {
        let edge = places.first().map_or_else(String::new, |edge| unit.show(*edge));
        format!("With {at_the_edge} of {} seeds it is ahead at {edge} already, where the sweep begins.", found.len())
    });
    Estimate { remark, ..estimate }
}

/// The first place at which the difference is not below zero any more and stays
/// so, interpolated; and whether that is the first place of all.
fn first_above(differences: &[(f64, f64)]) -> Option<(f64, bool)> {
    // What is beyond the last place at which it is below counts.
    let Some(last_below) = differences.iter().rposition(|(_, difference)| *difference < 0.0) else {
        return differences.first().map(|(x, _)| (*x, true));
    };
    let ((x, low), (next, high)) = (differences[last_below], *differences.get(last_below + 1)?);
    Some((x + (next - x) * (-low) / (high - low).max(f64::MIN_POSITIVE), false))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values of one measure, made by hand.
    #[derive(Default)]
    struct ByHand(Vec<(&'static str, f64, Vec<f64>)>);

    impl Values for ByHand {
        fn at(&self, at: &At) -> BTreeMap<u64, f64> {
            let found = self.0.iter().find(|(series, x, _)| *series == at.series && x.total_cmp(&at.x).is_eq());
            found.map(|(.., values)| (1..).zip(values.iter().copied()).collect()).unwrap_or_default()
        }

        fn places(&self, series: &str) -> Vec<f64> {
            self.0.iter().filter(|(of, ..)| *of == series).map(|(_, x, _)| *x).collect()
        }
    }

    fn claim(ours: Estimator, size: (f64, f64), direction: (f64, f64)) -> Claim {
        let (id, figure, sentence, seed) = ("x".to_owned(), "Fig. 1", "It is so.".to_owned(), "2 ×");
        Claim { id, figure, sentence, seed, ours, unit: Unit::Times, size, direction, why: "The reason." }
    }

    fn ratio() -> Estimator {
        Estimator::Ratio(At::new("p2p", 92.0, "m"), At::new("cs", 92.0, "m"))
    }

    #[test]
    fn the_whole_interval_has_to_be_in_the_band() {
        let values = ByHand(vec![("p2p", 92.0, vec![21.0, 22.0, 23.0]), ("cs", 92.0, vec![10.0, 10.0, 10.0])]);
        let judge = |size, direction| claim(ratio(), size, direction).judge(&values);
        let met = judge((2.0, f64::INFINITY), (1.0, f64::INFINITY));
        // Its interval begins below 2.
        assert_eq!((met.verdict, met.seeds), (Verdict::Differs, 3));
        assert!(met.why.starts_with("Ours: 2.20 × (1.96 – 2.46 ×); the seed's: 2 ×.") && met.why.ends_with(CHANCE));
        let missed = judge((2.3, f64::INFINITY), (1.0, f64::INFINITY));
        assert!(missed.verdict == Verdict::Differs && missed.why.ends_with("The reason."), "{}", missed.why);
        assert_eq!(judge((1.9, f64::INFINITY), (1.0, f64::INFINITY)).verdict, Verdict::Reproduced);
        assert_eq!(judge((0.0, 0.5), (0.0, 1.0)).verdict, Verdict::Not);
    }

    #[test]
    fn an_interval_below_nothing_is_no_reason() {
        let values = ByHand(vec![("p2p", 92.0, vec![10.0, 20.0, 40.0])]);
        let mean = Estimator::Mean(At::new("p2p", 92.0, "m"));
        let judged = claim(mean, (0.0, 85.0), (0.0, 1000.0)).judge(&values);
        assert!(judged.interval.is_some_and(|(low, _)| low < 0.0));
        assert_eq!(judged.verdict, Verdict::Reproduced);
    }

    #[test]
    fn without_runs_nothing_is_reproduced() {
        let judged = claim(ratio(), (0.0, f64::INFINITY), (0.0, f64::INFINITY)).judge(&ByHand::default());
        assert_eq!((judged.verdict, judged.ours, judged.why.as_str()), (Verdict::Not, None, "No valid run shows it."));
    }

    #[test]
    fn a_single_run_has_no_interval() {
        let values = ByHand(vec![("p2p", 92.0, vec![20.0]), ("cs", 92.0, vec![10.0])]);
        let judged = claim(ratio(), (1.5, 2.5), (1.0, 9.0)).judge(&values);
        assert_eq!((judged.ours, judged.interval, judged.verdict), (Some(2.0), None, Verdict::Reproduced));
    }

    #[test]
    fn a_crossing_is_interpolated_seed_by_seed() {
        let cross = Estimator::Crossing { above: "p2p", below: "cs", measure: "m", from_far: false };
        let values = ByHand(vec![
            ("cs", 100.0, vec![12.0, 14.0]),
            ("cs", 200.0, vec![9.0, 8.0]),
            ("cs", 300.0, vec![5.0, 5.0]),
            ("p2p", 100.0, vec![10.0, 10.0]),
            ("p2p", 200.0, vec![10.0, 10.0]),
            ("p2p", 300.0, vec![10.0, 10.0]),
        ]);
        // −2 to 1 at the first seed, −4 to 2 at the second: two thirds of the way each.
        let judged = claim(cross, (150.0, 250.0), (0.0, 300.0)).judge(&values);
        assert_eq!(judged.ours, Some(166.667));
        assert_eq!(judged.verdict, Verdict::Reproduced);
    }

    #[test]
    fn a_line_that_is_always_ahead_crosses_where_the_sweep_begins() {
        let cross = |from_far| Estimator::Crossing { above: "p2p", below: "cs", measure: "m", from_far };
        let values = ByHand(vec![
            ("cs", 1.0, vec![5.0]),
            ("cs", 100.0, vec![9.0]),
            ("p2p", 1.0, vec![10.0]),
            ("p2p", 100.0, vec![10.0]),
        ]);
        let near = claim(cross(false), (0.0, 2.0), (0.0, 2.0)).judge(&values);
        let far = claim(cross(true), (0.0, 2.0), (0.0, 2.0)).judge(&values);
        assert_eq!((near.ours, far.ours), (Some(1.0), Some(100.0)));
        assert!(far.why.contains("ahead at 100 ×"), "{}", far.why);
        // And one that never is ahead at the end has no crossing.
        assert_eq!(first_above(&[(1.0, 3.0), (2.0, -1.0)]), None);
    }
}
