//! `emulate bench`: measures the emulator itself on this machine, and our transports.

mod bulk;
mod capacity;
mod measured;
mod reflect;
mod reflector;
mod subscription;
mod transport;

use std::collections::BTreeMap;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use roost_bench::{BenchCase, BenchError, BenchOptions, BenchRow, BenchVerdict, EmulatorBench, Measured, Row};
use roost_lab::sandbox::{self, SandboxEntry};
use roost_terminal::{Output, SCHEMA};
use roost_topology::units::parse_duration;
use serde_json::json;

use self::bulk::BulkArgs;
use self::measured::{NetworkArgs, chosen, measured, table};
use self::reflect::ReflectArgs;
use self::reflector::ReflectorArgs;
use self::subscription::SubscriptionArgs;
use self::transport::TransportArgs;
use crate::failure::{CommandResult, Failure, FailureCode};

/// The fraction of all processors from which on other load is mentioned.
const BUSY: f64 = 0.05;

/// `emulate bench`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct BenchArgs {
    #[command(subcommand)]
    other: Option<BenchSubcommand>,
    /// Properties to measure; all of them if nothing is named
    #[arg(value_name = "CASE", value_enum)]
    cases: Vec<CaseChoice>,
    /// The duration of each measurement, instead of the default (4 to 12 s)
    #[arg(long = "for", value_name = "DURATION", value_parser = parse_duration)]
    length: Option<Duration>,
    /// The shell command that keeps the processors busy in `busy`, such as a build
    #[arg(long, alias = "beside", value_name = "COMMAND")]
    load: Option<String>,
    /// Print the table as Markdown, for a page
    #[arg(long)]
    markdown: bool,
    #[command(flatten)]
    network: NetworkArgs,
}

/// Measurements on the emulator, not of it.
#[derive(Debug, Subcommand)]
enum BenchSubcommand {
    /// Measure our transports over two links, beside the kernel's TCP and MPTCP
    ///
    /// Two hosts have two links of 100 Mbit/s. Both stay up, or the first loses 1 % of its packets,
    /// or each is down for 2 s after 4 s, in turn and in silence. Frames are due at a steady rate
    /// (paced), or are as many as there is room for (throughput), or wait for the answer to the one
    /// before (ping-pong). A paced frame is late if it comes more than 10 ms after it was due, or
    /// never; all transports have to keep the order of frames. Rows are of all runs: the mean of
    /// their rates, the part of all frames, the longest of all; C is what both links carry while up.
    #[command(before_help = "Examples:
  emulate bench transport                                 72 rows of three runs of 20 s each
  emulate bench transport --workload paced --transport quic,kernel-mptcp
  emulate bench transport --condition failures --seconds 6 --runs 1 --json
")]
    Transport(TransportArgs),
    /// Measure how an object fills long and lossy paths, beside the kernel's TCP and UDT4
    ///
    /// Two hosts have one path with a queue that holds what the link does in a round trip. An
    /// endless object goes over it for as long as is asked, from before the handshake on: over
    /// quic:// with each of its congestion controls, over TCP with cubic and BBR, over UDT4 if g++
    /// and libudt-dev are there. Of two that share a path the later begins after 5 s; JAIN is 1 if
    /// both have the same from 12 s on. ELSEWHERE is what others measured of the same.
    #[command(before_help = "Examples:
  emulate bench bulk                                  48 rows of 16 to 45 s: 27 minutes
  emulate bench bulk --path thin,satellite --sender rate,tcp-bbr --seeds 3
  emulate bench bulk --path shared --sender rate --json
")]
    Bulk(BulkArgs),
    /// Measure how one copy of a stream becomes many, beside what a page of C does
    ///
    /// A generator's datagrams go to so many targets: by a super node's data path (ours), by the
    /// same of packets with the headers and lengths of sealed ones, which it reads and keeps for
    /// joiners (ours-sealed; nobody seals or opens anything here), and by the same with each packet
    /// by itself; and, if gcc is there, in C by packets of one size as one
    /// message (c-gso), by many in a call (c-sendmmsg), one by one (c-naive). kpps is what arrives at
    /// the highest rate with at most 1 in 1000 lost; delays and losses are at 0.7 of that. The
    /// reflector has a processor, generator and targets another.
    ///
    /// With --capacity it is measured how many a mesh of super nodes serves, with the real daemons
    /// in the lab. The link of each super node carries L streams; a stream is a track of 40 kbit/s.
    /// In a room everyone sends and everyone receives: members are served by their homes only,
    /// whatever their links carry (count), or by whom has room left (residual). Of a track there is
    /// one stream for all. MEASURED is the most for whom nobody loses 1 % of any stream, ONE MORE
    /// what became of one more; SENT are the streams that the busiest link took. TABLE 3, and 2 with
    /// one that only receives, are what Erum printed; COUNTED is what is expected if all are split
    /// by their number (there equation 4), BALANCED if all super nodes send alike.
    #[command(before_help = "Examples:
  emulate bench reflect                                36 rows, in four minutes
  emulate bench reflect --implementation ours,c-gso --targets 10,50 --bytes 1440
  emulate bench reflect --targets 100 --trial 2000 --json
  emulate bench reflect --offload off                  as with a card that cannot cut messages
  emulate bench reflect --capacity                     35 rows, in half an hour
  emulate bench reflect --capacity --mesh 1,2,4 --mode residual
")]
    Reflect(ReflectArgs),
    /// Measure what a receiver of a reflected stream sees, with the real daemons
    ///
    /// Two super nodes, a provider at the one and receivers at the other are 20 ms from one another.
    /// The provider's video has 1.3 Mbit/s and a key frame every two seconds. PICTURE is the time
    /// from the request to the first whole key frame: of the first receiver, of one whose super node
    /// carries the stream, of one that has watched it before; to be met is a round trip and 20 ms. GAP
    /// is the longest time between two datagrams, BEFORE and while the receivers' or the
    /// provider's super node leaves; LOST and TWICE are datagrams; to be met are 25 ms, 0 and 0. COPIES
    /// are bytes on the provider's link for each byte of the stream, of one that super nodes reflect
    /// and of one for each receiver; to be met is one copy, 1.25 with headers and control.
    #[command(before_help = "Examples:
  emulate bench subscription                                  10 rows, in four minutes
  emulate bench subscription --case join-reflected,leave-subscribers
  emulate bench subscription --case uplink-8 --json
")]
    Subscription(SubscriptionArgs),
    /// Send each datagram to many, as a super node reflects streams, and count
    #[command(hide = true)]
    Reflector(ReflectorArgs),
}

