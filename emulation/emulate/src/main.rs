//! The `emulate` command: networks on one machine, and experiments on them.
//!
//! This file defines the command line; `commands` has one module for each command, and the other crates of
//! `emulation` do the work.

mod commands;
mod failure;

use std::process::ExitCode;

use roost_terminal::{Output, OutputArgs, generate, usage};

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use failure::CommandResult;

const EXIT_CODES: &str = "\
Exit codes:
  0  done
  1  failed
  2  the command line, the topology or the plan is wrong
  3  this system lacks something that is needed, or has less of it than a run needs
  4  done, but the figures cannot be trusted
  5  a link is not as it is described, or a run of a twin differs from its recording
  126  a program cannot be run
  127  a program is not there
  130  interrupted
`exec` and `shell` end with the code of the program that they ran.";

/// Runs networks and experiments on this machine, without root.
#[derive(Debug, Parser)]
#[command(name = "emulate", version, after_long_help = EXIT_CODES, max_term_width = 100)]
struct Cli {
    #[command(flatten)]
    speech: OutputArgs,
    #[command(subcommand)]
    command: EmulateCommand,
}

/// Commands of `emulate`.
#[derive(Debug, Subcommand)]
enum EmulateCommand {
    /// Check a topology file and show the network that it describes
    #[command(before_help = "Examples:
  emulate check star.toml
  emulate check experiment.ns --json
")]
    Check(commands::check::CheckArgs),
    /// Write a topology in another format
    #[command(before_help = "Examples:
  emulate convert experiment.ns -o experiment.toml
  emulate convert star.toml --to rspec > star.xml
  emulate convert star.toml -o star.svg
")]
    Convert(commands::convert::ConvertArgs),
    /// Make a topology of the published experiments, of any size
    Topo(commands::topo::TopoArgs),
    /// Make or show traces: rates, delays and losses of links over time
    Trace(commands::trace::TraceArgs),
    /// Bring a network up and work on it: run programs on hosts, change links, look
    ///
    /// Hosts know one another by name. What the file schedules for links happens; its programs
    /// and traffic run under `emulate run`. Lines from a pipe are a script: the exit code is
    /// that of the last line that failed.
    #[command(before_help = "Examples:
  emulate shell star.toml
  echo 'node1 ping -c 3 server' | emulate shell star.toml
")]
    Shell(commands::shell::ShellArgs),
    /// Bring a network up and run a program on one of its hosts
    ///
    /// Hosts know one another by name. What the file schedules for links happens; its programs
    /// and traffic run under `emulate run`.
    #[command(before_help = "Examples:
  emulate exec star.toml node1 -- ping -c 3 server
  emulate exec star.toml node1 --on server 'iperf3 -s -1' -- iperf3 -c server
")]
    Exec(commands::exec::ExecArgs),
    /// Measure delay, rate and loss of every link against the description
    ///
    /// Every direction is measured on its own, by Emulab's criteria: a mean delay is off by -0.25
    /// to +1.75 ms or not significantly (t test at 1 %), a rate by -3 to +1.5 %, a loss by less
    /// than 2.58 standard deviations. What fails is measured twice more, and fails only if it does
    /// each time. Exit code 5 if something failed.
    #[command(before_help = "Examples:
  emulate linktest star.toml
  emulate linktest tree.ns --quick --json
  emulate linktest star.toml --only rate --net uplink
")]
    Linktest(commands::linktest::LinktestArgs),
    /// Run a plan with the real daemons, or a network with programs of its own
    #[command(before_help = "Examples:
  emulate run plans/star-11.toml
  emulate run plans/star-11.toml --check
  emulate run plans/star-11.toml --seed 2 --duration 15m -o results/second
  emulate run experiment.ns --for 5m
")]
    Run(commands::run::RunArgs),
    /// Run a plan in virtual time: the same state machines, no daemons, no waiting
    ///
    /// A run repeats exactly from its seed: its hash, of every packet and message with their
    /// times, is the same on every machine. The run checks its invariants after each step;
    /// if one is violated, it exits with 1 and prints the command that repeats the run.
    #[command(before_help = "Examples:
  emulate simulate plans/star-11.toml
  emulate simulate plans/star-11.toml --seeds 100
  emulate simulate plans/star-11.toml --seed 7 -o results/simulated
")]
    Simulate(commands::simulate::SimulateArgs),
    /// Find the best hosts for super nodes, or for the server, and predict latencies and load
    ///
    /// Compares all choices of so many hosts, or searches where there are too many, for the least
    /// time that requests are on their way. Latencies and bytes are predicted from the delays and
    /// rates of links and the real messages, for links that are not busy; the fullest link is told.
    #[command(before_help = "Examples:
  emulate place tree.toml --super-nodes 2
  emulate place tree.toml --at x45-1,x45-2       against a choice of your own
  emulate place plans/tree-11.toml --server      a plan's network and workload
  emulate place lab.ns -k 3 --mix video=40,track=50,idle=10
")]
    Place(commands::place::PlaceArgs),
    #[allow(rustdoc::broken_intra_doc_links, reason = "it is the help, printed as it stands")]
    /// Run a plan with every combination of values: of its network, overlay, daemons, faults, seeds
    ///
    /// A table [sweep] of the plan lists the values, or --vary does. A key leads to any value of the plan:
    /// links.NAME.delay, topology.link.NAME.queue.limit, settings.hub.lease, faults.1.at. What lies in
    /// [[sweep.cases]] changes together. Runs that are complete are not repeated.
    #[command(before_help = "Examples:
  emulate sweep plans/first.toml
  emulate sweep plans/first.toml --check
  emulate sweep plan.toml --simulate --seeds 10 --vary architecture=client-server,super-node
  emulate sweep plan.toml --simulate --vary links.net.delay=5ms,50ms,500ms --vary seed=1..20
")]
    Sweep(commands::sweep::SweepArgs),
    /// Make the published experiments again: every figure and table, and what the papers claim
    ///
    /// The overlay's are simulated, and the same to the last digit on every machine; those of
    /// reflectors, bulk transfer and two links are measured as well, by `emulate bench`. Each claim
    /// is held against what was seen: equal if the paper's figure lies in the 95 % interval, holds if
    /// its statement does by another amount, better or worse, or does not hold; aims of our own are
    /// counted apart. One page shows it all. Ctrl-C keeps what is done, and the same command goes on.
    #[command(before_help = "Examples:
  emulate reproduce --quick              the same figures in minutes
  emulate reproduce sproull-fig4 --json
  emulate reproduce --list
")]
    Reproduce(commands::reproduce::ReproduceArgs),
    /// Write the page, the figures and the tables of results again
    #[command(before_help = "Examples:
  emulate report results/star-11
  emulate report results/sweep     all runs in it, and a page about them all
")]
    Report(commands::report::ReportArgs),
    /// See a run on a live page: its network, and each moment of it
    ///
    /// The page shows hosts and links, requests with the way of their data, faults and movements,
    /// and plays the run at any speed. A run that goes on is followed. Browsers of this machine
    /// alone can open it; Ctrl-C ends it.
    #[command(before_help = "Examples:
  emulate view results/star-11
  emulate view results/sweep --run 3     one of several; without --run they are listed
  emulate run plan.toml -o results/now & emulate view results/now
")]
    View(commands::view::ViewArgs),
    /// Make a network and a plan of recordings of a running overlay
    ///
    /// `roost record` keeps, at each host, what connections did and what was requested. The folder
    /// gets a topology, a plan with the same hubs, requests, movements and absences, and each value
    /// with its source and certainty. A run of the plan is held against the recording with --against:
    /// completions may differ by 5 %, medians of latencies by 10 %, else the exit code is 5.
    #[command(before_help = "Examples:
  emulate twin uav1.jsonl uav2.jsonl base.jsonl -o twin
  emulate simulate twin/plan.toml -o simulated
  emulate twin twin --against simulated
")]
    Twin(commands::twin::TwinArgs),
    /// Compare two runs, or two sides of several runs each
    #[command(before_help = "Examples:
  emulate compare results/client-server results/super-node
  emulate compare results/sweep/client-server results/sweep/super-node -o compare.html
  emulate compare 'sweep/client-server_*_star-11' 'sweep/super-node_*_star-11'
")]
    Compare(commands::compare::CompareArgs),
    /// Measure the emulator on this machine against its targets, or measure transports on it
    #[command(before_help = "Examples:
  emulate bench                    all of it, in some minutes
  emulate bench delay rate --for 2s
  emulate bench busy --load 'make -j2'
  emulate bench trace              traces, played by links
  emulate bench transport          our transports over two links, beside TCP and MPTCP
  emulate bench bulk               an object over long and lossy paths, beside TCP and UDT4
  emulate bench reflect            one copy of a stream to many, beside C
  emulate bench reflect --capacity how many a mesh of super nodes serves, with the daemons
  emulate bench subscription              what a receiver of such a stream sees, with the daemons
")]
    Bench(commands::bench::BenchArgs),
    /// Measure in virtual time how costs grow with the number of nodes
    ///
    /// One forest (see `emulate topo forest`) in several sizes: how long lookups take and what
    /// they cost, what crosses uplinks while every node moves once a minute, and the memory of a
    /// root, measured on one that receives the same messages.
    #[command(before_help = "Examples:
  emulate growth
  emulate growth 100 1000 10000 100000 --figures figures
")]
    Growth(commands::growth::GrowthArgs),
    /// Check whether this machine can run labs, and say how to fix what it lacks
    Doctor(commands::doctor::DoctorArgs),
    /// Make a share of a lab for `emulate` on another machine, which starts this
    ///
    /// It speaks on standard input and output, as `emulate run --machines` does at the other end,
    /// and ends with it. Nothing of it remains.
    Agent,
    /// Print the completion script of a shell
    #[command(before_help = "Examples:
  emulate completions bash > /etc/bash_completion.d/emulate
")]
    Completions(commands::generate::CompletionsArgs),
    /// Write the manual pages into a directory
    Man(commands::generate::ManArgs),
}

