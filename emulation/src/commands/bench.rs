//! `emulate bench`: what the emulator itself is worth on this machine.

use std::time::Duration;

use clap::{Args, ValueEnum};
use roost_emulation::bench::{self, BenchError, Case, Options, Report, Row, Verdict};
use roost_emulation::lab::Backend;
use roost_emulation::lab::sandbox::{self, Entry};
use roost_emulation::units::parse_duration;
use roost_terminal::{Output, SCHEMA, Steps, Table};
use serde_json::json;

use super::interrupt;
use crate::failure::{Code, Failure, Outcome};

/// From here on other work on this machine is worth a word, parts of all processors.
const BUSY: f64 = 0.05;

/// `emulate bench`.
#[derive(Debug, Args)]
pub(crate) struct BenchArgs {
    /// What to measure; all of it if nothing is named
    #[arg(value_name = "CASE", value_enum)]
    cases: Vec<What>,
    /// How long each measurement takes, instead of what gives it its worth (4 to 12 s)
    #[arg(long = "for", value_name = "DURATION", value_parser = parse_duration)]
    length: Option<Duration>,
    /// The shell command that keeps the processors busy in `busy`, such as a build
    #[arg(long, value_name = "COMMAND")]
    beside: Option<String>,
    /// What losses, and the times of probes, are drawn from
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "Network")]
    seed: u64,
    /// How packets get to the core: auto, tap or veth
    #[arg(long, value_name = "HOW", default_value = "auto", help_heading = "Network")]
    backend: Backend,
    /// Never ask for real-time priority
    #[arg(long, help_heading = "Network")]
    no_realtime: bool,
}

/// See [`BenchArgs::cases`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum What {
    /// All of these
    All,
    /// One-way delays of 1 to 600 ms, by probes and by ping
    Delay,
    /// The same beside programs that keep all processors busy
    Busy,
    /// Rates of 56 kbit/s to 1 Gbit/s, and what TCP makes of them, by iperf3 and tcpdump
    Rate,
    /// Losses of 0.0001 to 0.5, and whether a seed repeats them
    Loss,
    /// The times of scheduled changes, by probes and by tcpdump
    Schedule,
    /// How much goes through one link, by iperf3
    Capacity,
    /// How late packets are with 93 hosts and 90 streams
    Scale,
    /// How long 11 to 501 hosts take to come and to go
    Setup,
    /// What 100 hosts cost that do nothing
    Idle,
}

impl What {
    fn cases(self) -> Vec<Case> {
        vec![match self {
            Self::All => return Case::ALL.to_vec(),
            Self::Delay => Case::Delay,
            Self::Busy => Case::Busy,
            Self::Rate => Case::Rate,
            Self::Loss => Case::Loss,
            Self::Schedule => Case::Schedule,
            Self::Capacity => Case::Capacity,
            Self::Scale => Case::Scale,
            Self::Setup => Case::Setup,
            Self::Idle => Case::Idle,
        }]
    }
}

/// Measures, and prints what was seen beside what was to be seen.
pub(crate) fn run(args: &BenchArgs, output: Output) -> Outcome {
    if let Entry::Done(code) = sandbox::enter()? {
        return Err(Failure::Passed(code));
    }
    let interrupted = interrupt::note()?;
    let cases = args.chosen();
    let steps = Steps::start(output, "bench", cases.len());
    let mut begun = 0;
    let mut watch = |case: Case| {
        steps.say(format!("bench: {case}"));
        if begun > 0 {
            steps.advance();
        }
        begun += 1;
    };
    let report = bench::run(&cases, &args.options(), interrupted.flag(), &mut watch)?;
    drop(steps);
    show(&report, output)?;
    interrupted.check()?;
    verdict(&report)
}

impl BenchArgs {
    /// What is named, each once, in the order in which it is measured.
    fn chosen(&self) -> Vec<Case> {
        let named: Vec<Case> = self.cases.iter().flat_map(|what| what.cases()).collect();
        Case::ALL.into_iter().filter(|case| named.is_empty() || named.contains(case)).collect()
    }

