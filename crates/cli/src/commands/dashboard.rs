//! `roost dashboard`: a live page over a daemon, for the browsers of this machine.

use std::io;
use std::net::SocketAddr;
use std::path::Path;

use roost_dashboard::{Feed, serve};
use roost_terminal::Output;
use serde_json::json;
use tokio::net::TcpListener;

use super::connect;
use crate::args::DashboardArgs;
use crate::failure::{Failure, Outcome};

/// Serves the page until a signal.
pub(crate) async fn run(args: &DashboardArgs, socket: &Path, output: Output) -> Outcome {
    if !args.listen.ip().is_loopback() {
        return Err(Failure::usage(format!(
            "{} is open to other machines: listen at 127.0.0.1 or [::1], and reach it from there by ssh -L",
            args.listen
        )));
    }
    let client = connect(socket).await?;
    let listener = TcpListener::bind(args.listen).await.map_err(|error| cannot_listen(args.listen, &error))?;
    let bound = listener.local_addr().map_err(|error| cannot_listen(args.listen, &error))?;
    if output.is_json() {
        output.json(&json!({ "url": format!("http://{bound}/") }))?;
    } else {
        output.data(&format!("http://{bound}/\n"))?;
        output.say("Open it in a browser on this machine; Ctrl-C ends it.");
    }
    let feed = Feed::default();
    let following = tokio::spawn(feed.clone().follow(client.clone()));
    let served = tokio::select! {
        served = serve(listener, feed, client) => served,
        _ = tokio::signal::ctrl_c() => Ok(()),
    };
    following.abort();
    served.map_err(|error| cannot_listen(bound, &error))
}

fn cannot_listen(at: SocketAddr, error: &io::Error) -> Failure {
    let remedy = if error.kind() == io::ErrorKind::AddrInUse { ": choose another one with --listen" } else { "" };
    Failure::failed(format!("cannot listen at {at}: {error}{remedy}"))
}
