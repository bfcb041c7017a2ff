//! The papers reproduced: every figure and table by one command.
//!
//! A catalogue of studies lists the runs, the plots and the claims. Runs of an earlier command are reused,
//! others are made; each claim is tested against them; one page shows everything.
//!
//! | file | its part |
//! |---|---|
//! | `study` | the definition of a study |
//! | `claim` | a paper's statement, and the band in which it holds |
//! | `estimate` | the figure of ours that a claim compares, and its interval |
//! | [`software`] | a model of the factor of two: the effects of distance and of slow software |
//! | `verdict` | verdicts on claims |
//! | `measures` | the figures of a run |
//! | `store` | the files of runs, with their inputs |
//! | `tasks` | the runs to make, without duplicates |
//! | `runner` | makes missing runs |
//! | `workers` | threads: parallel in virtual time, sequential in real time |
//! | `process` | another process of this program |
//! | `bench` | runs of `emulate bench` |
//! | `emulated` | runs of `emulate run` |
//! | `daemons` | the study of real daemons: the super node's processor, emulation beside simulation |
//! | `benches` | the studies based on `emulate bench`: reflectors, bulk transfer, two links |
//! | `extended_studies` | the papers' future work |
//! | `movement` | nodes that move |
//! | `distance` | hosts from 50 ms to 5 s apart |
//! | `growth` | more nodes than the papers had |
//! | `geodemlia` | searches under churn, beside a geographic DHT |
//! | `sproull` | the studies of Sproull, Lockwood and Meier 2007 |
//! | `page` | the page for reviewers |
//! | `repetition` | the command that repeats a run |
#![allow(missing_docs, reason = "only crates of `emulation` import this one")]

mod bench;
mod benches;
mod claim;
mod daemons;
mod distance;
mod emulated;
mod estimate;
mod extended_studies;
mod geodemlia;
mod growth;
mod measures;
mod movement;
mod nearest;
mod page;
mod process;
mod repetition;
mod runner;
pub mod software;
mod sproull;
mod store;
mod study;
mod tasks;
mod verdict;
mod workers;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

pub use claim::{Band, Claim, MeasureKey, PaperStatement, PreferredAmount, StudyValues};
pub use estimate::Estimator;
pub use measures::Measures;
pub use page::write;
pub use runner::{RunnerError, run};
pub use store::{Store, StoreError, StoredRun};
pub use study::{Paper, Plot, PlotLimit, RunMethod, Study, StudyPoint, StudyScale, StudyUnit};
pub use verdict::{Amount, ClaimKind, ClaimTally, ClaimVerdict, Judgement};

/// All studies, in the order of the page.
pub fn catalogue(scale: StudyScale) -> Vec<Study> {
    [
        sproull::studies(scale),
        vec![daemons::study(scale)],
        benches::studies(scale),
        geodemlia::studies(scale),
        extended_studies::studies(scale),
        movement::studies(scale),
        vec![distance::study(scale), growth::study(scale)],
    ]
    .concat()
}

/// The studies with a name, or a claim's name, that begins with one of `names`; all if `names` is empty.
///
/// # Errors
/// A name that matches no study.
pub fn select_studies(names: &[String], scale: StudyScale) -> Result<Vec<Study>, String> {
    let studies = catalogue(scale);
    let is = |study: &Study, name: &str| {
        study.id.starts_with(name) || study.claims.iter().any(|claim| claim.id.starts_with(name))
    };
    if let Some(unknown) = names.iter().find(|name| !studies.iter().any(|study| is(study, name))) {
        return Err(unknown.clone());
    }
    Ok(studies.into_iter().filter(|study| names.is_empty() || names.iter().any(|name| is(study, name))).collect())
}

/// A run that was found or made.
#[derive(Clone, Debug)]
pub struct StudyRun {
    pub study: usize,
    /// Index of its point in the study.
    pub point: usize,
    pub seed: u64,
    pub kept: StoredRun,
}