/// See [`BenchArgs::cases`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum CaseChoice {
    /// All of these
    All,
    /// Delays of 1 to 600 ms one way, by probes and by ping
    Delay,
    /// Delays beside programs that keep all processors busy
    Busy,
    /// Rates of 56 kbit/s to 1 Gbit/s, and what TCP makes of them, by iperf3 and tcpdump
    Rate,
    /// Losses of 0.0001 to 0.5, and whether a seed repeats them
    Loss,
    /// The times of scheduled changes, by probes and by tcpdump
    Schedule,
    /// Rates of traces in each 100 ms, and how late packets come
    Trace,
    /// Throughput of one link, by iperf3
    Capacity,
    /// Lateness of packets with 93 hosts and 90 streams
    Scale,
    /// Time that 11 to 501 hosts take to come and to go
    Setup,
    /// Cost of 100 hosts that do nothing
    Idle,
}

impl CaseChoice {
    fn cases(self) -> &'static [BenchCase] {
        // The cases follow `all` in their own order.
        (self as usize).checked_sub(1).map_or(BenchCase::ALL, |place| &BenchCase::ALL[place..=place])
    }
}

/// Measures, and prints results beside their targets.
pub(crate) fn run(args: &BenchArgs, output: Output) -> CommandResult {
    if let Some(BenchSubcommand::Reflector(args)) = &args.other {
        return reflector::run(args);
    }
    if let SandboxEntry::Done(code) = sandbox::enter()? {
        return Err(Failure::ProgramExit(code));
    }
    match &args.other {
        Some(BenchSubcommand::Transport(args)) => return transport::run(args, output),
        Some(BenchSubcommand::Bulk(args)) => return bulk::run(args, output),
        Some(BenchSubcommand::Reflect(args)) => return reflect::run(args, output),
        Some(BenchSubcommand::Subscription(args)) => return subscription::run(args, output),
        Some(BenchSubcommand::Reflector(_)) | None => {}
    }
    let (report, interrupted) = measured(|| Ok(EmulatorBench), &args.chosen(), &args.options(), output)?;
    show(&report, args.markdown, output)?;
    interrupted.check()?;
    verdict(&report)
}

impl BenchArgs {
    /// The named cases, each once, in the order of measurement.
    fn chosen(&self) -> Vec<BenchCase> {
        let named: Vec<BenchCase> = self.cases.iter().flat_map(|what| what.cases()).copied().collect();
        chosen(BenchCase::ALL, &named).collect()
    }

