//! The `roost` command: finds and gets services, manages the group, shows the daemons' work.
//!
//! `args` defines the command line, `commands` has one module for each
//! command, `demo` and `bench` are the two that run a world of their own.

mod args;
mod bench;
mod commands;
mod demo;
mod failure;
mod programs;
mod progress;
mod signals;

use std::process::ExitCode;

use args::{Cli, Command};
use failure::{Failure, Outcome};
use roost_terminal::{Output, usage};

fn main() -> ExitCode {
    let cli = match args::read(&std::env::args_os().collect::<Vec<_>>()) {
        Ok(cli) => cli,
        Err(error) => return usage::explain(&error),
    };
    let output = cli.global.speech.output();
    let output = if cli.command.writes_data() { output.beside_data() } else { output };
    match run(&cli, output) {
        Ok(()) | Err(Failure::ClosedPipe) => ExitCode::SUCCESS,
        Err(failure) => {
            failure.report(output);
            ExitCode::from(failure.exit_code())
        }
    }
}

fn run(cli: &Cli, output: Output) -> Outcome {
    let socket = cli.global.socket();
    match &cli.command {
        Command::Group(args) => commands::group::run(args, output),
        Command::Identity(args) => commands::identity::run(args, output),
        Command::Policy(args) => commands::policy::run(args, output),
        Command::Audit(args) => commands::audit::run(args, output),
        Command::Config(args) => commands::config::run(args, output),
        Command::Completions(args) => commands::generate::completions(args, output),
        Command::Man(args) => commands::generate::man(args, output),
        other => runtime(other)?.block_on(run_async(other, &socket, output)),
    }
}

async fn run_async(command: &Command, socket: &std::path::Path, output: Output) -> Outcome {
    match command {
        Command::Request(args) => commands::request::run(args, socket, output).await,
        Command::Call(args) => commands::call::run(args, socket, output).await,
        Command::Subscribe(args) => commands::subscribe::run(args, socket, output).await,
        Command::JoinRoom(args) => commands::room::run(args, socket, output).await,
        Command::Send(args) => commands::send::run(args, socket, output).await,
        Command::Offer(args) => commands::offer::run(args, socket, output).await,
        Command::Outbox(args) => commands::outbox::run(args, socket, output).await,
        Command::Lookup(args) => commands::lookup::run(args, socket, output).await,
        Command::Trace(args) => commands::trace::run(args, socket, output).await,
        Command::Watch(args) => commands::watch::run(args, socket, output).await,
        Command::Services => commands::services::run(socket, output).await,
        Command::Status => commands::status::run(socket, output).await,
        Command::Connections { paths } => commands::connections::run(socket, *paths, output).await,
        Command::Streams { to } => commands::streams::run(socket, *to, output).await,
        Command::Dashboard(args) => commands::dashboard::run(args, socket, output).await,
        Command::Tak(args) => commands::tak::run(args, socket, output).await,
        Command::Monitor(args) => commands::monitor::run(args, socket, output).await,
        Command::Record(args) => commands::record::run(args, socket, output).await,
        Command::Index(args) => commands::index::run(args, socket, output).await,
        Command::Move(args) => commands::move_node::run(args, socket, output).await,
        Command::Ping(args) => commands::ping::run(args, socket, output).await,
        Command::Doctor(args) => commands::doctor::run(args, socket, output).await,
        Command::Bench(args) => bench::run(args, output).await,
        Command::Demo(args) => demo::run(args, output).await,
        Command::Join(args) => commands::join::run(args, output).await,
        Command::Group(_)
        | Command::Identity(_)
        | Command::Policy(_)
        | Command::Audit(_)
        | Command::Config(_)
        | Command::Completions(_)
        | Command::Man(_) => Ok(()),
    }
}

/// A single thread for a command that talks to a daemon, as it starts and ends sooner than several do; several for a
/// command that runs a network of its own.
fn runtime(command: &Command) -> Outcome<tokio::runtime::Runtime> {
    let mut builder = match command {
        Command::Bench(_) | Command::Demo(_) => tokio::runtime::Builder::new_multi_thread(),
        _ => tokio::runtime::Builder::new_current_thread(),
    };
    let runtime = builder.worker_threads(2).enable_all().build();
    runtime.map_err(|error| Failure::failed(format!("cannot start: {error}")))
}
