//! Findings of a `doctor` command and their display.

use roost_wire::printable;
use serde::Serialize;

use crate::output::{Output, OutputError, SCHEMA};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    Ok,
    Warn,
    Fail,
}

#[derive(Clone, Debug, Serialize)]
pub struct Finding {
    /// The subject of the check, in a word or two.
    pub check: &'static str,
    pub verdict: Verdict,
    pub found: String,
    /// Advice, unless all is well.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fix: Option<String>,
}

impl Finding {
    pub fn ok(check: &'static str, found: impl Into<String>) -> Self {
        Self { check, verdict: Verdict::Ok, found: found.into(), fix: None }
    }

    /// A finding that works and may cause trouble; `fix` is the advice.
    pub fn warn(check: &'static str, found: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { check, verdict: Verdict::Warn, found: found.into(), fix: Some(fix.into()) }
    }

    /// A finding that does not work; `fix` is the advice.
    pub fn fail(check: &'static str, found: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { check, verdict: Verdict::Fail, found: found.into(), fix: Some(fix.into()) }
    }
}

#[derive(Serialize)]
struct Report<'a> {
    schema: u32,
    findings: &'a [Finding],
}

/// Prints the findings, each with its fix below it.
///
/// # Errors
/// Fails when stdout cannot be written to.
pub fn show(findings: &[Finding], output: Output) -> Result<(), OutputError> {
    if output.is_json() {
        return output.json(&Report { schema: SCHEMA, findings });
    }
    for finding in findings {
        let word = match finding.verdict {
            Verdict::Ok => output.good("ok  "),
            Verdict::Warn => "warn".to_owned(),
            Verdict::Fail => output.bad("FAIL"),
        };
        output.painted(&format!("{word}  {:<13}{}\n", finding.check, printable(&finding.found)))?;
        if let Some(fix) = &finding.fix {
            output.data(&format!("{:<19}fix: {}\n", "", printable(fix)))?;
        }
    }
    Ok(())
}
