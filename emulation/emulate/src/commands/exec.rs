//! `emulate exec`: a network that lasts as long as a program.

use std::time::{Duration, Instant};

use clap::Args;
use roost_lab::Lab;
use roost_terminal::Output;

use super::capture::{self, CaptureArgs};
use super::interrupt::{self, Interrupted};
use super::lab::{self, LabArgs};
use super::process::{self, LabProgram};
use crate::failure::{CommandResult, Failure};

/// `emulate exec`.
#[derive(Debug, Args)]
pub(crate) struct ExecArgs {
    #[command(flatten)]
    lab: LabArgs,
    /// The host on which the program runs
    host: Option<String>,
    /// The program and its arguments; its exit code is that of this command
    #[arg(last = true, value_name = "COMMAND", requires = "host")]
    command: Vec<String>,
    /// Also run this line of the shell on this host; it is ended with the
    /// program. Without one, all lines run to their ends
    #[arg(long, num_args = 2, value_names = ["HOST", "LINE"])]
    on: Vec<String>,
    #[command(flatten)]
    capture: CaptureArgs,
}

/// Brings the network up, runs the programs, and takes it down.
pub(crate) fn run(args: &ExecArgs, output: Output) -> CommandResult {
    if args.command.is_empty() && (args.on.is_empty() || args.host.is_some()) {
        return Err(Failure::bad_input("nothing to run: name a host, and write the command after --"));
    }
    let lab = lab::open(&args.lab, output)?;
    let interrupted = interrupt::catch_sigint()?;
    let began = Instant::now();
    args.capture.start(&lab, &args.lab.file)?;
    let ended = perform(args, &lab, &interrupted);
    output.detail(format!("ran for {:.1} s", began.elapsed().as_secs_f64()));
    capture::finish(&lab, output)?;
    lab.stop(Duration::ZERO)?;
    ended
}

fn perform(args: &ExecArgs, lab: &Lab, interrupted: &Interrupted) -> CommandResult {
    let topology = lab.topology();
    let main = args.host.as_deref().map(|name| lab::host(topology, name)).transpose()?;
    // Clap has checked that they come in pairs.
    let pairs = args.on.chunks_exact(2).map(|pair| Ok((lab::host(topology, &pair[0])?, pair[1].as_str())));
    let pairs = pairs.collect::<CommandResult<Vec<_>>>()?;
    lab.begin()?;
    let mut others = Vec::with_capacity(pairs.len());
    for (host, line) in pairs {
        others.push(LabProgram::start_beside(lab, host, line)?);
    }
    let Some(host) = main else { return all(others, interrupted) };
    let code = LabProgram::start(lab, host, &args.command).and_then(|program| program.wait(interrupted));
    for other in others {
        other.stop().map_err(|error| Failure::failed(format!("cannot wait for a program: {error}")))?;
    }
    process::outcome(code?)
}

/// Waits for all; the first failure is returned.
fn all(programs: Vec<LabProgram>, interrupted: &Interrupted) -> CommandResult {
    let codes = programs.into_iter().map(|program| program.wait(interrupted)).collect::<CommandResult<Vec<u8>>>()?;
    process::outcome(codes.into_iter().find(|code| *code != 0).unwrap_or_default())
}