    fn options(&self) -> Options {
        Options {
            seed: self.seed,
            backend: self.backend,
            realtime: !self.no_realtime,
            length: self.length,
            beside: self.beside.clone(),
        }
    }
}

impl From<BenchError> for Failure {
    fn from(error: BenchError) -> Self {
        match error {
            BenchError::Lab(error) => error.into(),
            other => Self::failed(other.to_string()),
        }
    }
}

fn show(report: &Report, output: Output) -> Outcome {
    if output.is_json() {
        let passed = report.count(Verdict::Missed) + report.count(Verdict::NotMeasured) == 0;
        return Ok(output.json(&json!({"schema": SCHEMA, "passed": passed, "bench": report}))?);
    }
    let mut table = Table::new(&["CASE", "WHAT", "TARGET", "SEEN", "RESULT"]);
    report.rows.iter().for_each(|row| table.row(cells(row)));
    output.table(&table)?;
    for row in &report.rows {
        if let Some(note) = &row.note {
            output.say(format!("{}: {}: {note}", row.case, row.what));
        }
    }
    output.say(closing(report));
    Ok(())
}

fn cells(row: &Row) -> [String; 5] {
    let result = match row.verdict {
        Verdict::Met => "met",
        Verdict::Missed => "NOT MET",
        Verdict::NotMeasured => "not measured",
        Verdict::Shown => "",
    };
    let seen = if row.seen.is_empty() { "-" } else { &row.seen };
    [row.case.name(), &row.what, &row.target, seen, result].map(str::to_owned)
}

fn closing(report: &Report) -> String {
    let fact = |name: &str| report.machine.get(name).map_or("?", String::as_str);
    let mut text = format!(
        "{} processors, Linux {}, packets by {}, real-time priority: {}; {:.0} s",
        fact("processors"),
        fact("kernel"),
        fact("backend"),
        fact("realtime"),
        report.seconds
    );
    if let Some((case, part)) = report.busiest().filter(|(_, part)| *part >= BUSY) {
        text += &format!(
            "\nOther programs used up to {:.0} % of this machine meanwhile (during {case}): figures suffer from it.",
            part * 100.0
        );
    }
    text
}

fn verdict(report: &Report) -> Outcome {
    let judged = report.rows.len() - report.count(Verdict::Shown);
    match (report.count(Verdict::Missed), report.count(Verdict::NotMeasured)) {
        (0, 0) => Ok(()),
        (0, open) => {
            Err(Failure::new(Code::Missing, format!("{open} of {judged} targets could not be measured, see above")))
        }
        (missed, open) => {
            let open = if open == 0 { String::new() } else { format!(", and {open} could not be measured") };
            Err(Failure::new(Code::Invalid, format!("{missed} of {judged} targets are not met{open}")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(cases: &[What]) -> BenchArgs {
        let (length, beside) = (None, None);
        BenchArgs { cases: cases.to_vec(), length, beside, seed: 1, backend: Backend::Auto, no_realtime: true }
    }

    #[test]
    fn every_case_can_be_named() {
        let named: Vec<Case> = What::value_variants().iter().skip(1).flat_map(|what| what.cases()).collect();
        assert_eq!(named, Case::ALL);
        for (what, case) in What::value_variants().iter().skip(1).zip(Case::ALL) {
            assert_eq!(what.to_possible_value().map(|value| value.get_name().to_owned()), Some(case.name().to_owned()));
        }
    }

    #[test]
    fn cases_are_measured_once_and_in_order() {
        assert_eq!(args(&[]).chosen(), Case::ALL);
        assert_eq!(args(&[What::All, What::Rate]).chosen(), Case::ALL);
        assert_eq!(args(&[What::Idle, What::Rate, What::Idle]).chosen(), [Case::Rate, Case::Idle]);
    }
}
