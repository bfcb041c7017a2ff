//! `--check`: tests that the daemon could serve. A daemon that serves already is not disturbed, and the resources that
//! it has in use are no fault.

use std::io::{ErrorKind, Write as _};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use roost_api::{Client, Status};
use roost_identity::{Identity, Policy};
use roost_transport::BindError;
use roost_wire::Endpoint;
use tokio::net::TcpListener;

use crate::config::Common;
use crate::failure::Failure;
use crate::logging::Level;
use crate::program::{Program, bind, load, no_metrics, open};

/// The longest wait for the status of a running daemon.
const PATIENCE: Duration = Duration::from_secs(2);

/// Tries everything that a start needs.
pub(crate) async fn check<P: Program>(config: &P::Config, common: Common, level: Level) -> Result<(), Failure> {
    let identity = Arc::new(load::<P>(&common)?);
    identity.check_validity(SystemTime::now()).map_err(Failure::config)?;
    P::check_place(config, identity.datum())?;
    let Some(running) = running(&common.socket, &identity).await else {
        P::check(config, false).await?;
        return open::<P>(common, level).await.map(drop);
    };
    P::check(config, true).await?;
    let mut held = vec![common.socket.display().to_string()];
    held.extend(held_endpoints::<P>(&common, &identity, &running).await?);
    held.extend(held_metrics(&common).await?);
    // Nobody is left to be told that standard error is closed.
    let _ =
        writeln!(std::io::stderr(), "{}: warning: {} runs and has in use {}", P::NAME, running.name, held.join(", "));
    Ok(())
}

/// Returns the daemon of this name that answers on the socket.
async fn running(socket: &Path, identity: &Identity) -> Option<Status> {
    let ask = async { Client::connect(socket).await?.status().await };
    let status = tokio::time::timeout(PATIENCE, ask).await.ok()?.ok()?;
    (status.name == identity.name() && status.role == identity.role()).then_some(status)
}

/// The endpoints that `running` has in use. The others are tried.
async fn held_endpoints<P: Program>(
    common: &Common,
    identity: &Arc<Identity>,
    running: &Status,
) -> Result<Vec<String>, Failure> {
    let policy = Policy::new(identity).map_err(Failure::config)?;
    let mut held = Vec::new();
    for endpoint in &common.listen {
        match bind::<P>(common, vec![endpoint.clone()], identity, &policy).await {
            Ok(_) => {}
            Err(BindError::Listen { source, .. })
                if source.kind() == ErrorKind::AddrInUse && listens(running, endpoint) =>
            {
                held.push(endpoint.to_string());
            }
            Err(error) => return Err(Failure::failed(error)),
        }
    }
    Ok(held)
}

fn listens(running: &Status, wanted: &Endpoint) -> bool {
    let endpoints = running.listen.iter().filter_map(|text| text.parse::<Endpoint>().ok());
    endpoints.into_iter().any(|endpoint| (endpoint.scheme, endpoint.port) == (wanted.scheme, wanted.port))
}

/// The address for metrics, if it is in use; a status does not name it.
async fn held_metrics(common: &Common) -> Result<Option<String>, Failure> {
    let Some(address) = common.metrics else { return Ok(None) };
    match TcpListener::bind(address).await {
        Ok(_) => Ok(None),
        Err(error) if error.kind() == ErrorKind::AddrInUse => Ok(Some(address.to_string())),
        Err(error) => Err(no_metrics(address, &error)),
    }
}
