//! `roost dashboard`: a live page over a daemon, for the browsers of this machine.

use std::io;
use std::net::SocketAddr;
use std::path::Path;

use roost_api::Client;
use roost_dashboard::{Feed, PageParts, Tiles, serve};
use roost_terminal::Output;
use serde_json::json;
use tokio::net::TcpListener;

use super::connect;
use crate::args::DashboardArgs;
use crate::failure::{Failure, Outcome};

pub(crate) async fn run(args: &DashboardArgs, socket: &Path, output: Output) -> Outcome {
    if !args.listen.ip().is_loopback() {
        return Err(Failure::usage(format!(
            "{} is open to other machines: listen at 127.0.0.1 or [::1], and reach it from there by ssh -L",
            args.listen
        )));
    }
    let tiles = args.tiles.as_deref().map(Tiles::open).transpose();
    let tiles = tiles.map_err(|error| Failure::failed(error.to_string()))?;
    let client = connect(socket).await?;
    let through = match &args.through {
        Some(node) => Some(connect(node).await?),
        None => None,
    };
    let listener = TcpListener::bind(args.listen).await.map_err(|error| cannot_listen(args.listen, &error))?;
    tokio::select! {
        served = show(client, listener, PageParts { tiles, through }, output) => served,
        _ = tokio::signal::ctrl_c() => Ok(()),
    }
}

/// Says where the page over a daemon is, and serves it as long as it is wanted.
pub(crate) async fn show(client: Client, listener: TcpListener, parts: PageParts, output: Output) -> Outcome {
    let failed = |error| Failure::failed(format!("cannot serve the page: {error}"));
    let bound = listener.local_addr().map_err(failed)?;
    if output.is_json() {
        output.json(&json!({ "url": format!("http://{bound}/") }))?;
    } else {
        output.data(&format!("http://{bound}/\n"))?;
        output.say("Open it in a browser on this machine; Ctrl-C ends it.");
    }
    let feed = Feed::default();
    tokio::select! {
        served = serve(listener, feed.clone(), client.clone(), parts) => served.map_err(failed),
        () = feed.follow(client) => Ok(()),
    }
}

fn cannot_listen(at: SocketAddr, error: &io::Error) -> Failure {
    let remedy = if error.kind() == io::ErrorKind::AddrInUse { ": choose another one with --listen" } else { "" };
    Failure::failed(format!("cannot listen at {at}: {error}{remedy}"))
}
