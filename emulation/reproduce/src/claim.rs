//! Claims: statements of papers and of our own, tested by runs.
//!
//! A claim has a band in which the paper's statement holds, and the paper's figure if it prints one. Ours is a
//! mean or a ratio over seeds, or a fraction of all requests, with its 95 % confidence interval. Every band
//! excludes something measurable, so that every claim can fail; a test checks this.

use std::collections::BTreeMap;

use super::estimate::{Estimate, Estimator};
use super::study::StudyUnit;
use super::verdict::{Amount, ClaimKind, ClaimVerdict, Judgement};

/// A statement, of a paper or our own.
#[derive(Clone, Debug)]
pub struct Claim {
    /// The name, after the figure or table of its source.
    pub id: String,
    pub figure: &'static str,
    /// The statement, with the substitutes for parts of the paper's setup.
    pub sentence: String,
    pub says: PaperStatement,
    /// The figure of ours that is compared.
    pub ours: Estimator,
    pub unit: StudyUnit,
    /// The band in which the statement holds.
    pub holds: Band,
    /// The direction in which a different amount is better.
    pub better: PreferredAmount,
    /// The reason of a different amount, if it is known.
    pub why: &'static str,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum PaperStatement {
    /// A figure, as a range of its printed precision: an exact one has equal ends.
    Figure {
        /// As it is printed.
        text: &'static str,
        from: f64,
        to: f64,
    },
    Direction(&'static str),
    /// No statement: it is an aim of our own.
    Nothing(&'static str),
}

impl PaperStatement {
    pub(super) const fn exactly(text: &'static str, figure: f64) -> Self {
        Self::Figure { text, from: figure, to: figure }
    }

    pub(super) const fn between(text: &'static str, from: f64, to: f64) -> Self {
        Self::Figure { text, from, to }
    }

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
    pub const fn kind(self) -> ClaimKind {
        match self {
            Self::Figure { .. } => ClaimKind::Figure,
            Self::Direction(_) => ClaimKind::Direction,
            Self::Nothing(_) => ClaimKind::Ours,
        }
    }
}

/// A band that excludes something measurable.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Band {
    Above(f64),
    Below(f64),
    Between(f64, f64),
}

impl Band {
    /// The least and the greatest value; no measured value is negative.
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

    /// True if an interval lies in it completely.
    fn has_all(self, (low, high): (f64, f64)) -> bool {
        self.has(low) && self.has(high)
    }

    /// True if an interval lies outside it completely.
    fn has_none(self, (low, high): (f64, f64)) -> bool {
        let ends = self.ends();
        high <= ends.0 || low >= ends.1
    }

    /// Measurable values of this unit that would fail, one for each end of the band.
    pub fn failing(self, unit: StudyUnit) -> Vec<f64> {
        let (low, high) = self.ends();
        let least = (low > 0.0 && low.is_finite()).then_some(low / 2.0);
        let beyond = high.is_finite().then(|| unit.most().map_or(high * 2.0, |most| most.min(high * 2.0)));
        least.into_iter().chain(beyond.filter(|value| !self.has(*value))).collect()
    }
}

/// The direction in which a different amount is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PreferredAmount {
    More,
    Less,
    Neither,
}

/// Runs that differ only in their seed, and one measure of them.
#[derive(Clone, Debug)]
pub struct MeasureKey {
    pub series: String,
    pub x: f64,
    pub measure: String,
}

impl MeasureKey {
    pub(super) fn new(series: &str, x: f64, measure: &str) -> Self {
        Self { series: series.to_owned(), x, measure: measure.to_owned() }
    }
}

/// The values of runs: by line, value along the axis (as bits), measure and seed.
pub trait StudyValues {
    /// The values of a measure, by seed, of valid runs only.
    fn at(&self, at: &MeasureKey) -> BTreeMap<u64, f64>;
    /// The values along the axis that both lines have, ascending.
    fn places(&self, series: &str) -> Vec<f64>;
}

/// The remark on a claim whose interval reaches to both sides of the band.
const OPEN: &str = "Runs of other seeds differ so much that they do not tell.";
/// The remark on a claim about a fraction of too few requests.
const FEW: &str = "So few requests do not tell.";
/// The remark on a figure that would be equal but for the width of its interval.
const UNSURE: &str = "The paper's figure may be ours, but runs of other seeds differ by more than the claim.";
/// The remark on a figure from a single run.
const ONE_RUN: &str = "The paper's figure may be ours, but one run does not tell how much others differ.";
/// The remark on a crossing outside the sweep.
const NO_CROSSING: &str = "No run shows a crossing.";
/// The widest interval that makes a figure equal, relative to the figure: a quarter to each side.
const WIDEST: f64 = 0.5;
/// The remark on a different amount without a reason.
const UNKNOWN: &str = "The reason is not known.";

impl Claim {
    /// An aim of our own, which no paper measured: more than as much, unless it is within another band.
    pub(super) fn aim(id: &str, sentence: &str, aim: &'static str, ours: Estimator) -> Self {
        Self {
            id: id.to_owned(),
            figure: "our own",
            sentence: sentence.to_owned(),
            says: PaperStatement::Nothing(aim),
            ours,
            unit: StudyUnit::Times,
            holds: Band::Above(1.0),
            better: PreferredAmount::Neither,
            why: "",
        }
    }

