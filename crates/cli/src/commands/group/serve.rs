//! `roost group serve`: the authority on the network.

use std::net::SocketAddr;

use roost_authority::Server;
use roost_identity::group::Group;
use roost_terminal::Output;
use sd_notify::NotifyState;

use crate::failure::{Failure, Outcome};
use crate::signals::Signals;

pub(super) fn run(group: Group, listen: SocketAddr, output: Output) -> Outcome {
    // systemd stamps the lines that a service writes to its journal.
    let log = tracing_subscriber::fmt().with_writer(std::io::stderr).with_target(false).with_ansi(false);
    let started = match std::env::var_os("JOURNAL_STREAM") {
        Some(_) => log.without_time().try_init(),
        None => log.try_init(),
    };
    started.map_err(|error| Failure::failed(format!("cannot start the log: {error}")))?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.map_err(|error| Failure::failed(format!("cannot start: {error}")))?.block_on(serve(group, listen, output))
}

async fn serve(group: Group, listen: SocketAddr, output: Output) -> Outcome {
    let (name, words) = (group.name().to_owned(), group.fingerprint().words());
    let server = Server::bind(listen, group).await.map_err(|error| Failure::failed(error.to_string()))?;
    let address = server.address().map_err(|error| Failure::failed(format!("cannot listen: {error}")))?;
    output.say(format!("The authority of {name} listens on tls://{address}. Its words: {words}."));
    notify(&[NotifyState::Ready, NotifyState::Status("serving")]);
    let mut signals = Signals::catch()?;
    server.serve(async move { signals.next().await }).await;
    notify(&[NotifyState::Stopping]);
    Ok(())
}

/// Tells the service manager, if there is one. One that does not listen is no reason to stop.
fn notify(state: &[NotifyState<'_>]) {
    let _ = sd_notify::notify(state);
}
