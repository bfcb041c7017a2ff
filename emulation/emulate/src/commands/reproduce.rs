//! `emulate reproduce`: every figure and table of the papers.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, ValueEnum};
use roost_reproduce::{
    self, ClaimKind, ClaimTally, ReproductionProgress, RunnerError, Store, Study, StudyScale, WrittenReproduction,
};
use roost_terminal::{Output, SCHEMA, Steps, Table};
use roost_topology::units::format_duration;
use serde_json::json;

use super::interrupt;
use crate::failure::{CommandResult, Failure, FailureCode};

/// `emulate reproduce`.
#[derive(Debug, Args)]
pub(crate) struct ReproduceArgs {
    /// Only studies or claims whose names begin with this, as sproull or sproull-fig4 [default: all]
    #[arg(value_name = "STUDY")]
    studies: Vec<String>,
    /// Make the same figures in minutes: shorter runs, fewer seeds and places
    #[arg(long)]
    quick: bool,
    /// The folder of runs, page and figures; finished runs of the same plans are not repeated
    /// [default: results/reproduction, results/reproduction-quick]
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// Only what is simulated, or only what is measured in real time
    #[arg(long, value_name = "KIND", value_enum)]
    only: Option<StudyMethod>,
    /// Number of seeds for each point [default: 5, quick 3]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1000))]
    seeds: Option<u64>,
    /// List the studies, and end
    #[arg(long, conflicts_with = "check")]
    list: bool,
    /// Print how much of the papers' factors distance and slower software explain, and end
    #[arg(long, conflicts_with_all = ["list", "check"])]
    software: bool,
    /// Say how many runs would be made, and end
    #[arg(long)]
    check: bool,
    /// Keep the records of each run that is made, some megabytes each
    #[arg(long)]
    keep_records: bool,
    /// Take runs that other builds of the programs made, too
    #[arg(long)]
    any_build: bool,
}

/// Ways to make runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum StudyMethod {
    /// In virtual time
    Virtual,
    /// By the emulator and the real programs
    Emulated,
}

impl StudyMethod {
    fn select_runs(self, study: Study) -> Option<Study> {
        study.only(self == Self::Emulated)
    }
}

/// Makes missing runs, judges the claims, and writes the page.
pub(crate) fn run(args: &ReproduceArgs, output: Output) -> CommandResult {
    if args.software {
        return software(output);
    }
    let scale = StudyScale::new(args.quick, args.seeds);
    let mut studies = roost_reproduce::select_studies(&args.studies, scale).map_err(|name| unknown(&name, scale))?;
    if let Some(only) = args.only {
        studies = studies.into_iter().filter_map(|study| only.select_runs(study)).collect();
    }
    if args.list {
        return list(&studies, output);
    }
    if args.check {
        return check(&studies, output);
    }
    let usual = if args.quick { "results/reproduction-quick" } else { "results/reproduction" };
    let folder = args.output.as_deref().unwrap_or(Path::new(usual));
    let store = Store::new(folder, &roost_experiment::own_digest()?, args.any_build);
    let interrupted = interrupt::catch_sigint()?;
    let mut bar = ReproduceProgress::new(output);
    let runs =
        roost_reproduce::run(&studies, &store, args.keep_records, interrupted.flag(), &mut |at| bar.show_progress(at));
    drop(bar);
    let written = roost_reproduce::write(&studies, &runs?, scale, &store).map_err(RunnerError::from)?;
    show(&written, output)?;
    match written.invalid {
        0 => Ok(()),
        invalid => Err(Failure::new(FailureCode::Invalid, format!("{invalid} runs are not valid; the page says why"))),
    }
}

/// Prints the model of the paper's waiting times.
fn software(output: Output) -> CommandResult {
    let fit = roost_reproduce::software::fit()?;
    if output.is_json() {
        return Ok(output.json(&json!({ "schema": SCHEMA, "fit": fit }))?);
    }
    let mut table = Table::new(&["FIGURE", "OF", ">THE PAPER", ">DISTANCE", ">SOFTWARE TOO", ">MISSED BY"]);
    fit.rows().into_iter().for_each(|row| table.row(row));
    output.table(&table)?;
    Ok(output.data(&format!("\n{}\n", fit.sentences().join("\n")))?)
}

