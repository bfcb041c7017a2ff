//! `emulate compare`: two sides, and the ratios between them.

use std::path::PathBuf;

use clap::Args;
use roost_report::Comparison;
use roost_terminal::{Output, SCHEMA, Table};
use serde_json::{Value, json};

use super::report::{failure, require_trusted};
use crate::failure::CommandResult;

/// `emulate compare`.
#[derive(Debug, Args)]
pub(crate) struct CompareArgs {
    /// The baseline: the folder of a run, or of several runs with different seeds.
    /// For runs of a sweep: the beginning of their names, or a pattern with *
    a: PathBuf,
    /// The runs that are compared with the baseline, named in the same way
    b: PathBuf,
    /// Also write a page (.html) or a figure (.svg)
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

pub(crate) fn run(args: &CompareArgs, output: Output) -> CommandResult {
    let comparison = roost_report::compare(&args.a, &args.b).map_err(failure)?;
    if let Some(path) = &args.output {
        comparison.write(path).map_err(failure)?;
    }
    if output.is_json() {
        output.json(&as_json(&comparison))?;
    } else {
        output.table(&table(&comparison))?;
        comparison.warnings.iter().for_each(|warning| output.say(format!("warning: {warning}")));
        for one in &comparison.differences {
            let text = |value: &Option<String>| value.clone().unwrap_or_else(|| "not set".to_owned());
            output.say(format!("differs: {}: {} → {}", one.setting, text(&one.a), text(&one.b)));
        }
        args.output.iter().for_each(|path| output.say(format!("Look at {}", path.display())));
    }
    require_trusted(&comparison.distrust_reasons, output)
}

fn table(comparison: &Comparison) -> Table {
    let cells = comparison.cells();
    let has_cells = cells.iter().any(|(name, _)| !name.is_empty());
    let headings = ["RUNS OF", "MEASURE", ">A", ">B", ">B/A", "(95 % INTERVAL)", "B IS"];
    let mut table = Table::new(&headings[usize::from(!has_cells)..]);
    for (name, rows) in cells {
        for row in rows.into_iter().filter(|row| row.a != 0.0 || row.b != 0.0) {
            let said = row.ratio_text();
            let (ratio, interval) = said.split_once(' ').unwrap_or((&said, ""));
            let (a, b) = (row.measure.show(row.a), row.measure.show(row.b));
            let texts = [name, &row.measure.name, &a, &b, ratio, interval, row.finding().word()];
            table.row(texts.into_iter().skip(usize::from(!has_cells)).map(ToOwned::to_owned));
        }
    }
    table
}

fn as_json(comparison: &Comparison) -> Value {
    let mut value = json!(comparison);
    value["schema"] = json!(SCHEMA);
    value
}
