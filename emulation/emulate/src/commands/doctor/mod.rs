//! `emulate doctor`: the abilities of this machine, and advice on the rest.

mod labs;
mod machine;

use clap::Args;
use roost_lab::sandbox::{self, SandboxEntry};
use roost_terminal::{Finding, Output, Verdict, show};

use super::estimate;
use crate::failure::{CommandResult, Failure, FailureCode};

/// `emulate doctor`.
#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {}

/// Checks the machine, makes a lab of each kind, and prints the findings.
pub(crate) fn run(_: &DoctorArgs, output: Output) -> CommandResult {
    let entered = match sandbox::enter() {
        Ok(SandboxEntry::Done(code)) => return Err(Failure::ProgramExit(code)),
        Ok(SandboxEntry::Inside) => Ok(()),
        Err(error) => Err(error),
    };
    let possible = entered.is_ok();
    let mut findings = vec![labs::namespaces(entered)];
    if possible {
        findings.extend(labs::check());
    }
    findings.extend(machine::check());
    findings.extend(estimate::find_most_nodes());
    for finding in &mut findings {
        finding.found = roost_api::error::plain(&finding.found);
    }
    show(&findings, output)?;
    verdict(&findings, output)
}

fn verdict(findings: &[Finding], output: Output) -> CommandResult {
    let failed = findings.iter().filter(|finding| finding.verdict == Verdict::Fail).count();
    let doubtful = findings.iter().filter(|finding| finding.verdict == Verdict::Warn).count();
    match (failed, doubtful) {
        (0, 0) => output.say("labs work here"),
        (0, _) => output.say("labs work here; what could be better is above"),
        _ => return Err(Failure::new(FailureCode::Missing, "no lab is possible here; the fix is above")),
    }
    Ok(())
}