    pub(super) fn within(self, unit: StudyUnit, holds: Band) -> Self {
        Self { unit, holds, ..self }
    }

    /// Adds the reason of a different amount, where it is known.
    pub(super) fn because(self, why: &'static str) -> Self {
        Self { why, ..self }
    }

    /// Tests the claim against the values of runs.
    pub fn judge(&self, values: &impl StudyValues) -> Judgement {
        let Estimate { value, interval, seeds, remark, is_refuted, is_bound } = self.ours.estimate(values, self.unit);
        let value = value.map(six_digits);
        // No measured value is negative: only the interval of a few values can reach below 0.
        let interval = interval.map(|(low, high)| (six_digits(low.max(0.0)), six_digits(high)));
        // A paper's crossing beyond the sweep has not been seen.
        let is_unseen = is_bound && self.says.kind() == ClaimKind::Figure;
        let (verdict, amount) = match is_refuted || is_unseen {
            true => (ClaimVerdict::DoesNotHold, None),
            false => self.verdict(value, interval),
        };
        let mut why = vec![match value {
            Some(value) => format!("Ours: {}; {}.", self.describe_value(value, interval), self.beside()),
            None if is_refuted => format!("Ours: none; {}.", self.beside()),
            None => "No valid run shows it.".to_owned(),
        }];
        why.extend(remark);
        why.extend(is_unseen.then(|| NO_CROSSING.to_owned()));
        why.extend(value.and_then(|_| self.reason(verdict, amount, interval.is_some())).map(str::to_owned));
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

    fn verdict(&self, value: Option<f64>, interval: Option<(f64, f64)>) -> (ClaimVerdict, Option<Amount>) {
        let Some(value) = value else { return (ClaimVerdict::Open, None) };
        let span = interval.unwrap_or((value, value));
        match () {
            // The paper's own figure may be the end of the band. A single run has no interval.
            () if interval.is_some() && self.is_equal(span) => return (ClaimVerdict::Equal, None),
            () if self.holds.has_none(span) && !self.is_perhaps_equal(span) => {
                return (ClaimVerdict::DoesNotHold, None);
            }
            () if !self.holds.has_all(span) => return (ClaimVerdict::Open, None),
            () => {}
        }
        let PaperStatement::Figure { from, to, .. } = self.says else { return (ClaimVerdict::Holds, None) };
        let amount = match self.better {
            _ if self.is_perhaps_equal(span) => Amount::Unsure,
            PreferredAmount::Neither => Amount::Other,
            PreferredAmount::More if value > to => Amount::Better,
            PreferredAmount::Less if value < from => Amount::Better,
            PreferredAmount::More | PreferredAmount::Less => Amount::Worse,
        };
        (ClaimVerdict::Holds, Some(amount))
    }

    /// True if the interval overlaps the paper's range, or contains its exact figure.
    fn is_perhaps_equal(&self, (low, high): (f64, f64)) -> bool {
        matches!(self.says, PaperStatement::Figure { from, to, .. } if low <= to && from <= high)
    }

    /// True if the interval lies in the paper's range, or contains its exact figure and is narrow enough.
    fn is_equal(&self, (low, high): (f64, f64)) -> bool {
        match self.says {
            PaperStatement::Figure { from, to, .. } if from < to => from <= low && high <= to,
            PaperStatement::Figure { from, .. } => low <= from && from <= high && high - low <= self.widest(from),
            PaperStatement::Direction(_) | PaperStatement::Nothing(_) => false,
        }
    }

    /// The widest interval that makes an exact figure equal: half of the figure, but at least its printed
    /// precision.
    fn widest(&self, figure: f64) -> f64 {
        let amount = if self.unit == StudyUnit::Change { figure - 1.0 } else { figure };
        (amount.abs() * WIDEST).max(self.unit.step())
    }

    /// The paper's words, or the aim, beside our figure.
    fn beside(&self) -> String {
        match self.says {
            PaperStatement::Figure { text, .. } | PaperStatement::Direction(text) => format!("the paper's: {text}"),
            PaperStatement::Nothing(aim) => format!("no paper has it, our aim: {aim}"),
        }
    }

    /// The reason for a verdict that needs one.
    fn reason(&self, verdict: ClaimVerdict, amount: Option<Amount>, has_interval: bool) -> Option<&'static str> {
        match (verdict, amount) {
            (ClaimVerdict::Equal, _) | (ClaimVerdict::Holds, None) => None,
            (ClaimVerdict::Open, _) if matches!(self.ours, Estimator::Share { .. }) => Some(FEW),
            (ClaimVerdict::Open, _) => Some(OPEN),
            (_, Some(Amount::Unsure)) if !has_interval => Some(ONE_RUN),
            (_, Some(Amount::Unsure)) => Some(UNSURE),
            _ if self.why.is_empty() => Some(UNKNOWN),
            _ => Some(self.why),
        }
    }

    fn describe_value(&self, value: f64, interval: Option<(f64, f64)>) -> String {
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

/// Rounds to six digits. Logarithms differ in the last of sixteen digits between machines' libraries, and
/// claims must be the same everywhere.
fn six_digits(value: f64) -> f64 {
    format!("{value:.5e}").parse().unwrap_or(value)
}

#[cfg(test)]
pub(super) mod tests;
