//! `emulate twin`: a network and a plan, made of recordings of a running overlay.

use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;
use roost_experiment::Prepared;
use roost_recording::{ReadError, Recording};
use roost_results::record::RunVerdict;
use roost_terminal::{Output, SCHEMA, Table};
use roost_twin::{Agreement, Comparison, ComparisonRow, PLAN_FILE, REQUESTS_FILE, RowVerdict, Twin, TwinError};
use serde_json::{Value, json};

use crate::failure::{CommandResult, Failure, FailureCode};

#[derive(Debug, Args)]
pub(crate) struct TwinArgs {
    /// Recordings of `roost record`, one of each host; or with --against the folder of a twin
    #[arg(required = true, value_name = "RECORDING")]
    files: Vec<PathBuf>,
    /// The folder to write, which must be empty or not exist
    #[arg(short, long, value_name = "DIR", required_unless_present = "against")]
    output: Option<PathBuf>,
    /// Compare a run of the twin's plan with the recording
    #[arg(long, value_name = "RUN", conflicts_with = "output")]
    against: Option<PathBuf>,
}

pub(crate) fn run(args: &TwinArgs, output: Output) -> CommandResult {
    match (&args.against, &args.output) {
        (Some(run), _) => compare(&args.files, run, output),
        (None, Some(folder)) => make(&args.files, folder, output),
        (None, None) => Err(Failure::bad_input("give the folder to write with -o DIR")),
    }
}

fn make(files: &[PathBuf], folder: &Path, output: Output) -> CommandResult {
    let recordings = read_all(files)?;
    let observed = roost_twin::observe(&recordings).map_err(failure)?;
    let twin = Twin::new(&observed);
    write(&twin, folder)?;
    let plan = folder.join(PLAN_FILE);
    Prepared::load(&plan).map_err(|error| Failure::failed(format!("the twin cannot be run: {error}")))?;
    twin.remarks.iter().for_each(|remark| output.say(format!("note: {remark}")));
    if output.is_json() {
        return Ok(output.json(&made(&twin, folder))?);
    }
    let mut table = Table::new(&["OBJECT", "WHAT", "VALUE", "CERTAINTY", "SOURCE"]);
    for value in &twin.values {
        let certainty = value.certainty.to_string();
        table.row([value.object.clone(), value.what.to_owned(), value.value.clone(), certainty, value.source.clone()]);
    }
    output.table(&table)?;
    let shape = if twin.is_star { "a star" } else { "a link for each pair" };
    output.say(format!(
        "{}: {} hosts ({shape}), {} requests in {:.0} s. Run it: emulate simulate {} -o RUN",
        folder.display(),
        twin.hosts,
        twin.rows.iter().filter(|row| row.time_s >= 0.0).count(),
        twin.length,
        plan.display(),
    ));
    Ok(())
}

/// Reads all recordings, and tells the mistakes of all.
fn read_all(files: &[PathBuf]) -> CommandResult<Vec<Recording>> {
    let (mut recordings, mut wrong) = (Vec::new(), Vec::new());
    for file in files {
        match roost_recording::read(file) {
            Ok(recording) => recordings.push(recording),
            Err(ReadError::Wrong(mistakes)) => wrong.extend(mistakes),
            Err(error) => wrong.push(error.to_string()),
        }
    }
    if wrong.is_empty() { Ok(recordings) } else { Err(Failure::bad_input(wrong.join("\n"))) }
}

fn failure(error: TwinError) -> Failure {
    Failure::bad_input(error.to_string())
}

fn write(twin: &Twin, folder: &Path) -> CommandResult {
    let files = twin.files().map_err(|error| Failure::failed(format!("cannot write the requests: {error}")))?;
    fs::create_dir_all(folder).map_err(|error| Failure::file("make", folder, &error))?;
    let mut entries = fs::read_dir(folder).map_err(|error| Failure::file("read", folder, &error))?;
    if entries.next().is_some() {
        return Err(Failure::bad_input(format!("{} is not empty: choose another folder", folder.display())));
    }
    for (name, text) in files {
        let path = folder.join(name);
        fs::write(&path, text).map_err(|error| Failure::file("write", &path, &error))?;
    }
    Ok(())
}

fn made(twin: &Twin, folder: &Path) -> Value {
    let value = |value: &roost_twin::SourcedValue| {
        json!({ "object": value.object, "what": value.what, "value": value.value, "source": value.source,
                "certainty": value.certainty.to_string() })
    };
    json!({
        "schema": SCHEMA,
        "folder": folder,
        "hosts": twin.hosts,
        "is_star": twin.is_star,
        "requests": twin.rows.len(),
        "length_s": twin.length,
        "values": twin.values.iter().map(value).collect::<Vec<_>>(),
        "remarks": twin.remarks,
    })
}