#[derive(Clone, Copy, Debug)]
pub struct ReproductionProgress<'a> {
    pub found: usize,
    /// Stored runs that will be repeated, because they were not valid or incomplete.
    pub again: usize,
    /// Runs made so far, out of `of`.
    pub made: usize,
    pub of: usize,
    /// The remaining time, if it can be estimated.
    pub left: Option<Duration>,
    pub last: &'a str,
}

#[derive(Clone, Copy, Debug)]
pub struct StudyResults<'a> {
    pub study: &'a Study,
    /// The index among all studies, which runs refer to.
    index: usize,
    runs: &'a [StudyRun],
}

impl<'a> StudyResults<'a> {
    /// The study with this index, among all runs.
    pub fn new(studies: &'a [Study], index: usize, runs: &'a [StudyRun]) -> Self {
        Self { study: &studies[index], index, runs }
    }

    pub fn runs(self) -> impl Iterator<Item = &'a StudyRun> {
        self.runs.iter().filter(move |run| run.study == self.index)
    }

    /// The claims, each judged by the runs.
    pub fn judgements(&self) -> Vec<Judgement> {
        self.study.claims.iter().map(|claim| claim.judge(self)).collect()
    }
}

impl StudyValues for StudyResults<'_> {
    fn at(&self, at: &MeasureKey) -> BTreeMap<u64, f64> {
        let is_there = |run: &&StudyRun| self.study.points[run.point].is_at(at) && run.kept.valid;
        let value = |run: &StudyRun| Some((run.seed, *run.kept.measures.get(&at.measure)?));
        self.runs().filter(is_there).filter_map(value).collect()
    }

    fn places(&self, series: &str) -> Vec<f64> {
        let mut places: Vec<f64> =
            self.study.points.iter().filter(|point| point.series == series).map(|point| point.x).collect();
        places.sort_by(f64::total_cmp);
        places
    }
}

#[derive(Clone, Debug)]
pub struct WrittenReproduction {
    pub page: PathBuf,
    pub judgements: Vec<Judgement>,
    pub invalid: usize,
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use roost_experiment::Prepared;

    use super::*;

    #[test]
    fn every_catalogue_plan_is_valid() {
        for scale in [StudyScale::new(false, None), StudyScale::new(true, None)] {
            let folder = tempfile::tempdir().unwrap();
            for study in catalogue(scale) {
                let mut folders = BTreeSet::new();
                for point in &study.points {
                    assert!(folders.insert(point.folder()), "{} has two points in {}", study.id, point.folder());
                    let (plan, network) = match &point.make {
                        RunMethod::Virtual { plan, network } => (plan, network.clone().unwrap_or_default()),
                        RunMethod::Emulated { plan } => (plan, String::new()),
                        RunMethod::Growth { .. } | RunMethod::Areas(_) | RunMethod::Bench { .. } => continue,
                    };
                    std::fs::write(folder.path().join("network.toml"), network).unwrap();
                    let file = Path::new(folder.path()).join("plan.toml");
                    if let Err(error) = Prepared::from_text(plan, &file) {
                        panic!("{}: {error}", point.folder());
                    }
                }
            }
        }
    }

    #[test]
    fn claims_and_plots_match_runs() {
        for scale in [StudyScale::new(false, None), StudyScale::new(true, None)] {
            let studies = catalogue(scale);
            let ids: Vec<&str> =
                studies.iter().flat_map(|study| &study.claims).map(|claim| claim.id.as_str()).collect();
            let unlike: BTreeSet<&&str> = ids.iter().collect();
            assert_eq!(unlike.len(), ids.len(), "{ids:?}");
            for study in &studies {
                let has_line = |series: &str| study.points.iter().any(|point| point.series == series);
                for claim in &study.claims {
                    assert!(study.shows(claim), "{} is about what is not run", claim.id);
                }
                let limits = study.plots.iter().filter_map(|plot| plot.limit.as_ref());
                limits.for_each(|limit| assert!(has_line(limit.series), "{}", study.id));
            }
        }
    }

