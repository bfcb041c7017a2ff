//! Claims: statements of papers and of our own, held against runs.
//!
//! A claim has a band in which the paper's statement holds, and the paper's figure if it
//! prints one. Ours is a mean or a ratio over seeds with its 95 % confidence interval. A band
//! leaves out something that could be measured, so that every claim can fail; a test sees to it.

use std::collections::BTreeMap;

use super::study::Unit;
use super::verdict::{Amount, Judgement, Kind, Verdict};
use crate::report::words::capital;
use crate::statistics::{mean_and_half_width, paired};

/// One statement, of a paper or our own.
#[derive(Clone, Debug)]
pub struct Claim {
    /// Its name, by the figure or table that it is from.
    pub id: String,
    /// The place in the paper.
    pub figure: &'static str,
    /// The statement, and what stands here in the place of what the paper had.
    pub sentence: String,
    /// The paper's own words.
    pub says: Says,
    /// The figure of ours that it is held against.
    pub ours: Estimator,
    /// The unit of it.
    pub unit: Unit,
    /// The band in which the statement holds.
    pub holds: Band,
    /// The direction in which another amount is better.
    pub better: Better,
    /// The reason of another amount, if it is known.
    pub why: &'static str,
}

/// The paper's part of a claim.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Says {
    /// A figure, from here to there as it is printed: the same twice if it is exact.
    Figure {
        /// As it is printed.
        text: &'static str,
        /// The least that it means.
        from: f64,
        /// The most.
        to: f64,
    },
    /// A direction without a figure.
    Direction(&'static str),
    /// Nothing: it is an aim of our own.
    Nothing(&'static str),
}

impl Says {
    pub(super) const fn exactly(text: &'static str, figure: f64) -> Self {
        Self::Figure { text, from: figure, to: figure }
    }

    pub(super) const fn between(text: &'static str, from: f64, to: f64) -> Self {
        Self::Figure { text, from, to }
    }

    /// The least that its figure means.
    pub(super) const fn least(self) -> f64 {
        match self {
            Self::Figure { from, .. } => from,
            Self::Direction(_) | Self::Nothing(_) => 0.0,
        }
    }

    /// In words: the figure, the direction, or our aim.
    pub const fn text(self) -> &'static str {
        match self {
            Self::Figure { text, .. } | Self::Direction(text) | Self::Nothing(text) => text,
        }
    }

    /// The kind of claim that it makes.
    pub const fn kind(self) -> Kind {
        match self {
            Self::Figure { .. } => Kind::Figure,
            Self::Direction(_) => Kind::Direction,
            Self::Nothing(_) => Kind::Ours,
        }
    }
}

/// A band that something measurable lies outside of.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Band {
    /// All that is greater.
    Above(f64),
    /// All that is less.
    Below(f64),
    /// All between.
    Between(f64, f64),
}

impl Band {
    /// Its least and its greatest value; nothing measured here is less than nothing.
    const fn ends(self) -> (f64, f64) {
        match self {
            Self::Above(low) => (low, f64::INFINITY),
            Self::Below(high) => (f64::NEG_INFINITY, high),
            Self::Between(low, high) => (low, high),
        }
    }

    /// True if a value lies in it.
    pub fn has(self, value: f64) -> bool {
        let (low, high) = self.ends();
        low < value && value < high
    }

    /// True if all of an interval does.
    fn has_all(self, (low, high): (f64, f64)) -> bool {
        self.has(low) && self.has(high)
    }

    /// True if nothing of an interval does.
    fn has_none(self, (low, high): (f64, f64)) -> bool {
        let ends = self.ends();
        high <= ends.0 || low >= ends.1
    }

    /// Values of this unit that could be measured and would fail, one for each end that it has.
    pub fn failing(self, unit: Unit) -> Vec<f64> {
        let (low, high) = self.ends();
        let least = (low > 0.0 && low.is_finite()).then_some(low / 2.0);
        let beyond = high.is_finite().then(|| unit.most().map_or(high * 2.0, |most| most.min(high * 2.0)));
        least.into_iter().chain(beyond.filter(|value| !self.has(*value))).collect()
    }
}