fn compare(files: &[PathBuf], run: &Path, output: Output) -> CommandResult {
    let [folder] = files else {
        return Err(Failure::bad_input("with --against give the folder of one twin"));
    };
    let path = folder.join(REQUESTS_FILE);
    let text = fs::read_to_string(&path).map_err(|error| Failure::file("read", &path, &error))?;
    let rows = roost_twin::read_rows(&text).map_err(|why| Failure::bad_input(format!("{}: {why}", path.display())))?;
    let results = roost_results::read(run).map_err(|error| Failure::bad_input(error.to_string()))?;
    let compared = roost_twin::compare(&rows, &results.requests);
    let verdict = &results.run.verdict;
    if output.is_json() {
        output.json(&compared_json(&compared, verdict))?;
    } else {
        show(&compared, output)?;
    }
    if !verdict.valid {
        output.say(not_valid(run, verdict));
    }
    match compared.agreement() {
        Agreement::Agrees if !verdict.valid => {
            Err(Failure::new(FailureCode::Invalid, "a run that is not valid proves no agreement: repeat it"))
        }
        Agreement::Agrees => Ok(()),
        Agreement::Differs if compared.missing > 0 => {
            let missing = format!("{} requests are not in the run: is it one of this twin's plan?", compared.missing);
            Err(Failure::new(FailureCode::Linktest, missing))
        }
        Agreement::Differs => {
            let why = "the run differs from the recording: completions by more than 5 %, or a median by more than 10 %";
            Err(Failure::new(FailureCode::Linktest, why))
        }
        Agreement::TooFew => {
            let few = "too few requests to judge: no service has 20 that were completed in both; record for longer";
            Err(Failure::new(FailureCode::Invalid, few))
        }
    }
}

/// The sentence about a run that is not valid, with its reasons.
fn not_valid(run: &Path, verdict: &RunVerdict) -> String {
    let reasons = if verdict.reasons.is_empty() { "its records say so".to_owned() } else { verdict.reasons.join("; ") };
    format!("the run in {} is not valid: {reasons}", run.display())
}

const fn outcome(agreement: Agreement) -> &'static str {
    match agreement {
        Agreement::Agrees => "agrees",
        Agreement::Differs => "differs",
        Agreement::TooFew => "too-few",
    }
}

fn show(compared: &Comparison, output: Output) -> CommandResult {
    let columns =
        ["SERVICE", ">REQUESTS", ">RECORDED", ">REPLAYED", ">RECORDED p50 ms", ">REPLAYED p50 ms", ">RATIO", "AGREES"];
    let mut table = Table::new(&columns);
    for row in &compared.rows {
        // In brackets if too few requests make the median.
        let number = |value: Option<f64>, digits: usize| match value {
            // Services that differ have no median together.
            _ if matches!(row.verdict(), RowVerdict::Completions(_)) => "–".to_owned(),
            Some(value) if row.has_median() => format!("{value:.digits$}"),
            Some(value) => format!("({value:.digits$})"),
            None => String::new(),
        };
        let counts = [row.requests, row.recorded, row.replayed].map(|count| count.to_string());
        let medians = [number(row.recorded_ms, 1), number(row.replayed_ms, 1), number(row.ratio(), 3)];
        let cells =
            [row.service.clone()].into_iter().chain(counts).chain(medians).chain([agreement(row.verdict()).to_owned()]);
        table.row(cells);
    }
    Ok(output.table(&table)?)
}

const fn agreement(row: RowVerdict) -> &'static str {
    match row {
        RowVerdict::Median(Agreement::Agrees) => "yes",
        RowVerdict::Median(Agreement::Differs) => "no",
        RowVerdict::Completions(Agreement::Agrees) => "completions: yes",
        RowVerdict::Completions(Agreement::Differs) => "completions: no",
        RowVerdict::Median(Agreement::TooFew) | RowVerdict::Completions(Agreement::TooFew) => "too few",
    }
}

fn compared_json(compared: &Comparison, verdict: &RunVerdict) -> Value {
    let row = |row: &ComparisonRow| {
        json!({ "service": row.service, "requests": row.requests, "recorded": row.recorded, "replayed": row.replayed,
                "recorded_p50_ms": row.recorded_ms, "replayed_p50_ms": row.replayed_ms, "ratio": row.ratio(),
                "judged": row.is_judged() })
    };
    json!({ "schema": SCHEMA, "agrees": compared.agreement() == Agreement::Agrees,
            "outcome": outcome(compared.agreement()), "missing": compared.missing,
            "run_valid": verdict.valid, "run_reasons": verdict.reasons,
            "services": compared.rows.iter().map(row).collect::<Vec<_>>() })
}