    fn options(&self) -> BenchOptions {
        BenchOptions { length: self.length, load_command: self.load.clone(), ..self.network.options() }
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

fn show(report: &Measured<BenchRow>, as_markdown: bool, output: Output) -> CommandResult {
    if output.is_json() {
        let passed =
            report.count(BenchVerdict::Missed) + report.count(BenchVerdict::NotMeasured) + report.unmeasured == 0;
        let Measured { rows, notes, beside_each, machine, seconds, interrupted, .. } = report;
        let bench = json!({
            "rows": rows,
            "notes": notes,
            "beside": beside_each,
            "machine": machine,
            "seconds": seconds,
            "interrupted": interrupted,
        });
        return Ok(output.json(&json!({"schema": SCHEMA, "passed": passed, "bench": bench}))?);
    }
    if as_markdown {
        output.data(&markdown(report))?;
    } else {
        output.table(&table(&report.rows))?;
    }
    for row in &report.rows {
        if let (Some(case), Some(note)) = (row.case, &row.note) {
            output.say(format!("{case}: {}: {note}", row.what));
        }
    }
    report.notes.iter().for_each(|note| output.say(note));
    output.say(closing(report));
    Ok(())
}

/// A table for a page, with the facts of the machine.
fn markdown(report: &Measured<BenchRow>) -> String {
    let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
    let columns = BenchRow::COLUMNS;
    let mut text = line(columns.iter().map(|column| column.0.to_lowercase()).collect());
    text += &format!("|{}\n", "---|".repeat(columns.len()));
    let cells = |row| columns.iter().map(|column| column.1(row, &report.rows).replace('|', "\\|")).collect();
    report.rows.iter().for_each(|row| text += &line(cells(row)));
    text + "\n" + &closing(report) + "\n"
}

fn closing(report: &Measured<BenchRow>) -> String {
    let mut text = surroundings(&report.machine, report.seconds);
    if let Some((case, part)) = report.busiest().filter(|(_, part)| *part >= BUSY) {
        text += &format!(
            "\nOther programs used up to {:.0} % of this machine meanwhile (during {case}): figures suffer from it.",
            part * 100.0
        );
    }
    text
}

/// The facts of the machine, and the duration.
fn surroundings(machine: &BTreeMap<String, String>, seconds: f64) -> String {
    let fact = |name: &str| machine.get(name).map_or("?", String::as_str);
    format!(
        "{} processors, Linux {}, packets by {}, real-time priority: {}; {seconds:.0} s",
        fact("processors"),
        fact("kernel"),
        fact("backend"),
        fact("realtime"),
    )
}

fn verdict(report: &Measured<BenchRow>) -> CommandResult {
    let judged = report.rows.len() - report.count(BenchVerdict::Shown) + report.unmeasured;
    match (report.count(BenchVerdict::Missed), report.count(BenchVerdict::NotMeasured) + report.unmeasured) {
        (0, 0) => Ok(()),
        (0, open) => Err(Failure::new(
            FailureCode::Missing,
            format!("{open} of {judged} targets could not be measured, see above"),
        )),
        (missed, open) => {
            let open = if open == 0 { String::new() } else { format!(", and {open} could not be measured") };
            Err(Failure::new(FailureCode::Invalid, format!("{missed} of {judged} targets are not met{open}")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(cases: &[CaseChoice]) -> BenchArgs {
        BenchArgs {
            other: None,
            cases: cases.to_vec(),
            length: None,
            load: None,
            markdown: false,
            network: NetworkArgs::default(),
        }
    }

    #[test]
    fn report_prints_markdown_table() {
        let row = |verdict, aim| BenchRow {
            case: Some(BenchCase::Idle),
            what: "a | b".into(),
            target: "< 1 %".into(),
            aim,
            seen: "0.1 %".into(),
            verdict,
            note: None,
            values: Default::default(),
        };
        let aim = roost_bench::StretchTarget { what: "< 0.5 %".into(), met: true };
        let report = Measured {
            rows: vec![row(BenchVerdict::Met, Some(aim)), row(BenchVerdict::Missed, None)],
            ..Measured::default()
        };
        let text = markdown(&report);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "| case | what | target | aim | seen | result |");
        assert_eq!(lines[2], "| idle | a \\| b | < 1 % | < 0.5 % | 0.1 % | met, aim too |");
        assert_eq!(lines[3], "| idle | a \\| b | < 1 % |  | 0.1 % | NOT MET |");
    }

    #[test]
    fn every_case_can_be_named() {
        let named: Vec<BenchCase> =
            CaseChoice::value_variants().iter().skip(1).flat_map(|what| what.cases()).copied().collect();
        assert_eq!(named, BenchCase::ALL);
        for (what, case) in CaseChoice::value_variants().iter().skip(1).zip(BenchCase::ALL) {
            assert_eq!(what.to_possible_value().map(|value| value.get_name().to_owned()), Some(case.name().to_owned()));
        }
    }

    #[test]
    fn load_has_its_former_name() {
        #[derive(Debug, clap::Parser)]
        struct BenchTestCli {
            #[command(flatten)]
            args: BenchArgs,
        }
        for flag in ["--load", "--beside"] {
            let words = ["emulate", "busy", flag, "make -j2"];
            let line = <BenchTestCli as clap::Parser>::try_parse_from(words).unwrap();
            assert_eq!(line.args.options().load_command.as_deref(), Some("make -j2"));
        }
    }

    #[test]
    fn selected_cases_unique_and_ordered() {
        assert_eq!(args(&[]).chosen(), BenchCase::ALL);
        assert_eq!(args(&[CaseChoice::All, CaseChoice::Rate]).chosen(), BenchCase::ALL);
        assert_eq!(
            args(&[CaseChoice::Idle, CaseChoice::Rate, CaseChoice::Idle]).chosen(),
            [BenchCase::Rate, BenchCase::Idle]
        );
    }
}
