//! `emulate view`: the live page over a run.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use clap::Args;
use roost_report::runs;
use roost_results::record::RunRecord;
use roost_results::{RUN_FILE, TOPOLOGY_FILE, read_run};
use roost_terminal::{Output, Table};
use roost_view::ViewError;
use serde_json::json;

use crate::failure::{CommandResult, Failure};

#[derive(Debug, Args)]
pub(crate) struct ViewArgs {
    /// The folder of a run, finished or not, or of several runs, which are then listed
    #[arg(value_name = "RESULTS")]
    folder: PathBuf,
    /// The run to show of a folder with several: its number in the list, or its name
    #[arg(long, value_name = "RUN")]
    run: Option<String>,
    /// The address of the page, which this machine alone can open
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:7791")]
    listen: SocketAddr,
}

pub(crate) fn run(args: &ViewArgs, output: Output) -> CommandResult {
    if !args.listen.ip().is_loopback() {
        return Err(Failure::bad_input(format!(
            "{} is open to other machines: listen at 127.0.0.1 or [::1], and reach it from there by ssh -L",
            args.listen
        )));
    }
    let Some(folder) = choose(args, output)? else { return Ok(()) };
    let mut said = Ok(());
    let served = roost_view::serve(&folder, args.listen, |bound| said = say_address(bound, output));
    served.map_err(|error| failure(error, args.listen))?;
    said
}

/// The run to show; `None` after a list of several.
fn choose(args: &ViewArgs, output: Output) -> CommandResult<Option<PathBuf>> {
    let folder = &args.folder;
    let runs = if folder.join(TOPOLOGY_FILE).is_file() { Vec::new() } else { runs(folder).unwrap_or_default() };
    match (&args.run, &runs[..]) {
        // The page's own reader tells what is wrong with a folder of no run.
        (None, [] | [_]) => Ok(Some(runs.into_iter().next().unwrap_or_else(|| folder.clone()))),
        (None, _) => list(&runs, folder, output).map(|()| None),
        (Some(run), _) => match numbered(run, &runs).or_else(|| named(run, &runs, folder)) {
            Some(found) => Ok(Some(found.to_owned())),
            None => Err(Failure::bad_input(format!(
                "there is no run `{run}` in {0}: `emulate view {0}` lists {1}",
                folder.display(),
                runs.len()
            ))),
        },
    }
}

fn numbered<'a>(run: &str, runs: &'a [PathBuf]) -> Option<&'a Path> {
    let number: usize = run.parse().ok()?;
    runs.get(number.checked_sub(1)?).map(PathBuf::as_path)
}

fn named<'a>(run: &str, runs: &'a [PathBuf], folder: &Path) -> Option<&'a Path> {
    runs.iter().map(PathBuf::as_path).find(|found| name(found, folder) == run)
}

/// The name of a run below a folder.
fn name(run: &Path, folder: &Path) -> String {
    run.strip_prefix(folder).unwrap_or(run).display().to_string()
}

fn list(runs: &[PathBuf], folder: &Path, output: Output) -> CommandResult {
    let mut table = Table::new(&[">NO", "RUN", "ARCHITECTURE", "SEED", "VARIED", "STATE"]);
    for (number, run) in runs.iter().enumerate() {
        // A run that has just begun has no facts yet.
        let facts = read_run(&run.join(RUN_FILE)).ok();
        let fact = |of: fn(&RunRecord) -> String| facts.as_ref().map(of).unwrap_or_default();
        table.row([
            (number + 1).to_string(),
            name(run, folder),
            fact(|run| run.architecture.clone()),
            fact(|run| run.seed.to_string()),
            fact(|run| run.varied.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(" ")),
            fact(|run| state(run).to_owned()),
        ]);
    }
    output.table(&table)?;
    output.say(format!("Choose one: emulate view {} --run 1", folder.display()));
    Ok(())
}

fn state(run: &RunRecord) -> &'static str {
    match (run.ran_s > 0.0, run.interrupted, run.verdict.valid) {
        (false, ..) => "not finished",
        (_, true, _) => "interrupted",
        (_, _, false) => "not valid",
        _ => "valid",
    }
}

fn say_address(bound: SocketAddr, output: Output) -> CommandResult {
    let url = format!("http://{bound}/");
    if output.is_json() {
        output.json(&json!({ "url": url }))?;
    } else {
        output.data(&format!("{url}\n"))?;
        output.say("Open it in a browser on this machine; Ctrl-C ends it.");
    }
    Ok(())
}

fn failure(error: ViewError, listen: SocketAddr) -> Failure {
    match error {
        ViewError::NotARun { .. } | ViewError::Topology { .. } => Failure::bad_input(error.to_string()),
        ViewError::Serve(error) if error.kind() == std::io::ErrorKind::AddrInUse => {
            Failure::failed(format!("cannot listen at {listen}: {error}: choose another one with --listen"))
        }
        _ => Failure::failed(error.to_string()),
    }
}
