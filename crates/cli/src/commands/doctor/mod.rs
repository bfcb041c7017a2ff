//! `roost doctor`: looks for what may be wrong and says how to mend it.

mod daemon;
mod host;

use std::path::Path;

use roost_control::Client;
use roost_control::error::plain;
use serde::Serialize;

use crate::args::DoctorArgs;
use crate::failure::{Code, Failure, Outcome};
use crate::output::{Output, SCHEMA};

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Verdict {
    /// As it should be.
    Ok,
    /// Works, and may trouble somebody.
    Warn,
    /// Does not work.
    Fail,
}

/// What one check found.
#[derive(Clone, Debug, Serialize)]
struct Finding {
    check: &'static str,
    verdict: Verdict,
    /// What is the case.
    found: String,
    /// What to do about it, unless it is as it should be.
    #[serde(skip_serializing_if = "Option::is_none")]
    fix: Option<String>,
}

impl Finding {
    fn ok(check: &'static str, found: impl Into<String>) -> Self {
        Self { check, verdict: Verdict::Ok, found: found.into(), fix: None }
    }

    fn warn(check: &'static str, found: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { check, verdict: Verdict::Warn, found: plain(&found.into()), fix: Some(fix.into()) }
    }

    fn fail(check: &'static str, found: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { check, verdict: Verdict::Fail, found: plain(&found.into()), fix: Some(fix.into()) }
    }
}

#[derive(Serialize)]
struct Report<'a> {
    schema: u32,
    findings: &'a [Finding],
}

/// Checks the daemon, the host and, if it is named, the identity.
pub(crate) async fn run(args: &DoctorArgs, socket: &Path, output: Output) -> Outcome {
    let mut findings = Vec::new();
    let reached = match Client::connect(socket).await {
        Ok(client) => client.status().await,
        Err(error) => Err(error),
    };
    let reachable = reached.is_ok();
    match reached {
        Ok(status) => findings.extend(daemon::check(&status)),
        Err(error) => {
            let Failure::Said { message, .. } = Failure::from(error) else { return Err(Failure::ClosedPipe) };
            let fix = "start it (systemctl start overlay-node, or overlay-node --config FILE) or give its --socket";
            findings.push(Finding::fail("daemon", message, fix));
        }
    }
    findings.extend(args.identity.iter().flat_map(|dir| host::identity(dir)));
    findings.extend(args.listen.iter().map(host::port));
    findings.extend([host::clock(), host::buffers(), host::files()]);
    print(&findings, output)?;
    verdict(&findings, reachable)
}

fn print(findings: &[Finding], output: Output) -> Outcome {
    if output.is_json() {
        return output.json(&Report { schema: SCHEMA, findings });
    }
    for finding in findings {
        let word = match finding.verdict {
            Verdict::Ok => output.verdict(true, "ok  "),
            Verdict::Warn => "warn".to_owned(),
            Verdict::Fail => output.verdict(false, "FAIL"),
        };
        output.data(&format!("{word}  {:<13}{}\n", finding.check, finding.found))?;
        if let Some(fix) = &finding.fix {
            output.data(&format!("{:<19}fix: {fix}\n", ""))?;
        }
    }
    Ok(())
}

fn verdict(findings: &[Finding], reachable: bool) -> Outcome {
    let failed = findings.iter().filter(|finding| finding.verdict == Verdict::Fail).count();
    match failed {
        0 => Ok(()),
        _ if !reachable => Err(Failure::new(Code::Unreachable, "the daemon does not answer; its fix is above")),
        1 => Err(Failure::failed("one check failed; its fix is above")),
        _ => Err(Failure::failed(format!("{failed} checks failed; their fixes are above"))),
    }
}
