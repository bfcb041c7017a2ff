//! Verdicts on claims, and their counts.

use serde::Serialize;

use super::study::StudyUnit;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ClaimKind {
    Figure,
    /// A paper states it without a figure.
    Direction,
    /// No paper states it: an aim of our own.
    Ours,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ClaimVerdict {
    /// The paper's figure lies in the measured interval, which is narrow enough, or the interval lies in the
    /// paper's range.
    Equal,
    /// The statement holds; for a figure, by a different amount.
    Holds,
    DoesNotHold,
    /// Runs do not decide it: there is none, or they differ too much.
    Open,
}

/// The amount by which a figure's statement holds, if it is not equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Amount {
    Better,
    Worse,
    Other,
    /// Perhaps equal: the interval contains the paper's figure but is too wide.
    Unsure,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Judgement {
    pub id: String,
    pub figure: &'static str,
    pub claim: String,
    pub kind: ClaimKind,
    /// The paper's figure or direction, or our aim.
    pub paper: &'static str,
    pub ours: Option<f64>,
    pub unit: &'static str,
    /// The 95 % confidence interval; `None` for a single run.
    pub interval: Option<(f64, f64)>,
    pub verdict: ClaimVerdict,
    /// The amount, if a figure's statement holds and is not equal.
    pub amount: Option<Amount>,
    /// Ours beside the paper's, and the reason of a different amount.
    pub why: String,
    pub seeds: usize,
    #[serde(skip)]
    pub(super) show: StudyUnit,
}

impl Judgement {
    pub const fn words(&self) -> &'static str {
        match (self.verdict, self.kind, self.amount) {
            (ClaimVerdict::Equal, ..) => "equal",
            (ClaimVerdict::Holds, ClaimKind::Ours, _) => "met",
            (ClaimVerdict::DoesNotHold, ClaimKind::Ours, _) => "not met",
            (ClaimVerdict::Holds, _, None) => "holds",
            (ClaimVerdict::Holds, _, Some(Amount::Better)) => "holds, better",
            (ClaimVerdict::Holds, _, Some(Amount::Worse)) => "holds, worse",
            (ClaimVerdict::Holds, _, Some(Amount::Other)) => "holds, another amount",
            (ClaimVerdict::Holds, _, Some(Amount::Unsure)) => "holds, perhaps equal",
            (ClaimVerdict::DoesNotHold, ..) => "does not hold",
            (ClaimVerdict::Open, ..) => "open",
        }
    }

    pub fn ours_said(&self) -> String {
        self.ours.map_or_else(|| "–".to_owned(), |value| self.show.show(value))
    }

    pub(super) fn ours_and_interval(&self) -> String {
        match self.interval {
            Some((low, high)) => format!("{} ({})", self.ours_said(), self.show.range(low, high)),
            None => self.ours_said(),
        }
    }

    pub fn interval_said(&self) -> String {
        self.interval.map_or_else(|| "–".to_owned(), |(low, high)| self.show.range(low, high))
    }
}

/// Counts of claims, by kind: an aim of our own is no finding of a paper.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ClaimTally {
    /// Figures that papers print, of which the next four fields count parts.
    pub figures: usize,
    pub equal: usize,
    /// Figures whose statement holds by a better amount.
    pub better: usize,
    pub worse: usize,
    pub other: usize,
    /// Figures that are perhaps equal: runs differ too much.
    pub unsure: usize,
    pub figures_not: usize,
    pub directions: usize,
    /// Of the statements, those that hold.
    pub hold: usize,
    pub directions_not: usize,
    pub ours: usize,
    pub met: usize,
    pub ours_not: usize,
}