fn main() -> ExitCode {
    let cli = match definition().try_get_matches().and_then(|matches| Cli::from_arg_matches(&matches)) {
        Ok(cli) => cli,
        Err(error) => return usage::explain(&error),
    };
    let output = cli.speech.output();
    match run(&cli.command, output) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            failure.report(output);
            failure.exit_code()
        }
    }
}

fn run(command: &EmulateCommand, output: Output) -> CommandResult {
    match command {
        EmulateCommand::Check(args) => commands::check::run(args, output),
        EmulateCommand::Convert(args) => commands::convert::run(args, output),
        EmulateCommand::Topo(args) => commands::topo::run(args, output),
        EmulateCommand::Trace(args) => commands::trace::run(args, output),
        EmulateCommand::Shell(args) => commands::shell::run(args, output),
        EmulateCommand::Exec(args) => commands::exec::run(args, output),
        EmulateCommand::Linktest(args) => commands::linktest::run(args, output),
        EmulateCommand::Report(args) => commands::report::run(args, output),
        EmulateCommand::View(args) => commands::view::run(args, output),
        EmulateCommand::Reproduce(args) => commands::reproduce::run(args, output),
        EmulateCommand::Twin(args) => commands::twin::run(args, output),
        EmulateCommand::Compare(args) => commands::compare::run(args, output),
        EmulateCommand::Bench(args) => commands::bench::run(args, output),
        EmulateCommand::Growth(args) => commands::growth::run(args, output),
        EmulateCommand::Doctor(args) => commands::doctor::run(args, output),
        EmulateCommand::Completions(args) => commands::generate::completions(args, output),
        EmulateCommand::Run(args) => commands::run::run(args, output),
        EmulateCommand::Simulate(args) => commands::simulate::run(args, output),
        EmulateCommand::Place(args) => commands::place::run(args, output),
        EmulateCommand::Sweep(args) => commands::sweep::run(args, output),
        EmulateCommand::Agent => commands::agent::run(),
        EmulateCommand::Man(args) => commands::generate::man(args, output),
    }
}

/// The definition of the command line, in the layout of its help.
fn definition() -> clap::Command {
    generate::with_examples_first(Cli::command())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definition_is_sound() {
        definition().debug_assert();
    }

    #[test]
    fn help_lists_every_exit_code() {
        let help = definition().render_long_help().to_string();
        for code in failure::FailureCode::ALL {
            assert!(help.contains(&format!("\n  {}  ", code as u8)), "{code:?}");
        }
    }

    #[test]
    fn benches_of_all_studies_are_commands() {
        let scale = roost_reproduce::StudyScale::new(true, None);
        let points = roost_reproduce::catalogue(scale).into_iter().flat_map(|study| study.points);
        let benches = points.filter_map(|point| match point.make {
            roost_reproduce::RunMethod::Bench { args, .. } => Some(args),
            _ => None,
        });
        for args in benches {
            let words = ["emulate", "bench"].into_iter().chain(args.iter().map(String::as_str));
            let parsed = definition().try_get_matches_from(words);
            assert!(parsed.is_ok(), "emulate bench {}: {}", args.join(" "), parsed.unwrap_err());
        }
    }
}
