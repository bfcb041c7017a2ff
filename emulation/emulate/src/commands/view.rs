//! `emulate view`: the live page over a run.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;
use roost_terminal::Output;
use roost_view::ViewError;
use serde_json::json;

use crate::failure::{CommandResult, Failure};

#[derive(Debug, Args)]
pub(crate) struct ViewArgs {
    /// The folder of a run: a finished one, or one that goes on
    #[arg(value_name = "RESULTS")]
    folder: PathBuf,
    /// The address of the page, which this machine alone can open
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:7791")]
    listen: SocketAddr,
}

pub(crate) fn run(args: &ViewArgs, output: Output) -> CommandResult {
    if !args.listen.ip().is_loopback() {
        return Err(Failure::bad_input(format!(
            "{} is open to other machines: listen at 127.0.0.1 or [::1], and reach it from there by ssh -L",
            args.listen
        )));
    }
    let mut said = Ok(());
    let served = roost_view::serve(&args.folder, args.listen, |bound| said = say_address(bound, output));
    served.map_err(|error| failure(error, args.listen))?;
    said
}

fn say_address(bound: SocketAddr, output: Output) -> CommandResult {
    let url = format!("http://{bound}/");
    if output.is_json() {
        output.json(&json!({ "url": url }))?;
    } else {
        output.data(&format!("{url}\n"))?;
        output.say("Open it in a browser on this machine; Ctrl-C ends it.");
    }
    Ok(())
}

fn failure(error: ViewError, listen: SocketAddr) -> Failure {
    match error {
        ViewError::NotARun { .. } | ViewError::Topology { .. } => Failure::bad_input(error.to_string()),
        ViewError::Serve(error) if error.kind() == std::io::ErrorKind::AddrInUse => {
            Failure::failed(format!("cannot listen at {listen}: {error}: choose another one with --listen"))
        }
        _ => Failure::failed(error.to_string()),
    }
}
