//! `emulate shell`: a network with a prompt.

mod input;
mod line;
mod show;

use std::path::Path;
use std::time::Duration;

use clap::{Args, Parser};
use roost_experiment::plan::CapturePlan;
use roost_lab::{CaptureLimits, Lab};
use roost_terminal::{Output, usage};
use roost_topology::model::{Action, Event, HostIndex};
use roost_topology::{Topology, amend};

use super::capture::{self, CaptureArgs};
use super::interrupt::{self, Interrupted};
use super::lab::{self, LabArgs};
use super::linktest::{self, LinktestSelection};
use super::process::LabProgram;
use crate::failure::{CommandResult, Failure};
use input::Input;
use line::{NetChange, ShellCommand};

const HELP: &str = "\
HOST COMMAND…              runs a command (a line of sh) on a host: a ping -c 3 b
nodes                      the hosts and their addresses
links [NAME]               the links and LANs as they are now, and what went through them
link A B CHANGE…           changes the link between two hosts; A > B is what A sends only
link NAME CHANGE…          changes a link or LAN by its name
link NAME A CHANGE…        changes what A sends on a link, or A's legs of a LAN
    CHANGE: down, up, delay 30ms, rate 5Mbit, loss 5%, jitter 2ms, queue 50 (packets)
lateness                   how late packets were delivered: the error of the emulation
events                     what the file schedules, and what has happened
linktest [--quick] [--only delay|rate|loss|routes] [--net NAME] [--as-written]
                           measures the links against what they are now, or were written as
capture NAME…              writes the packets of links to captures/NAME.pcapng; `all` are all
capture off                ends it
wait TIME                  waits, in scripts: wait 2s
on HOST COMMAND…           the same as HOST COMMAND, for a host that is called like a command
exit [CODE]                takes the network down (also Ctrl-D)
";

/// `emulate shell`.
#[derive(Debug, Args)]
pub(crate) struct ShellArgs {
    #[command(flatten)]
    lab: LabArgs,
    /// End at the first line that fails
    #[arg(short = 'e', long)]
    errexit: bool,
    #[command(flatten)]
    capture: CaptureArgs,
}

/// Brings the network up, executes the lines, and takes it down. From a pipe it ends with the code of the last
/// line that failed.
pub(crate) fn run(args: &ShellArgs, output: Output) -> CommandResult {
    let lab = lab::open(&args.lab, output)?;
    let interrupted = interrupt::catch_sigint()?;
    let mut input = Input::open(lab.topology())?;
    if input.is_person() {
        output.say(greeting(lab.topology()));
    }
    lab.begin()?;
    let as_it_is = lab.topology().clone();
    args.capture.start(&lab, &args.lab.file)?;
    let mut shell =
        Shell { lab: &lab, current: as_it_is, events_seen: 0, interrupted, scripted: !input.is_person(), output };
    let ended = shell.run_prompt(&mut input, args.errexit);
    input.close();
    capture::finish(&lab, output)?;
    lab.stop(Duration::ZERO)?;
    ended
}

fn greeting(topology: &Topology) -> String {
    let count = |count: usize, one: &str| if count == 1 { format!("1 {one}") } else { format!("{count} {one}s") };
    let (hosts, nets) = (count(topology.hosts.len(), "host"), topology.nets.len());
    format!("{hosts} on {nets} links and LANs; `help` says what can be done, Ctrl-D ends it")
}

struct Shell<'a> {
    lab: &'a Lab,
    /// The topology with all changes since the start.
    current: Topology,
    /// Events of the file that `as_it_is` contains.
    events_seen: usize,
    interrupted: Interrupted,
    scripted: bool,
    output: Output,
}

enum LineResult {
    Next,
    Code(u8),
    Exit(Option<u8>),
}