impl ClaimTally {
    pub fn from_judgements<'a>(judgements: impl IntoIterator<Item = &'a Judgement>) -> Self {
        let mut tally = Self::default();
        for one in judgements {
            tally.add_judgement(one);
        }
        tally
    }

    fn add_judgement(&mut self, one: &Judgement) {
        let nothing = &mut 0;
        let (all, of) = match (one.kind, one.verdict) {
            (ClaimKind::Figure, ClaimVerdict::Equal) => (&mut self.figures, &mut self.equal),
            (ClaimKind::Figure, ClaimVerdict::Holds) => match one.amount {
                Some(Amount::Better) => (&mut self.figures, &mut self.better),
                Some(Amount::Worse) => (&mut self.figures, &mut self.worse),
                Some(Amount::Unsure) => (&mut self.figures, &mut self.unsure),
                Some(Amount::Other) | None => (&mut self.figures, &mut self.other),
            },
            (ClaimKind::Figure, ClaimVerdict::DoesNotHold) => (&mut self.figures, &mut self.figures_not),
            (ClaimKind::Figure, ClaimVerdict::Open) => (&mut self.figures, nothing),
            (ClaimKind::Direction, ClaimVerdict::DoesNotHold) => (&mut self.directions, &mut self.directions_not),
            (ClaimKind::Direction, ClaimVerdict::Open) => (&mut self.directions, nothing),
            (ClaimKind::Direction, ClaimVerdict::Equal | ClaimVerdict::Holds) => (&mut self.directions, &mut self.hold),
            (ClaimKind::Ours, ClaimVerdict::DoesNotHold) => (&mut self.ours, &mut self.ours_not),
            (ClaimKind::Ours, ClaimVerdict::Open) => (&mut self.ours, nothing),
            (ClaimKind::Ours, ClaimVerdict::Equal | ClaimVerdict::Holds) => (&mut self.ours, &mut self.met),
        };
        *all += 1;
        *of += 1;
    }

    /// A sentence for each kind that occurs.
    pub fn sentences(&self) -> Vec<String> {
        let mut said = Vec::new();
        if self.figures > 0 {
            let told = self.equal + self.better + self.worse + self.other + self.unsure + self.figures_not;
            let parts = [
                (self.equal, "equal"),
                (self.better, "hold by a better amount"),
                (self.worse, "by a worse one"),
                (self.other, "by another one"),
                (self.unsure, "perhaps by the same"),
                (self.figures_not, "do not hold"),
                (self.figures - told, "open"),
            ];
            said.push(format!("Figures of the papers, {}: {}.", self.figures, joined(&parts)));
        }
        if self.directions > 0 {
            let open = self.directions - self.hold - self.directions_not;
            let parts = [(self.hold, "hold"), (self.directions_not, "do not hold"), (open, "open")];
            said.push(format!("Statements of the papers without a figure, {}: {}.", self.directions, joined(&parts)));
        }
        if self.ours > 0 {
            let open = self.ours - self.met - self.ours_not;
            let parts = [(self.met, "met"), (self.ours_not, "not met"), (open, "open")];
            said.push(format!("Aims of our own, which no paper has, {}: {}.", self.ours, joined(&parts)));
        }
        said
    }
}

/// Joins the parts with a count; the first part is kept even without one.
fn joined(parts: &[(usize, &str)]) -> String {
    let told = parts.iter().enumerate().filter(|(place, (count, _))| *place == 0 || *count > 0);
    told.map(|(_, (count, what))| format!("{count} {what}")).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(kind: ClaimKind, verdict: ClaimVerdict, amount: Option<Amount>) -> Judgement {
        Judgement {
            id: "x".to_owned(),
            figure: "Fig. 1",
            claim: "It is so.".to_owned(),
            kind,
            paper: "2 ×",
            ours: Some(2.0),
            unit: "ratio",
            interval: None,
            verdict,
            amount,
            why: String::new(),
            seeds: 1,
            show: StudyUnit::Times,
        }
    }

    #[test]
    fn headline_counts_each_kind_apart() {
        let all = [
            judged(ClaimKind::Figure, ClaimVerdict::Equal, None),
            judged(ClaimKind::Figure, ClaimVerdict::Holds, Some(Amount::Better)),
            judged(ClaimKind::Figure, ClaimVerdict::Holds, Some(Amount::Other)),
            judged(ClaimKind::Figure, ClaimVerdict::Holds, Some(Amount::Unsure)),
            judged(ClaimKind::Figure, ClaimVerdict::DoesNotHold, None),
            judged(ClaimKind::Figure, ClaimVerdict::Open, None),
            judged(ClaimKind::Direction, ClaimVerdict::Holds, None),
            judged(ClaimKind::Ours, ClaimVerdict::Holds, None),
            judged(ClaimKind::Ours, ClaimVerdict::DoesNotHold, None),
        ];
        let said = ClaimTally::from_judgements(&all).sentences();
        let figures = "Figures of the papers, 6: 1 equal, 1 hold by a better amount, 1 by another one, 1 perhaps by \
                       the same, 1 do not hold, 1 open.";
        assert_eq!(said[0], figures);
        assert_eq!(said[1], "Statements of the papers without a figure, 1: 1 hold.");
        assert_eq!(said[2], "Aims of our own, which no paper has, 2: 1 met, 1 not met.");
        assert_eq!(all.each_ref().map(Judgement::words)[6..], ["holds", "met", "not met"]);
    }
}
