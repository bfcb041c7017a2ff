//! `roost dashboard`: a live page over a daemon, for the browsers of this machine.

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use roost_api::Client;
use roost_dashboard::{Access, Feed, PageParts, Tiles, serve};
use roost_identity::{Identity, tls};
use roost_players::Token;
use roost_terminal::Output;
use serde_json::json;
use tokio::net::TcpListener;

use super::connect;
use crate::args::DashboardArgs;
use crate::failure::{Failure, Outcome};

const HERE: &str = "Open it in a browser on this machine; Ctrl-C ends it.";

const ELSEWHERE: &str = "Open it in a browser, with an address of this host. The browser does not know the group's authority and warns; \
the page is this daemon's if the certificate has its name. Ctrl-C ends it.";

pub(crate) async fn run(args: &DashboardArgs, socket: &Path, output: Output) -> Outcome {
    let access = access(args)?;
    let tiles = args.tiles.as_deref().map(Tiles::open).transpose();
    let tiles = tiles.map_err(|error| Failure::failed(error.to_string()))?;
    let client = connect(socket).await?;
    let through = match &args.through {
        Some(node) => Some(connect(node).await?),
        None => None,
    };
    let listener = TcpListener::bind(args.listen).await.map_err(|error| cannot_listen(args.listen, &error))?;
    tokio::select! {
        served = show(client, listener, PageParts { tiles, through, access }, output) => served,
        _ = tokio::signal::ctrl_c() => Ok(()),
    }
}

/// Loopback needs nothing. Other machines reach the page over TLS, and with a token that is made for this run.
fn access(args: &DashboardArgs) -> Outcome<Access> {
    if args.listen.ip().is_loopback() {
        return Ok(Access::default());
    }
    let Some(folder) = &args.identity else {
        return Err(Failure::usage(format!(
            "{} is open to other machines: give --identity DIR, with which the page is served over TLS, or listen at \
             127.0.0.1 and reach it by ssh -L",
            args.listen
        )));
    };
    let failed = |error: &dyn std::fmt::Display| Failure::failed(error.to_string());
    let identity = Arc::new(Identity::load(folder).map_err(|error| failed(&error))?);
    let tls = tls::page_server(&identity).map_err(|error| failed(&error))?;
    let token = Token::random().map_err(|error| failed(&error))?;
    Ok(Access { token: Some(token), tls: Some(tls) })
}

/// Says where the page over a daemon is, and serves it as long as it is wanted.
pub(crate) async fn show(client: Client, listener: TcpListener, parts: PageParts, output: Output) -> Outcome {
    let failed = |error| Failure::failed(format!("cannot serve the page: {error}"));
    let bound = listener.local_addr().map_err(failed)?;
    let scheme = if parts.access.tls.is_some() { "https" } else { "http" };
    let token = parts.access.token.as_ref().map(|token| format!("?token={}", token.as_str())).unwrap_or_default();
    let url = format!("{scheme}://{bound}/{token}");
    if output.is_json() {
        output.json(&json!({ "url": url }))?;
    } else {
        output.data(&format!("{url}\n"))?;
        output.say(if token.is_empty() { HERE } else { ELSEWHERE });
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