/// The direction in which another amount is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Better {
    /// More is.
    More,
    /// Less is.
    Less,
    /// Neither is.
    Neither,
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

/// A figure of ours, its interval, on how many seeds; and what there is to say.
#[derive(Clone, Debug, Default, PartialEq)]
struct Estimate {
    value: Option<f64>,
    interval: Option<(f64, f64)>,
    seeds: usize,
    remark: Option<String>,
    /// True if runs show that there is no such value.
    is_refuted: bool,
    /// True if the value is where runs end, so that it may be anything beyond.
    is_bound: bool,
}

/// The remark on a claim whose interval reaches to both sides.
const OPEN: &str = "Runs of other seeds differ so much that they do not tell.";
/// And of a figure that would be equal but for its interval.
const UNSURE: &str = "The paper's figure may be ours, but runs of other seeds differ by more than the claim.";
/// The widest interval that makes a figure equal, in parts of the figure: a quarter to each side.
const WIDEST: f64 = 0.5;
/// And of another amount without a reason.
const UNKNOWN: &str = "The reason is not known.";

impl Claim {
    /// Holds the claim against what runs have left.
    pub fn judge(&self, values: &impl Values) -> Judgement {
        let Estimate { value, interval, seeds, remark, is_refuted, is_bound } = self.ours.estimate(values, self.unit);
        let value = value.map(six_digits);
        // Nothing that is measured is less than nothing: only the interval of a few values may reach there.
        let interval = interval.map(|(low, high)| (six_digits(low.max(0.0)), six_digits(high)));
        let (verdict, amount) = match is_refuted {
            true => (Verdict::DoesNotHold, None),
            false => match self.verdict(value, interval) {
                (Verdict::Holds, Some(_)) if is_bound => (Verdict::Holds, Some(Amount::Other)),
                judged => judged,
            },
        };
        let mut why = vec![match value {
            Some(value) => format!("Ours: {}; {}.", self.told(value, interval), self.beside()),
            None if is_refuted => format!("Ours: none; {}.", self.beside()),
            None => "No valid run shows it.".to_owned(),
        }];
        why.extend(remark);
        why.extend(value.and_then(|_| self.reason(verdict, amount)).map(str::to_owned));
        Judgement {
            id: self.id.clone(),
            figure: self.figure,
            claim: self.sentence.clone(),
            kind: self.says.kind(),
            paper: self.says.text(),
            ours: value,
            unit: self.unit.name(),
            interval,
            verdict,
            amount,
            why: why.join(" "),
            seeds,
            show: self.unit,
        }
    }

    fn verdict(&self, value: Option<f64>, interval: Option<(f64, f64)>) -> (Verdict, Option<Amount>) {
        let Some(value) = value else { return (Verdict::Open, None) };
        let span = interval.unwrap_or((value, value));
        match () {
            // The paper's own figure may be the end of the band.
            () if self.is_equal(span) => return (Verdict::Equal, None),
            () if self.holds.has_none(span) => return (Verdict::DoesNotHold, None),
            () if !self.holds.has_all(span) => return (Verdict::Open, None),
            () => {}
        }
        let Says::Figure { from, to, .. } = self.says else { return (Verdict::Holds, None) };
        let amount = match self.better {
            _ if (from..=to).contains(&value) || (from == to && span.0 <= from && to <= span.1) => Amount::Unsure,
            Better::Neither => Amount::Other,
            Better::More if value > to => Amount::Better,
            Better::Less if value < from => Amount::Better,
            Better::More | Better::Less => Amount::Worse,
        };
        (Verdict::Holds, Some(amount))
    }

    /// True if the interval lies in the paper's range, or has its exact figure and is narrow enough to tell it.
    fn is_equal(&self, (low, high): (f64, f64)) -> bool {
        match self.says {
            Says::Figure { from, to, .. } if from < to => from <= low && high <= to,
            Says::Figure { from, .. } => low <= from && from <= high && high - low <= self.widest(from),
            Says::Direction(_) | Says::Nothing(_) => false,
        }
    }

