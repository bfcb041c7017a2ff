//! Clients that connect to the gateway as to a server.

use std::time::{Duration, Instant};

use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use super::places::{Clients, Place};
use super::{Input, Inputs, ServeError, connection};
use crate::contacts::ConnectionId;
use crate::endpoint::ListenAddress;

/// The pause after the system could not accept a connection: it has no more files, say.
const PAUSE: Duration = Duration::from_millis(100);

/// Listens at all addresses, and starts a task for each.
pub(super) async fn listen(
    addresses: &[ListenAddress],
    clients: &Clients,
    inputs: &Inputs,
    tasks: &mut JoinSet<()>,
) -> Result<(), ServeError> {
    for ListenAddress(address) in addresses {
        let failed = |error: std::io::Error| ServeError::CannotListen {
            address: format!("tcp://{address}"),
            reason: error.to_string(),
        };
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        let bound = listener.local_addr().map_err(failed)?;
        // The machine is not there yet, so there is room.
        let _ = inputs.send(Input::Listening(format!("tcp://{bound}"))).await;
        tasks.spawn(accept(listener, clients.clone(), inputs.clone()));
    }
    Ok(())
}

async fn accept(listener: TcpListener, clients: Clients, inputs: Inputs) {
    let mut serving = JoinSet::new();
    loop {
        let Ok((stream, from)) = listener.accept().await else {
            tokio::time::sleep(PAUSE).await;
            continue;
        };
        while serving.try_join_next().is_some() {}
        let id = connection::next_id();
        // A client that is one too many is closed.
        if let Some(place) = clients.admit(id, from.ip(), Instant::now()) {
            connection::keep_alive(&stream);
            serving.spawn(serve(id, format!("client {from}"), stream, place, inputs.clone()));
        }
    }
}

async fn serve(id: ConnectionId, name: String, stream: TcpStream, mut place: Place, inputs: Inputs) {
    let reason = tokio::select! {
        reason = connection::run(id, name.clone(), stream, &inputs) => reason,
        _ = &mut place.closed => "it was silent, and another client needs its place".to_owned(),
    };
    // The gateway may have ended.
    let _ = inputs.send(Input::Down { id, name, reason, pause: None }).await;
    drop(place);
}
