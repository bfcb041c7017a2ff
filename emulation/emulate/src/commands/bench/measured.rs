//! Common parts of the comparisons: their sandbox, and the display of results.

use clap::Args;
use roost_bench::{BenchOptions, Measured};
use roost_lab::DeviceBackend;
use roost_terminal::{Output, SCHEMA, Steps, Table};
use serde::Serialize;
use serde_json::json;

use super::surroundings;
use crate::failure::{CommandResult, Failure, FailureCode};

/// The lab in which it is measured.
#[derive(Debug, Args)]
#[command(next_help_heading = "Network")]
pub(super) struct NetworkArgs {
    /// Seed of the losses in the first run
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Device that takes packets to the core: auto, tap or veth
    #[arg(long, value_name = "HOW", default_value = "auto")]
    backend: DeviceBackend,
    /// Never ask for real-time priority
    #[arg(long)]
    no_realtime: bool,
}

impl NetworkArgs {
    pub(super) fn options(&self) -> BenchOptions {
        BenchOptions { seed: self.seed, backend: self.backend, realtime: !self.no_realtime, ..BenchOptions::default() }
    }
}

/// Shows the start of each run, and with it the end of the previous one; dropping it ends the display.
pub(super) fn stepping<C>(steps: Steps, name: impl Fn(&C) -> String) -> impl FnMut(&C) {
    let mut begun = false;
    move |cell| {
        steps.say(name(cell));
        if std::mem::replace(&mut begun, true) {
            steps.advance();
        }
    }
}

/// Prints results and the facts of the machine.
pub(super) fn show_measured<Row: Serialize>(
    report: &Measured<Row>,
    table: &Table,
    remark: &str,
    output: Output,
) -> CommandResult {
    if output.is_json() {
        let mut value = json!(report);
        value["schema"] = SCHEMA.into();
        return Ok(output.json(&value)?);
    }
    output.table(table)?;
    report.notes.iter().for_each(|note| output.say(note));
    output.say(format!("{remark}{}", surroundings(&report.machine, report.seconds)));
    if let Some(part) = report.beside.filter(|part| *part >= super::BUSY) {
        output.say(format!("Other programs, and the kernel, used {:.0} % of this machine meanwhile.", part * 100.0));
    }
    Ok(())
}

/// Fails if a combination could not be measured.
pub(super) fn all_measured<Row>(report: &Measured<Row>) -> CommandResult {
    let what = match report.unmeasured {
        0 => return Ok(()),
        1 => "one combination".to_owned(),
        several => format!("{several} combinations"),
    };
    Err(Failure::new(FailureCode::Missing, format!("{what} could not be measured, see above")))
}