    /// The widest interval that makes an exact figure equal: half of the figure, but not less than what it is printed to.
    fn widest(&self, figure: f64) -> f64 {
        let amount = if self.unit == Unit::Change { figure - 1.0 } else { figure };
        (amount.abs() * WIDEST).max(self.unit.step())
    }

    /// The paper's words, or the aim, beside ours.
    fn beside(&self) -> String {
        match self.says {
            Says::Figure { text, .. } | Says::Direction(text) => format!("the paper's: {text}"),
            Says::Nothing(aim) => format!("no paper has it, our aim: {aim}"),
        }
    }

    /// The reason of a verdict that wants one.
    fn reason(&self, verdict: Verdict, amount: Option<Amount>) -> Option<&'static str> {
        match (verdict, amount) {
            (Verdict::Equal, _) | (Verdict::Holds, None) => None,
            (Verdict::Open, _) => Some(OPEN),
            (_, Some(Amount::Unsure)) => Some(UNSURE),
            _ if self.why.is_empty() => Some(UNKNOWN),
            _ => Some(self.why),
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
        Self { value: Some(mean), interval, seeds: values.len(), ..Self::default() }
    }

    /// Of the seeds that both have.
    fn of_ratio(of: &BTreeMap<u64, f64>, to: &BTreeMap<u64, f64>) -> Self {
        let pairs: Vec<(f64, f64)> = to.iter().filter_map(|(seed, to)| Some((*to, *of.get(seed)?))).collect();
        let (to, of): (Vec<f64>, Vec<f64>) = pairs.into_iter().unzip();
        match (paired(&to, &of), &to[..], &of[..]) {
            (Some(found), ..) => {
                let interval = Some((found.low, found.high));
                Self { value: Some(found.ratio), interval, seeds: to.len(), ..Self::default() }
            }
            (None, [to], [of]) if *to > 0.0 => Self { value: Some(of / to), seeds: 1, ..Self::default() },
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
    if found.is_empty() && seeds.iter().any(|seed| !differences(*seed).is_empty()) {
        let remark = Some(format!("{} is ahead to the end of the sweep with no seed.", capital(lines[0])));
        return Estimate { remark, is_refuted: true, seeds: seeds.len(), ..Estimate::default() };
    }
    let at_the_edge = found.iter().filter(|(_, is_edge)| *is_edge).count();
    let estimate = Estimate::of_mean(&found.iter().map(|(x, _)| *x).collect::<Vec<_>>());
    let remark = (at_the_edge > 0).then(|| {
        let edge = places.first().map_or_else(String::new, |edge| unit.show(*edge));
        format!("With {at_the_edge} of {} seeds it is ahead at {edge} already, where the sweep begins.", found.len())
    });
    Estimate { remark, is_bound: at_the_edge > 0 && at_the_edge == found.len(), ..estimate }
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

    /// Of a paper that says 2 to 3 times, and more is better.
    fn claim(ours: Estimator, says: Says, holds: Band) -> Claim {
        let (id, figure, sentence) = ("x".to_owned(), "Fig. 1", "It is so.".to_owned());
        Claim { id, figure, sentence, says, ours, unit: Unit::Times, holds, better: Better::More, why: "The reason." }
    }

    fn ratio() -> Estimator {
        Estimator::Ratio(At::new("p2p", 92.0, "m"), At::new("cs", 92.0, "m"))
    }

    fn judged(p2p: &[f64], says: Says, holds: Band) -> (Verdict, Option<Amount>) {
        let values = ByHand(vec![("p2p", 92.0, p2p.to_vec()), ("cs", 92.0, vec![10.0; p2p.len()])]);
        let one = claim(ratio(), says, holds).judge(&values);
        (one.verdict, one.amount)
    }

    #[test]
    fn figure_in_the_interval_is_equal() {
        let seen = [21.0, 22.0, 23.0];
        let says = |figure| judged(&seen, Says::exactly("x", figure), Band::Above(1.0));
        assert_eq!(says(2.1), (Verdict::Equal, None));
        assert_eq!(says(2.5), (Verdict::Holds, Some(Amount::Worse)));
        assert_eq!(says(1.9), (Verdict::Holds, Some(Amount::Better)));
    }

    #[test]
    fn interval_within_a_range_is_equal() {
        let says = |seen: &[f64], from, to| judged(seen, Says::between("x", from, to), Band::Above(1.0));
        let seen = [21.0, 22.0, 23.0];
        assert_eq!(says(&seen, 1.9, 3.0), (Verdict::Equal, None));
        // 1.96 to 2.46: partly below.
        assert_eq!(says(&seen, 2.0, 3.0), (Verdict::Holds, Some(Amount::Unsure)));
        assert_eq!(says(&seen, 1.0, 2.0), (Verdict::Holds, Some(Amount::Better)));
        assert_eq!(says(&[54.0, 54.1, 54.2], 2.0, 5.0), (Verdict::Holds, Some(Amount::Better)));
    }

    #[test]
    fn wide_interval_is_not_equal() {
        let seen = |unit, says, holds, values: &[f64]| {
            let values = ByHand(vec![("p2p", 92.0, values.to_vec())]);
            let mean = Estimator::Mean(At::new("p2p", 92.0, "m"));
            let judged = Claim { unit, better: Better::Less, ..claim(mean, says, holds) }.judge(&values);
            (judged.verdict, judged.amount)
        };
        let perhaps = (Verdict::Holds, Some(Amount::Unsure));
        // A change by 1 % in −4 to +6 %, and in +0.8 to +1.2 %.
        let change = |values: &[f64]| seen(Unit::Change, Says::exactly("+1 %", 1.01), Band::Below(1.08), values);
        assert_eq!(change(&[0.99, 1.01, 1.03]), perhaps);
        assert_eq!(change(&[1.009, 1.01, 1.011]), (Verdict::Equal, None));
        // 6 % in 1 to 11 %; none in 0 to 1.2 %, and in 0 to 0.13 %.
        let percent =
            |figure, values: &[f64]| seen(Unit::Percent, Says::exactly("x", figure), Band::Between(-1.0, 30.0), values);
        assert_eq!(percent(6.0, &[4.0, 6.0, 8.0]), perhaps);
        assert_eq!(percent(0.0, &[0.0, 0.4, 0.7]), perhaps);
        assert_eq!(percent(0.0, &[0.0, 0.03, 0.06]), (Verdict::Equal, None));
        // 10.1 ms at most, of which 0 to 12 ms tell nothing, and 9.9 to 10.3 ms everything.
        let most = |values: &[f64]| seen(Unit::Ms, Says::exactly("10.1 ms", 10.1), Band::Below(10.1), values);
        assert_eq!(most(&[3.0, 5.0, 8.0]), (Verdict::Open, None));
        assert_eq!(most(&[10.0, 10.1, 10.2]), (Verdict::Equal, None));
    }

    #[test]
    fn crossing_at_the_edge_is_no_amount() {
        let cross = Estimator::Crossing { above: "p2p", below: "cs", measure: "m", from_far: true };
        let values = ByHand(vec![
            ("cs", 1.0, vec![5.0, 5.0]),
            ("cs", 100.0, vec![9.0, 9.0]),
            ("p2p", 1.0, vec![10.0, 10.0]),
            ("p2p", 100.0, vec![10.0, 10.0]),
        ]);
        let judged = claim(cross, Says::between("about 50", 40.0, 60.0), Band::Above(30.0)).judge(&values);
        assert_eq!((judged.verdict, judged.amount), (Verdict::Holds, Some(Amount::Other)));
    }

    #[test]
    fn better_depends_on_the_direction() {
        let values = ByHand(vec![("p2p", 92.0, vec![880.0, 881.0, 882.0])]);
        let mean = Estimator::Mean(At::new("p2p", 92.0, "m"));
        let of = |better| {
            let claim = Claim { better, ..claim(mean.clone(), Says::exactly("48 kB", 48e3), Band::Below(48e3)) };
            claim.judge(&values).amount
        };
        let amounts = [Better::Less, Better::More, Better::Neither].map(of);
        assert_eq!(amounts, [Amount::Better, Amount::Worse, Amount::Other].map(Some));
    }

    #[test]
    fn interval_on_both_sides_is_open() {
        let says = Says::Direction("more");
        assert_eq!(judged(&[21.0, 22.0, 23.0], says, Band::Above(2.0)), (Verdict::Open, None));
        assert_eq!(judged(&[21.0, 22.0, 23.0], says, Band::Above(1.9)), (Verdict::Holds, None));
        assert_eq!(judged(&[21.0, 22.0, 23.0], says, Band::Above(2.5)), (Verdict::DoesNotHold, None));
        // No more is not more.
        assert_eq!(judged(&[10.0, 10.0, 10.0], says, Band::Above(1.0)), (Verdict::DoesNotHold, None));
    }

    #[test]
    fn reasons_are_told_of_what_differs() {
        let values = ByHand(vec![("p2p", 92.0, vec![21.0, 22.0, 23.0]), ("cs", 92.0, vec![10.0, 10.0, 10.0])]);
        let why = |says, holds| claim(ratio(), says, holds).judge(&values).why;
        let equal = why(Says::exactly("2.1 ×", 2.1), Band::Above(1.0));
        assert_eq!(equal, "Ours: 2.20 × (1.96 – 2.46 ×); the paper's: 2.1 ×.");
        assert!(why(Says::exactly("3 ×", 3.0), Band::Above(1.0)).ends_with("The reason."));
        assert!(why(Says::between("2 to 3 ×", 2.0, 3.0), Band::Above(1.0)).ends_with(UNSURE));
        assert!(why(Says::Direction("more"), Band::Above(2.0)).ends_with(OPEN));
        let aim = why(Says::Nothing("at least 3 ×"), Band::Above(3.0));
        assert!(aim.contains("no paper has it, our aim: at least 3 ×.") && aim.ends_with("The reason."), "{aim}");
    }

    #[test]
    fn interval_below_nothing_is_cut() {
        let values = ByHand(vec![("p2p", 92.0, vec![10.0, 20.0, 40.0])]);
        let mean = Estimator::Mean(At::new("p2p", 92.0, "m"));
        let judged = claim(mean, Says::exactly("0", 0.0), Band::Below(85.0)).judge(&values);
        let amount = (judged.interval.map(|(low, _)| low), judged.amount);
        assert_eq!(amount, (Some(0.0), Some(Amount::Unsure)));
    }

    #[test]
    fn nothing_is_told_without_runs() {
        let judged = claim(ratio(), Says::Direction("more"), Band::Above(1.0)).judge(&ByHand::default());
        assert_eq!((judged.verdict, judged.ours, judged.why.as_str()), (Verdict::Open, None, "No valid run shows it."));
    }

    #[test]
    fn single_run_has_no_interval() {
        let values = ByHand(vec![("p2p", 92.0, vec![20.0]), ("cs", 92.0, vec![10.0])]);
        let judged = claim(ratio(), Says::between("2 to 3 ×", 2.0, 3.0), Band::Above(1.0)).judge(&values);
        assert_eq!((judged.ours, judged.interval, judged.verdict), (Some(2.0), None, Verdict::Equal));
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
        let judged = claim(cross, Says::between("about 200", 150.0, 250.0), Band::Below(250.0)).judge(&values);
        assert_eq!(judged.ours, Some(166.667));
        assert_eq!(judged.verdict, Verdict::Equal);
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
        let near = claim(cross(false), Says::Nothing("x"), Band::Below(2.0)).judge(&values);
        let far = claim(cross(true), Says::Nothing("x"), Band::Below(2.0)).judge(&values);
        assert_eq!((near.ours, far.ours), (Some(1.0), Some(100.0)));
        assert!(far.why.contains("ahead at 100 ×"), "{}", far.why);
        // And one that never is ahead at the end has no crossing, which is told.
        assert_eq!(first_above(&[(1.0, 3.0), (2.0, -1.0)]), None);
        let values = ByHand(vec![("cs", 1.0, vec![9.0]), ("p2p", 1.0, vec![5.0])]);
        let never = claim(cross(false), Says::Nothing("x"), Band::Below(2.0)).judge(&values);
        assert_eq!((never.verdict, never.ours), (Verdict::DoesNotHold, None));
    }
}