    /// A source in which every measure has this value, with every seed.
    struct Everywhere<'a>(&'a Study, &'a Claim, f64);

    impl StudyValues for Everywhere<'_> {
        fn at(&self, at: &MeasureKey) -> BTreeMap<u64, f64> {
            let value = match &self.1.ours {
                // The first line has the value in the claim's measure, and the other one has 1.
                Estimator::Ratio(of, _)
                    if (of.series.as_str(), of.x, &of.measure) != (&at.series, at.x, &at.measure) =>
                {
                    1.0
                }
                Estimator::Crossing { above, from_far, .. } if at.series == *above => {
                    if *from_far {
                        self.2 - at.x
                    } else {
                        at.x - self.2
                    }
                }
                Estimator::Crossing { .. } => 0.0,
                Estimator::Share { of, .. } if at.measure == *of => 1e4,
                _ => self.2,
            };
            (1..=3).map(|seed| (seed, value)).collect()
        }

        fn places(&self, series: &str) -> Vec<f64> {
            let of = self.0.points.iter().filter(|point| point.series == series).map(|point| point.x);
            let mut places: Vec<f64> = of.collect();
            places.sort_by(f64::total_cmp);
            places
        }
    }

    #[test]
    fn every_claim_can_fail() {
        for scale in [StudyScale::new(false, None), StudyScale::new(true, None)] {
            for study in catalogue(scale) {
                for claim in &study.claims {
                    let failing = claim.holds.failing(claim.unit);
                    assert!(!failing.is_empty(), "{}: nothing that could be measured fails", claim.id);
                    for value in failing {
                        let judged = claim.judge(&Everywhere(&study, claim, value));
                        assert_eq!(judged.verdict, ClaimVerdict::DoesNotHold, "{} with {value}: {judged:?}", claim.id);
                    }
                    let PaperStatement::Figure { from, to, .. } = claim.says else { continue };
                    assert!(claim.unit.most().is_none_or(|most| to <= most), "{}", claim.id);
                    // If less than the paper's figure is claimed, that figure is the end of the band.
                    let ends = [from, to].map(|end| claim.holds.has(end) || claim.holds == Band::Below(end));
                    assert_eq!(ends, [true, true], "{}: the paper's own figure does not hold", claim.id);
                }
            }
        }
    }

    #[test]
    fn mixed_study_keeps_remaining_claims() {
        let study = daemons::study(StudyScale::new(true, None));
        let parts = [true, false].map(|real_time| study.clone().only(real_time).unwrap());
        assert_eq!(parts.each_ref().map(|part| part.points.len()), [1, 1]);
        // The claim on the processor is for 92 nodes, and a quick run has 11.
        assert_eq!(parts.each_ref().map(|part| part.claims.len()), [0, 0]);
        let published = daemons::study(StudyScale::new(false, None)).only(true).unwrap();
        assert_eq!(published.claims.iter().map(|claim| claim.id.as_str()).collect::<Vec<_>>(), ["sproull-cpu"]);
        assert!(benches::studies(StudyScale::new(true, None)).into_iter().all(|study| study.only(false).is_none()));
    }

    #[test]
    fn studies_match_study_or_claim_names() {
        let names = |words: &[&str]| -> Result<Vec<&str>, String> {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            Ok(select_studies(&words, StudyScale::new(true, None))?.iter().map(|study| study.id).collect())
        };
        assert_eq!(names(&["sproull-fig4"]).unwrap(), ["sproull-fig4"]);
        assert_eq!(names(&["sproull-fig21", "sproull-fig5"]).unwrap(), ["sproull-fig5", "sproull-tree"]);
        assert_eq!(names(&["erun"]).unwrap_err(), "erun");
    }
}
