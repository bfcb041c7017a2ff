//! The estimate before a real-time run: does this machine have what the run needs?

use clap::Args;
use roost_experiment::Prepared;
use roost_lab::sandbox;
use roost_resources::{Build, Estimate, Resources, RunOutline};
use roost_terminal::{Finding, Output};

use super::machines::MachineArgs;
use crate::failure::{CommandResult, Failure, FailureCode};

/// The most runs of a sweep that are named.
const MAX_NAMED: usize = 20;
/// Fewer nodes than the smallest published network has are a remark worth.
const FEW_NODES: usize = 11;
/// The network and the workload for which `doctor` tells the most nodes.
const PUBLISHED: &str = "architecture = 'super-node'\nduration = '60s'\ntopology = { star = { nodes = 101 } }";

/// The permission to run what a machine is too small for.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct ForceArgs {
    /// Run even if this machine has less than the run is expected to need
    #[arg(long)]
    force: bool,
}

/// A run and its name, if it is one of several.
pub(crate) struct OutlinedRun<'a> {
    pub(crate) name: Option<&'a str>,
    pub(crate) outline: RunOutline,
}

impl ForceArgs {
    /// Judges a run before the first machine is called; the program that is started again does not repeat it. Until all
    /// have been called, the share of this one is a guess, of which this only warns.
    pub(crate) fn check_run(self, outline: RunOutline, output: Output) -> CommandResult {
        let runs = [OutlinedRun { name: None, outline }];
        if outline.other_machines == 0 {
            return self.check(&runs, output);
        }
        if sandbox::is_outside() && !MachineArgs::are_called() {
            judge(&runs, &Resources::read()).show(output);
        }
        Ok(())
    }

    /// Refuses runs that need more than this machine has, and warns of those that may. Does nothing inside of a
    /// sandbox, where it has been done.
    pub(crate) fn check(self, runs: &[OutlinedRun<'_>], output: Output) -> CommandResult {
        if !sandbox::is_outside() || runs.is_empty() {
            return Ok(());
        }
        let found = judge(runs, &Resources::read());
        if !found.refused.is_empty() && !self.force {
            return Err(Failure::new(FailureCode::Missing, refusal(&found.refused, runs.len())));
        }
        found.show(output);
        Ok(())
    }
}

/// Warns of runs that need more than this machine has, or may, while nothing else runs.
pub(crate) fn warn(runs: &[OutlinedRun<'_>], output: Output) {
    if !runs.is_empty() {
        judge(runs, &Resources { others: 0.0, ..Resources::read() }).show(output);
    }
}

/// A sentence for each run for which something may not suffice.
#[derive(Default)]
struct TightRuns {
    refused: Vec<String>,
    doubtful: Vec<String>,
}

impl TightRuns {
    fn show(&self, output: Output) {
        self.refused.iter().take(MAX_NAMED).for_each(|said| output.say(format!("warning: {said}")));
        summarize_doubts(&self.doubtful).iter().for_each(|said| output.say(format!("warning: {said}")));
    }
}

/// The first doubt stands for all: most runs of a sweep are alike.
fn summarize_doubts(doubtful: &[String]) -> Option<String> {
    let (first, others) = doubtful.split_first()?;
    Some(if others.is_empty() { first.clone() } else { format!("{first}; {} more runs are as doubtful", others.len()) })
}

fn judge(runs: &[OutlinedRun<'_>], resources: &Resources) -> TightRuns {
    let mut found = TightRuns::default();
    for run in runs {
        let estimate = estimate(&run.outline, resources);
        if estimate.shortages.is_empty() {
            continue;
        }
        let name = run.name.map(|name| format!("{name}: ")).unwrap_or_default();
        let of_grade = if estimate.is_refused() { &mut found.refused } else { &mut found.doubtful };
        of_grade.push(format!("{name}{}", estimate.explain()));
    }
    found
}

fn refusal(refused: &[String], all: usize) -> String {
    let way_out = "--force runs it all the same";
    let count = refused.len();
    if let ([only], 1) = (refused, all) {
        return format!("{only}; {way_out}");
    }
    let named = refused.iter().take(MAX_NAMED).map(|said| format!("\n  {said}")).collect::<String>();
    let more = count.saturating_sub(MAX_NAMED);
    let more = if more == 0 { String::new() } else { format!("\n  and {more} more") };
    format!("{count} of {all} runs need more than this machine has; {way_out}:{named}{more}")
}

/// The estimate for this machine, as it is now.
pub(crate) fn now(outline: &RunOutline) -> Estimate {
    estimate(outline, &Resources::read())
}

fn estimate(outline: &RunOutline, resources: &Resources) -> Estimate {
    Estimate::compare(outline, Build::of_this_program(), resources)
}

/// The largest run of the published star for `doctor`.
pub(crate) fn find_most_nodes() -> Option<Finding> {
    const CHECK: &str = "nodes";
    let prepared = Prepared::from_text(PUBLISHED, "doctor.toml".as_ref()).ok()?;
    let estimate = now(&prepared.outline());
    let most = estimate.most_nodes?;
    let found =
        format!("a run with some {most} nodes of the published star's workload may be valid; {}", estimate.resources());
    Some(if most < FEW_NODES {
        Finding::warn(CHECK, found, "use `emulate simulate`, or several machines: `emulate run --machines`")
    } else {
        Finding::ok(CHECK, found)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn single_run_is_one_line() {
        let told = refusal(&["400 daemons need more".to_owned()], 1);
        assert_eq!(told, "400 daemons need more; --force runs it all the same");
    }

    #[test]
    fn doubts_of_sweep_are_one_line() {
        let doubts: Vec<String> = (0..30).map(|number| format!("run{number}: tight")).collect();
        assert_eq!(summarize_doubts(&doubts).unwrap(), "run0: tight; 29 more runs are as doubtful");
        assert_eq!((summarize_doubts(&doubts[..1]).unwrap().as_str(), summarize_doubts(&[])), ("run0: tight", None));
    }

    #[test]
    fn many_runs_are_listed_briefly() {
        let refused: Vec<String> = (0..30).map(|number| format!("run{number}: too much")).collect();
        let told = refusal(&refused, 40);
        assert!(told.starts_with("30 of 40 runs need more than this machine has"), "{told}");
        assert!(told.ends_with("\n  and 10 more") && told.lines().count() == MAX_NAMED + 2, "{told}");
    }
}