fn unknown(name: &str, scale: StudyScale) -> Failure {
    let known: Vec<&str> = roost_reproduce::catalogue(scale).iter().map(|study| study.id).collect();
    Failure::bad_input(format!("there is no study `{name}`: choose {}", known.join(", ")))
}

fn list(studies: &[Study], output: Output) -> CommandResult {
    if output.is_json() {
        let study = |study: &Study| {
            let claims: Vec<_> = study.claims.iter().map(|claim| &claim.id).collect();
            json!({ "study": study.id, "title": study.title, "runs": count(study), "claims": claims })
        };
        let studies: Vec<_> = studies.iter().map(study).collect();
        return Ok(output.json(&json!({ "schema": SCHEMA, "studies": studies }))?);
    }
    let mut table = Table::new(&["STUDY", ">RUNS", ">CLAIMS", "ABOUT"]);
    for study in studies {
        let numbers = [count(study), study.claims.len() as u64].map(|number| number.to_string());
        table.row([study.id.to_owned()].into_iter().chain(numbers).chain([study.title.to_owned()]));
    }
    Ok(output.table(&table)?)
}

fn check(studies: &[Study], output: Output) -> CommandResult {
    let runs: u64 = studies.iter().map(count).sum();
    if output.is_json() {
        return Ok(output.json(&json!({ "schema": SCHEMA, "runs": runs }))?);
    }
    Ok(output.data(&format!("{runs} runs in {} studies.\n", studies.len()))?)
}

fn count(study: &Study) -> u64 {
    study.points.iter().map(|point| point.seeds).sum()
}

/// Progress while runs are made: a bar on a terminal, else a line for each tenth.
struct ReproduceProgress {
    output: Output,
    steps: Option<Steps>,
    tenths: usize,
}

impl ReproduceProgress {
    const fn new(output: Output) -> Self {
        Self { output, steps: None, tenths: 0 }
    }

    fn show_progress(&mut self, at: ReproductionProgress<'_>) {
        if at.made == 0 {
            let again = match at.again {
                0 => String::new(),
                again => format!(", {again} of them again, for they were not valid or lacked something"),
            };
            self.output.say(format!("{} runs are there, {} are to be made{again}", at.found, at.of));
            self.steps = Some(Steps::start(self.output, "reproduce", at.of));
            return;
        }
        let left = at.left.map(|left| Duration::from_secs(left.as_secs() + 1)).map(format_duration);
        let left = left.unwrap_or_default();
        if let Some(steps) = &self.steps {
            steps.say(format!("reproduce: {}, about {left} left", at.last));
            steps.advance();
        }
        let tenths = at.made * 10 / at.of.max(1);
        if tenths > std::mem::replace(&mut self.tenths, tenths) && tenths < 10 && !self.output.shows_progress() {
            self.output.say(format!("{} of {} runs made, about {left} left", at.made, at.of));
        }
    }
}

fn show(written: &WrittenReproduction, output: Output) -> CommandResult {
    if output.is_json() {
        let counts = ClaimTally::from_judgements(&written.judgements);
        return Ok(output.json(&json!({ "schema": SCHEMA, "counts": counts, "claims": written.judgements }))?);
    }
    let mut table = Table::new(&["CLAIM", "OF", "PAPER OR AIM", ">HERE", ">95 % INTERVAL", "VERDICT"]);
    for one in &written.judgements {
        let of = if one.kind == ClaimKind::Ours { "ours" } else { "paper" };
        let cells = [one.id.as_str(), of, one.paper, &one.ours_said(), &one.interval_said(), one.words()];
        table.row(cells.map(str::to_owned));
    }
    output.table(&table)?;
    ClaimTally::from_judgements(&written.judgements).sentences().into_iter().for_each(|sentence| output.say(sentence));
    output.say(format!("Look at {}", written.page.display()));
    Ok(())
}

impl From<RunnerError> for Failure {
    fn from(error: RunnerError) -> Self {
        match error {
            RunnerError::Interrupted => Self::new(FailureCode::Interrupted, error.to_string()),
            _ => Self::failed(error.to_string()),
        }
    }
}