impl Shell<'_> {
    fn run_prompt(&mut self, input: &mut Input, errexit: bool) -> CommandResult {
        let mut last = Ok(());
        while let Some(text) = input.next()? {
            // Ctrl-C for an earlier line must not affect this one.
            self.interrupted.take_source();
            match self.execute_line(&text) {
                Ok(LineResult::Next) | Ok(LineResult::Code(0)) => continue,
                Ok(LineResult::Exit(None)) => break,
                Ok(LineResult::Exit(Some(code))) => return super::process::outcome(code),
                Ok(LineResult::Code(code)) => {
                    self.output.detail(format!("exit code {code}"));
                    last = super::process::outcome(code);
                }
                Err(Failure::ClosedPipe) => return Ok(()),
                Err(failure) => {
                    failure.report(self.output);
                    last = Err(Failure::ProgramExit(failure.exit_code()));
                }
            }
            if errexit {
                return last;
            }
        }
        if self.scripted { last } else { Ok(()) }
    }

    fn execute_line(&mut self, text: &str) -> CommandResult<LineResult> {
        let line = line::parse(text, self.lab.topology()).map_err(Failure::bad_input)?;
        self.catch_up();
        match line {
            ShellCommand::Empty => {}
            ShellCommand::Help => self.output.data(HELP)?,
            ShellCommand::Exit(code) => return Ok(LineResult::Exit(code)),
            ShellCommand::Nodes => show::nodes(self.lab.topology(), self.output)?,
            ShellCommand::Links(net) => show::links(self.lab, &self.current, net, self.output)?,
            ShellCommand::Change(change) => self.change(&change)?,
            ShellCommand::Lateness => show::lateness(self.lab, self.output)?,
            ShellCommand::Events => show::events(self.lab, self.output)?,
            ShellCommand::Linktest(words) => self.linktest(&words)?,
            ShellCommand::Capture(links) => self.capture(links)?,
            ShellCommand::Wait(time) => self.wait(time),
            ShellCommand::Run(host, command) => return self.run(host, &command).map(LineResult::Code),
        }
        Ok(LineResult::Next)
    }

    fn run(&self, host: HostIndex, command: &str) -> CommandResult<u8> {
        let program = match self.scripted {
            // The rest of the input belongs to this command.
            true => LabProgram::start_without_input(self.lab, host, command)?,
            false => LabProgram::start_line(self.lab, host, command)?,
        };
        program.wait(&self.interrupted)
    }

    fn change(&mut self, asked: &NetChange) -> CommandResult {
        for change in &asked.changes {
            self.lab.apply(asked.net, asked.from, *change)?;
            amend(&mut self.current, asked.net, asked.from, *change);
        }
        self.output.say(show::changed(self.lab.topology(), asked));
        Ok(())
    }

    fn capture(&self, links: Vec<String>) -> CommandResult {
        capture::finish(self.lab, self.output)?;
        if links.is_empty() {
            return Ok(());
        }
        let plan = CapturePlan { links, limits: CaptureLimits::default(), line: 0 };
        capture::start(&plan, self.lab, Path::new(&self.lab.topology().name))
    }

    fn wait(&self, time: Duration) {
        const LOOK: Duration = Duration::from_millis(50);
        let began = std::time::Instant::now();
        while let Some(left) = time.checked_sub(began.elapsed()).filter(|left| !left.is_zero()) {
            if self.interrupted.take_source().is_some() {
                break;
            }
            std::thread::sleep(left.min(LOOK));
        }
    }

    /// Applies the file's events up to now.
    fn catch_up(&mut self) {
        let now = self.lab.now().since(roost_wire::Time::ZERO);
        let happened: Vec<&Event> =
            self.lab.topology().events.iter().skip(self.events_seen).take_while(|event| event.at <= now).collect();
        self.events_seen += happened.len();
        for event in happened {
            if let Action::Net { net, from, change } = event.action {
                amend(&mut self.current, net, from, change);
            }
        }
    }

    fn linktest(&self, words: &[String]) -> CommandResult {
        let flags = Flags::try_parse_from(words).map_err(|error| Failure::bad_input(usage::sentence(&error)))?;
        let described = if flags.as_written { self.lab.topology() } else { &self.current };
        let report = linktest::measure(self.lab, described, &flags.what, &self.interrupted, self.output)?;
        linktest::show(&report, self.output)?;
        self.interrupted.check()?;
        linktest::verdict(&report)
    }
}

/// The flags of the shell's `linktest`.
#[derive(Debug, Parser)]
#[command(name = "linktest", no_binary_name = true, disable_help_flag = true)]
struct Flags {
    #[command(flatten)]
    what: LinktestSelection,
    /// Compare with the file, without the changes made since
    #[arg(long)]
    as_written: bool,
}
